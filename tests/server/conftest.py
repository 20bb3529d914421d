"""A client without a network: requests go straight into the application."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # `import fakes`

from fakes import client_of, fake_context

from hybrid_scheduler.server.app import create_app


@pytest.fixture
def context(tmp_path):
    return fake_context(tmp_path)


@pytest.fixture
def app(context):
    return create_app(context)


@pytest.fixture
async def client(app) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as client:
        yield client
