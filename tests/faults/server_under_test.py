"""A whole server in this process, over whatever storage the settings name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from hybrid_scheduler.config import Settings, load_settings
from hybrid_scheduler.server.app import create_app
from hybrid_scheduler.server.composition import RunningServer, open_server, options_of
from hybrid_scheduler.storage import DatabaseAddress
from hybrid_scheduler.storage.schema_version import with_connection


def settings_of(tmp_path: Path, **more: str) -> Settings:
    """A run without learners, so that nothing has to be loaded."""
    (tmp_path / "config.yaml").write_text("")
    chosen = {
        "simulation.schedulers": "round_robin,greedy,oracle",
        "storage.sqlite_file": str(tmp_path / "live.db"),
        "storage.history_csv": "",
        **more,
    }
    return load_settings(tmp_path / "config.yaml", chosen, environ={})


@asynccontextmanager
async def opened_server(
    tmp_path: Path, monkeypatch: Any, *, start: bool, role: str = "all", **more: str
) -> AsyncIterator[tuple[httpx.AsyncClient, RunningServer]]:
    monkeypatch.chdir(tmp_path)
    settings = settings_of(tmp_path, **more)
    options = options_of(settings)
    if "server.rate_limit" not in more:
        options = replace(options, rate_limit="off", write_rate_limit="off")
    async with open_server(settings, role=role, start=start, options=options) as running:
        running.context.hub.attach(asyncio.get_running_loop())
        transport = httpx.ASGITransport(create_app(running.context), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
            yield client, running


def occupy(address: DatabaseAddress, task_id: int) -> None:
    """Another program uses the id of a coming task: its row will be refused for good."""
    row = (
        "INSERT INTO tasks (task_id, run_id, ordinal, size, compute_intensity, memory_required, arrival_time, "
        f"dependencies, kind, recorded_at) SELECT {task_id}, run_id, 0, 1.0, 1.0, 1.0, 0.0, '[]', 'generic', 0 "
        "FROM runs LIMIT 1"
    )
    with_connection(address, lambda connection: connection.exec_driver_sql(row))


def vacate(address: DatabaseAddress, task_id: int) -> None:
    """Remove the row of `occupy`."""
    with_connection(
        address, lambda connection: connection.exec_driver_sql(f"DELETE FROM tasks WHERE task_id = {task_id}")
    )
