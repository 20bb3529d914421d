"""Busy seconds of devices per column of time, exact at every zoom.

Windows with few tasks are computed from their rows. For long ones a timeline of each scheduler keeps busy seconds
in buckets, reads only rows that are new since the last request, and doubles the width when it is full.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from ..core import Floats, Ints
from . import tables
from .database import plain_rows
from .history_analysis import (
    OF_TASK,
    PARTS,
    gantt,
    hosts_of,
    ordinal_range,
    part_times,
    results_in,
    task_range,
    task_window,
)

#: Most tasks that are looked through for a window.
MAX_SCANNED = 6_000
#: Buckets of a timeline, their width at first, and the number of timelines that are kept.
_BUCKETS = 16_384
_FIRST_WIDTH_S = 1 / 64
_MAX_TIMELINES = 24
#: Rows of one query, and of one request for all its schedulers; a longer run is completed by the next requests.
PAGE_ROWS = 5_000
_ROWS_PER_REQUEST = 20_000
#: Number of a run's first tasks among whose results the first one is.
_FIRST_TASKS = 100
#: Most parts of tasks that are returned one by one.
_MAX_BLOCKS = 1_200

tasks = tables.tasks
results = tables.scheduler_results
runs = tables.runs


class _BusyBuckets:
    """Busy seconds of some devices in buckets of equal width.

    Parameters
    ----------
    devices
        Number of devices.
    origin, width
        Start of the first bucket and width of a bucket, in seconds.
    count
        Number of buckets.
    """

    def __init__(self, devices: int, origin: float, width: float, count: int) -> None:
        self.origin = origin
        self.width = width
        self.count = count
        self._parts = np.zeros((devices, count + 1))
        #: Changes of the number of intervals that cover a whole bucket.
        self._whole = np.zeros((devices, count + 1))

    @property
    def end(self) -> float:
        """End of the last bucket."""
        return self.origin + self.count * self.width

    def add(self, device: Ints, start: Floats, end: Floats) -> None:
        """Add busy intervals; parts outside the buckets are left out."""
        low = np.clip((start - self.origin) / self.width, 0.0, self.count)
        high = np.clip((end - self.origin) / self.width, 0.0, self.count)
        first = np.floor(low).astype(np.int64)
        last = np.floor(high).astype(np.int64)
        same = first == last
        np.add.at(self._parts, (device, first), np.where(same, high - low, first + 1 - low) * self.width)
        np.add.at(self._parts, (device, last), np.where(same, 0.0, high - last) * self.width)
        np.add.at(self._whole, (device, np.minimum(first + 1, self.count)), np.where(same, 0.0, 1.0))
        np.add.at(self._whole, (device, last), np.where(same, 0.0, -1.0))

    def busy(self) -> Floats:
        """Return busy seconds by device and bucket."""
        found: Floats = (self._parts + np.cumsum(self._whole, axis=1) * self.width)[:, : self.count]
        return found

    def grow(self, end: float) -> None:
        """Double the width until the buckets reach `end`."""
        while self.end < end:
            busy = self.busy()
            self._parts[:] = self._whole[:] = 0.0
            self._parts[:, : self.count // 2] = busy[:, 0::2] + busy[:, 1::2]
            self.width *= 2


@dataclass
class _Timeline:
    """Busy seconds of one scheduler's devices, up to a result."""

    buckets: _BusyBuckets
    last_result: int = 0
    #: Time up to which all was read, and the latest end of a part.
    known_to: float = 0.0
    last_end: float = 0.0


class Timelines:
    """The newest timelines by run and scheduler."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], _Timeline] = OrderedDict()

    def of(self, run_id: str, scheduler: str, devices: int) -> _Timeline:
        """Return the timeline of a scheduler, an empty one if it is not known."""
        key = (run_id, scheduler)
        if key not in self._known:
            self._known[key] = _Timeline(_BusyBuckets(devices, 0.0, _FIRST_WIDTH_S, _BUCKETS))
        self._known.move_to_end(key)
        while len(self._known) > _MAX_TIMELINES:
            self._known.popitem(last=False)
        return self._known[key]

    def clear(self) -> None:
        """Drop all, after tasks were deleted."""
        self._known.clear()


@dataclass(frozen=True)
class LoadWindow:
    """Stretch of time that is asked for: from `start` to `end`, or the newest seconds.

    Parameters
    ----------
    start, end
        Virtual seconds; None for the first and the newest arrival.
    last, ahead
        Seconds before and after the newest arrival; they replace `start` and `end`.
    columns
        Number of columns.
    """

    start: float | None = None
    end: float | None = None
    last: float | None = None
    ahead: float = 0.0
    columns: int = 120


async def device_load(
    connection: AsyncConnection, timelines: Timelines, run_id: str, scheduler: str | None, window: LoadWindow
) -> dict[str, Any] | None:
    """Return the busy seconds of all devices in columns of time; None for an unknown run.

    Parameters
    ----------
    connection
        An open connection.
    timelines
        Timelines of earlier requests.
    run_id
        The run.
    scheduler
        The scheduler, whose blocks are returned as well where they are few; None for all without blocks.
    window
        The stretch of time.
    """
    about = select(runs.c.devices, runs.c.longest, runs.c.config, runs.c.schedulers, runs.c.ended_at)
    run = (await connection.execute(about.where(runs.c.run_id == run_id))).first()
    if run is None:
        return None
    devices, longest, config, schedulers, ended_at = run
    names = list(schedulers) if scheduler is None else [scheduler]
    ends = await ordinal_range(connection, run_id)
    body: dict[str, Any] = {"run_id": run_id, "devices": devices, "schedulers": {}, "blocks": None}
    if ends is None:
        return {**body, "start": 0.0, "end": 0.0, "known_to": 0.0, "newest": 0.0, "column_s": 0.0, "tasks": 0}
    low, high = ends
    arrivals = select(tasks.c.arrival_time).where(tasks.c.run_id == run_id)
    first, newest = [float(await connection.scalar(arrivals.where(tasks.c.ordinal == at)) or 0.0) for at in ends]
    start, end = _bounds(window, first, newest)
    # Tasks that arrive later cannot start earlier, so all before the newest arrival is known for good.
    known_to = end if ended_at is not None else min(end, newest)
    hosts = hosts_of(devices, config)
    # Tasks of a long queue arrived long before they ran: looking through all of them again would take too long.
    per_second = (high - low + 1) / max(newest - first, 1e-9)
    reach = {name: float(longest.get(name, 0.0)) for name in names}
    long = [name for name in names if per_second * (end - start + reach[name]) > MAX_SCANNED]
    chosen = {name: timelines.of(run_id, name, len(devices)) for name in long}
    width = (end - start) / window.columns
    pages = max(1, _ROWS_PER_REQUEST // PAGE_ROWS // max(1, len(chosen)))
    for name, timeline in chosen.items():
        await _catch_up(connection, run_id, name, devices, hosts, timeline, pages)
    if chosen:
        # All schedulers get the same columns, which lie on the edges of the widest buckets.
        bucket = max(timeline.buckets.width for timeline in chosen.values())
        width = bucket * 2 ** math.floor(math.log2(max(1.0, width / bucket)))
        start = math.floor(start / width) * width
        end = math.ceil(end / width) * width
        read_to = min(t.last_end if ended_at is not None else t.known_to for t in chosen.values())
        known_to = max(start, math.floor(min(known_to, read_to) / bucket) * bucket)
    short = [reach[name] for name in names if name not in chosen]
    ids = await task_window(connection, run_id, start, end, max(short)) if short else None
    for name in names:
        if name in chosen:
            columns = _slice(chosen[name].buckets, start, end, width, known_to)
        else:
            query = None if ids is None else results_in(PARTS, run_id, name, ids, start, end)
            rows = () if query is None else await plain_rows(connection, query)
            columns = _from_rows(_intervals(rows, devices, hosts), len(devices), start, end, width, known_to)
        body["schedulers"][name] = _columns(*columns)
    if scheduler is not None and end > start:
        blocks = await gantt(connection, run_id, scheduler, start, end, _MAX_BLOCKS)
        body["blocks"] = None if blocks is None or blocks["truncated"] else blocks
    return {
        **body, "start": start, "end": end, "known_to": known_to, "newest": newest, "column_s": width,
        "tasks": high - low + 1,
    }  # fmt: skip


def _bounds(window: LoadWindow, first: float, newest: float) -> tuple[float, float]:
    if window.last is not None:
        return max(0.0, newest - window.last), newest + window.ahead
    start = first if window.start is None else window.start
    end = newest if window.end is None else window.end
    return start, max(end, start + 1e-6)


def _from_rows(
    intervals: tuple[Ints, Floats, Floats], devices: int, start: float, end: float, width: float, known_to: float
) -> tuple[Floats, Floats]:
    """Return busy seconds per column, and in all up to `known_to`."""
    buckets = _BusyBuckets(devices, start, width, round((end - start) / width))
    known = _BusyBuckets(devices, start, max(known_to - start, 1e-9), 1)
    buckets.add(*intervals)
    known.add(*intervals)
    return buckets.busy(), known.busy()[:, 0]


def _columns(busy: Floats, total: Floats) -> dict[str, Any]:
    return {"busy": np.round(busy, 6).tolist(), "total": np.round(total, 6).tolist()}


def _slice(buckets: _BusyBuckets, start: float, end: float, step: float, known_to: float) -> tuple[Floats, Floats]:
    """Return busy seconds per column of `step` seconds, and in all up to `known_to`; all lie on bucket edges."""
    busy = buckets.busy()
    width = buckets.width
    first = round(start / width)
    per_column = round(step / width)
    count = round((end - start) / step)
    columns = np.zeros((len(busy), count * per_column))
    inside = busy[:, first : first + count * per_column]
    columns[:, : inside.shape[1]] = inside
    total = busy[:, first : round(known_to / width)].sum(axis=1)
    return columns.reshape(len(busy), count, per_column).sum(axis=2), total


async def _catch_up(
    connection: AsyncConnection,
    run_id: str,
    scheduler: str,
    devices: list[str],
    hosts: dict[str, str],
    timeline: _Timeline,
    pages: int,
) -> None:
    """Read the rows after the last one of the timeline, at most so many pages."""
    if timeline.last_result == 0:
        # Results of earlier runs need not be looked through.
        first, _ = await task_range(connection, run_id) or (0, 0)
        near_first = results.c.task_id.between(first, first + _FIRST_TASKS)
        timeline.last_result = (await connection.scalar(select(func.min(results.c.id)).where(near_first)) or 1) - 1
    for _ in range(pages):
        columns = (*PARTS, results.c.start_time, results.c.id, results.c.task_id, tasks.c.arrival_time)
        query = (
            results_in(columns, run_id, scheduler).join(tasks, OF_TASK).where(results.c.id > timeline.last_result)
        )
        rows = await plain_rows(connection, query.order_by(results.c.id).limit(PAGE_ROWS))
        if not rows:
            return
        device, start, end = _intervals(rows, devices, hosts)
        if len(end):
            timeline.last_end = max(timeline.last_end, float(end.max()))
            timeline.buckets.grow(timeline.last_end)
            timeline.buckets.add(device, start, end)
        timeline.last_result = rows[-1][-3]
        known_to = float(rows[-1][-1])
        if any(after[-2] < before[-2] for before, after in pairwise(rows)):
            # A common queue: tasks that started earlier may come in the next page.
            known_to = max(float(row[-1]) for row in rows)
            if len(rows) == PAGE_ROWS:
                known_to = min(float(row[-4]) for row in rows if row[-4] is not None)
        timeline.known_to = max(timeline.known_to, known_to)
        if len(rows) < PAGE_ROWS:
            return


def _intervals(rows: Sequence[Any], devices: list[str], hosts: dict[str, str]) -> tuple[Ints, Floats, Floats]:
    """Return the parts of tasks as columns (device, start, end)."""
    if not rows:
        return np.empty(0, np.int64), np.empty(0), np.empty(0)
    device, *times = list(zip(*rows, strict=True))[: len(PARTS)]
    # Rows of another program may name unknown devices: they are left out.
    place = {name: index for index, name in enumerate(devices)}
    own = {name: place.get(name, -1) for name in set(device)}
    host = {name: place.get(hosts.get(name, name), -1) for name in own}
    where = np.array([*(host[name] for name in device), *(own[name] for name in device)], dtype=np.int64)
    start, end, ran = part_times(*times)
    known = ran & (where >= 0)
    return where[known], start[known], end[known]
