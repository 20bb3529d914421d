"""Routes for schedulers, scenarios and the models of learned schedulers."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from ...core import Platform
from ...core.platform import PLATFORMS
from ...live.commands import Models, Retrain
from ...physics import ProfiledPhysics
from ...profiling import builtin_profiles, platform_of, profile_named
from ...schedulers import schedulers
from ...workload.argument_checks import parse_spec
from ...workload.scenarios import SCENARIOS, Scenario, capacity_of, generate
from ..app_context import AppContext, RequestContext
from ..errors import not_found
from ..json_response import StrictJSONResponse
from ..schemas.base_models import described
from ..schemas.catalogue import (
    MachineOption,
    Model,
    RetrainAccepted,
    ScenarioInfo,
    ScenarioPreview,
    SchedulerResponse,
)
from ..trace_reading import shape_of
from .strict_route import SchedulerInPath, StrictRoute

#: Longest wait for the order of the run. Without it the list is complete, in the order of registration.
_STATUS_TIMEOUT_S = 0.5
#: Tasks of a preview. A simulated day has 2,000 tasks.
_PREVIEW_TASKS = 2_000
#: Bins of its time axis.
_PREVIEW_BINS = 60
_PREVIEW_SEED = 42

_VersionLimit = Annotated[int, Query(ge=1, le=1000, description="Largest number of versions of each scheduler.")]
_BeforeVersion = Annotated[
    int | None,
    Query(ge=1, le=2**31 - 1, description="The lowest version of the previous page."),
]

router = APIRouter(prefix="/api", tags=["library"], route_class=StrictRoute)
models_router = APIRouter(prefix="/api", tags=["models"], route_class=StrictRoute)


@router.get("/schedulers", **described("Every scheduler with its colours", list[SchedulerResponse], 503))
async def list_schedulers(context: RequestContext) -> Response:
    """Return all schedulers; those of the live run come first and in its order."""
    status = await context.state.probes.run("schedulers", context.control.status(), _STATUS_TIMEOUT_S)
    specs = status["schedulers"] if status is not None else ()
    in_run = dict.fromkeys(parse_spec(spec)[0] for spec in specs)  # keeps the run's order
    known = schedulers()
    names = [name for name in in_run if name in known] + [name for name in known if name not in in_run]
    rows = [
        {
            "name": name,
            "label": info.label,
            "look": asdict(info.look),
            **{key: getattr(info, key) for key in ("published", "protocol", "summary")},
            "knows": info.knows.name.lower(),
            "parameters": {key: _json_value(value) for key, value in info.parameters.items()},
            "order": order,
            "in_run": name in in_run,
        }
        for order, (name, info) in enumerate((name, known[name]) for name in names)
    ]
    return StrictJSONResponse(rows)


def _json_value(value: object) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


@router.get("/scenarios", **described("Every scenario", list[ScenarioInfo]))
async def list_scenarios() -> Response:
    """Return the built-in scenarios."""
    return StrictJSONResponse([_scenario(scenario) for scenario in SCENARIOS.values()])


@router.get(
    "/scenarios/previews", **described("Arrivals, sizes and intensities of every scenario", list[ScenarioPreview])
)
async def preview_scenarios(context: RequestContext) -> Response:
    """Return histograms of the tasks that each scenario draws at its own load on the configured machine."""
    # They never change while the server runs, and many pages ask for them.
    compute = partial(asyncio.to_thread, _previews, context)
    return StrictJSONResponse(await context.state.previews.get("previews", compute))


def _previews(context: AppContext) -> list[dict[str, Any]]:
    platform = context.machine.platform
    physics = context.machine.physics
    rows = []
    for name in SCENARIOS:
        scenario = context.scenario(name)
        rate = scenario.utilisation * capacity_of(scenario, platform, physics)
        tasks = generate(scenario, _PREVIEW_TASKS, _PREVIEW_SEED, platform=platform, physics=physics)
        shape = shape_of(tasks, float(tasks.arrival_time[-1]), _PREVIEW_BINS)
        rows.append({"name": name, "rate": rate, "shape": shape})
    return rows


@router.get("/machines", **described("Machines that a run can have", list[MachineOption]))
async def list_machines(context: RequestContext) -> Response:
    """Return the configured machine, the built-in platforms and the measured profiles."""
    return StrictJSONResponse(await asyncio.to_thread(_machines, context))


def _machines(context: AppContext) -> list[dict[str, Any]]:
    configured = context.machine
    measured = isinstance(configured.physics, ProfiledPhysics)
    rows = [_machine(configured.platform, "configured", "As configured", measured=measured)]
    rows += [_machine(make(), "platform", _label(name), name=name) for name, make in PLATFORMS.items()]
    for name in builtin_profiles():
        rows.append(_machine(platform_of(profile_named(name)), "profile", _label(name), name=name, measured=True))
    return rows


def _label(name: str) -> str:
    words = name.replace("-", " ").replace("_", " ")
    return words.replace("gpus", "GPUs").replace("h200", "H200").replace("starpu", "StarPU").replace("cpu ", "CPU ")


def _machine(
    platform: Platform, kind: str, label: str, *, name: str | None = None, measured: bool = False
) -> dict[str, Any]:
    cpus = int(platform.is_cpu.sum())
    return {
        "name": name or platform.name,
        "kind": kind,
        "label": label[:1].upper() + label[1:],
        "cpus": cpus,
        "accelerators": len(platform) - cpus,
        "measured": measured,
    }


def _scenario(scenario: Scenario) -> dict[str, Any]:
    names = ("name", "description", "arrivals", "physics", "episode_length", "intensity", "memory")
    size = [scenario.size.low, getattr(scenario.size, "high", None)]
    return {**{name: getattr(scenario, name) for name in names}, "load": scenario.utilisation, "size": size}


@models_router.get("/models", **described("The learned schedulers of the live run", list[Model], 422, 503))
async def list_models(
    context: RequestContext, limit: _VersionLimit = 200, before: _BeforeVersion = None
) -> Response:
    """Return every learned scheduler with the newest versions of its model, oldest first.

    Of old versions a part is stored: the first, the newest 200, and up to 400 between.
    """
    status = await context.control.status()
    learners = await context.control.run(Models())
    rows = {row["name"]: row for row in status["comparison"]}
    found = await context.repository.models(status["run_id"] or "", learners, limit, before)
    return StrictJSONResponse(
        [
            {
                "scheduler_name": name,
                "state": rows[name]["state"] if name in rows else "warming",
                "current_version": rows[name]["model_version"] if name in rows else None,
                "versions": found[name].versions,
                "total_versions": found[name].total,
                "first_version": found[name].first,
                **{key: details.get(key) for key in ("feature_importance", "agent", "accuracy", "policy")},
                "decided_by": details.get("decided_by", {}),
            }
            for name, details in learners.items()
        ]
    )


@models_router.post(
    "/models/{scheduler}/retrain",
    **described("Train a learned scheduler now", RetrainAccepted, 404, 409, 422, 503, status_code=202),
)
async def retrain_model(context: RequestContext, scheduler: SchedulerInPath) -> Response:
    """Request a training. The response comes at once; a notification announces the new version."""
    if scheduler not in await context.control.run(Models()):
        raise not_found("learned scheduler in the live run by the name", scheduler)
    await context.control.run(Retrain(scheduler))
    return StrictJSONResponse({"scheduler_name": scheduler, "accepted": True}, 202)
