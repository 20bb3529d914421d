"""Statistics over stored results: comparison, trends and Gantt columns, and rows to train models from.

They are computed in Python, because sums of SQLite and PostgreSQL differ in the last digits.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import CTE, BigInteger, Connection, FromClause, Select, and_, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from ..core import Floats
from . import tables
from .database import DatabaseAddress
from .schema_version import with_connection

MAX_COMPARED_TASKS = 10_000
#: Tasks of a run that `trends` reads; of a longer run it samples the same number from each bucket.
MAX_SAMPLED_TASKS = 10_000

tasks, results, runs = tables.tasks, tables.scheduler_results, tables.runs

exact_json = json.loads  # keeps integers of any length


async def task_range(connection: AsyncConnection, run_id: str) -> tuple[int, int] | None:
    """Return first and last task of a run; tasks of measured runs may lie between them."""
    ids = select(tasks.c.task_id).where(tasks.c.run_id == run_id).limit(1)
    first = await connection.scalar(ids.order_by(tasks.c.ordinal))
    last = await connection.scalar(ids.order_by(tasks.c.ordinal.desc()))
    return None if first is None or last is None else (first, last)


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
    results.c.scheduler_name,
    results.c.task_id,
    results.c.actual_time,
    results.c.latency,
    results.c.latency - results.c.actual_time,  # the wait
    results.c.energy_consumption,
    results.c.execution_cost,
    results.c.gpu_fraction,
    results.c.regret,
    results.c.status,
)


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
    columns: dict[str, list[Any]] = {}
    if ids:
        query = (
            select(*_COMPARED)
            .where(results.c.task_id.between(ids[0], ids[-1]))
            .order_by(results.c.task_id, results.c.id)
        )
        if run_id is not None:
            query = query.where(results.c.run_id == run_id)
        rows_of: dict[str, list[Any]] = {}
        for row in await connection.execute(query):
            rows_of.setdefault(row[0], []).append(row[1:])
        columns = {name: list(zip(*rows, strict=True)) for name, rows in rows_of.items()}
    return {
        "run_id": run_id,
        "tasks": len(ids),
        "first_task_id": ids[0] if ids else None,
        "last_task_id": ids[-1] if ids else None,
        "schedulers": [_summary(name, found) for name, found in columns.items()],
        "wins": _wins(columns),
    }


def _summary(name: str, columns: Sequence[Sequence[Any]]) -> dict[str, Any]:
    _, time, latency, wait, energy, cost, fraction, regret = (
        np.array(column, dtype=np.float64) for column in columns[:8]
    )
    known = latency[np.isfinite(latency)]
    p50, p95, p99 = np.quantile(known, [0.5, 0.95, 0.99]).tolist() if len(known) else (None, None, None)
    return {
        "name": name,
        "tasks": len(latency),
        "failed": sum(status == "failed" for status in columns[8]),
        "mean_time": _mean(time),
        "mean_latency": _mean(latency),
        "mean_wait": _mean(wait),
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


def _wins(columns: dict[str, list[Any]]) -> dict[str, dict[str, int]]:
    """Return for each pair the number of tasks that the first finished sooner than the second."""
    ids = sorted({task_id for found in columns.values() for task_id in found[0]})
    row_of = {task_id: row for row, task_id in enumerate(ids)}
    latencies = {}
    for name, found in columns.items():
        latencies[name] = np.full(len(ids), np.nan)
        latencies[name][[row_of[task_id] for task_id in found[0]]] = np.array(found[2], dtype=np.float64)
    return {a: {b: int(np.sum(latencies[a] < latencies[b])) for b in latencies if b != a} for a in latencies}


def _mean(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _total(values: Floats) -> float:
    return float(values[np.isfinite(values)].sum())


# ------------------------------------------------------------------------------------------ trends

_TREND_METRICS = ("mean_latency", "mean_time", "mean_energy", "mean_cost", "mean_regret")
_ROWS_PER_FETCH = 10_000
#: Largest logarithm of a finite number.
_LARGEST_LOG = 700.0


async def trends(connection: AsyncConnection, run_id: str, buckets: int) -> dict[str, Any]:
    """Return means of a run in at most `buckets` ranges of equally many tasks."""
    sample = await _sample(connection, run_id, buckets)
    if sample is None:
        return {"run_id": run_id, "sampled": False, "buckets": []}
    low, high, width = sample.low, sample.high, sample.width
    query = (
        select(
            sample.bucket.c.number,
            results.c.task_id,
            tasks.c.arrival_time,
            results.c.scheduler_name,
            results.c.latency,
            results.c.actual_time,
            results.c.energy_consumption,
            results.c.execution_cost,
            results.c.regret,
        )
        .select_from(sample.rows)
        .order_by(results.c.task_id, results.c.id)
    )
    found: dict[int, dict[str, list[Sequence[float | None]]]] = {}
    first_of: dict[int, tuple[int, float]] = {}
    async for row in _each(connection, query):
        first_of.setdefault(row[0], (row[1], row[2]))
        found.setdefault(row[0], {}).setdefault(row[3], []).append(row[4:])
    return {
        "run_id": run_id,
        "sampled": sample.take < width,
        "buckets": [
            {
                "first_ordinal": low + number * width,
                "last_ordinal": min(high, low + (number + 1) * width - 1),
                "first_task_id": first_of[number][0],
                "first_arrival": first_of[number][1],
                "schedulers": {name: _trend_means(rows) for name, rows in by_name.items()},
            }
            for number, by_name in sorted(found.items())
        ],
    }


@dataclass(frozen=True)
class _Sample:
    """Tasks of a run in buckets of equally many, and of a long run the first of each bucket."""

    low: int
    high: int
    #: Tasks of a bucket, and how many of them are read.
    width: int
    take: int
    bucket: CTE
    #: The buckets joined with their tasks and results.
    rows: FromClause


async def _sample(connection: AsyncConnection, run_id: str, buckets: int) -> _Sample | None:
    low, high = await ordinal_range(connection, run_id)
    if low is None or high is None:
        return None
    width = -(-(high - low + 1) // max(1, buckets))
    take = min(width, max(1, MAX_SAMPLED_TASKS // max(1, buckets)))
    # One range of the index for each bucket: a condition on the remainder would read every task of the run.
    bucket = select(literal(0, BigInteger).label("number")).cte("bucket", recursive=True)
    bucket = bucket.union_all(select(bucket.c.number + 1).where(bucket.c.number < (high - low) // width))
    first = low + bucket.c.number * width
    in_bucket = and_(tasks.c.run_id == run_id, tasks.c.ordinal.between(first, first + (take - 1)))
    rows = bucket.join(tasks, in_bucket).join(results, results.c.task_id == tasks.c.task_id)
    return _Sample(low, high, width, take, bucket, rows)


async def _each(connection: AsyncConnection, query: Select[Any]) -> AsyncIterator[Any]:
    """Yield the rows of a query. They are fetched in parts, so that other requests get their turn."""
    async with connection.stream(query.execution_options(yield_per=_ROWS_PER_FETCH)) as rows:
        async for partition in rows.partitions():
            for row in partition:
                yield row


async def ordinal_range(connection: AsyncConnection, run_id: str) -> tuple[int | None, int | None]:
    """Return the positions of a run's first and last stored task; None without tasks."""
    in_run = tasks.c.run_id == run_id
    low = await connection.scalar(select(func.min(tasks.c.ordinal)).where(in_run))
    high = await connection.scalar(select(func.max(tasks.c.ordinal)).where(in_run))
    return low, high


def _trend_means(rows: Sequence[Sequence[float | None]]) -> dict[str, Any]:
    """Return the number of rows, and the means of the values that are known and finite."""
    values = np.array(rows, dtype=np.float64)  # None becomes NaN
    known = np.isfinite(values)
    counts = known.sum(axis=0).tolist()
    # A running sum adds in the order of the rows, so that both databases give the same digits.
    totals = np.cumsum(np.where(known, values, 0.0), axis=0)[-1].tolist()
    means = [total / count if count else None for total, count in zip(totals, counts, strict=True)]
    return {"n": len(rows), **dict(zip(_TREND_METRICS, means, strict=True))}


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
        query = (
            select(
                results.c.model_version, tasks.c.kind, tasks.c.ordinal, tasks.c.arrival_time,
                results.c.predicted_time, results.c.actual_time, results.c.confidence, results.c.latency,
                results.c.regret,
            )
            .select_from(sample.rows)
            .where(results.c.scheduler_name == scheduler)
            .order_by(results.c.task_id)
        )  # fmt: skip
        async for version, kind, ordinal, arrival, *values in _each(connection, query):
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
    return math.expm1(median) if median < _LARGEST_LOG else None


# ------------------------------------------------------------------------------------------ Gantt

_GANTT_COLUMNS = (
    results.c.task_id,
    tasks.c.ordinal,
    results.c.device,
    results.c.cpu_start,
    results.c.cpu_time,
    results.c.gpu_start,
    results.c.gpu_time,
    tasks.c.compute_intensity,
)


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
    parts: list[tuple[Any, ...]] = []
    found: Sequence[Any] = ()
    if window is not None:
        query = (
            select(*_GANTT_COLUMNS)
            .join(tasks, tasks.c.task_id == results.c.task_id)
            .where(
                results.c.task_id.between(*window),
                results.c.scheduler_name == scheduler,
                results.c.run_id == run_id,
            )
            .order_by(results.c.task_id.desc())
        )
        if start is not None:
            query = query.where(results.c.finish_time > start)
        if end is not None:
            query = query.where(results.c.start_time < end)
        cpu_of = hosts_of(devices, config)
        found = (await connection.execute(query.limit(limit + 1))).all()
        for task_id, ordinal, device, cpu_start, cpu_time, gpu_start, gpu_time, intensity in found[:limit]:
            for part, name, begin, seconds in (
                ("cpu", cpu_of.get(device, device), cpu_start, cpu_time),
                ("gpu", device, gpu_start, gpu_time),
            ):
                if begin is None or not seconds:
                    continue
                if (start is None or begin + seconds > start) and (end is None or begin < end):
                    parts.append((task_id, ordinal, name, part, begin, begin + seconds, intensity))
    parts.sort(key=lambda each: (each[4], each[0], each[3]))
    names = ("task_id", "ordinal", "device", "part", "start", "end", "intensity")
    limited = parts[-limit:]
    columns = [list(column) for column in zip(*limited, strict=True)] if limited else [[] for _ in names]
    return {
        "run_id": run_id,
        "scheduler": scheduler,
        "devices": devices,
        **dict(zip(names, columns, strict=True)),
        "truncated": max(len(parts), len(found)) > limit,
    }


async def task_window(
    connection: AsyncConnection, run_id: str, start: float | None, end: float | None, longest: float
) -> tuple[int, int] | None:
    """Return first and last task that can overlap a window of time.

    Such tasks arrived before the window's end, and not earlier than the longest latency before its start. Ordinals
    follow arrival times, so both limits are found by bisection.
    """
    in_run = tasks.c.run_id == run_id
    low, high = await ordinal_range(connection, run_id)
    if low is None or high is None:
        return None

    async def first_from(ordinal: int) -> tuple[int, int, float] | None:
        row = (
            await connection.execute(
                select(tasks.c.task_id, tasks.c.ordinal, tasks.c.arrival_time)
                .where(in_run, tasks.c.ordinal >= ordinal)
                .order_by(tasks.c.ordinal)
                .limit(1)
            )
        ).first()
        return None if row is None else (row[0], row[1], row[2])

    async def first_arrival_at(moment: float) -> int:
        """Return the ordinal of the first task that arrived at this time or later, or one past the last."""
        left, right = low, high + 1
        while left < right:
            middle = (left + right) // 2
            found = await first_from(middle)
            if found is None or found[2] >= moment:
                right = middle
            else:
                left = found[1] + 1
        return left

    first = low if start is None else await first_arrival_at(start - longest)
    last = high if end is None else await first_arrival_at(end) - 1
    if first > last:
        return None
    beginning = await first_from(first)
    ending = (
        await connection.execute(
            select(tasks.c.task_id).where(in_run, tasks.c.ordinal <= last).order_by(tasks.c.ordinal.desc()).limit(1)
        )
    ).scalar()
    return None if beginning is None or ending is None else (beginning[0], ending)


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
