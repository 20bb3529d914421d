"""What there is to choose from."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from ...schedulers import schedulers
from ...schedulers.registry import parse_spec
from ...workload.scenarios import SCENARIOS, Scenario
from ..app_context import PartsHere
from ..json_response import StrictJSONResponse
from ..schemas import ScenarioInfo, SchedulerResponse, problems
from .strict_route import StrictRoute

router = APIRouter(prefix="/api", tags=["library"], route_class=StrictRoute)


@router.get(
    "/schedulers",
    operation_id="listSchedulers",
    summary="Every scheduler, with how it is drawn",
    response_model=list[SchedulerResponse],
    responses=problems(503),
)
async def list_schedulers(parts: PartsHere) -> Response:
    """Those of the live run come first and in its order."""
    status = await parts.control.status()
    taking_part = {parse_spec(spec)[0]: place for place, spec in enumerate(status["schedulers"])}
    known = schedulers()
    names = [name for name in taking_part if name in known] + [name for name in known if name not in taking_part]
    rows = [
        {
            "name": name,
            "label": info.label,
            "look": {
                "dark": info.look.dark,
                "light": info.look.light,
                "glyph": info.look.glyph,
                "dash": info.look.dash,
            },
            "published": info.published,
            "protocol": info.protocol,
            "knows": info.knows.name.lower(),
            "summary": info.summary,
            "parameters": {key: _plain(value) for key, value in info.parameters.items()},
            "order": order,
            "in_run": name in taking_part,
        }
        for order, (name, info) in enumerate((name, known[name]) for name in names)
    ]
    return StrictJSONResponse(rows)


def _plain(value: object) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


@router.get(
    "/scenarios",
    operation_id="listScenarios",
    summary="Every mix of tasks",
    response_model=list[ScenarioInfo],
    responses=problems(),
)
async def list_scenarios() -> Response:
    return StrictJSONResponse([_scenario(scenario) for scenario in SCENARIOS.values()])


def _scenario(scenario: Scenario) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "description": scenario.description,
        "utilisation": scenario.utilisation,
        "arrivals": scenario.arrivals,
        "physics": scenario.physics,
        "episode_length": scenario.episode_length,
        "size": [scenario.size.low, getattr(scenario.size, "high", None)],
        "intensity": list(scenario.intensity),
        "memory": list(scenario.memory),
    }
