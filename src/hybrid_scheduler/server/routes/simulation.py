"""Routes for commands to the live run. All are idempotent: repeating one changes nothing."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from ..app_context import RequestContext
from ..engine_control import StartOptions
from ..json_response import StrictJSONResponse
from ..schemas import ScenarioRequest, SpeedRequest, StartRequest, Status, problems
from .strict_route import StrictRoute

router = APIRouter(prefix="/api", tags=["simulation"], route_class=StrictRoute)
_WITH_BODY: dict[str, Any] = {"response_model": Status, "responses": problems(415, 413, 422, 503)}
_WITHOUT_BODY: dict[str, Any] = {"response_model": Status, "responses": problems(415, 413, 503)}


@router.post("/simulation/start", operation_id="startSimulation", summary="Start or continue the run", **_WITH_BODY)
async def start(context: RequestContext, request: StartRequest | None = None) -> Response:
    """Start the run if it is stopped. Settings that differ begin a new run, unless one is running."""
    given = request or StartRequest()
    options = StartOptions(
        scenario=given.scenario,
        utilisation=given.load,
        seed=given.seed,
        speed=given.speed,
        schedulers=None if given.schedulers is None else tuple(given.schedulers),
        trace=given.trace,
        repeat=given.repeat,
    )
    return StrictJSONResponse(await context.control.start(options))


@router.post("/simulation/stop", operation_id="stopSimulation", summary="End the run", **_WITHOUT_BODY)
async def stop(context: RequestContext) -> Response:
    """End the run for good; the next start begins a new one."""
    return StrictJSONResponse(await context.control.stop())


@router.post(
    "/simulation/pause", operation_id="pauseSimulation", summary="Pause the run for all clients", **_WITHOUT_BODY
)
@router.post("/pause", operation_id="pause", summary="Short form of simulation/pause", **_WITHOUT_BODY)
async def pause(context: RequestContext) -> Response:
    """Pause the run until it is resumed."""
    return StrictJSONResponse(await context.control.pause())


@router.post("/simulation/resume", operation_id="resumeSimulation", summary="Resume the run", **_WITHOUT_BODY)
@router.post("/resume", operation_id="resume", summary="Short form of simulation/resume", **_WITHOUT_BODY)
async def resume(context: RequestContext) -> Response:
    """Continue a paused run."""
    return StrictJSONResponse(await context.control.resume())


@router.post("/simulation/speed", operation_id="setSpeed", summary="Set the speed of virtual time", **_WITH_BODY)
async def speed(context: RequestContext, request: SpeedRequest) -> Response:
    """Set the virtual seconds per second."""
    return StrictJSONResponse(await context.control.set_speed(request.speed))


@router.post("/simulation/scenario", operation_id="setScenario", summary="Change the scenario", **_WITH_BODY)
async def scenario(context: RequestContext, request: ScenarioRequest) -> Response:
    """Draw tasks from another scenario from now on."""
    return StrictJSONResponse(await context.control.set_scenario(request.scenario, request.load))


@router.get(
    "/simulation/status",
    operation_id="getSimulationStatus",
    summary="State of the live run",
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
async def status(context: RequestContext) -> Response:
    """Return state, counters and comparison of the live run."""
    return StrictJSONResponse(await context.control.status())
