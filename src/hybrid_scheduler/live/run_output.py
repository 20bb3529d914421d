"""Output of the live run to the journal: events, updates, checkpoints, numbered batches and acknowledgements.

Everything is numbered here, in the order in which it happened. A batch is built when it can be handed over. What
comes while the journal is full waits for the next batch.
"""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict, deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import InvalidInputError
from ..workload.random_columns import joined_tasks
from .clock import TaskRate
from .command_queue import forward_result, pending_future
from .journal import (
    Batch,
    Counters,
    Event,
    IdempotencyKey,
    JournalFull,
    JournalUnavailable,
    SchedulerResults,
    VersionRecord,
    joined_results,
)
from .live_run import LaneEvent, LiveChunk, LiveRun
from .status import LiveStatus
from .stream_messages import UpdateBuilder, notification, version_record

if TYPE_CHECKING:
    from .controller import LiveController

_log = logging.getLogger(__name__)
#: Number of keys that are found in memory; the database has the older ones.
MAX_KEYS = 10_000
#: Seconds for which a key stays in memory after it was stored. A request looks for its key in the database, then
#: sends its command, which takes up to 30 s from another process: the key may have been stored in between.
KEEP_STORED_S = 120.0
_ALLOWED_KEYS = {
    "Idempotency-Key": "new, or sent with the same content as before",
    "run_id": "one that no other run has",
}


@dataclass(slots=True)
class _Sent:
    """Digest of what was sent, and the future that gets its id once it is stored."""

    fingerprint: str
    stored: Future[Any]
    #: Monotonic seconds.
    stored_at: float = math.inf


class _IdempotencyCache:
    """Cache of idempotency keys and of ids of measured runs, with the future of what was sent under them.

    A key is known while its content waits to be stored, and for some time after that. An id of a run is the key of
    that run with the field ``run_id``.
    """

    def __init__(self, stored: Mapping[IdempotencyKey, int | str]) -> None:
        self._known: OrderedDict[tuple[str, str], _Sent] = OrderedDict()
        for key, stored_id in stored.items():
            done: Future[Any] = Future()
            done.set_result(stored_id)
            self.add(key, done)

    def find(self, key: IdempotencyKey, name: str = "Idempotency-Key") -> Future[Any] | None:
        """Return the future of the key; None if it is new. Raises `InvalidInputError` for other content."""
        sent = self._known.get((name, key.key))
        if sent is None:
            return None
        if sent.stored.done() and sent.stored.exception() is not None:
            del self._known[name, key.key]  # the journal has dropped it: try again
            return None
        if sent.fingerprint != key.fingerprint:
            raise InvalidInputError(name, _ALLOWED_KEYS[name], key.key)
        return sent.stored

    def add(self, key: IdempotencyKey, stored: Future[Any], name: str = "Idempotency-Key") -> None:
        """Remember a key, and drop the oldest ones that the database has known for long."""
        sent = self._known[name, key.key] = _Sent(key.fingerprint, stored)
        stored.add_done_callback(lambda _: setattr(sent, "stored_at", time.monotonic()))
        until = time.monotonic() - KEEP_STORED_S
        while len(self._known) > MAX_KEYS and next(iter(self._known.values())).stored_at < until:
            self._known.popitem(last=False)

    def drop_stored(self, stored_id: Any) -> None:
        """Drop the keys of something that is deleted, so that it can be stored again."""
        for key, sent in list(self._known.items()):
            if sent.stored.done() and sent.stored.exception() is None and sent.stored.result() == stored_id:
                del self._known[key]


@dataclass(slots=True)
class _Draft:
    """What the next batch will have."""

    chunks: list[LiveChunk] = field(default_factory=list)
    #: Position in the run of the first task.
    first_ordinal: int = 0
    started: list[SchedulerResults] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    versions: list[VersionRecord] = field(default_factory=list)
    idempotency: list[IdempotencyKey] = field(default_factory=list)
    #: Futures of the batch, once something waits for them.
    committed: Future[None] | None = None
    stored: Future[None] | None = None

    @property
    def rows(self) -> int:
        """The number of results."""
        return sum(len(chunk) * len(chunk.results) for chunk in self.chunks) + sum(map(len, self.started))


class RunOutput:
    """Everything that leaves the engine: what happened goes to the journal in batches, the state to readers.

    Parameters
    ----------
    engine
        The active run.
    """

    def __init__(self, engine: LiveController) -> None:
        self._engine = engine
        #: Wall time of the next update.
        self.next_update = 0.0
        #: The journal was full when something was to be handed over.
        self.flush_due = False
        #: Wall time at which an outage of the database began.
        self._unavailable_since: float | None = None
        self._last_checkpoint: dict[str, Any] = {}
        #: Devices of the run, in the order of their codes.
        self.device_names = engine.config.device_names
        self.draft = _Draft()
        #: Batches that the journal had no capacity for.
        self._unsent: deque[Batch] = deque()
        self.reset()
        self.number_from(Counters(), {})

    def number_from(self, counters: Counters, keys: Mapping[IdempotencyKey, int | str]) -> None:
        """Continue the numbers of tasks, results and events from these counters, before the first command.

        `keys` are those that an earlier engine has stored, with the id of their task or run.
        """
        self.counters = counters
        self.known = _IdempotencyCache(keys)
        self.publish_status()

    def reset(self) -> None:
        """Drop what the next update would have of an earlier run."""
        self._updates = UpdateBuilder()
        self._rate = TaskRate()

    @property
    def next_task(self) -> int:
        """The id of the next task."""
        return self.counters.next_task_id

    @property
    def has_capacity(self) -> bool:
        """Whether new tasks may be decided."""
        return not self._unsent and self._engine.journal.has_capacity

    def require_capacity(self, action: str) -> None:
        """Raise `JournalUnavailable`, with the refused action, if the journal can take nothing now."""
        if self._engine.journal.unavailable or not self.has_capacity:
            raise unavailable(action)

    # ---------------------------------------------------------------- events and updates

    def _event(self, type: str, body: dict[str, Any]) -> None:
        """Add a message of the stream, which the next batch has, and number it."""
        engine = self._engine
        assert engine.record is not None
        t = engine.run.now if engine.run else 0.0
        seq = self.counters.next_seq
        self.draft.events.append(Event(seq, type, engine.record.run_id, t, engine.clock.unix(), body))
        self.counters = self.counters._replace(next_seq=seq + 1)

    def notify(self, kind: str, message: str, level: str | None = None) -> None:
        """Add a notification."""
        self._event("notification", notification(kind, message, level=level))

    def announce(self, kind: str, message: str) -> None:
        """Send a notification and an update at once."""
        self.send_lane_events()
        self.notify(kind, message)
        self.update()

    def send_lane_events(self) -> bool:
        """Send what happened to the lanes; returns False if nothing did."""
        run = self._engine.run
        if run is None or not run.lanes.events:
            return False
        events = run.lanes.events
        run.lanes.events = []
        for event in events:
            self.send_lane_event(event)
        return True

    def send_lane_event(self, event: LaneEvent) -> None:
        """Add the version that the event brings, and its notification."""
        assert self._engine.record is not None
        version = version_record(event, self._engine.record.run_id, self._engine.clock.unix())
        if version is not None:
            self.draft.versions.append(version)
        if event.kind != "loaded":
            self._event("notification", notification(event.kind, event.message, about=event))

    def update(self) -> None:
        """Send one `simulation_update` with a few log lines, and hand over a batch."""
        engine = self._engine
        assert engine.run is not None
        now = engine.clock.now()
        self.next_update = now + engine.config.update_every
        engine.pass_time()
        self._collect_started()
        if engine.mode == "running":
            self._rate.add(now, engine.run.ordinal)
        else:
            self._rate.clear()
        status = self.publish_status()
        self._event("simulation_update", self._updates.update(engine.run, status))
        for line in self._updates.logs(engine.run.config.platform):
            self._event("log", line)
        self._updates.clear()
        self.flush()

    def watch_journal(self) -> None:
        """Report the beginning and the end of an outage of the database."""
        since = self._unavailable_since
        now = self._engine.clock.now()
        if self._engine.journal.unavailable:
            if since is None:
                self._unavailable_since = now
                _log.warning("the database is unavailable")
        elif since is not None:
            self._unavailable_since = None
            message = f"the database was unavailable for {now - since:.1f} s; nothing was lost"
            _log.info(message)
            if self._engine.record is not None:
                self.notify("storage", message, level="warning")
                self.flush()

    def publish_status(self) -> LiveStatus:
        """Renew `last_status`, which other threads read."""
        engine = self._engine
        rate = self._rate.rate(engine.clock.now(), engine.run.ordinal) if engine.run else 0.0
        self.last_status = engine.status(self.counters, rate)
        return self.last_status

    # ---------------------------------------------------------------- results and acknowledgements

    def add_chunk(self, run: LiveRun, chunk: LiveChunk, before: dict[str, Any]) -> None:
        """Add tasks with their results; `before` is the checkpoint from before they were decided."""
        # A batch has results of the same schedulers for all its tasks.
        if self.draft.chunks and self.draft.chunks[0].results.keys() != chunk.results.keys():
            self.flush(before)
        if not self.draft.chunks:
            self.draft.first_ordinal = run.ordinal - len(chunk)
        self.draft.chunks.append(chunk)
        self.counters = self.counters._replace(
            next_task_id=self.counters.next_task_id + len(chunk),
            next_result_id=self.counters.next_result_id + len(chunk) * len(chunk.results),
        )
        self._updates.add(chunk)
        self.send_lane_events()

    def _collect_started(self) -> None:
        """Add the results of tasks that left a common queue to the next batch and the next update."""
        assert self._engine.run is not None
        started = self._engine.run.lanes.take_started()
        self.draft.started += started
        more = sum(map(len, started))
        self.counters = self.counters._replace(next_result_id=self.counters.next_result_id + more)
        self._updates.add_started(started)

    def acknowledge(self, task_id: int, acknowledged: Future[int], key: IdempotencyKey | None) -> None:
        """Set the future to the task's id once the next batch is durable."""
        draft = self.draft
        draft.committed = draft.committed or Future()
        forward_result(draft.committed, acknowledged, task_id)
        if key is not None:
            draft.idempotency.append(replace(key, task_id=task_id))
            draft.stored = draft.stored or Future()
            stored: Future[int] = pending_future()
            forward_result(draft.stored, stored, task_id)
            self.known.add(key, stored)

    def take_measured(self, batch: Batch, key: IdempotencyKey) -> Future[str]:
        """Take the batch of a measured run, numbered from these counters, for the next delivery.

        Everything that waited must have been flushed. `key` stands for the run's own id. Returns the future that
        gets the id when the batch is durable.
        """
        assert self.has_capacity
        assert batch.committed is not None
        assert batch.stored is not None
        run_id = batch.run.run_id
        stored_id: Future[str] = Future()
        forward_result(batch.stored, stored_id, run_id)
        self.known.add(key, stored_id, "run_id")
        for sent in batch.idempotency:
            self.known.add(sent, stored_id)
        self.counters = batch.counters
        self._unsent.append(batch)
        durable: Future[str] = pending_future()
        forward_result(batch.committed, durable, run_id)
        return durable

    # ---------------------------------------------------------------- batches and checkpoints

    def checkpoint(self) -> dict[str, Any]:
        """Return the state from which the run can be resumed, ready for JSON."""
        run = self._engine.run
        speed = self._engine.time.speed
        assert run is not None
        self._collect_started()  # a checkpoint no longer has them
        self._last_checkpoint = {
            **run.checkpoint(),
            **self._engine.hashes,
            "trace_file": None if run.trace is None or run.trace.path is None else str(run.trace.path),
            "speed": None if speed == math.inf else speed,
        }
        return self._last_checkpoint

    def flush_before(self, action: str) -> None:
        """Hand over what waits; raise `JournalUnavailable` if the journal can take nothing more now."""
        self.flush()
        self.require_capacity(action)

    def flush(self, state: dict[str, Any] | None = None) -> None:
        """Hand what waits to the journal; if it is full, the next step tries again.

        `state` is the checkpoint right after the last task that waits, by default the one of now.
        """
        engine = self._engine
        if state is None:
            if engine.run is None or engine.record is None:
                return
            # An engine that failed may have stopped in the middle of a chunk.
            state = self._last_checkpoint if engine.error is not None else self.checkpoint()
        self.deliver()
        self.flush_due = not self.has_capacity
        if not self.flush_due:
            self._unsent.append(self._batch(state))
            self.draft = _Draft()
            self.deliver()

    def _batch(self, state: dict[str, Any]) -> Batch:
        draft = self.draft
        chunks = draft.chunks
        assert self._engine.record is not None
        batch = Batch(
            self._engine.record,
            state,
            self.counters,
            self.device_names,
            first_result_id=self.counters.next_result_id - draft.rows,
            started=tuple(draft.started),
            versions=tuple(draft.versions),
            events=tuple(draft.events),
            idempotency=tuple(draft.idempotency),
            committed=draft.committed,
            stored=draft.stored,
        )
        if not chunks:
            return batch
        tasks = chunks[0].tasks if len(chunks) == 1 else joined_tasks([chunk.tasks for chunk in chunks])
        return replace(
            batch,
            tasks=tasks,
            first_ordinal=draft.first_ordinal,
            results={name: joined_results([chunk.results[name] for chunk in chunks]) for name in chunks[0].results},
            optimal_fraction=np.concatenate([chunk.optimal_fraction for chunk in chunks]),
            optimal_time=np.concatenate([chunk.optimal_time for chunk in chunks]),
        )

    def deliver(self) -> bool:
        """Hand over the batches that the journal has capacity for; return False if some are left."""
        journal = self._engine.journal
        while self._unsent and journal.has_capacity:
            try:
                journal.append(self._unsent[0])
            except JournalFull:
                break
            except InvalidInputError as error:  # it can never be stored, so it must not keep back later ones
                refused = self._unsent.popleft()
                for future in (refused.committed, refused.stored):
                    if future is not None:
                        future.set_exception(error)
                raise
            self._unsent.popleft()
        return not self._unsent


def unavailable(action: str) -> JournalUnavailable:
    """Return the error for an action that the journal cannot take now."""
    return JournalUnavailable(f"the database cannot {action} now", hint="try again in a few seconds")
