"""The offered load in requests: `load`, and its old name `utilisation`."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI

from hybrid_scheduler.server.app_context import AppContext


@pytest.mark.parametrize("name", ["load", "utilisation"])
async def test_start_takes_the_load_under_both_names(
    client: httpx.AsyncClient, context: AppContext, name: str
) -> None:
    answer = await client.post("/api/simulation/start", json={name: 0.3})
    assert answer.status_code == 200
    command = context.control.orders[-1]  # type: ignore[attr-defined]
    assert command.options.utilisation == 0.3


@pytest.mark.parametrize("name", ["load", "utilisation"])
async def test_scenario_takes_the_load_under_both_names(
    client: httpx.AsyncClient, context: AppContext, name: str
) -> None:
    answer = await client.post("/api/simulation/scenario", json={"scenario": "bursty", name: 0.3})
    assert answer.status_code == 200
    command = context.control.orders[-1]  # type: ignore[attr-defined]
    assert (command.scenario.name, command.utilisation) == ("bursty", 0.3)


@pytest.mark.parametrize("path", ["/api/simulation/start", "/api/simulation/scenario", "/api/whatif"])
async def test_both_names_at_once_are_refused(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.post(path, json={"scenario": "bursty", "load": 0.3, "utilisation": 0.3})
    assert answer.status_code == 422
    (field,) = answer.json()["error"]["fields"]
    assert field["field"] == "utilisation"
    assert "load" in field["allowed"]


def test_the_old_name_is_deprecated_in_openapi_and_absent_from_responses(app: FastAPI) -> None:
    schemas = app.openapi()["components"]["schemas"]
    for name in ("StartRequest", "ScenarioRequest", "WhatIfRequest"):
        assert schemas[name]["properties"]["utilisation"]["deprecated"] is True
    for name in ("LiveStatus", "Run", "RunDetail", "ScenarioInfo"):
        assert "load" in schemas[name]["properties"]
        assert "utilisation" not in schemas[name]["properties"]
