"""Databases of the test's own."""

import pytest
from services import database_url, empty_database_url, postgres_url, redis_url  # noqa: F401

from hybrid_scheduler.storage import DatabaseAddress


@pytest.fixture(params=["sqlite", "postgres"])
def address(request, tmp_path):
    if request.param == "sqlite":
        return DatabaseAddress.sqlite(tmp_path / "history.db")
    return DatabaseAddress.from_url(request.getfixturevalue("database_url"))
