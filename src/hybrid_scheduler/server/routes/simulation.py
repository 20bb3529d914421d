"""Orders to the live run. All are idempotent: giving one twice changes nothing the second time."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from ..app_context import PartsHere
from ..engine_control import StartOptions
from ..json_response import StrictJSONResponse
from ..schemas import ScenarioRequest, SpeedRequest, StartRequest, Status, problems
from .strict_route import StrictRoute

router = APIRouter(prefix="/api", tags=["simulation"], route_class=StrictRoute)
_ORDER: dict[str, Any] = {"response_model": Status, "responses": problems(415, 413, 422, 503)}
_PLAIN: dict[str, Any] = {"response_model": Status, "responses": problems(415, 413, 503)}


@router.post("/simulation/start", operation_id="startSimulation", summary="Start or continue the run", **_ORDER)
async def start(parts: PartsHere, wishes: StartRequest | None = None) -> Response:
    """Starts what is stopped. A body whose settings differ begins a new run, unless one is running already."""
    asked = wishes or StartRequest()
    return StrictJSONResponse(
        await parts.control.start(
            StartOptions(
                scenario=asked.scenario,
                utilisation=asked.utilisation,
                seed=asked.seed,
                speed=asked.speed,
                schedulers=None if asked.schedulers is None else tuple(asked.schedulers),
            )
        )
    )


@router.post("/simulation/stop", operation_id="stopSimulation", summary="End the run", **_PLAIN)
async def stop(parts: PartsHere) -> Response:
    """Ends the run for good: the next start begins a new one."""
    return StrictJSONResponse(await parts.control.stop())


@router.post("/simulation/pause", operation_id="pauseSimulation", summary="Halt the engine for everyone", **_PLAIN)
@router.post("/pause", operation_id="pause", summary="Short form of simulation/pause", **_PLAIN)
async def pause(parts: PartsHere) -> Response:
    return StrictJSONResponse(await parts.control.pause())


@router.post("/simulation/resume", operation_id="resumeSimulation", summary="Let the engine go on", **_PLAIN)
@router.post("/resume", operation_id="resume", summary="Short form of simulation/resume", **_PLAIN)
async def resume(parts: PartsHere) -> Response:
    return StrictJSONResponse(await parts.control.resume())


@router.post("/simulation/speed", operation_id="setSpeed", summary="Virtual seconds per second", **_ORDER)
async def speed(parts: PartsHere, wish: SpeedRequest) -> Response:
    return StrictJSONResponse(await parts.control.set_speed(wish.speed))


@router.post("/simulation/scenario", operation_id="setScenario", summary="Another mix of tasks", **_ORDER)
async def scenario(parts: PartsHere, wish: ScenarioRequest) -> Response:
    return StrictJSONResponse(await parts.control.set_scenario(wish.scenario, wish.utilisation))


@router.get(
    "/simulation/status",
    operation_id="getSimulationStatus",
    summary="The live run as it stands",
    response_model=Status,
    responses=problems(503),
)
@router.get(
    "/status",
    operation_id="getStatus",
    summary="Short form of simulation/status",
    response_model=Status,
    responses=problems(503),
)
async def status(parts: PartsHere) -> Response:
    return StrictJSONResponse(await parts.control.status())
