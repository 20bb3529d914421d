"""Conversion of batches to table rows, column by column because batches come as columns."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson

from ..core import Floats, InvalidInputError
from ..core.outcome import STATUS_NAMES
from ..live.journal import Batch, Event, ResultColumns, RunRecord, core_name
from . import tables

#: One list per column, all of the same length.
Columns = list[list[Any]]

#: Columns of the tables, in their order.
TASK_COLUMNS = tuple(tables.tasks.c.keys())
RESULT_COLUMNS = tuple(tables.scheduler_results.c.keys())
TRAINING_COLUMNS = tuple(tables.training_data.c.keys())
EVENT_COLUMNS = tuple(tables.events.c.keys())
RUN_COLUMNS = tuple(tables.runs.c.keys())

#: Columns of `ResultColumns` that `scheduler_results` has, in the table's order.
RESULT_FLOATS = tuple(
    map(core_name, RESULT_COLUMNS[RESULT_COLUMNS.index("gpu_fraction") : RESULT_COLUMNS.index("status")])
)


@dataclass(frozen=True, slots=True)
class PendingBatch:
    """A batch that waits to be stored. State and events, which could still change, are text already."""

    number: int
    batch: Batch
    recorded_at: float
    state: str
    payloads: tuple[bytes, ...]
    #: True for a measured run that is stored already: only its events are left to be stored.
    repeated: bool = False

    @classmethod
    def of(cls, number: int, batch: Batch, recorded_at: float) -> PendingBatch:
        """Return a pending batch.

        Parameters
        ----------
        number
            Position in the journal.
        batch
            The batch itself.
        recorded_at
            Unix seconds.

        Returns
        -------
        PendingBatch
            The batch with its state and events as text.

        Raises
        ------
        InvalidInputError
            If a value cannot be stored. It is raised to the caller now, not later in the writer.
        """
        for text in (*(batch.external_ids or ()), *(key.key for key in batch.idempotency)):
            if text is not None and ("\0" in text or not _is_unicode(text)):
                raise InvalidInputError("external_id", "text without NUL characters and unpaired surrogates", text)
        return cls(number, batch, recorded_at, json_text(batch.state), tuple(map(_event_payload, batch.events)))

    def as_repeated(self) -> PendingBatch:
        """Return the batch without tasks and keys, for a run that is stored already."""
        batch = replace(
            self.batch, tasks=None, results={}, started=(), optimal_fraction=None, optimal_time=None, idempotency=()
        )
        return replace(self, batch=batch, repeated=True)

    @property
    def rows(self) -> int:
        """Number of result rows, which are nearly all rows of a batch."""
        return self.batch.rows


def _event_payload(event: Event) -> bytes:
    """Return an event as the bytes that clients get and the table of events holds. NaN becomes null."""
    head = {
        "type": event.type,
        "seq": event.seq,
        "run_id": event.run_id,
        "t": event.t,
        "created_at": event.created_at,
    }
    return orjson.dumps(head | event.body, option=orjson.OPT_SERIALIZE_NUMPY)


def payload_seq(payload: bytes) -> int:
    """Return the number of an event without parsing it: `_event_payload` puts it near the front."""
    start = payload.index(b'"seq":') + 6
    return int(payload[start : payload.index(b",", start)])


def json_text(content: Any) -> str:
    """Return the content as strict JSON; NaN becomes null."""
    try:
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    except TypeError:
        # States of random generators are integers of 128 bits, which orjson refuses.
        return json.dumps(content, allow_nan=False, separators=(",", ":"))


def run_row(run: RunRecord, pending: PendingBatch, added: int, longest: dict[str, float]) -> tuple[Any, ...]:
    """Return the row of a run.

    Parameters
    ----------
    run
        The run.
    pending
        Its newest batch.
    added
        Number of tasks to add to those already stored.
    longest
        Longest latency of each scheduler.

    Returns
    -------
    tuple
        Values in the order of `RUN_COLUMNS`.
    """
    values = {
        "run_id": run.run_id,
        "created_at": run.created_at,
        "ended_at": run.ended_at,
        "status": run.status,
        "source": run.source,
        "scenario": run.scenario,
        "utilisation": None if math.isnan(run.utilisation) else run.utilisation,
        "seed": int(run.seed),
        "platform": run.platform,
        "schedulers": json_text(list(run.schedulers)),
        "config": json_text(run.config),
        "config_hash": run.config_hash,
        "tasks": added,
        "state": pending.state,
        "devices": json_text(list(pending.batch.device_names)),
        "longest": json_text(longest),
    }
    return tuple(values[name] for name in RUN_COLUMNS)


def task_columns(pending: PendingBatch) -> Columns:
    """Return the columns of the batch's tasks."""
    batch = pending.batch
    tasks = batch.tasks
    assert tasks is not None
    n = len(tasks)
    if tasks.has_dependencies:
        dependencies = [json_text(tasks.task_id[tasks.parents(row)].tolist()) for row in range(n)]
    else:
        dependencies = ["[]"] * n
    external = batch.external_ids or tasks.external_id or (None,) * n
    return [
        tasks.task_id.tolist(),
        [batch.run.run_id] * n,
        list(range(batch.first_ordinal, batch.first_ordinal + n)),
        list(external),
        tasks.size.tolist(),
        tasks.compute_intensity.tolist(),
        tasks.memory_required.tolist(),
        tasks.arrival_time.tolist(),
        dependencies,
        [tasks.kinds[code] for code in tasks.kind.tolist()],
        [pending.recorded_at] * n,
        tasks.divisible.tolist(),
    ]


def result_parts(batch: Batch, *, nan_is_null: bool) -> list[Columns]:
    """Return the columns of results, one part per scheduler.

    The rows of one task get neighbouring ids, because results are read and indexed by task.
    """
    if batch.tasks is None:
        return []
    n, several = len(batch), len(batch.results)
    ids = batch.tasks.task_id.tolist()
    firsts = range(batch.first_result_id, batch.first_result_id + several)
    return [
        _result_part(batch, name, result, list(range(first, first + n * several, several)), ids, nan_is_null)
        for first, (name, result) in zip(firsts, batch.results.items(), strict=True)
    ]


def started_parts(batch: Batch, oldest: int, *, nan_is_null: bool) -> list[Columns]:
    """Return the columns of results of tasks that left a common queue, except of tasks before `oldest`."""
    parts = []
    first = batch.first_result_id + len(batch) * len(batch.results)
    for group in batch.started:
        ids = group.tasks.task_id.tolist()
        part = _result_part(
            batch, group.scheduler, group.columns, list(range(first, first + len(ids))), ids, nan_is_null
        )
        deleted = bisect_left(ids, oldest)
        parts.append([column[deleted:] for column in part])
        first += len(ids)
    return parts


def _result_part(
    batch: Batch, name: str, result: ResultColumns, result_ids: list[int], ids: list[int], nan_is_null: bool
) -> Columns:
    return [
        result_ids,
        ids,
        [batch.run.run_id] * len(ids),
        [name] * len(ids),
        [batch.device_names[index] for index in result.device.tolist()],
        *(_floats(getattr(result, column), nan_is_null) for column in RESULT_FLOATS),
        [STATUS_NAMES[code] for code in result.status.tolist()],
        [result.model_version] * len(ids),
    ]


def training_columns(batch: Batch, *, nan_is_null: bool) -> Columns:
    """Return the columns of the tasks' optima on an idle machine."""
    tasks = batch.tasks
    assert tasks is not None
    assert batch.optimal_fraction is not None
    assert batch.optimal_time is not None
    return [
        tasks.task_id.tolist(),
        tasks.size.tolist(),
        tasks.compute_intensity.tolist(),
        tasks.memory_required.tolist(),
        _floats(batch.optimal_fraction, nan_is_null),
        _floats(batch.optimal_time, nan_is_null),
    ]


def event_columns(pending: PendingBatch) -> Columns:
    """Return the columns of the batch's events."""
    events = pending.batch.events
    return [
        [int(event.seq) for event in events],
        [event.run_id for event in events],
        [event.type for event in events],
        [float(event.t) for event in events],
        [float(event.created_at) for event in events],
        [payload.decode() for payload in pending.payloads],
    ]


def longest_latencies(batch: Batch) -> dict[str, float]:
    """Return each scheduler's longest time from a task's arrival to its finish."""
    found: dict[str, float] = {}
    if batch.tasks is not None:
        arrival = batch.tasks.arrival_time
        found = {name: _largest(result, arrival) for name, result in batch.results.items()}
    for group in batch.started:
        longest = _largest(group.columns, group.tasks.arrival_time)
        found[group.scheduler] = max(longest, found.get(group.scheduler, 0.0))
    return found


def _largest(result: ResultColumns, arrival: Floats) -> float:
    # In a measured run a scheduler may have got a task later than its arrival under another scheduler.
    spans = np.fmax(result.latency, result.finish - arrival)
    finite = spans[np.isfinite(spans)]
    return float(finite.max()) if len(finite) else 0.0


def _floats(column: Floats, nan_is_null: bool) -> list[Any]:
    values: list[Any] = np.asarray(column, dtype=np.float64).tolist()
    if nan_is_null or not np.isnan(column).any():
        return values
    return [None if value != value else value for value in values]


def interleave(parts: Sequence[Columns]) -> list[tuple[Any, ...]]:
    """Return rows, one of each part in turn."""
    rows: list[Any] = [None] * (len(parts[0][0]) * len(parts))
    for k, part in enumerate(parts):
        rows[k :: len(parts)] = zip(*part, strict=True)
    return rows


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
