"""Runs: list, detail, Gantt columns, two of them side by side, and those that were measured elsewhere."""

from __future__ import annotations

import asyncio
import math
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from ...live import MeasuredRun, measured_from_json
from ..app_context import AppContext, PartsHere
from ..errors import Refused, not_found
from ..json_response import StrictJSONResponse
from ..run_comparison import comparison_of
from ..schemas import Gantt, MeasuredRunCreate, RunDetail, RunDiff, RunPage, RunStored, problems
from .strict_route import _RUN_ID, _SCHEDULER, REPLAY, Limit, RunInPath, StrictRoute

router = APIRouter(prefix="/api", tags=["runs"], route_class=StrictRoute)

_COMPARED = ("avg_latency", "avg_time", "avg_energy", "avg_cost", "p95_latency")
_SETTINGS = ("scenario", "utilisation", "seed", "platform", "schedulers", "source")


@router.get(
    "/runs",
    operation_id="listRuns",
    summary="Runs, newest first",
    response_model=RunPage,
    responses=problems(422, 503),
)
async def runs(
    parts: PartsHere,
    limit: Limit = 100,
    before: Annotated[
        str | None, Query(pattern=_RUN_ID, description="Only runs that began before this one.")
    ] = None,
) -> Response:
    rows = await parts.repository.runs(limit, before)
    return StrictJSONResponse({"runs": rows, "next_before": rows[-1]["run_id"] if len(rows) == limit else None})


@router.post(
    "/runs",
    status_code=201,
    operation_id="storeMeasuredRun",
    summary="Keep a run that was measured on real devices",
    response_model=RunStored,
    responses={201: {"description": "The run is stored.", "headers": REPLAY}, **problems(409, 413, 415, 422, 503)},
)
async def store_measured(parts: PartsHere, measured: MeasuredRunCreate) -> Response:
    """Answers once everything is durable. The live run goes on meanwhile; `execute --store` sends this.

    Whoever got no answer sends the run again under the same `run_id`: it is stored once.
    """
    run = await asyncio.to_thread(lambda: measured_from_json(measured.model_dump()))
    if run.run_id is None:
        return _stored(run, await parts.control.store_measured(run))
    # Two at once: the second waits for the first and then finds its run.
    async with parts.hub.turns(run.run_id):
        known = await parts.repository.run(run.run_id)
        if known is None:
            return _stored(run, await parts.control.store_measured(run))
    if known["source"] != "measured" or known["created_at"] != run.created_at:
        raise Refused(409, f"run_id: must be one that no other run has, got {run.run_id}")
    return _stored(run, run.run_id, replay=True)


def _stored(run: MeasuredRun, run_id: str, *, replay: bool = False) -> Response:
    body = {"run_id": run_id, "tasks": len(run.tasks), "schedulers": list(run.schedulers)}
    return StrictJSONResponse(body, 201, headers={"Idempotent-Replay": "true"} if replay else None)


@router.get(
    "/runs/{run_id}",
    operation_id="getRun",
    summary="One run with its comparison",
    response_model=RunDetail,
    responses=problems(404, 422, 503),
)
async def run(parts: PartsHere, run_id: RunInPath) -> Response:
    return StrictJSONResponse(await _detail(parts, run_id))


@router.get(
    "/runs/{run_id}/gantt",
    operation_id="getGantt",
    summary="What ran where and when",
    response_model=Gantt,
    responses=problems(404, 422, 503),
)
async def gantt(
    parts: PartsHere,
    run_id: RunInPath,
    scheduler: Annotated[str, Query(pattern=_SCHEDULER, description="Whose cluster.")],
    start: Annotated[
        float | None, Query(ge=0, le=1e15, allow_inf_nan=False, description="From this virtual second on.")
    ] = None,
    end: Annotated[
        float | None, Query(ge=0, le=1e15, allow_inf_nan=False, description="Up to this virtual second.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200_000, description="At most so many tasks, the newest.")] = 50_000,
) -> Response:
    columns = await parts.repository.gantt(run_id, scheduler, start, end, limit)
    if columns is None:
        raise not_found("run", run_id)
    return StrictJSONResponse(columns)


@router.get(
    "/diff",
    operation_id="diffRuns",
    summary="Two runs side by side",
    tags=["runs"],
    response_model=RunDiff,
    responses=problems(404, 422, 503),
)
async def diff(
    parts: PartsHere,
    a: Annotated[str, Query(pattern=_RUN_ID, description="A run.")],
    b: Annotated[str, Query(pattern=_RUN_ID, description="Another.")],
) -> Response:
    first, second = await _detail(parts, a), await _detail(parts, b)
    return StrictJSONResponse({"a": first, "b": second, **compared(first, second)})


async def _detail(parts: AppContext, run_id: str) -> dict[str, Any]:
    known = await parts.repository.run(run_id)
    if known is None:
        raise not_found("run", run_id)
    return {**known, "comparison": await comparison_of(parts, run_id)}


def compared(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Differences b - a for the schedulers of both, and the settings in which the runs differ."""
    others = {row["name"]: row for row in b["comparison"]}
    rows = [
        {"name": row["name"], **{metric: _difference(row, others[row["name"]], metric) for metric in _COMPARED}}
        for row in a["comparison"]
        if row["name"] in others
    ]
    changed = {name: [a[name], b[name]] for name in _SETTINGS if a[name] != b[name]}
    return {"schedulers": rows, "changed": changed}


def _difference(a: dict[str, Any], b: dict[str, Any], metric: str) -> dict[str, float | None]:
    first, second = a.get(metric), b.get(metric)
    if first is None or second is None:
        return {"a": first, "b": second, "difference": None, "ci95": None}
    # Only the latency has an interval of its own; the runs are independent, so variances add.
    widths = (a.get("latency_ci95"), b.get("latency_ci95")) if metric == "avg_latency" else (None, None)
    interval = None if widths[0] is None or widths[1] is None else math.hypot(widths[0], widths[1])
    return {"a": first, "b": second, "difference": second - first, "ci95": interval}
