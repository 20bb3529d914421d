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
from ..learning.duration.retraining import ProcessTrainingWorker, TrainingWorker
from ..workload import Scenario
from ..workload.argument_checks import positive_number
from .batch_records import IdempotencyKey
from .clock import Clock, WallClock, checked_speed
from .command_queue import CommandQueue, EngineClosed, SubmittedTask, check_text, pending_future
from .controller import LiveController
from .journal import Journal
from .live_config import LiveConfig
from .measured_run import MeasuredRun
from .model_snapshots import ModelSnapshots
from .status import LiveStatus, ModelCard

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
#: Wall seconds to wait after an error of the engine.
_ERROR_PAUSE_S = 0.05


class ContinuousSimulation:
    """Start it with `open`, end it with `close`; everything in between may be called from any thread.

    Commands are idempotent and return the `LiveStatus` after they took effect. `trainer` None trains in another
    process; `snapshots` is the folder for what a restart could not learn again; `on_error` hears of errors of the
    engine itself, which also stop the run and show in the status.
    """

    def __init__(
        self,
        config: LiveConfig,
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
        new_id = UlidGenerator(self._clock.unix, entropy)
        self._controller = LiveController(config, journal, self._clock, self._trainer, self._snapshots, new_id)
        self._commands = CommandQueue()
        self._thread: threading.Thread | None = None
        self._closing = False

    # ---------------------------------------------------------------- opening and closing

    def open(self) -> LiveStatus:
        """Become the engine of the journal, and go on with the run that was under way. Raises `EngineBusy`."""
        if self._thread is not None:
            raise EngineClosed("the engine was opened before")
        recovered = self._journal.open()
        self._controller.number_from(recovered.counters)
        self._commands.open()
        self._thread = threading.Thread(target=self._loop, name="engine", daemon=True)
        self._thread.start()
        try:
            return self._do(lambda: self._controller.recover(recovered))
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
        return self._do(self._controller.start)

    def stop(self) -> LiveStatus:
        """End the run. It will not be resumed."""
        return self._do(self._controller.stop)

    def pause(self) -> LiveStatus:
        return self._do(self._controller.pause)

    def resume(self) -> LiveStatus:
        return self._do(self._controller.resume)

    def set_speed(self, speed: float) -> LiveStatus:
        """Virtual seconds per wall second; infinity for as fast as possible."""
        wanted = checked_speed(speed)
        return self._do(lambda: self._controller.set_speed(wanted))

    def set_scenario(self, scenario: Scenario, utilisation: float | None = None) -> LiveStatus:
        """Other tasks from now on; queues, models and averages stay."""
        if utilisation is not None:
            positive_number("utilisation", utilisation)
        return self._do(lambda: self._controller.set_scenario(scenario, utilisation))

    def restart(self, config: LiveConfig) -> LiveStatus:
        """End the run and begin another."""
        return self._do(lambda: self._controller.begin(config))

    def retrain(self, scheduler: str) -> LiveStatus:
        """Train a learned scheduler's model anew from its window. Nothing happens while it is being trained."""
        return self._do(lambda: self._controller.retrain(scheduler))

    def submit(self, task: SubmittedTask, key: IdempotencyKey | None = None) -> Future[int]:
        """A task of the user's own, through every scheduler. The future gets its id when it is durable.

        The same key and task again gives the same id. Raises `JournalUnavailable`; does not wait.
        """
        if key is not None:
            check_text("Idempotency-Key", key.key)
        return self._promised(lambda answer: self._controller.submit(task, key, answer))

    def store_measured(self, run: MeasuredRun) -> Future[str]:
        """Keep a run that was measured elsewhere. The future gets its id when it is durable.

        `JournalUnavailable` where nothing can be stored. Does not wait.
        """
        return self._promised(lambda answer: self._controller.store_measured(run, answer))

    def forget(self) -> Future[int]:
        """Delete every task with its results; the future gets their number. Ids are not used again."""
        deleted: Future[int] = pending_future()
        self._do(lambda: self._controller.forget(deleted))
        return deleted

    def models(self) -> list[ModelCard]:
        """What is known of the learned schedulers' models."""
        return self._ask(self._controller.models)

    def model_card(self, scheduler: str) -> ModelCard:
        return self._ask(lambda: self._controller.model_card(scheduler))

    def status(self) -> LiveStatus:
        """The state as of the last update or command; never waits."""
        storage = "away" if self._journal.unavailable else "ok"
        return replace(self._controller.last_status, unsaved_batches=self._journal.unsaved, storage=storage)

    def _do(self, command: Callable[[], Any]) -> LiveStatus:
        def publish() -> LiveStatus:
            command()
            return self._controller.publish_status()

        return self._ask(publish)

    def _ask(self, command: Callable[[], _T]) -> _T:
        return self._commands.ask(command).result()

    def _promised(self, command: Callable[[Future[_T]], None]) -> Future[_T]:
        """A command that answers later; if it is refused, that is the answer."""
        answer: Future[_T] = pending_future()

        def refuse(done: Future[None]) -> None:
            error = done.exception()
            if error is not None and not answer.done():
                answer.set_exception(error)

        self._commands.ask(lambda: command(answer)).add_done_callback(refuse)
        return answer

    # ---------------------------------------------------------------- the engine thread

    def _loop(self) -> None:
        while not self._closing:
            try:
                self._commands.answer_all()
                idle = self._controller.step()
            except Exception as error:
                self._failed(error)
                idle = _ERROR_PAUSE_S
            self._clock.wait(idle, self._commands.wake)
            self._commands.wake.clear()
        try:
            self._commands.answer_all()
            self._controller.finish()
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Report an error of the engine itself: no more tasks are made, but commands are still answered."""
        _log.error("the engine failed", exc_info=error)
        try:
            self._controller.fail(f"the engine failed: {type(error).__name__}: {error}")
        except Exception:
            _log.exception("the engine could not report its failure")
        if self._on_error is not None:
            self._on_error(error)
