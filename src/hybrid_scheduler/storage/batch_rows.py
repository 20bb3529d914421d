"""Conversion of batches to table rows, column by column because batches come as columns."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import orjson

from ..core import Floats, InvalidInputError, Workload
from ..core.canonical_json import TEXT_RULE, is_storable
from ..core.outcome import STATUS_NAMES
from ..live.journal import Batch, Event, ResultColumns, RunRecord, core_name, unstorable_text
from . import tables

#: NUL as JSON escapes it: behind an even number of further backslashes.
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
#: One list per column, all of the same length.
Columns = list[list[Any]]

#: Columns of the tables that a batch fills, in their order, and those of runs.
COLUMNS = {
    table.name: tuple(table.c.keys())
    for table in (tables.tasks, tables.scheduler_results, tables.training_data, tables.events)
}
RUN_COLUMNS = tuple(tables.runs.c.keys())

_RESULT_COLUMNS = COLUMNS["scheduler_results"]
#: Columns of `ResultColumns` that `scheduler_results` has, in the table's order.
RESULT_FLOATS = tuple(
    map(core_name, _RESULT_COLUMNS[_RESULT_COLUMNS.index("gpu_fraction") : _RESULT_COLUMNS.index("status")])
)


class EventPayload(NamedTuple):
    """Sequence number of an event, and the bytes that clients get and the table of events holds."""

    seq: int
    content: bytes = b""


@dataclass(frozen=True, slots=True)
class PendingBatch:
    """A batch that waits to be stored. State, events and the run's documents are text already."""

    number: int
    batch: Batch
    recorded_at: float
    #: Columns of the run that hold JSON.
    documents: dict[str, str]
    payloads: tuple[EventPayload, ...]
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
            The batch with its documents and events as text.

        Raises
        ------
        InvalidInputError
            If a text cannot be stored, whatever decoder it went through before. It is raised to the caller now:
            the writer could only stop.
        """
        run = batch.run
        _check_columns(batch)
        documents = {
            "schedulers": json_text(run.schedulers, "schedulers"),
            "config": json_text(run.config, "config"),
            "state": json_text(batch.state, "state"),
            "devices": json_text(batch.device_names, "devices"),
        }
        return cls(number, batch, recorded_at, documents, tuple(map(_event_payload, batch.events)))

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


def _event_payload(event: Event) -> EventPayload:
    """Return an event as clients get it; NaN becomes null."""
    head = {name: getattr(event, name) for name in ("type", "seq", "run_id", "t", "created_at")}
    return EventPayload(int(event.seq), json_text(head | event.body, "event").encode())


def _check_columns(batch: Batch) -> None:
    """Raise if a text that is stored in a column of its own cannot be stored."""
    run = batch.run
    tasks = batch.tasks
    texts = {
        "run": (run.run_id, run.scenario, run.platform, run.config_hash, run.source, run.status),
        "scheduler": (*batch.results, *(started.scheduler for started in batch.started)),
        "kind": () if tasks is None else tasks.kinds,
        "external_id": () if tasks is None else tasks.external_id,
        "Idempotency-Key": [text for key in batch.idempotency for text in (key.key, key.fingerprint)],
        "model version": [text for version in batch.versions for text in (version.scheduler_name, version.trigger)],
        "event": [text for event in batch.events for text in (event.type, event.run_id)],
    }
    if (broken := unstorable_text(texts)) is not None:
        raise InvalidInputError(broken[0].partition("[")[0], TEXT_RULE, broken[1])


def json_text(content: Any, name: str = "") -> str:
    """Return the content as strict JSON; NaN becomes null.

    Parameters
    ----------
    content
        The content.
    name
        Its name in the error.

    Raises
    ------
    InvalidInputError
        If a text in it has a NUL character or an unpaired surrogate.
    """
    try:
        text = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    except TypeError:
        # States of random generators are integers of 128 bits, which orjson refuses; it also refuses surrogates.
        text = json.dumps(content, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    if not is_plain_json(text):
        path, got = unstorable_text(content, name) or (name, text)
        raise InvalidInputError(path, TEXT_RULE, got)
    return text


def is_plain_json(text: str) -> bool:
    """Return whether no text in a JSON document has a NUL character or an unpaired surrogate."""
    return is_storable(text) and ("\\u0000" not in text or not _ESCAPED_NUL.search(text))


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
    values = {field.name: getattr(run, field.name) for field in fields(run)} | {
        "utilisation": None if math.isnan(run.utilisation) else run.utilisation,
        "seed": int(run.seed),
        "tasks": added,
        **pending.documents,
        "longest": json_text(longest),
    }
    return tuple(values[name] for name in RUN_COLUMNS)


def table_parts(pending: PendingBatch, *, nan_is_null: bool) -> dict[str, list[Columns]]:
    """Return the columns that a batch adds to each table, except results of tasks that left a common queue.

    Of results there is one part per scheduler: the rows of one task get neighbouring ids, because results are read
    and indexed by task.
    """
    batch = pending.batch
    parts: dict[str, list[Columns]] = {}
    if batch.tasks is not None:
        n = len(batch)
        several = len(batch.results)
        ids = batch.tasks.task_id.tolist()
        parts["tasks"] = [_task_columns(pending, batch.tasks)]
        if several:
            parts["scheduler_results"] = [
                _result_part(batch, name, result, range(first, first + n * several, several), ids, nan_is_null)
                for first, (name, result) in enumerate(batch.results.items(), start=batch.first_result_id)
            ]
        if batch.optimal_fraction is not None:
            parts["training_data"] = [_training_columns(batch, batch.tasks, nan_is_null)]
    if batch.events:
        parts["events"] = [_event_columns(pending)]
    return parts


def _task_columns(pending: PendingBatch, tasks: Workload) -> Columns:
    batch = pending.batch
    n = len(tasks)
    if tasks.has_dependencies:
        dependencies = [json_text(tasks.task_id[tasks.parents(row)].tolist()) for row in range(n)]
    else:
        dependencies = ["[]"] * n
    external = tasks.external_id or (None,) * n
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


def started_parts(batch: Batch, oldest: int, *, nan_is_null: bool) -> list[Columns]:
    """Return the columns of results of tasks that left a common queue, except of tasks before `oldest`."""
    parts = []
    first = batch.first_result_id + len(batch) * len(batch.results)
    for group in batch.started:
        ids = group.tasks.task_id.tolist()
        numbers = range(first, first + len(ids))
        part = _result_part(batch, group.scheduler, group.columns, numbers, ids, nan_is_null)
        deleted = bisect_left(ids, oldest)
        parts.append([column[deleted:] for column in part])
        first += len(ids)
    return parts


def _result_part(
    batch: Batch, name: str, result: ResultColumns, numbers: range, ids: list[int], nan_is_null: bool
) -> Columns:
    return [
        list(numbers),
        ids,
        [batch.run.run_id] * len(ids),
        [name] * len(ids),
        [batch.device_names[index] for index in result.device.tolist()],
        *(_floats(getattr(result, column), nan_is_null) for column in RESULT_FLOATS),
        [STATUS_NAMES[code] for code in result.status.tolist()],
        [None] * len(ids) if (versions := result.model_version) is None else [v or None for v in versions.tolist()],
    ]


def _training_columns(batch: Batch, tasks: Workload, nan_is_null: bool) -> Columns:
    """Return the columns of the tasks' optima on an idle machine."""
    assert batch.optimal_fraction is not None
    assert batch.optimal_time is not None
    given = (tasks.task_id, tasks.size, tasks.compute_intensity, tasks.memory_required)
    optimum = (batch.optimal_fraction, batch.optimal_time)
    return [*(column.tolist() for column in given), *(_floats(column, nan_is_null) for column in optimum)]


def _event_columns(pending: PendingBatch) -> Columns:
    events = pending.batch.events
    return [
        [payload.seq for payload in pending.payloads],
        [event.run_id for event in events],
        [event.type for event in events],
        [float(event.t) for event in events],
        [float(event.created_at) for event in events],
        [payload.content.decode() for payload in pending.payloads],
    ]


def longest_latencies(batch: Batch) -> dict[str, float]:
    """Return each scheduler's longest time from a task's arrival to its finish."""
    longest: dict[str, float] = {}
    for group in batch.groups:
        latency = _largest(group.columns, group.tasks.arrival_time)
        longest[group.scheduler] = max(latency, longest.get(group.scheduler, 0.0))
    return longest


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
