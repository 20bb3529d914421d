"""Routes for runs: list, detail, Gantt columns, comparison of two runs, deletion, and storing of measured ones."""

from __future__ import annotations

import asyncio
import hashlib
import math
from dataclasses import replace
from shlex import quote
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from ...core import InvalidInputError, platform_named, workstation
from ...core.platform import PLATFORMS, platform_from_json
from ...live import IdempotencyKey, MeasuredRun, RunLabels, measured_from_json
from ...live.lane_statistics import WINDOW, LaneStatistics
from ...live.live_run import stored_verdict
from ...live.status import SchedulerStatistics
from ...physics import PHYSICS, SlowedPhysics, Tariff, full_speed, physics_from_json, physics_named
from ...workload.argument_checks import parse_spec
from ..app_context import AppContext, RequestContext
from ..errors import ApiError, not_found
from ..json_response import StrictJSONResponse, cached_json, dumps
from ..schemas import (
    Deleted,
    Gantt,
    GanttDiff,
    LearningCurve,
    MeasuredRunCreate,
    Run,
    RunDetail,
    RunDiff,
    RunLabelsRequest,
    RunPage,
    RunStored,
    problems,
)
from ..whatif_worker import EvidenceJob
from .strict_route import (
    REPLAY,
    RUN_ID,
    SCHEDULER,
    KeyHeader,
    Limit,
    RunInPath,
    StrictRoute,
    completed_deletion,
    stored_run,
    used_key,
)
from .whatif import whatif_slot

router = APIRouter(prefix="/api", tags=["runs"], route_class=StrictRoute)

_DIFF_METRICS = ("mean_latency", "mean_time", "mean_energy", "mean_cost", "p95_latency")
_DIFF_SETTINGS = ("scenario", "load", "seed", "platform", "schedulers", "source")
_QUANTILES = ("p50_latency", "p95_latency", "p99_latency")


@router.get(
    "/runs",
    operation_id="listRuns",
    summary="Runs, newest first",
    response_model=RunPage,
    responses=problems(422, 503),
)
async def runs(
    context: RequestContext,
    limit: Limit = 100,
    before: Annotated[
        str | None, Query(pattern=RUN_ID, description="Only runs that began before this one.")
    ] = None,
) -> Response:
    """Return one page of runs."""
    rows = await context.repository.runs(limit, before)
    return StrictJSONResponse({"runs": rows, "next_before": rows[-1]["run_id"] if len(rows) == limit else None})


@router.post(
    "/runs",
    status_code=201,
    operation_id="storeMeasuredRun",
    summary="Store a run that was measured on real devices",
    response_model=RunStored,
    responses={201: {"description": "The run is stored.", "headers": REPLAY}, **problems(409, 413, 415, 422, 503)},
)
async def store_measured(
    context: RequestContext, measured: MeasuredRunCreate, idempotency_key: KeyHeader = None
) -> Response:
    """Store a measured run, as `execute --store` does. The response comes once everything is durable.

    A client that got no response sends the run again under the same `run_id` or `Idempotency-Key`; it is stored
    once. The live run is not interrupted.
    """
    content = measured.model_dump()
    run = await asyncio.to_thread(lambda: measured_from_json(content))
    if idempotency_key is None:
        return await _store(context, run)
    key = IdempotencyKey(idempotency_key, hashlib.sha256(dumps(content)).hexdigest(), 0)
    # Of two requests at once, the second waits for the first and then finds its run.
    async with context.state.key_locks.hold(key.key):
        known = await context.repository.idempotency_record(key.key)
        if known is None:
            return await _store(context, run, key)
    if known[0] != key.fingerprint:
        raise used_key(key.key)
    first = await context.repository.task(known[1])  # the key is stored with the run's first task
    if first is None:
        raise ApiError(409, "the run was stored, and its tasks have been deleted since")
    return _stored_response(run, first["run_id"], replay=True)


async def _store(context: AppContext, run: MeasuredRun, key: IdempotencyKey | None = None) -> Response:
    """Store a run, unless there is one with its id."""
    if run.run_id is None:
        return _stored_response(run, await context.control.store_measured(run, key))
    async with context.state.key_locks.hold(f"run {run.run_id}"):
        known = await context.repository.run(run.run_id)
        if known is None:
            try:
                return _stored_response(run, await context.control.store_measured(run, key))
            except (InvalidInputError, ApiError) as error:
                fields = (
                    [error.field] if isinstance(error, InvalidInputError) else [field for field, *_ in error.fields]
                )
                if "run_id" not in fields:
                    raise
                raise _used_run_id(run.run_id) from None  # another run with this id was being stored
    if known["source"] != "measured" or known["created_at"] != run.created_at:
        raise _used_run_id(run.run_id)
    return _stored_response(run, run.run_id, replay=True)


def _used_run_id(run_id: str) -> ApiError:
    return ApiError(409, f"run_id: must be one that no other run has, got {run_id}")


def _stored_response(run: MeasuredRun, run_id: str, *, replay: bool = False) -> Response:
    body = {"run_id": run_id, "tasks": len(run.tasks), "schedulers": list(run.schedulers)}
    return StrictJSONResponse(body, 201, headers={"Idempotent-Replay": "true"} if replay else None)


@router.get(
    "/runs/{run_id}",
    operation_id="getRun",
    summary="One run with its comparison",
    response_model=RunDetail,
    responses=problems(404, 422, 503),
)
async def run(request: Request, context: RequestContext, run_id: RunInPath) -> Response:
    """Return a run with one row per scheduler."""
    return StrictJSONResponse(await _detail(context, run_id, str(request.base_url).rstrip("/")))


@router.patch(
    "/runs/{run_id}",
    operation_id="describeRun",
    summary="Give a run a name, tags or a note",
    response_model=Run,
    responses=problems(404, 413, 415, 422, 503),
)
async def describe(context: RequestContext, run_id: RunInPath, request: RunLabelsRequest) -> Response:
    """Replace the labels that are given; the response comes once they are durable."""
    async with context.state.key_locks.hold(f"labels {run_id}"):
        known = await _existing_run(context, run_id)
        known |= {name: given for name, given in request.model_dump().items() if given is not None}
        await context.control.describe_run(run_id, RunLabels(known["name"], tuple(known["tags"]), known["note"]))
    return StrictJSONResponse(known)


@router.delete(
    "/runs/{run_id}",
    operation_id="deleteRun",
    summary="Delete one run that has ended",
    response_model=Deleted,
    responses={202: {"model": Deleted, "description": "The deletion goes on."}, **problems(404, 409, 422, 503)},
)
async def delete_run(context: RequestContext, run_id: RunInPath) -> Response:
    """Delete a run with its tasks, results, events and model versions, in one transaction.

    A long deletion is answered with 202; the run is deleted once its address answers 404. If the server ends before
    that, the run stays complete.
    """
    known = await _existing_run(context, run_id)
    try:
        deleted = await context.control.delete_run(run_id)
    except (InvalidInputError, ApiError) as error:
        if isinstance(error, ApiError) and error.status != 422:
            raise
        raise ApiError(409, f"run {run_id} has not ended", hint="stop it first") from None
    context.state.deletions += 1
    if deleted is None:
        return StrictJSONResponse({"deleted_tasks": 0, "tasks": known["tasks"], "done": False}, 202)
    return StrictJSONResponse(completed_deletion(deleted))


@router.get(
    "/runs/{run_id}/gantt",
    operation_id="getGantt",
    summary="Busy intervals of the devices",
    response_model=Gantt,
    responses=problems(404, 422, 503),
)
async def gantt(
    context: RequestContext,
    run_id: RunInPath,
    scheduler: Annotated[str, Query(pattern=SCHEDULER, description="The scheduler whose cluster is returned.")],
    start: Annotated[
        float | None, Query(ge=0, le=1e15, allow_inf_nan=False, description="From this virtual second on.")
    ] = None,
    end: Annotated[
        float | None, Query(ge=0, le=1e15, allow_inf_nan=False, description="Up to this virtual second.")
    ] = None,
    limit: Annotated[
        int, Query(ge=1, le=200_000, description="Largest number of tasks; the newest are returned.")
    ] = 50_000,
) -> Response:
    """Return which part of which task ran on which device, as columns."""
    columns = await context.repository.gantt(run_id, scheduler, start, end, limit)
    if columns is None:
        raise not_found("run", run_id)
    return StrictJSONResponse(columns)


@router.get(
    "/runs/{run_id}/evidence",
    operation_id="exportEvidence",
    summary="One file that proves the comparison of a run's tasks",
    response_class=Response,
    responses={
        200: {"description": "The file.", "content": {"text/html": {"schema": {"type": "string"}}}},
        **problems(404, 422, 503),
    },
)
async def evidence(
    context: RequestContext,
    run_id: RunInPath,
    limit: Annotated[int, Query(ge=1, le=5_000, description="Number of tasks; the newest.")] = 500,
) -> Response:
    """Run the schedulers again on the newest stored tasks, and return the report with record, tasks and log inside.

    `hybrid-scheduler report --verify FILE` repeats it and compares the hash. The machines start empty and models
    untrained by this run, so its numbers are those of these tasks alone.
    """
    return _file(await _computed(context, run_id, limit, "evidence"), "text/html", f"evidence-{run_id}.html")


@router.get(
    "/runs/{run_id}/report",
    operation_id="exportReport",
    summary="Report on a run's newest tasks as HTML or PDF",
    response_class=Response,
    responses={
        200: {
            "description": "The file.",
            "content": {
                "text/html": {"schema": {"type": "string"}},
                "application/pdf": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        **problems(404, 422, 503),
    },
)
async def report(
    context: RequestContext,
    run_id: RunInPath,
    format: Annotated[Literal["html", "pdf"], Query(description="Format of the file.")] = "html",
    limit: Annotated[int, Query(ge=1, le=5_000, description="Number of tasks; the newest.")] = 500,
) -> Response:
    """Run the schedulers again on the newest stored tasks, and return tables, figures and method.

    As in an evidence file, the machines start empty and models untrained by this run.
    """
    kind = "application/pdf" if format == "pdf" else "text/html"
    return _file(await _computed(context, run_id, limit, format), kind, f"report-{run_id}.{format}")


def _file(content: bytes, media_type: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=media_type, headers=headers)


async def _computed(context: AppContext, run_id: str, limit: int, kind: str) -> bytes:
    """Return an evidence file or a report of the run's newest tasks, from the what-if worker."""
    known = await _existing_run(context, run_id)
    if known["source"] != "simulated":  # a simulation of its tasks would prove nothing about the measurement
        raise InvalidInputError("run_id", "a simulated run with stored tasks", run_id)
    rows = await context.repository.tasks(limit, run_id=run_id)
    job = EvidenceJob(run_id, known["config"], rows[::-1], kind)
    async with whatif_slot(context):
        return await context.whatif_worker.evidence(job)


@router.get(
    "/runs/{run_id}/learning",
    operation_id="getLearning",
    summary="Accuracy of a learned scheduler by version and kind",
    response_model=LearningCurve,
    responses=problems(404, 422, 503),
)
async def learning(
    context: RequestContext,
    run_id: RunInPath,
    scheduler: Annotated[str, Query(pattern=SCHEDULER, description="A learned scheduler.")],
    limit: Annotated[int, Query(ge=1, le=1000, description="Largest number of versions in `history`.")] = 1000,
) -> Response:
    """Return predicted against actual durations, latency and regret of the tasks of each model version and kind."""

    async def compute() -> dict[str, Any]:
        found = await context.repository.learning(run_id, scheduler)
        if found is None:
            raise not_found("run", run_id)
        history = await context.repository.models(run_id, [scheduler], limit)
        return {**found, "history": history[scheduler].versions}

    return StrictJSONResponse(await cached_json(context, f"learning:{run_id}:{scheduler}:{limit}", compute))


@router.get(
    "/gantt/diff",
    operation_id="diffGantt",
    summary="Two schedules of the same tasks",
    response_model=GanttDiff,
    responses=problems(404, 409, 422, 503),
)
async def gantt_diff(
    context: RequestContext,
    a: Annotated[str, Query(pattern=RUN_ID, description="First run.")],
    scheduler: Annotated[str, Query(pattern=SCHEDULER, description="Scheduler of the first schedule.")],
    b: Annotated[str | None, Query(pattern=RUN_ID, description="Second run; by default the first.")] = None,
    other: Annotated[
        str | None, Query(pattern=SCHEDULER, description="Scheduler of the second schedule; by default the same.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=20_000, description="Largest number of tasks; the newest.")] = 2_000,
) -> Response:
    """Return both schedules, the tasks that moved to other devices, and the change of each finish.

    Tasks of two runs correspond by their position. Runs whose tasks differ there are refused with 409.
    """
    second = (b or a, other or scheduler)
    if second == (a, scheduler):
        raise InvalidInputError("other", "another scheduler, or another run as b", second[1])
    found = []
    for run_id, name in ((a, scheduler), second):
        columns = await context.repository.gantt(run_id, name, None, None, limit)
        if columns is None:
            raise not_found("run", run_id)
        found.append(columns)
    return StrictJSONResponse({"a": found[0], "b": found[1], **_changes(*found)})


def _changes(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Return for each task of both schedules whether it moved, and how much later it ends in the second."""
    first, second = _by_task(a), _by_task(b)
    common = sorted(first.keys() & second.keys())
    if any(first[task][2] != second[task][2] for task in common):
        raise ApiError(409, "the runs have different tasks", hint="the same scenario, load and seed give the same")
    return {
        "ordinal": common,
        "moved": [first[task][0] != second[task][0] for task in common],
        "finish_difference": [second[task][1] - first[task][1] for task in common],
    }


def _by_task(columns: dict[str, Any]) -> dict[int, tuple[set[str], float, float]]:
    """Return devices, finish and intensity of each task, by its position in the run."""
    found: dict[int, tuple[set[str], float, float]] = {}
    rows = zip(columns["ordinal"], columns["device"], columns["end"], columns["intensity"], strict=True)
    for ordinal, device, end, intensity in rows:
        devices, latest, _ = found.get(ordinal, (set(), 0.0, 0.0))
        found[ordinal] = (devices | {device}, max(latest, end), intensity)
    return found


@router.get(
    "/diff",
    operation_id="diffRuns",
    summary="Two runs side by side",
    tags=["runs"],
    response_model=RunDiff,
    responses=problems(404, 422, 503),
)
async def diff(
    request: Request,
    context: RequestContext,
    a: Annotated[str, Query(pattern=RUN_ID, description="First run.")],
    b: Annotated[str, Query(pattern=RUN_ID, description="Second run.")],
) -> Response:
    """Return both runs, the differences b - a, and the settings that differ."""
    server = str(request.base_url).rstrip("/")
    first, second = await _detail(context, a, server), await _detail(context, b, server)
    return StrictJSONResponse({"a": first, "b": second, **_diff(first, second)})


async def _existing_run(context: AppContext, run_id: str) -> dict[str, Any]:
    known = await context.repository.run(run_id)
    if known is None:
        raise not_found("run", run_id)
    return known


async def _detail(context: AppContext, run_id: str, server: str) -> dict[str, Any]:
    known = await stored_run(context, run_id)
    if known is None:
        raise not_found("run", run_id)
    rows, verdict = await _comparison(context, known)
    return {**known, "comparison": rows, "verdict": verdict, "replay": replay_of(known, server)}


#: Most tasks of an evidence file.
_EVIDENCE_TASKS = 5_000
_LEARNERS = ("hybrid_ml", "rl_agent")


def replay_of(run: dict[str, Any], server: str) -> dict[str, Any] | None:
    """Return the commands that compute a run again, with what can differ; None for one that cannot be repeated.

    Parameters
    ----------
    run
        The stored run.
    server
        Address of this server, from which tasks and evidence are fetched.
    """
    config, run_id = run["config"], run["run_id"]
    if run["source"] != "simulated" or not {"platform", "physics", "scenario"} <= config.keys():
        return None
    notes, exact = [], True
    plugins = sorted({one["file"] for one in config.get("plugins", {}).values()})
    for name in plugins:
        digest = next(one["sha256"] for one in config["plugins"].values() if one["file"] == name)
        notes.append(f"plug-in {name}, SHA-256 {digest[:16]}")
    program = " ".join(["hybrid-scheduler", *(f"--plugin {quote(name)}" for name in plugins)])
    changes, submitted = config.get("changes", []), config.get("submitted", 0)
    notes += [f"from task {change['task']:,}: {change['change']}" for change in changes]
    if submitted:
        notes.append(f"tasks that clients sent: {submitted:,}")
    machine = _machine_options(config)
    commands = []
    names = ",".join(run["schedulers"])
    options = f"--seed {config['seed']} --schedulers {quote(names)}"
    if machine is None:
        # Machines of a user's own are inside the evidence file.
        file = f"evidence-{run_id}.html"
        commands.append(f"curl -o {file} '{server}/api/runs/{run_id}/evidence?limit={_EVIDENCE_TASKS}'")
        commands.append(f"{program} report --verify {file}")
        if run["tasks"] > _EVIDENCE_TASKS:
            exact = False
            notes.append(f"the evidence file holds the newest {_EVIDENCE_TASKS:,} of {run['tasks']:,} tasks")
    else:
        prefix, flags = machine
        simulate = f"{prefix}{program} simulate"
        if changes or submitted:
            file = f"tasks-{run_id}.csv"
            commands.append(f"curl -o {file} '{server}/api/export/tasks.csv?run_id={run_id}'")
            source = f"--trace {file}"
        elif "trace" in config:
            trace = config["trace"]
            load = "" if trace["load"] is None else f" --utilisation {trace['load']}"
            source = f"--trace {quote(trace['name'])}{load}"
            notes.append(f"trace {trace['name']}, SHA-256 {trace['sha256'][:16]}")
        else:
            source = (
                f"--scenario {quote(run['scenario'])} --utilisation {run['load']} --tasks {max(1, run['tasks'])}"
            )
            if config["scenario"].get("then"):
                exact = False
                notes.append("the mix of tasks changes at another point there: the set-up repeats, not every task")
        if config["scenario"].get("episode_length"):
            exact = False
            notes.append("the live run empties its clusters between episodes; the command does not")
        commands.append(" ".join(filter(None, (simulate, source, options, flags))))
    if any(parse_spec(spec)[0] in _LEARNERS for spec in run["schedulers"]):
        notes.append("fixed rules repeat exactly; learners retrain by the clock and may differ slightly")
    return {"commands": commands, "exact": exact, "notes": notes}


def _machine_options(config: dict[str, Any]) -> tuple[str, str] | None:
    """Return environment and options of the command line for a run's machine; None if they cannot name it."""
    try:
        platform, physics = platform_from_json(config["platform"]), physics_from_json(config["physics"])
        tariff = Tariff(**config["tariff"])
    except (KeyError, TypeError, ValueError):  # an incomplete record of another version
        return None
    flags, prefix = [f"--platform {quote(platform.name)}"], ""
    gpus = len(platform) - 1
    if platform.name not in PLATFORMS or tariff != Tariff():
        return None
    if platform_named(platform.name) != platform:
        memory = platform.devices[-1].memory
        if platform.name != "workstation" or platform != workstation(gpus, memory):
            return None
        prefix = f"NUM_GPUS={gpus} MEMORY_PER_GPU={memory:g} "
    slowdown = physics.slowdown if isinstance(physics, SlowedPhysics) else None
    physics = full_speed(physics)
    if physics.name not in PHYSICS or physics != physics_named(physics.name):
        return None
    if physics.name != "analytic":
        flags.append(f"--physics {physics.name}")
    if slowdown is not None:
        flags.append(f"--slowdown {quote(slowdown.as_text())}")
    if config["noise"]["sigma"]:
        flags.append(f"--noise {config['noise']['sigma']}")
    if config["memory_policy"] != "clip":
        flags.append(f"--memory-policy {config['memory_policy']}")
    weights = {name: weight for name, weight in config["objective"].items() if weight}
    if list(weights) != ["latency"]:
        flags.append("--objective " + ",".join(f"{name}={weight}" for name, weight in weights.items()))
    return prefix, " ".join(flags)


async def _comparison(
    context: AppContext, run: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Return one row per scheduler and the verdict: of the engine for the live run, else from the last checkpoint.

    A run whose checkpoint is unknown has no rows and no verdict.
    """
    run_id: str = run["run_id"]
    live = await _live_comparison(context, run_id)
    if live is not None:
        return live
    state = await context.repository.run_state(run_id)
    lanes: dict[str, Any] = (state or {}).get("lanes", {})
    if state is None or not lanes:
        return [], None
    # A checkpoint has no quantiles: they are computed from the rows.
    newest = await context.repository.comparative(WINDOW, run_id=run_id)
    recent = {row["name"]: row for row in newest["schedulers"]}
    tasks, total = state.get("floor", (0, 0.0))[:2]
    latency_bound = total / tasks if tasks else None
    rows = [_checkpoint_row(name, lane, recent.get(name), latency_bound) for name, lane in lanes.items()]
    devices = run["config"].get("platform", {}).get("devices")
    verdict = stored_verdict(state, rows, devices).as_dict() if devices else None
    return [row.as_dict() for row in rows], verdict


async def _live_comparison(
    context: AppContext, run_id: str
) -> tuple[list[dict[str, Any]], dict[str, Any] | None] | None:
    try:
        status = await context.control.status()
    except Exception:  # without an engine the checkpoint is used
        return None
    return (status["comparison"], status.get("verdict")) if status["run_id"] == run_id else None


def _checkpoint_row(
    name: str, lane: dict[str, Any], recent: dict[str, Any] | None, latency_bound: float | None
) -> SchedulerStatistics:
    saved = lane["statistics"]
    statistics = LaneStatistics(np.zeros(len(saved["busy"]), dtype=np.int64))
    statistics.restore(saved)
    version = lane.get("version")
    state = "off" if lane.get("failure") else "ready" if version is None else "learned"
    row = statistics.row(name, state, version, latency_bound, len(lane.get("queue", {}).get("tasks", ())))
    if recent is None:
        return row
    quantiles = {quantile: recent[quantile] for quantile in _QUANTILES}
    return replace(row, **quantiles, window=recent["tasks"] - recent["failed"])


def _diff(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Return differences b - a for the schedulers of both runs, and the settings that differ."""
    others = {row["name"]: row for row in b["comparison"]}
    rows = [
        {
            "name": row["name"],
            **{metric: _difference(row, others[row["name"]], metric) for metric in _DIFF_METRICS},
        }
        for row in a["comparison"]
        if row["name"] in others
    ]
    changed = {name: [a[name], b[name]] for name in _DIFF_SETTINGS if a[name] != b[name]}
    return {"schedulers": rows, "changed": changed}


def _difference(a: dict[str, Any], b: dict[str, Any], metric: str) -> dict[str, float | None]:
    first, second = a.get(metric), b.get(metric)
    if first is None or second is None:
        return {"a": first, "b": second, "difference": None, "ci95": None}
    # Only the latency has an interval; the runs are independent, so variances add.
    widths = (a.get("latency_ci95"), b.get("latency_ci95")) if metric == "mean_latency" else (None, None)
    interval = None if widths[0] is None or widths[1] is None else math.hypot(widths[0], widths[1])
    return {"a": first, "b": second, "difference": second - first, "ci95": interval}
