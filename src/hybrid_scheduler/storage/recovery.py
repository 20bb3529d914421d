"""Recovery of the last run, so that an engine can resume it."""

from __future__ import annotations

import json
import logging
from bisect import bisect_right
from typing import Any

import numpy as np

from ..core import InvalidInputError, Workload
from ..core.outcome import STATUS_NAMES
from ..live.journal import (
    IdempotencyKey,
    Recovered,
    ResultColumns,
    RunRecord,
    SchedulerResults,
    published_name,
)
from . import tables
from .batch_rows import RESULT_FLOATS
from .batch_transaction import Store, stored_counters

_log = logging.getLogger(__name__)

#: Newest tasks from which learned schedulers are warmed up.
RECENT_TASKS = 1000
#: Newest idempotency keys that an engine knows from its start.
_RECENT_KEYS = 10_000

_RUN = tuple(name for name in tables.runs.c.keys() if name not in ("tasks", "longest"))  # noqa: SIM118
_DOCUMENTS = ("state", "devices", "schedulers", "config")
#: Errors of values that the engine has not written so.
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError, OverflowError)
_TASK = ("task_id", "external_id", "size", "compute_intensity", "memory_required", "arrival_time", "kind")
_RESULT = ("task_id", "scheduler_name", "device", *map(published_name, RESULT_FLOATS), "status")


async def recover(store: Store) -> Recovered:
    """Return the counters and, if a run was not stopped, its checkpoint and newest tasks."""
    counters = await stored_counters(store)
    keys = await _recent_keys(store)
    found = await store.fetch(
        f"SELECT {', '.join(_RUN)} FROM runs WHERE status <> 'stopped' "
        "ORDER BY created_at DESC, run_id DESC LIMIT 1"
    )
    if not found:
        return Recovered(counters, keys=keys)
    row = dict(zip(_RUN, found[0], strict=True))
    try:
        documents = {name: json.loads(row.pop(name) or "null") for name in _DOCUMENTS}
        devices = tuple(documents["devices"])
        checkpoint = documents["state"]
        run = RunRecord(**row, schedulers=tuple(documents["schedulers"]), config=dict(documents["config"]))
        recent = await _recent(store, run, list(devices), waiting_tasks(checkpoint or {}))
    except _UNREADABLE as error:
        _log.exception("run %s cannot be read", row["run_id"])
        rest = {name: value for name, value in row.items() if name not in _DOCUMENTS}
        problem = f"it cannot be read ({type(error).__name__})"
        return Recovered(counters, RunRecord(**rest, schedulers=(), config={}), keys=keys, problem=problem)
    return Recovered(counters, run, checkpoint, recent, keys, devices)


def waiting_tasks(checkpoint: dict[str, Any]) -> set[int]:
    """Return the ids of the tasks that waited in the common queue of a central scheduler."""
    lanes = checkpoint.get("lanes", {}).values()
    return {task[0] for lane in lanes for task in lane.get("queue", {}).get("tasks", ())}


async def _recent_keys(store: Store) -> dict[IdempotencyKey, int | str]:
    """Return the newest idempotency keys. A measured run is known by the run of the key's task.

    A request may have looked for its key before the last engine stored it, and reach the next engine.
    """
    newest = (
        "SELECT key, fingerprint, task_id, created_at FROM idempotency_keys "
        "ORDER BY created_at DESC, task_id DESC LIMIT ?"
    )
    rows = await store.fetch(
        f"SELECT k.key, k.fingerprint, k.task_id, runs.run_id FROM ({newest}) AS k "
        "LEFT JOIN tasks ON tasks.task_id = k.task_id "
        "LEFT JOIN runs ON runs.run_id = tasks.run_id AND runs.source = 'measured' ORDER BY k.task_id",
        _RECENT_KEYS,
    )
    return {IdempotencyKey(key, digest, task): task if run is None else run for key, digest, task, run in rows}


async def _recent(
    store: Store, run: RunRecord, devices: list[str], waiting: set[int]
) -> dict[str, SchedulerResults]:
    newest = await store.fetch(
        f"SELECT {', '.join(_TASK)} FROM tasks WHERE run_id = ? ORDER BY ordinal DESC LIMIT ?",
        run.run_id,
        RECENT_TASKS,
    )
    if not newest:
        return {}
    newest.reverse()
    rows = await store.fetch(
        f"SELECT {', '.join(_RESULT)} FROM scheduler_results WHERE task_id >= ? AND task_id <= ? AND run_id = ? "
        "ORDER BY task_id, id",
        min(row[0] for row in newest),
        max(row[0] for row in newest),
        run.run_id,
    )
    own = _own_tasks(newest, rows, set(devices), waiting)
    if foreign := [row[0] for row in newest if row[0] not in own]:
        some = ", ".join(map(str, foreign[:5]))
        _log.warning("run %s: %d tasks are not the engine's and are skipped: %s", run.run_id, len(foreign), some)
    newest = [row for row in newest if row[0] in own]
    by_scheduler: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        if row[0] in own:
            by_scheduler.setdefault(row[1], []).append(row)
    recent = {}
    for name, found in by_scheduler.items():  # of a central scheduler some tasks may wait
        ids = {row[0] for row in found}
        tasks = _workload([row for row in newest if row[0] in ids])
        recent[name] = SchedulerResults(name, tasks, _columns(found, devices))
    return recent


def _own_tasks(tasks: list[Any], results: list[Any], devices: set[str], waiting: set[int]) -> set[int]:
    """Return the tasks that an engine can have written; those that wait need no result.

    Another program may have added rows to the run. Such a task has values that no task has, no result, a result on
    an unknown device, or an arrival out of order; of those, as few as possible are left out.
    """
    with_result = {row[0] for row in results} | waiting
    device = _RESULT.index("device")
    status = _RESULT.index("status")
    invalid = {row[0] for row in results if row[device] not in devices or row[status] not in STATUS_NAMES}
    valid = [row for row in tasks if row[0] in with_result - invalid and _is_valid(row)]
    # The longest sequence of arrivals that never decreases: `ends[n]` is the row that ends one of n + 1 rows.
    ends: list[int] = []
    before: list[int | None] = []
    for index, row in enumerate(valid):
        length = bisect_right(ends, row[5], key=lambda end: valid[end][5])
        before.append(ends[length - 1] if length else None)
        ends[length : length + 1] = [index]
    own: set[int] = set()
    at = ends[-1] if ends else None
    while at is not None:
        own.add(valid[at][0])
        at = before[at]
    return own


def _is_valid(row: tuple[Any, ...]) -> bool:
    try:
        _workload([row])
    except (InvalidInputError, TypeError, ValueError):
        return False
    return True


def _workload(rows: list[tuple[Any, ...]]) -> Workload:
    ids, external, size, intensity, memory, arrival, kind = (list(column) for column in zip(*rows, strict=True))
    return Workload(
        task_id=ids,
        size=size,
        compute_intensity=intensity,
        memory_required=memory,
        arrival_time=arrival,
        kind=kind,
        external_id=external if any(external) else None,
    )


def _columns(rows: list[tuple[Any, ...]], devices: list[str]) -> ResultColumns:
    named = dict(zip(_RESULT, zip(*rows, strict=True), strict=True))
    index_of = {name: index for index, name in enumerate(devices)}
    floats: dict[str, Any] = {
        name: np.array(named[published_name(name)], dtype=np.float64) for name in RESULT_FLOATS
    }
    return ResultColumns(
        device=np.array([index_of[name] for name in named["device"]], dtype=np.int32),
        **floats,
        status=np.array([STATUS_NAMES.index(name) for name in named["status"]], dtype=np.uint8),
    )
