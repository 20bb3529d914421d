"""What the engine has under way, and how it tells of it. Used by the engine's thread alone."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from typing import Any

from ..core import InvalidInputError
from ..core.canonical_json import content_hash
from .batch_builder import BatchBuilder
from .batch_records import Counters, RunRecord, VersionRecord
from .clock import Clock, VirtualTime
from .journal import Journal
from .live_config import LiveConfig
from .live_run import LaneEvent, LiveChunk, LiveRun
from .scheduler_lane import SchedulerLane
from .status import LiveStatus
from .update_builder import UpdateBuilder, notification

#: Updates over which the rate of tasks is averaged.
_RATE_UPDATES = 8


class LiveSession:
    """The run with its record, its virtual time and what waits to be stored; every change of it is told."""

    def __init__(self, course: LiveConfig, journal: Journal, clock: Clock) -> None:
        #: Of the run, or of the next one.
        self.course = course
        self.run: LiveRun | None = None
        self.record: RunRecord | None = None
        #: running, paused or stopped.
        self.mode = "stopped"
        #: Running, but the store has no room.
        self.held = False
        self.notes: list[str] = []
        #: Why the engine itself failed.
        self.error: str | None = None
        self.next_update = 0.0
        self.time = VirtualTime(clock, course.speed)
        self._home = content_hash(course.config())
        self._journal, self._clock = journal, clock
        self._shown = UpdateBuilder()
        self._rates: deque[tuple[float, int]] = deque(maxlen=_RATE_UPDATES)
        self._state: dict[str, Any] = {}  # the last checkpoint
        self.number_from(Counters())

    def number_from(self, counters: Counters) -> None:
        """Everything new gets numbers from here on."""
        self.ledger = BatchBuilder(self._journal, counters, tuple(d.name for d in self.course.platform.devices))
        self.published = self.status()

    def take_up(self, run: LiveRun, record: RunRecord, notes: list[str]) -> None:
        """Another run is under way."""
        self.run, self.record, self.course, self.mode = run, record, run.course, record.status
        self.notes, self.error, self.held = notes, None, False
        self.ledger.device_names = tuple(device.name for device in run.course.platform.devices)
        self.time = VirtualTime(self._clock, run.course.speed, run.now)
        self._shown = UpdateBuilder()
        self._rates.clear()

    def set_mode(self, mode: str) -> None:
        assert self.record is not None
        self.mode = mode
        ended = self._clock.unix() if mode == "stopped" else None
        self.record = replace(self.record, status=mode, ended_at=ended)

    # ---------------------------------------------------------------- time and tasks

    @property
    def next_task(self) -> int:
        return self.ledger.counters.next_task_id

    def sync(self) -> None:
        """Virtual time passes also when nothing arrives."""
        run = self.run
        if run is not None and self.mode == "running" and not self.held:
            due = self.time.due
            if math.isfinite(due) and run.source.next_arrival > due:
                run.now = max(run.now, due)

    def keep(self, chunk: LiveChunk, before: dict[str, Any]) -> None:
        """Put a chunk to those that wait; `before` is the checkpoint from before it was decided."""
        assert self.run is not None
        assert self.record is not None
        if not self.ledger.fits(chunk):
            self.ledger.flush(self.record, before)
        self.ledger.add(chunk, self.run.ordinal - len(chunk))
        self._shown.add(chunk)
        self.tell_news()
        if self.run.episode_over:
            self._end_episode(self.run)

    def _end_episode(self, run: LiveRun) -> None:
        episode = run.episode
        assert episode is not None
        run.end_episode(self.next_task)
        self.time.set(run.now)
        message = f"episode {episode.number} ended after {episode.tasks:,} tasks: all clusters start empty"
        self.notify("episode", message)
        self.tell_news()
        self.flush()

    # ---------------------------------------------------------------- handing over

    def checkpoint(self) -> dict[str, Any]:
        assert self.run is not None
        self._state = {
            **self.run.checkpoint(),
            "home": self._home,
            "speed": None if self.time.speed == math.inf else self.time.speed,
        }
        return self._state

    def flush(self) -> None:
        """Hand over what has gathered."""
        if self.run is not None and self.record is not None:
            self.ledger.flush(self.record, self.checkpoint())

    def give_up(self, reason: str) -> None:
        """The engine failed, perhaps in the middle of a chunk: what was whole before it is handed over."""
        self.error = reason
        if self.mode != "stopped" and self.record is not None:
            self.set_mode("stopped")
            self.notify("engine_failed", reason)
            self.ledger.flush(self.record, self._state)
        self.published = self.status()

    def belongs_to(self, state: dict[str, Any]) -> bool:
        """Whether a checkpoint was made under the settings of today."""
        return state.get("home") == self._home

    # ---------------------------------------------------------------- telling

    def event(self, type: str, body: dict[str, Any]) -> None:
        assert self.record is not None
        t = self.run.now if self.run else 0.0
        self.ledger.event(type, self.record.run_id, t, self._clock.unix(), body)

    def notify(self, kind: str, message: str, level: str | None = None) -> None:
        self.event("notification", notification(kind, message, level=level))

    def changed(self, kind: str, message: str) -> None:
        """Something that clients should hear of at once."""
        self.tell_news()
        self.notify(kind, message)
        self.update()

    def tell_news(self) -> bool:
        """What happened to the lanes; False if nothing did."""
        if self.run is None or not self.run.news:
            return False
        told, self.run.news = self.run.news, []
        for news in told:
            self.tell(news)
        return True

    def tell(self, news: LaneEvent) -> None:
        assert self.record is not None
        if news.model is not None and news.version is not None:
            self.ledger.version(
                VersionRecord(
                    self.record.run_id,
                    news.scheduler,
                    news.version,
                    news.model.samples,
                    news.model.r2,
                    news.model.trigger,
                    news.at_task,
                    self._clock.unix(),
                    news.seconds,
                )
            )
        if news.kind != "loaded":
            body = notification(
                news.kind, news.message, scheduler=news.scheduler, version=news.version, at_task=news.at_task
            )
            self.event("notification", body)

    def update(self) -> None:
        """One `simulation_update` with a few log lines, and a batch."""
        run = self.run
        assert run is not None
        now = self._clock.now()
        self.next_update = now + self.course.update_every
        self.sync()
        if self.mode == "running":
            self._rates.append((now, run.ordinal))
        else:
            self._rates.clear()
        self.published = status = self.status()
        self.event("simulation_update", self._shown.update(run, status))
        for line in self._shown.logs(run.course.platform):
            self.event("log", line)
        self._shown.clear()
        self.flush()

    # ---------------------------------------------------------------- looking

    @property
    def lanes(self) -> list[SchedulerLane]:
        return self.run.lanes if self.run else []

    def learned_lane(self, name: str) -> SchedulerLane:
        for lane in self.lanes:
            if lane.name == name and lane.learner is not None:
                return lane
        learned = ", ".join(lane.name for lane in self.lanes if lane.learner) or "none in this run"
        raise InvalidInputError("scheduler", f"one that learns: {learned}", name)

    def status(self) -> LiveStatus:
        run, record, course, counters = self.run, self.record, self.course, self.ledger.counters
        return LiveStatus(
            state="held" if self.mode == "running" and self.held else self.mode,
            is_running=self.mode == "running",
            is_paused=self.mode == "paused",
            run_id=record.run_id if record else None,
            source="simulated",
            scenario=record.scenario if record else course.scenario.name,
            utilisation=record.utilisation if record else course.load,
            seed=record.seed if record else course.seed,
            speed=None if course.speed == math.inf else course.speed,
            platform={
                "name": course.platform.name,
                "devices": [{"name": device.name, "kind": device.kind} for device in course.platform.devices],
            },
            schedulers=record.schedulers if record else course.schedulers,
            tasks_processed=run.ordinal if run else 0,
            virtual_time=run.now if run else 0.0,
            tasks_per_second=self._rate(),
            started_at=record.created_at if record else None,
            last_seq=counters.next_seq - 1,
            next_task_id=counters.next_task_id,
            episode=run.episode if run else None,
            unsaved_batches=self._journal.unsaved,
            storage="away" if self._journal.unavailable else "ok",
            notes=(
                *self.notes,
                *([self.error] if self.error else ()),
                *(f"{lane.name} is off: {lane.failure}" for lane in self.lanes if lane.failure is not None),
            ),
            comparison=tuple(lane.statistics.row(lane.name, lane.state, lane.version) for lane in self.lanes),
        )

    def _rate(self) -> float:
        if len(self._rates) < 2 or self.mode != "running":
            return 0.0
        (then, before), (now, tasks) = self._rates[0], self._rates[-1]
        return (tasks - before) / (now - then) if now > then else 0.0
