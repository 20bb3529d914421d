"""The live engine: tasks without end through every scheduler, each on its own virtual cluster.

One thread does everything: answer commands, make tasks as virtual time passes, hand batches to the journal. It
never waits for a client, a disk or a training. Other threads leave commands, and are answered once these have taken
effect.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from ..core.ulid import UlidGenerator
from ..workload import Scenario
from ..workload.argument_checks import positive_number
from .batch_records import IdempotencyKey
from .clock import Clock, WallClock, checked_speed
from .command_queue import CommandQueue, EngineClosed, SubmittedTask, check_text
from .conductor import Conductor
from .journal import Journal
from .live_config import LiveConfig
from .live_run import LiveRun
from .measured_run import MeasuredRun
from .model_snapshots import ModelSnapshots
from .session import LiveSession
from .status import LiveStatus, ModelCard
from .training_worker import ProcessTrainingWorker, TrainingWorker

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
#: Wall seconds: how long it rests when nothing is due, and the longest piece of work.
_REST, _LONGEST_CHUNK = 0.05, 0.02
_FIRST_CHUNK, _MOST_CHUNK = 64, 4096
#: Results in a batch before it is handed over early.
_MOST_ROWS = 20_000


class ContinuousSimulation:
    """Start it with `open`, end it with `close`; everything in between may be called from any thread.

    Commands are idempotent and return the `LiveStatus` after they took effect. `trainer` None trains in another
    process; `snapshots` is the folder for what a restart could not learn again; `on_error` hears of errors of the
    engine itself, which also stop the run and show in the status.
    """

    def __init__(
        self,
        course: LiveConfig,
        journal: Journal,
        *,
        clock: Clock | None = None,
        trainer: TrainingWorker | None = None,
        snapshots: Path | None = None,
        on_error: Callable[[BaseException], None] | None = None,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._journal, self._on_error = journal, on_error
        self._clock: Clock = clock or WallClock()
        self._trainer = trainer or ProcessTrainingWorker()
        self._snapshots = ModelSnapshots(snapshots, self._clock)
        self._session = LiveSession(course, journal, self._clock)
        new_id = UlidGenerator(self._clock.unix, entropy)
        self._conductor = Conductor(self._session, journal, self._clock, self._trainer, self._snapshots, new_id)
        self._commands = CommandQueue()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._chunk = _FIRST_CHUNK
        self._away_since: float | None = None

    # ---------------------------------------------------------------- opening and closing

    def open(self) -> LiveStatus:
        """Become the engine of the journal, and go on with the run that was under way. Raises `EngineBusy`."""
        if self._thread is not None:
            raise EngineClosed("the engine was opened before")
        recovered = self._journal.open()
        self._session.number_from(recovered.counters)
        self._commands.open()
        self._thread = threading.Thread(target=self._loop, name="engine", daemon=True)
        self._thread.start()
        try:
            return self._do(lambda: self._conductor.recover(recovered))
        except BaseException:
            self.close()
            raise

    def close(self, timeout: float = 5.0) -> None:
        """End the thread and store what is left. The run stays as it is: the next engine goes on with it."""
        if self._thread is None or self._closing:
            return
        self._closing = True
        self._commands.wake.set()
        self._thread.join(timeout)
        self._commands.close()
        self._trainer.close()
        self._snapshots.close()
        self._journal.close(timeout)

    # ---------------------------------------------------------------- commands

    def start(self) -> LiveStatus:
        """Be running: begin a run if there is none, go on if it is paused."""
        return self._do(self._conductor.start)

    def stop(self) -> LiveStatus:
        """End the run. It will not be resumed."""
        return self._do(self._conductor.stop)

    def pause(self) -> LiveStatus:
        return self._do(self._conductor.pause)

    def resume(self) -> LiveStatus:
        return self._do(self._conductor.resume)

    def set_speed(self, speed: float) -> LiveStatus:
        """Virtual seconds per wall second; infinity for as fast as possible."""
        wanted = checked_speed(speed)
        return self._do(lambda: self._conductor.set_speed(wanted))

    def set_scenario(self, scenario: Scenario, utilisation: float | None = None) -> LiveStatus:
        """Other tasks from now on; queues, models and averages stay."""
        if utilisation is not None:
            positive_number("utilisation", utilisation)
        return self._do(lambda: self._conductor.set_scenario(scenario, utilisation))

    def restart(self, course: LiveConfig) -> LiveStatus:
        """End the run and begin another."""
        return self._do(lambda: self._conductor.begin(course))

    def retrain(self, scheduler: str) -> LiveStatus:
        """Train a learned scheduler's model anew from its window. Nothing happens while it is being trained."""
        return self._do(lambda: self._conductor.retrain(scheduler))

    def submit(self, task: SubmittedTask, key: IdempotencyKey | None = None) -> Future[int]:
        """A task of the user's own, through every scheduler. The future gets its id when it is durable.

        The same key and task again gives the same id. Raises `JournalUnavailable`; does not wait.
        """
        if key is not None:
            check_text("Idempotency-Key", key.key)
        return self._promised(lambda answer: self._conductor.submit(task, key, answer))

    def store_measured(self, run: MeasuredRun) -> Future[str]:
        """Keep a run that was measured elsewhere. The future gets its id when it is durable.

        `JournalUnavailable` where nothing can be stored. Does not wait.
        """
        return self._promised(lambda answer: self._conductor.store_measured(run, answer))

    def forget(self) -> Future[int]:
        """Delete every task with its results; the future gets their number. Ids are not used again."""
        deleted: Future[int] = _promise()
        self._do(lambda: self._conductor.forget(deleted))
        return deleted

    def models(self) -> list[ModelCard]:
        """What is known of the learned schedulers' models."""
        return self._ask(self._conductor.models)

    def model_card(self, scheduler: str) -> ModelCard:
        return self._ask(lambda: self._conductor.model_card(scheduler))

    def status(self) -> LiveStatus:
        """The state as of the last update or command; never waits."""
        storage = "away" if self._journal.unavailable else "ok"
        return replace(self._session.published, unsaved_batches=self._journal.unsaved, storage=storage)

    def _do(self, command: Callable[[], Any]) -> LiveStatus:
        def publish() -> LiveStatus:
            command()
            self._session.published = self._session.status()
            return self._session.published

        return self._ask(publish)

    def _ask(self, command: Callable[[], _T]) -> _T:
        return self._commands.ask(command).result()

    def _promised(self, command: Callable[[Future[_T]], None]) -> Future[_T]:
        """A command that answers later; if it is refused, that is the answer."""
        answer: Future[_T] = _promise()

        def refuse(done: Future[None]) -> None:
            error = done.exception()
            if error is not None and not answer.done():
                answer.set_exception(error)

        self._commands.ask(lambda: command(answer)).add_done_callback(refuse)
        return answer

    # ---------------------------------------------------------------- the loop

    def _loop(self) -> None:
        while not self._closing:
            try:
                rest = self._turn()
            except Exception as error:
                self._broken(error)
                rest = _REST
            self._clock.wait(rest, self._commands.wake)
            self._commands.wake.clear()
        try:
            self._commands.answer_all()
            self._session.flush()
            if self._session.record is not None and self._session.mode != "stopped":
                self._snapshots.save(self._session.record.run_id, self._session.lanes)
        except Exception as error:
            self._broken(error)

    def _turn(self) -> float:
        """One pass; returns the wall seconds until there is something to do again."""
        session = self._session
        self._commands.answer_all()
        session.ledger.deliver()
        self._watch_journal()
        if session.run is None or session.record is None:
            return _REST
        session.run.collect_training(session.next_task)
        if session.tell_news() and session.mode != "running":
            session.flush()
        rest = self._go_forward(session.run) if session.mode == "running" else _REST
        if session.ledger.rows >= _MOST_ROWS:
            session.flush()
        if session.mode != "stopped":
            self._snapshots.save_if_due(session.record.run_id, session.lanes)
        return rest

    def _go_forward(self, run: LiveRun) -> float:
        session = self._session
        if session.held != (not session.ledger.has_capacity):
            session.held = not session.held
            session.published = session.status()
            session.time.set(run.now)
            # The next update tells; told at once, it would take the room away from the tasks.
            session.next_update = self._clock.now() + session.course.update_every
        if session.held:
            return _REST
        rest = self._produce(run)
        if self._clock.now() >= session.next_update:
            session.update()
        return min(rest, max(0.0, session.next_update - self._clock.now()))

    def _produce(self, run: LiveRun) -> float:
        """Decide for the tasks that are due, for at most a chunk of them."""
        session = self._session
        began, due, before = self._clock.effort(), session.time.due, session.checkpoint()
        chunk = run.advance(session.next_task, self._chunk, due)
        if chunk is not None:
            session.keep(chunk, before)
            self._adapt(len(chunk), self._clock.effort() - began)
        session.sync()
        if run.source.next_arrival <= due:
            session.time.slip(run.now)
            return 0.0
        return _REST  # not until the next arrival: tasks that come close together are cheaper together

    def _adapt(self, tasks: int, seconds: float) -> None:
        """As many tasks in a chunk as take no longer than they may."""
        if seconds > _LONGEST_CHUNK:
            self._chunk = max(1, int(tasks * _LONGEST_CHUNK / seconds))
        elif tasks == self._chunk and seconds < _LONGEST_CHUNK / 2:
            self._chunk = min(2 * self._chunk, _MOST_CHUNK)

    def _watch_journal(self) -> None:
        if self._journal.unavailable:
            if self._away_since is None:
                self._away_since = self._clock.now()
                _log.warning("the store is away")
        elif self._away_since is not None:
            seconds, self._away_since = self._clock.now() - self._away_since, None
            _log.info("the store is back after %.1f s", seconds)
            if self._session.record is not None:
                message = f"the database was away for {seconds:.1f} s; nothing was lost"
                self._session.notify("storage", message, level="warning")
                self._session.flush()

    def _broken(self, error: Exception) -> None:
        """An error of the engine itself: no more tasks, but commands are still answered."""
        _log.error("the engine failed", exc_info=error)
        try:
            self._session.give_up(f"the engine failed: {type(error).__name__}: {error}")
        except Exception:
            _log.exception("the engine could not report its failure")
        if self._on_error is not None:
            self._on_error(error)


def _promise() -> Future[Any]:
    """A future that the one who asked cannot cancel: what they sent is on its way."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future
