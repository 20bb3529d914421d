"""Routes for commands to the live run. All but the beginning of a new run are idempotent."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Response

from ...core import InvalidInputError
from ...live import RunLabels
from ..app_context import AppContext, RequestContext
from ..engine_control import StartOptions, chosen_schedulers
from ..json_response import StrictJSONResponse
from ..schemas import RunPreview, RunRequest, ScenarioRequest, SpeedRequest, StartRequest, Status, problems
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


@router.post(
    "/simulation/runs",
    status_code=201,
    operation_id="beginRun",
    summary="Begin a new run; the run before ends",
    response_model=Status,
    responses=problems(413, 415, 422, 503),
)
async def begin(context: RequestContext, request: RunRequest) -> Response:
    """Begin a run with these settings, from a scenario or a stored trace, whatever runs now."""
    status = await context.control.begin(await _options(context, request))
    labels = RunLabels(request.name or "", tuple(request.tags or ()), request.note or "")
    if labels != RunLabels():
        await context.control.describe_run(status["run_id"], labels)
    return StrictJSONResponse(status, 201)


@router.post(
    "/simulation/preview",
    operation_id="previewRun",
    summary="Tasks, load and limits of a run, without beginning it",
    response_model=RunPreview,
    responses=problems(413, 415, 422, 503),
)
async def preview(context: RequestContext, request: RunRequest) -> Response:
    """Check the settings of a run and return what would arrive, and where schedulers saturate."""
    return StrictJSONResponse(await context.control.preview(await _options(context, request)))


async def _options(context: AppContext, request: RunRequest) -> StartOptions:
    """Return the options of a request, with the configuration of the run that it repeats."""
    chosen = None
    if request.schedulers is not None:
        pairs = [(one.name, dict(one.parameters)) for one in request.schedulers]
        chosen = await asyncio.to_thread(chosen_schedulers, pairs)
    repeats, speed = None, request.speed
    if request.repeats is not None:
        known = await context.repository.run(request.repeats)
        if known is None or known["source"] != "simulated":
            raise InvalidInputError("repeats", "the id of a stored, simulated run", request.repeats)
        repeats = known["config"]
        state = await context.repository.run_state(request.repeats)
        speed = (state or {}).get("speed") if speed is None else speed
    return StartOptions(
        scenario=request.scenario,
        utilisation=request.load,
        seed=request.seed,
        speed=speed,
        schedulers=chosen,
        trace=request.trace,
        repeat=request.repeat,
        platform=request.platform,
        platform_yaml=request.platform_yaml,
        profile=request.profile,
        slowdown=_slowdown(request),
        repeats=repeats,
    )


def _slowdown(request: RunRequest) -> dict[str, Any] | str | None:
    """Return the fields of the slowdown; "none" where it is null, and None where it is left out."""
    if request.slowdown is not None:
        return request.slowdown.model_dump(exclude_none=True)
    return "none" if "slowdown" in request.model_fields_set else None


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
