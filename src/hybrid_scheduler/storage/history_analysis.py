"""Statistics over stored results: comparison, trends and Gantt columns, and rows to train models from.

They are computed in Python, because sums of SQLite and PostgreSQL differ in the last digits.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ARRAY, BigInteger, Connection, and_, any_, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql import ColumnElement, FromClause, Select

from ..core import Floats, Ints
from . import tables
from .database import DatabaseAddress, plain_rows
from .schema_version import with_connection

MAX_COMPARED_TASKS = 10_000
#: Tasks of a run that `trends` reads; of a longer run it samples the same number from each bucket.
MAX_SAMPLED_TASKS = 6_000

tasks = tables.tasks
results = tables.scheduler_results
runs = tables.runs
#: Joins results with their tasks.
OF_TASK = results.c.task_id == tasks.c.task_id


async def task_range(connection: AsyncConnection, run_id: str) -> tuple[int, int] | None:
    """Return first and last task of a run; tasks of measured runs may lie between them."""
    ids = select(tasks.c.task_id).where(tasks.c.run_id == run_id).limit(1)
    ends = [await connection.scalar(ids.order_by(order)) for order in (tasks.c.ordinal, tasks.c.ordinal.desc())]
    return _both(*ends)


async def ordinal_range(connection: AsyncConnection, run_id: str) -> tuple[int, int] | None:
    """Return the positions of a run's first and last stored task; None without tasks."""
    ends = (select(end(tasks.c.ordinal)).where(tasks.c.run_id == run_id) for end in (func.min, func.max))
    return _both(*[await connection.scalar(query) for query in ends])


def _both(low: int | None, high: int | None) -> tuple[int, int] | None:
    return None if low is None or high is None else (low, high)


def training_rows(address: DatabaseAddress, most: int) -> tuple[str, list[Any], list[Any]]:
    """Return the newest rows of the newest run's platform that durations can be learned from.

    Parameters
    ----------
    address
        The database.
    most
        Largest number of rows of either kind.

    Returns
    -------
    tuple
        Name of the platform, empty without a run. Size, intensity and memory of tasks with the share and seconds of
        their isolated optimum. The same of executed tasks with their share, CPU and GPU seconds and device.
    """

    def read(connection: Connection) -> tuple[str, list[Any], list[Any]]:
        newest = select(runs.c.platform, runs.c.source).order_by(runs.c.created_at.desc()).limit(1)
        found = connection.execute(newest).one_or_none()
        if found is None:
            return "", [], []
        alike = select(runs.c.run_id).where(runs.c.platform == found[0], runs.c.source == found[1])
        about = (tasks.c.size, tasks.c.compute_intensity, tasks.c.memory_required)
        best = tables.training_data.c
        optima = (
            select(*about, best.optimal_gpu_fraction, best.optimal_time)
            .join(tables.training_data, best.task_id == tasks.c.task_id)
            .where(tasks.c.run_id.in_(alike), best.optimal_time > 0)
            .order_by(tasks.c.task_id.desc())
            .limit(most)
        )
        r = results.c
        finished = (
            select(*about, r.gpu_fraction, r.cpu_time, r.gpu_time, r.device)
            .join(results, r.task_id == tasks.c.task_id)
            .where(r.run_id.in_(alike), r.status != "failed", r.actual_time > 0)
            .order_by(r.id.desc())
            .limit(most)
        )
        return found[0], list(connection.execute(optima).all()), list(connection.execute(finished).all())

    return with_connection(address, read, read_only=True)


# ------------------------------------------------------------------------------------------ comparison

_COMPARED = (
    "scheduler_name", "task_id", "actual_time", "latency", "energy_consumption", "execution_cost", "gpu_fraction",
    "regret", "status",
)  # fmt: skip


async def comparative(connection: AsyncConnection, ids: Sequence[int], run_id: str | None) -> dict[str, Any]:
    """Return statistics of all schedulers over the given tasks.

    Latencies of failed tasks count neither in means nor in quantiles.

    Parameters
    ----------
    connection
        An open connection.
    ids
        Ids of the tasks, ascending.
    run_id
        Only results of this run; None for all.

    Returns
    -------
    dict
        The body of `/api/history/comparative`.
    """
    rows: Sequence[Sequence[Any]] = ()
    if ids:
        query = (
            select(*(results.c[name] for name in _COMPARED))
            .where(results.c.task_id.between(ids[0], ids[-1]))
            .order_by(results.c.task_id, results.c.id)
        )
        if run_id is not None:
            query = query.where(results.c.run_id == run_id)
        rows = await plain_rows(connection, query)
    return {
        "run_id": run_id,
        "tasks": len(ids),
        "first_task_id": ids[0] if ids else None,
        "last_task_id": ids[-1] if ids else None,
        **await asyncio.to_thread(_compared, rows),
    }


def _compared(rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return a summary per scheduler, and for each pair how many tasks the first finished sooner."""
    if not rows:
        return {"schedulers": [], "wins": {}}
    name, task, *numbers, status = zip(*rows, strict=True)
    values = np.array(numbers, dtype=np.float64)  # None becomes NaN
    failed = np.array([state == "failed" for state in status])
    ids, place = np.unique(np.array(task), return_inverse=True)
    own_rows = _rows_of(name)
    latencies = {}
    for each, own in own_rows.items():
        latencies[each] = np.full(len(ids), np.nan)
        latencies[each][place[own]] = values[1, own]
    return {
        "schedulers": [_summary(each, values[:, own], int(failed[own].sum())) for each, own in own_rows.items()],
        "wins": {a: {b: int(np.sum(latencies[a] < latencies[b])) for b in latencies if b != a} for a in latencies},
    }


def _rows_of(names: Sequence[str]) -> dict[str, Ints]:
    """Return the positions of each name, by name in the order of their first appearance."""
    code_of = {name: code for code, name in enumerate(dict.fromkeys(names))}
    codes = np.array([code_of[name] for name in names])
    return {name: np.flatnonzero(codes == code) for name, code in code_of.items()}


def _summary(name: str, values: Floats, failed: int) -> dict[str, Any]:
    time, latency, energy, cost, fraction, regret = values
    known = latency[np.isfinite(latency)]
    p50, p95, p99 = np.quantile(known, [0.5, 0.95, 0.99]).tolist() if len(known) else (None, None, None)
    return {
        "name": name,
        "tasks": len(latency),
        "failed": failed,
        "mean_time": _mean(time),
        "mean_latency": _mean(latency),
        "mean_wait": _mean(latency - time),
        "mean_energy": _mean(energy),
        "mean_cost": _mean(cost),
        "total_energy": _total(energy),
        "total_cost": _total(cost),
        "mean_gpu_fraction": _mean(fraction),
        "mean_regret": _mean(regret),
        "p50_latency": p50,
        "p95_latency": p95,
        "p99_latency": p99,
    }


def _mean(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _total(values: Floats) -> float:
    return float(values[np.isfinite(values)].sum())


# ------------------------------------------------------------------------------------------ trends

_TREND_METRICS = {
    "mean_latency": "latency",
    "mean_time": "actual_time",
    "mean_energy": "energy_consumption",
    "mean_cost": "execution_cost",
    "mean_regret": "regret",
}
#: Significant digits of a mean. The databases add in their own way, so that further digits could differ.
_DIGITS = 9
#: Largest logarithm of a finite number.
_MAX_LOG = 700.0


async def trends(connection: AsyncConnection, run_id: str, buckets: int) -> dict[str, Any]:
    """Return means of a run in at most `buckets` ranges of equally many tasks."""
    sample = await _sample(connection, run_id, buckets)
    if sample is None:
        return {"run_id": run_id, "sampled": False, "buckets": []}
    low = sample.low
    high = sample.high
    width = sample.width
    number = sample.bucket.label("number")
    own = results.c
    metrics = [own[name] for name in _TREND_METRICS.values()]
    # The database adds: tens of thousands of rows would take several times as long to get here.
    query = (
        select(
            number,
            own.scheduler_name,
            func.min(own.task_id),
            func.min(tasks.c.arrival_time),
            func.count(),
            *(func.count(metric) for metric in metrics),
            *(func.sum(metric) for metric in metrics),
        )
        .select_from(sample.rows)
        .group_by(number, own.scheduler_name)
        .order_by(number, func.min(own.id))
    )
    found: dict[int, dict[str, Any]] = {}
    for bucket, name, first_task, first_arrival, n, *sums in await plain_rows(connection, query):
        known = found.setdefault(
            bucket,
            {
                "first_ordinal": low + bucket * width,
                "last_ordinal": min(high, low + (bucket + 1) * width - 1),
                "first_task_id": first_task,
                "first_arrival": first_arrival,
                "schedulers": {},
            },
        )
        if first_task < known["first_task_id"]:
            known |= {"first_task_id": first_task, "first_arrival": first_arrival}
        means = map(_rounded_mean, sums[len(metrics) :], sums[: len(metrics)])
        known["schedulers"][name] = {"n": n, **dict(zip(_TREND_METRICS, means, strict=True))}
    return {"run_id": run_id, "sampled": sample.take < width, "buckets": list(found.values())}


def _rounded_mean(total: float | None, count: int) -> float | None:
    return None if total is None or not count else float(f"{total / count:.{_DIGITS}g}")


@dataclass(frozen=True)
class _Sample:
    """Tasks of a run in buckets of equally many, and of a long run the first of each bucket."""

    low: int
    high: int
    #: Tasks of a bucket, and how many of them are read.
    width: int
    take: int
    #: Number of a task's bucket, and the tasks joined with their results.
    bucket: ColumnElement[int]
    rows: FromClause


async def _sample(connection: AsyncConnection, run_id: str, buckets: int) -> _Sample | None:
    ends = await ordinal_range(connection, run_id)
    if ends is None:
        return None
    low, high = ends
    width = -(-(high - low + 1) // max(1, buckets))
    take = min(width, max(1, MAX_SAMPLED_TASKS // max(1, buckets)))
    if connection.dialect.name == "postgresql":
        # It would overestimate a join with ranges, and read all results. Of a list it knows the length.
        starts = range(low, high + 1, width)
        chosen = [ordinal for start in starts for ordinal in range(start, min(start + take, high + 1))]
        in_sample = tasks.c.ordinal == any_(literal(chosen, ARRAY(BigInteger)))
        rows = tasks.join(results, and_(OF_TASK, tasks.c.run_id == run_id, in_sample))
        return _Sample(low, high, width, take, (tasks.c.ordinal - low) // width, rows)
    # One range of the index for each bucket: a condition on the remainder would read every task of the run.
    bucket = select(literal(0, BigInteger).label("number")).cte("bucket", recursive=True)
    bucket = bucket.union_all(select(bucket.c.number + 1).where(bucket.c.number < (high - low) // width))
    first = low + bucket.c.number * width
    in_bucket = and_(tasks.c.run_id == run_id, tasks.c.ordinal.between(first, first + (take - 1)))
    return _Sample(low, high, width, take, bucket.c.number, bucket.join(tasks, in_bucket).join(results, OF_TASK))


# ------------------------------------------------------------------------------------------ learning

_LEARNING_BUCKETS = 500
#: Standard deviations on each side that hold 95 % of a normal distribution.
_TWO_SIDED_95 = 1.96


async def learning(connection: AsyncConnection, run_id: str, scheduler: str) -> dict[str, Any]:
    """Return how well a learned scheduler predicted and decided, for each model version and each kind of task.

    The typical error is the median of `|ln(predicted / actual)|` as a factor less 1: 0.1 means a tenth.
    """
    versions: dict[int | None, list[Any]] = {}
    kinds: dict[str, list[Any]] = {}
    first_of: dict[int | None, tuple[int, float]] = {}
    sample = await _sample(connection, run_id, _LEARNING_BUCKETS)
    if sample is not None:
        own = results.c
        query = (
            select(
                own.model_version, tasks.c.kind, tasks.c.ordinal, tasks.c.arrival_time, own.predicted_time,
                own.actual_time, own.confidence, own.latency, own.regret,
            )
            .select_from(sample.rows)
            .where(own.scheduler_name == scheduler)
            .order_by(own.task_id)
        )  # fmt: skip
        for version, kind, ordinal, arrival, *values in await plain_rows(connection, query):
            first_of.setdefault(version, (ordinal, arrival))
            versions.setdefault(version, []).append(values)
            kinds.setdefault(kind, []).append(values)
    return {
        "run_id": run_id,
        "scheduler": scheduler,
        "sampled": sample is not None and sample.take < sample.width,
        "versions": [
            {"version": version, "first_ordinal": first_of[version][0], "first_arrival": first_of[version][1]}
            | _accuracy(rows)
            for version, rows in versions.items()
        ],
        "kinds": [{"kind": kind, **_accuracy(rows)} for kind, rows in sorted(kinds.items())],
    }


def _accuracy(rows: Sequence[Sequence[float | None]]) -> dict[str, Any]:
    predicted, actual, deviation, latency, regret = np.array(rows, dtype=np.float64).T
    known = (predicted > 0) & (actual > 0)  # False for NaN
    errors = np.full(len(rows), np.nan)
    errors[known] = np.log(predicted[known]) - np.log(actual[known])
    stated = known & (deviation > 0)
    inside = np.abs(errors[stated]) <= _TWO_SIDED_95 * deviation[stated]
    return {
        "n": len(rows),
        "predictions": int(known.sum()),
        "error": _median_share(np.abs(errors[known])),
        "bias": _median_share(errors[known]),
        "uncertainty": _median_share(deviation[stated]),
        "coverage": float(inside.mean()) if stated.any() else None,
        "mean_predicted": _mean(predicted[known]),
        "mean_actual": _mean(actual[known]),
        "mean_latency": _mean(latency),
        "mean_regret": _mean(regret),
    }


def _median_share(logs: Floats) -> float | None:
    """Return the median of log ratios as a share; None without any, and beyond what a number can hold."""
    median = float(np.median(logs)) if len(logs) else math.inf
    return math.expm1(median) if median < _MAX_LOG else None


# ------------------------------------------------------------------------------------------ Gantt

#: Columns of `results_in` from which `part_times` gets the parts of tasks.
PARTS = (results.c.device, results.c.cpu_start, results.c.cpu_time, results.c.gpu_start, results.c.gpu_time)


def results_in(
    columns: Sequence[ColumnElement[Any]], run_id: str, scheduler: str, ids: tuple[int, int] | None = None,
    start: float | None = None, end: float | None = None,
) -> Select[Any]:  # fmt: skip
    """Return a query for a scheduler's results of these tasks that overlap a window of time."""
    own = results.c
    conditions = [own.scheduler_name == scheduler, own.run_id == run_id]
    if ids is not None:
        conditions.append(own.task_id.between(*ids))
    if start is not None:
        conditions.append(own.finish_time > start)
    if end is not None:
        conditions.append(own.start_time < end)
    return select(*columns).where(*conditions)


def part_times(
    cpu_start: Sequence[float | None], cpu_time: Sequence[float | None],
    gpu_start: Sequence[float | None], gpu_time: Sequence[float | None],
) -> tuple[Floats, Floats, NDArray[np.bool_]]:  # fmt: skip
    """Return start and end of tasks' parts, those on CPUs before those on accelerators, and which of them ran."""
    start = np.array([*cpu_start, *gpu_start], dtype=np.float64)  # None becomes NaN
    seconds = np.nan_to_num(np.array([*cpu_time, *gpu_time], dtype=np.float64))
    return start, start + seconds, np.isfinite(start) & (seconds != 0)


async def gantt(
    connection: AsyncConnection, run_id: str, scheduler: str, start: float | None, end: float | None, limit: int
) -> dict[str, Any] | None:
    """Return the parts of tasks that overlap the window [start, end), ordered by start and task.

    Parameters
    ----------
    connection
        An open connection.
    run_id
        The run.
    scheduler
        The scheduler whose cluster is returned.
    start, end
        Virtual seconds; None for no limit.
    limit
        Largest number of tasks and of parts; the newest are returned.

    Returns
    -------
    dict or None
        Columns, or None if the run is unknown.
    """
    known = select(runs.c.devices, runs.c.longest, runs.c.config).where(runs.c.run_id == run_id)
    run = (await connection.execute(known)).first()
    if run is None:
        return None
    devices, longest, config = run
    window = await task_window(connection, run_id, start, end, float(longest.get(scheduler, 0.0)))
    found: Sequence[Sequence[Any]] = ()
    if window is not None:
        columns = (*PARTS, tasks.c.task_id, tasks.c.ordinal, tasks.c.compute_intensity)
        query = results_in(columns, run_id, scheduler, window, start, end).join(tasks, OF_TASK)
        query = query.order_by(results.c.task_id.desc())
        found = await plain_rows(connection, query.limit(limit + 1))
    cpu_of = hosts_of(devices, config)
    parts, shown = await asyncio.to_thread(_gantt_parts, found[:limit], cpu_of, start, end, limit)
    return {
        "run_id": run_id,
        "scheduler": scheduler,
        "devices": devices,
        **shown,
        "truncated": max(parts, len(found)) > limit,
    }


def _gantt_parts(
    rows: Sequence[Sequence[Any]], cpu_of: dict[str, str], start: float | None, end: float | None, limit: int
) -> tuple[int, dict[str, list[Any]]]:
    """Return the number of parts in the window, and the last of them as columns, ordered by start and task."""
    names = ("task_id", "ordinal", "device", "part", "start", "end", "intensity")
    n = len(rows)
    device, *times, task, ordinal, intensity = zip(*rows, strict=True) if rows else ((),) * 8
    begin, finish, inside = part_times(*times)
    with np.errstate(invalid="ignore"):
        inside &= True if start is None else finish > start
        inside &= True if end is None else begin < end
    chosen = np.flatnonzero(inside)
    order = np.lexsort((chosen, np.array(task)[chosen % n] if n else chosen, begin[chosen]))[-limit:]
    starts = begin.tolist()
    ends = finish.tolist()
    parts = [
        (
            task[at % n],
            ordinal[at % n],
            device[at % n] if at >= n else cpu_of.get(device[at % n], device[at % n]),
            "gpu" if at >= n else "cpu",
            starts[at],
            ends[at],
            intensity[at % n],
        )
        for at in chosen[order].tolist()
    ]
    return len(chosen), {name: [part[column] for part in parts] for column, name in enumerate(names)}


async def task_window(
    connection: AsyncConnection, run_id: str, start: float | None, end: float | None, longest: float
) -> tuple[int, int] | None:
    """Return first and last task that can overlap a window of time.

    Such tasks arrived before the window's end, and not earlier than the longest latency before its start. Ordinals
    follow arrival times, so both limits are found by bisection.
    """
    ends = await ordinal_range(connection, run_id)
    if ends is None:
        return None
    low, high = ends
    about = select(tasks.c.task_id, tasks.c.ordinal, tasks.c.arrival_time).where(tasks.c.run_id == run_id).limit(1)

    async def first_from(ordinal: int) -> Any:
        query = about.where(tasks.c.ordinal >= ordinal).order_by(tasks.c.ordinal)
        return (await connection.execute(query)).first()

    async def first_arrival_at(moment: float) -> int:
        """Return the ordinal of the first task that arrived at this time or later, or one past the last."""
        left = low
        right = high + 1
        while left < right:
            middle = (left + right) // 2
            task = await first_from(middle)
            if task is None or task.arrival_time >= moment:
                right = middle
            else:
                left = task.ordinal + 1
        return left

    first = low if start is None else await first_arrival_at(start - longest)
    last = high if end is None else await first_arrival_at(end) - 1
    if first > last:
        return None
    beginning = await first_from(first)
    up_to = about.where(tasks.c.ordinal <= last).order_by(tasks.c.ordinal.desc())
    return _both(beginning and beginning[0], await connection.scalar(up_to))


def hosts_of(devices: Sequence[str], config: dict[str, Any]) -> dict[str, str]:
    """Return for each device the CPU of its node.

    Parameters
    ----------
    devices
        Names of the devices, each CPU before the other devices of its node.
    config
        Configuration of the run. If it describes the platform, its nodes count; else the names do.

    Returns
    -------
    dict
        Name of the CPU by name of the device.
    """
    platform = config.get("platform")
    described = platform.get("devices", ()) if isinstance(platform, dict) else ()
    cpus = {device["node"]: device["name"] for device in described if device["kind"] == "cpu"}
    if cpus:
        return {device["name"]: cpus[device["node"]] for device in described}
    host = next((name for name in devices if "cpu" in name), "")
    found = {}
    for name in devices:
        if "cpu" in name:
            host = name
        found[name] = host
    return found
