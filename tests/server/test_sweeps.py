"""Stored sweeps: list and cells, also of a sweep that is still being written."""

import json
import os

import pytest


@pytest.fixture
def sweeps(context):
    """Two sweeps, of which the newer one is being written."""
    for name, age, cells in (("older", 60, 3), ("newer", 0, 2)):
        folder = context.options.sweeps / name
        folder.mkdir(parents=True)
        rows = [
            {"key": "k", "outcomes": "digest", "scheduler": "greedy", "load": 0.1 * n, "batch": False, "seed": n,
             "mean_latency": 0.5, "mean_regret": None, "nested": {"a": 1}}
            for n in range(cells)
        ]  # fmt: skip
        path = folder / "cells.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows) + ("" if age else '{"key": "cut'))
        os.utime(path, (1.7e9 - age, 1.7e9 - age))
    return context.options.sweeps


async def test_sweeps_are_listed_newest_first(client, sweeps):
    (sweeps / "empty").mkdir()
    assert (await client.get("/api/sweeps")).json() == {
        "sweeps": [
            {"name": "newer", "cells": 2, "modified_at": 1.7e9},
            {"name": "older", "cells": 3, "modified_at": 1.7e9 - 60},
        ]
    }


async def test_cells_have_parameters_and_metrics_only(client, sweeps):
    found = (await client.get("/api/sweeps/newer")).json()
    assert (found["name"], found["truncated"], len(found["cells"])) == ("newer", False, 2)
    assert found["cells"][1] == {
        "scheduler": "greedy", "load": 0.1, "batch": False, "seed": 1, "mean_latency": 0.5, "mean_regret": None,
    }  # fmt: skip


async def test_long_sweep_is_truncated(client, sweeps, monkeypatch):
    monkeypatch.setattr("hybrid_scheduler.server.routes.history.MAX_CELLS", 2)
    found = (await client.get("/api/sweeps/older")).json()
    assert (found["truncated"], len(found["cells"])) == (True, 2)


async def test_unknown_and_unsafe_names_are_refused(client, sweeps):
    assert (await client.get("/api/sweeps/none")).status_code == 404
    assert (await client.get("/api/sweeps/empty%2F..%2Folder")).status_code == 404
    assert (await client.get("/api/sweeps/.hidden")).status_code == 422


async def test_missing_folder_means_no_sweeps(client):
    assert (await client.get("/api/sweeps")).json() == {"sweeps": []}
