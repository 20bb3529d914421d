"""Routes for commands to the live run. All but the beginning of a new run are idempotent."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Response

from ...core import InvalidInputError
from ...live import RunLabels, commands
from ...live.status import LiveStatus
from ..app_context import AppContext, RequestContext
from ..json_response import StrictJSONResponse
from ..new_runs import BeginRun, PreviewRun, StartOptions, StartRun, chosen_schedulers
from ..schemas.base_models import RunSettings, described
from ..schemas.simulation import RunPreview, RunRequest, ScenarioRequest, SpeedRequest, StartRequest
from .strict_route import StrictRoute

router = APIRouter(prefix="/api", tags=["simulation"], route_class=StrictRoute)


@router.post("/simulation/start", **described("Start or continue the run", LiveStatus, 422, 503))
async def start_simulation(context: RequestContext, request: StartRequest | None = None) -> Response:
    """Start the run if it is stopped. Settings that differ begin a new run, unless one is running."""
    given = request or StartRequest()
    options = StartOptions(**_settings(given), schedulers=tuple(given.schedulers or ()) or None)
    return StrictJSONResponse(await context.control.run(StartRun(options)))


def _settings(request: RunSettings, *others: str) -> dict[str, Any]:
    """Return the settings of a run, and other fields of a request, by the names of `StartOptions`."""
    settings = {name: getattr(request, name) for name in (*RunSettings.model_fields, *others)}
    return {"utilisation": settings.pop("load"), **settings}


@router.post(
    "/simulation/runs",
    **described("Begin a new run; the run before ends", LiveStatus, 422, 503, status_code=201),
)
async def begin_run(context: RequestContext, request: RunRequest) -> Response:
    """Begin a run with these settings, from a scenario or a stored trace, whatever runs now."""
    status = await context.control.run(BeginRun(await _options(context, request)))
    labels = RunLabels(request.name or "", tuple(request.tags or ()), request.note or "")
    if labels != RunLabels():
        await context.control.run(commands.DescribeRun(status["run_id"], labels))
    return StrictJSONResponse(status, 201)


@router.post(
    "/simulation/preview",
    **described("Tasks, load and limits of a run, without beginning it", RunPreview, 422, 503),
)
async def preview_run(context: RequestContext, request: RunRequest) -> Response:
    """Check the settings of a run and return what would arrive, and where schedulers saturate."""
    return StrictJSONResponse(await context.control.run(PreviewRun(await _options(context, request))))


async def _options(context: AppContext, request: RunRequest) -> StartOptions:
    """Return the options of a request, with the configuration of the run that it repeats."""
    chosen = None
    if request.schedulers is not None:
        pairs = [(choice.name, dict(choice.parameters)) for choice in request.schedulers]
        chosen = await asyncio.to_thread(chosen_schedulers, pairs)
    settings = _settings(request, "platform", "platform_yaml", "profile")
    repeats = None
    if request.repeats is not None:
        known = await context.repository.run(request.repeats)
        if known is None or known["source"] != "simulated":
            raise InvalidInputError("repeats", "the id of a stored, simulated run", request.repeats)
        repeats = known["config"]
        state = await context.repository.run_state(request.repeats)
        if settings["speed"] is None:
            settings["speed"] = (state or {}).get("speed")
    return StartOptions(**settings, schedulers=chosen, slowdown=_slowdown(request), repeats=repeats)


def _slowdown(request: RunRequest) -> dict[str, Any] | str | None:
    """Return the fields of the slowdown; "none" where it is null, and None where it is left out."""
    if request.slowdown is not None:
        return request.slowdown.model_dump(exclude_none=True)
    return "none" if "slowdown" in request.model_fields_set else None


@router.post("/simulation/stop", **described("End the run", LiveStatus, 503))
async def stop_simulation(context: RequestContext) -> Response:
    """End the run for good; the next start begins a new one."""
    return StrictJSONResponse(await context.control.run(commands.Stop()))


@router.post(
    "/simulation/pause",
    **described("Pause the run for all clients", LiveStatus, 503, name="pause_simulation"),
)
@router.post("/pause", **described("Short form of simulation/pause", LiveStatus, 503))
async def pause(context: RequestContext) -> Response:
    """Pause the run until it is resumed."""
    return StrictJSONResponse(await context.control.run(commands.Pause()))


@router.post("/simulation/resume", **described("Resume the run", LiveStatus, 503, name="resume_simulation"))
@router.post("/resume", **described("Short form of simulation/resume", LiveStatus, 503))
async def resume(context: RequestContext) -> Response:
    """Continue a paused run."""
    return StrictJSONResponse(await context.control.run(commands.Resume()))


@router.post("/simulation/speed", **described("Set the speed of virtual time", LiveStatus, 422, 503))
async def set_speed(context: RequestContext, request: SpeedRequest) -> Response:
    """Set the virtual seconds per second."""
    return StrictJSONResponse(await context.control.run(commands.SetSpeed(request.speed)))


@router.post("/simulation/scenario", **described("Change the scenario", LiveStatus, 422, 503))
async def set_scenario(context: RequestContext, request: ScenarioRequest) -> Response:
    """Draw tasks from another scenario from now on."""
    command = commands.SetScenario(context.scenario(request.scenario), request.load)
    return StrictJSONResponse(await context.control.run(command))


@router.get(
    "/simulation/status", **described("State of the live run", LiveStatus, 503, name="get_simulation_status")
)
@router.get("/status", **described("Short form of simulation/status", LiveStatus, 503))
async def get_status(context: RequestContext) -> Response:
    """Return state, counters and comparison of the live run."""
    return StrictJSONResponse(await context.control.status())
