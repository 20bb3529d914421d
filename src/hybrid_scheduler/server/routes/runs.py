"""Routes for runs: list, detail, Gantt columns, comparison of two runs, deletion, and storing of measured ones."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.exceptions import RequestValidationError

from ...core import InvalidInputError
from ...live import IdempotencyKey, MeasuredRun, RunLabels
from ...live.commands import DeleteRun, DescribeRun, StoreMeasured
from ...live.lane_statistics import WINDOW
from ...reports.run_tables import StoredResults
from ..app_context import AppContext, RequestContext
from ..errors import ApiError, api_error
from ..json_response import StrictJSONResponse, attachment, cached_json
from ..measured_body import read_run
from ..run_replay import replay_of
from ..schemas.base_models import BINARY, TEXT, described, described_file
from ..schemas.catalogue import LearningCurve
from ..schemas.measured import RunStored
from ..schemas.runs import Gantt, GanttDiff, Run, RunDetail, RunDiff, RunPage
from ..schemas.simulation import RunLabelsRequest
from ..schemas.tasks import Deleted
from ..stored_comparison import checkpoint_comparison
from ..whatif_worker import EvidenceJob
from .strict_route import (
    RUN_ID,
    SCHEDULER,
    KeyHeader,
    Limit,
    RunInPath,
    StrictRoute,
    completed_deletion,
    created,
    page_of,
    required,
    stored_once,
    stored_run,
    stores,
    while_connected,
)
from .whatif import whatif_slot

router = APIRouter(prefix="/api", tags=["runs"], route_class=StrictRoute)

_DIFF_METRICS = ("mean_latency", "mean_time", "mean_energy", "mean_cost", "p95_latency")
_DIFF_SETTINGS = ("scenario", "load", "seed", "platform", "schedulers", "source")


@router.get("/runs", **described("Runs, newest first", RunPage, 422, 503))
async def list_runs(
    context: RequestContext,
    limit: Limit = 100,
    before: Annotated[
        str | None, Query(pattern=RUN_ID, description="Only runs that began before this one.")
    ] = None,
) -> Response:
    """Return one page of runs."""
    rows = await context.repository.runs(limit, before)
    return page_of("runs", rows, limit, "run_id")


async def _measured_run(request: Request, context: RequestContext) -> tuple[MeasuredRun, str]:
    body = await request.body()
    found = await while_connected(request, context.reader.compute(len(body), read_run, body))
    if isinstance(found, list):
        raise RequestValidationError(found)
    return found


_STORE = ("Store a run that was measured on real devices", RunStored, 409, 422, 503)
_RUN_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/MeasuredRunCreate"}}},
    }
}


@router.post("/runs", **described(*_STORE, openapi_extra=_RUN_BODY, **stores("The run is stored.")))
async def store_measured_run(
    context: RequestContext,
    measured: Annotated[tuple[MeasuredRun, str], Depends(_measured_run)],
    idempotency_key: KeyHeader = None,
) -> Response:
    """Store a measured run, as `execute --store` does. The response comes once everything is durable.

    A client that got no response sends the run again under the same `run_id` or `Idempotency-Key`; it is stored
    once. The live run is not interrupted.
    """
    run, fingerprint = measured
    key = None if idempotency_key is None else IdempotencyKey(idempotency_key, fingerprint)

    async def repeat(task_id: int) -> Response:
        first = await context.repository.task(task_id)  # the key is stored with the run's first task
        if first is None:
            raise ApiError(409, "the run was stored, and its tasks have been deleted since")
        return _stored(run, first["run_id"], replay=True)

    return await stored_once(context, idempotency_key, fingerprint, partial(_store, context, run, key), repeat)


async def _store(context: AppContext, run: MeasuredRun, key: IdempotencyKey | None) -> Response:
    """Store a run, unless there is one with its id."""
    if run.run_id is None:
        return _stored(run, await context.control.run(StoreMeasured(run, key)))
    used = ApiError(409, f"run_id: must be one that no other run has, got {run.run_id}")
    async with context.state.key_lock(f"run {run.run_id}"):
        known = await context.repository.run(run.run_id)
        if known is None:
            try:
                return _stored(run, await context.control.run(StoreMeasured(run, key)))
            except (InvalidInputError, ApiError) as error:
                refusal = api_error(error)
                if refusal is None or "run_id" not in [field for field, *_ in refusal.fields]:
                    raise
                raise used from None  # another run with this id was being stored
    if known["source"] != "measured" or known["created_at"] != run.created_at:
        raise used
    return _stored(run, run.run_id, replay=True)


def _stored(run: MeasuredRun, run_id: str, *, replay: bool = False) -> Response:
    body = {"run_id": run_id, "tasks": len(run.tasks), "schedulers": list(run.schedulers)}
    return created(body, replay=replay)


@router.get("/runs/{run_id}", **described("One run with its comparison", RunDetail, 404, 422, 503))
async def get_run(request: Request, context: RequestContext, run_id: RunInPath) -> Response:
    """Return a run with one row per scheduler."""
    return StrictJSONResponse(await _detail(context, run_id, str(request.base_url).rstrip("/")))


@router.patch("/runs/{run_id}", **described("Give a run a name, tags or a note", Run, 404, 422, 503))
async def describe_run(context: RequestContext, run_id: RunInPath, request: RunLabelsRequest) -> Response:
    """Replace the labels that are given; the response comes once they are durable."""
    async with context.state.key_lock(f"labels {run_id}"):
        known = await stored_run(context, run_id)
        known |= request.model_dump(exclude_none=True)
        labels = RunLabels(known["name"], tuple(known["tags"]), known["note"])
        await context.control.run(DescribeRun(run_id, labels))
    return StrictJSONResponse(known)


_GOES_ON = {202: {"model": Deleted, "description": "The deletion goes on."}}


@router.delete(
    "/runs/{run_id}",
    **described("Delete one run that has ended", Deleted, 404, 409, 422, 503, responses=_GOES_ON),
)
async def delete_run(context: RequestContext, run_id: RunInPath) -> Response:
    """Delete a run with its tasks, results, events and model versions, in one transaction.

    A long deletion is answered with 202; the run is deleted once its address answers 404. If the server ends before
    that, the run stays complete.
    """
    known = await stored_run(context, run_id)
    try:
        deleted = await context.control.run(DeleteRun(run_id))
    except (InvalidInputError, ApiError) as error:
        if isinstance(error, ApiError) and error.status != 422:
            raise
        raise ApiError(409, f"run {run_id} has not ended", hint="stop it first") from None
    context.state.deletions += 1
    if deleted is None:
        return StrictJSONResponse({"deleted_tasks": 0, "tasks": known["tasks"], "done": False}, 202)
    return StrictJSONResponse(completed_deletion(deleted))


@router.get("/runs/{run_id}/gantt", **described("Busy intervals of the devices", Gantt, 404, 422, 503))
async def get_gantt(
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
    return StrictJSONResponse(required(columns, "run", run_id))


_EVIDENCE = "One file that proves the comparison of a run's tasks"


@router.get("/runs/{run_id}/evidence", **described_file(_EVIDENCE, {"text/html": TEXT}, 404, 422, 503))
async def export_evidence(
    request: Request,
    context: RequestContext,
    run_id: RunInPath,
    limit: Annotated[int, Query(ge=1, le=5_000, description="Number of tasks; the newest.")] = 500,
) -> Response:
    """Run the schedulers again on the newest stored tasks, and return the report with record, tasks and log inside.

    `hybrid-scheduler report --verify FILE` repeats it and compares the hash. The machines start empty and models
    untrained by this run, so its numbers are those of these tasks alone.
    """
    content = await while_connected(request, _computed(context, run_id, limit, "evidence"))
    return attachment(content, "text/html", f"evidence-{run_id}.html")


_REPORT = "Report on a run as HTML or PDF"
_REPORT_TYPES = {"text/html": TEXT, "application/pdf": BINARY}


@router.get("/runs/{run_id}/report", **described_file(_REPORT, _REPORT_TYPES, 404, 422, 503))
async def export_report(
    request: Request,
    context: RequestContext,
    run_id: RunInPath,
    format: Annotated[Literal["html", "pdf"], Query(description="Format of the file.")] = "html",
    limit: Annotated[int, Query(ge=1, le=5_000, description="Number of tasks in the figures; the newest.")] = 500,
) -> Response:
    """Return verdict and results of the whole run, with figures and method.

    The figures come from running the schedulers again on the newest stored tasks, as in an evidence file.
    """
    media_type = "application/pdf" if format == "pdf" else "text/html"
    content = await while_connected(request, _computed(context, run_id, limit, format))
    return attachment(content, media_type, f"report-{run_id}.{format}")


async def _computed(context: AppContext, run_id: str, limit: int, kind: str) -> bytes:
    """Return an evidence file of the run's newest tasks, or a report of the run, from the what-if worker."""
    known = await stored_run(context, run_id)
    if known["source"] != "simulated":  # a simulation of its tasks would prove nothing about the measurement
        raise InvalidInputError("run_id", "a simulated run with stored tasks", run_id)
    tasks = await context.repository.tasks(limit, run_id=run_id)
    rows, verdict = await _comparison(context, known)
    stored = StoredResults(rows, verdict) if rows and verdict else None
    name = known["name"] or f"{known['scenario']}, seed {known['seed']}"
    job = EvidenceJob(name, known["config"], tasks[::-1], kind, stored)
    async with whatif_slot(context):
        return await context.whatif_worker.evidence(job)


@router.get(
    "/runs/{run_id}/learning",
    **described("Accuracy of a learned scheduler by version and kind", LearningCurve, 404, 422, 503),
)
async def get_learning(
    context: RequestContext,
    run_id: RunInPath,
    scheduler: Annotated[str, Query(pattern=SCHEDULER, description="A learned scheduler.")],
    limit: Annotated[int, Query(ge=1, le=1000, description="Largest number of versions in `history`.")] = 1000,
) -> Response:
    """Return predicted against actual durations, latency and regret of the tasks of each model version and kind."""

    async def compute() -> dict[str, Any]:
        learned = required(await context.repository.learning(run_id, scheduler), "run", run_id)
        history = await context.repository.models(run_id, [scheduler], limit)
        return {**learned, "history": history[scheduler].versions}

    return await cached_json(context, f"learning:{run_id}:{scheduler}:{limit}", compute)


@router.get("/gantt/diff", **described("Two schedules of the same tasks", GanttDiff, 404, 409, 422, 503))
async def diff_gantt(
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
    schedules = []
    for run_id, name in ((a, scheduler), second):
        columns = await context.repository.gantt(run_id, name, None, None, limit)
        schedules.append(required(columns, "run", run_id))
    return StrictJSONResponse({"a": schedules[0], "b": schedules[1], **_changes(*map(_by_task, schedules))})


#: Devices, finish and intensity of each task, by its position in the run.
_Schedule = dict[int, tuple[set[str], float, float]]


def _changes(first: _Schedule, second: _Schedule) -> dict[str, Any]:
    """Return for each task of both schedules whether it moved, and how much later it ends in the second."""
    common = sorted(first.keys() & second.keys())
    if any(first[task][2] != second[task][2] for task in common):
        raise ApiError(409, "the runs have different tasks", hint="the same scenario, load and seed give the same")
    return {
        "ordinal": common,
        "moved": [first[task][0] != second[task][0] for task in common],
        "finish_difference": [second[task][1] - first[task][1] for task in common],
    }


def _by_task(columns: dict[str, Any]) -> _Schedule:
    schedule: _Schedule = {}
    rows = zip(columns["ordinal"], columns["device"], columns["end"], columns["intensity"], strict=True)
    for ordinal, device, end, intensity in rows:
        devices, latest, _ = schedule.get(ordinal, (set(), 0.0, 0.0))
        schedule[ordinal] = (devices | {device}, max(latest, end), intensity)
    return schedule


@router.get("/diff", **described("Two runs side by side", RunDiff, 404, 422, 503))
async def diff_runs(
    request: Request,
    context: RequestContext,
    a: Annotated[str, Query(pattern=RUN_ID, description="First run.")],
    b: Annotated[str, Query(pattern=RUN_ID, description="Second run.")],
) -> Response:
    """Return both runs, the differences b - a, and the settings that differ."""
    server = str(request.base_url).rstrip("/")
    first = await _detail(context, a, server)
    second = await _detail(context, b, server)
    return StrictJSONResponse({"a": first, "b": second, **_diff(first, second)})


async def _detail(context: AppContext, run_id: str, server: str) -> dict[str, Any]:
    known = await stored_run(context, run_id)
    rows, verdict = await _comparison(context, known)
    return {**known, "comparison": rows, "verdict": verdict, "replay": replay_of(known, server)}


async def _comparison(
    context: AppContext, run: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Return one row per scheduler and the verdict: of the engine for the live run, else from the last checkpoint.

    A run whose checkpoint is unknown has no rows and no verdict.
    """
    run_id: str = run["run_id"]
    with suppress(Exception):  # without an engine the checkpoint is used
        status = await context.control.status()
        if status["run_id"] == run_id:
            return status["comparison"], status.get("verdict")
    state = await context.repository.run_state(run_id)
    if state is None or not state.get("lanes"):
        return [], None
    newest = await context.repository.comparative(WINDOW, run_id=run_id)
    figures = {row["name"]: row for row in newest["schedulers"]}
    devices = run["config"].get("platform", {}).get("devices", ())
    rows, verdict = checkpoint_comparison(state, figures, devices)
    return [asdict(row) for row in rows], None if verdict is None else verdict.as_dict()


def _diff(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Return differences b - a for the schedulers of both runs, and the settings that differ."""
    others = {row["name"]: row for row in b["comparison"]}
    rows = [
        {"name": row["name"], **{metric: _difference(row, others[row["name"]], metric) for metric in _DIFF_METRICS}}
        for row in a["comparison"]
        if row["name"] in others
    ]
    changed = {name: [a[name], b[name]] for name in _DIFF_SETTINGS if a[name] != b[name]}
    return {"schedulers": rows, "changed": changed}


def _difference(a: dict[str, Any], b: dict[str, Any], metric: str) -> dict[str, float | None]:
    first = a.get(metric)
    second = b.get(metric)
    if first is None or second is None:
        return {"a": first, "b": second, "difference": None, "ci95": None}
    # Only the latency has an interval; the runs are independent, so variances add.
    widths = (a.get("latency_ci95"), b.get("latency_ci95")) if metric == "mean_latency" else (None, None)
    interval = None if widths[0] is None or widths[1] is None else math.hypot(widths[0], widths[1])
    return {"a": first, "b": second, "difference": second - first, "ci95": interval}
