"""Output of the live run to the journal: events, updates, checkpoints and batches, and the status."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .batch_builder import BatchBuilder
from .clock import TaskRate
from .journal import Counters, IdempotencyKey
from .live_run import LiveChunk, LiveRun
from .run_lanes import LaneEvent
from .status import LiveStatus
from .stream_messages import UpdateBuilder, notification, version_record

if TYPE_CHECKING:
    from .controller import LiveController

_log = logging.getLogger(__name__)


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
        self.reset()
        self.number_from(Counters())

    def number_from(self, counters: Counters, keys: Mapping[IdempotencyKey, int | str] | None = None) -> None:
        """Continue the numbers of tasks, results and events from these counters, before the first command.

        `keys` are those that an earlier engine has stored, with the id of their task or run.
        """
        self.batches = BatchBuilder(self._engine.journal, counters, self._engine.config.device_names, keys)
        self.publish_status()

    def reset(self) -> None:
        """Drop what the next update would have of an earlier run."""
        self._updates = UpdateBuilder()
        self._rate = TaskRate()

    @property
    def next_task(self) -> int:
        """The id of the next task."""
        return self.batches.counters.next_task_id

    # ---------------------------------------------------------------- events and updates

    def _event(self, type: str, body: dict[str, Any]) -> None:
        engine = self._engine
        assert engine.record is not None
        t = engine.run.now if engine.run else 0.0
        self.batches.add_event(type, engine.record.run_id, t, engine.clock.unix(), body)

    def notify(self, kind: str, message: str, level: str | None = None) -> None:
        """Add a notification, which the next batch has."""
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
            self.batches.add_version(version)
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

    # ---------------------------------------------------------------- batches and checkpoints

    def flush_before(self, action: str) -> None:
        """Hand over what waits; raise `JournalUnavailable` if the journal can take nothing more now."""
        self.flush()
        self.batches.require_capacity(action)

    def add_chunk(self, run: LiveRun, chunk: LiveChunk, before: dict[str, Any]) -> None:
        """Add a chunk to the next batch; `before` is the checkpoint from before it was decided."""
        assert self._engine.record is not None
        if not self.batches.fits(chunk):
            self.batches.flush(self._engine.record, before)
        self.batches.add(chunk, run.ordinal - len(chunk))
        self._updates.add(chunk)
        self.send_lane_events()

    def _collect_started(self) -> None:
        """Add the results of tasks that left a common queue to the next batch and the next update."""
        assert self._engine.run is not None
        started = self._engine.run.lanes.take_started()
        self.batches.add_started(started)
        self._updates.add_started(started)

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

    def flush(self) -> None:
        """Hand what waits to the journal; if it is full, the next step tries again."""
        engine = self._engine
        if engine.run is not None and engine.record is not None:
            # An engine that failed may have stopped in the middle of a chunk.
            checkpoint = self._last_checkpoint if engine.error is not None else self.checkpoint()
            self.flush_due = not self.batches.flush(engine.record, checkpoint)

    # ---------------------------------------------------------------- status

    def publish_status(self) -> LiveStatus:
        """Renew `last_status`, which other threads read."""
        engine = self._engine
        rate = self._rate.rate(engine.clock.now(), engine.run.ordinal) if engine.run else 0.0
        self.last_status = engine.status(self.batches.counters, rate)
        return self.last_status
