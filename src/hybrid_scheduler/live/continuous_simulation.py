"""Live engine: an endless stream of tasks through every scheduler, each on its own virtual cluster.

One thread runs the controller: it executes commands, decides for tasks as virtual time passes, and hands batches to
the journal. It never waits for a client, a disk or a training. Other threads send commands to it and get the result
once the command has taken effect.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from ..core.ulid import UlidGenerator
from ..learning.duration.retraining import ProcessTrainingWorker, TrainingWorker
from ..workload import Scenario
from ..workload.argument_checks import positive_number
from .clock import Clock, WallClock, checked_speed
from .command_queue import CommandQueue, EngineClosed, SubmittedTask, pending_future
from .controller import LiveController
from .journal import IdempotencyKey, Journal, RunLabels, check_text
from .live_config import LiveConfig
from .measured_run import MeasuredRun
from .model_versions import ModelSnapshots
from .status import LiveStatus, ModelCard

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
#: Wall seconds to wait after an error of the engine.
_ERROR_PAUSE_S = 0.05


class ContinuousSimulation:
    """The live engine. Between `open` and `close` every method may be called from any thread.

    Commands are idempotent and return the `LiveStatus` after they took effect. Before `open` and after `close` they
    raise `EngineClosed`.

    Parameters
    ----------
    config
        The run to begin with.
    journal
        Stores the batches.
    clock
        Wall time; by default that of the operating system.
    trainer
        Where models are trained; by default in another process.
    snapshots
        Folder for the weights that a restart could not learn again; None keeps none.
    on_error
        Called with an error of the engine itself, which also stops the run and appears in the status.
    entropy
        Returns random bytes for the ids of runs.
    defaults
        The configuration without the options of the command line, see `LiveController`.

    Examples
    --------
    >>> from hybrid_scheduler import ContinuousSimulation, LiveConfig
    >>> from hybrid_scheduler.testing import MemoryJournal
    >>> engine = ContinuousSimulation(LiveConfig(schedulers=("greedy",)), MemoryJournal())
    >>> engine.open().state, engine.start().state, engine.pause().state
    ('stopped', 'running', 'paused')
    >>> engine.close()
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
        defaults: LiveConfig | None = None,
    ) -> None:
        self._journal, self._on_error = journal, on_error
        self._clock: Clock = clock or WallClock()
        self._trainer = trainer or ProcessTrainingWorker()
        self._snapshots = ModelSnapshots(snapshots, self._clock)
        new_id = UlidGenerator(self._clock.unix, entropy)
        self.controller = LiveController(
            config, journal, self._clock, self._trainer, self._snapshots, new_id, defaults
        )
        self._commands = CommandQueue()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._close_timeout = 0.0

    # ---------------------------------------------------------------- opening and closing

    def open(self) -> LiveStatus:
        """Start the engine thread, and resume the run of the journal that was not stopped.

        Raises
        ------
        EngineBusy
            If another engine has the journal.
        """
        if self._thread is not None:
            raise EngineClosed("the engine was opened before")
        recovered = self._journal.open()
        self._snapshots.sweep()
        self.controller.number_from(recovered.counters, recovered.keys)
        self._commands.open()
        self._thread = threading.Thread(target=self._loop, name="engine", daemon=True)
        self._thread.start()
        try:
            return self._run_command(lambda: self.controller.recover(recovered))
        except BaseException:
            self.close()
            raise

    def close(self, timeout: float = 5.0) -> None:
        """End the thread and store what is left, within `timeout` seconds each. The next engine resumes the run."""
        if self._thread is None or self._closing:
            return
        self._close_timeout, self._closing = timeout, True
        self._commands.wake.set()
        self._thread.join(timeout + _ERROR_PAUSE_S)
        self._commands.close()
        self._trainer.close()
        self._snapshots.close()
        self._journal.close(timeout)

    # ---------------------------------------------------------------- commands

    def start(self) -> LiveStatus:
        """Begin a run if there is none, or resume it if it is paused."""
        return self._run_command(self.controller.start)

    def stop(self) -> LiveStatus:
        """End the run; it will not be resumed."""
        return self._run_command(self.controller.stop)

    def pause(self) -> LiveStatus:
        """Stop virtual time; queues and models stay."""
        return self._run_command(self.controller.pause)

    def resume(self) -> LiveStatus:
        """Let virtual time go on after a pause."""
        return self._run_command(self.controller.resume)

    def set_speed(self, speed: float) -> LiveStatus:
        """Set the virtual seconds per wall second; infinity means as fast as possible."""
        checked = checked_speed(speed)
        return self._run_command(lambda: self.controller.set_speed(checked))

    def set_scenario(self, scenario: Scenario, utilisation: float | None = None) -> LiveStatus:
        """Draw the next tasks from another scenario; queues, models and averages stay.

        Parameters
        ----------
        scenario
            The scenario.
        utilisation
            Offered load as a share of capacity; None means the scenario's own.
        """
        if utilisation is not None:
            positive_number("utilisation", utilisation)
        return self._run_command(lambda: self.controller.set_scenario(scenario, utilisation))

    def restart(self, config: LiveConfig) -> LiveStatus:
        """End the run and begin another."""
        return self._run_command(lambda: self.controller.begin(config))

    def retrain(self, scheduler: str) -> LiveStatus:
        """Train the model of a learned scheduler from its window, unless it is being trained."""
        return self._run_command(lambda: self.controller.retrain(scheduler))

    def submit(self, task: SubmittedTask, key: IdempotencyKey | None = None) -> Future[int]:
        """Send a task through every scheduler; does not wait.

        Parameters
        ----------
        task
            The task, which arrives now.
        key
            The same key with the same task again gives the same id.

        Returns
        -------
        Future
            Gets the task's id when the task is durable, or `JournalUnavailable`.
        """
        if key is not None:
            check_text("Idempotency-Key", key.key)
        return self._run_later(lambda task_id: self.controller.submit(task, key, task_id))

    def store_measured(self, run: MeasuredRun, key: IdempotencyKey | None = None) -> Future[str]:
        """Store a run that was measured on real devices; does not wait.

        Parameters
        ----------
        run
            The measured run.
        key
            The same key with the same run again gives the same id.

        Returns
        -------
        Future
            Gets the run's id when the run is durable, or `JournalUnavailable`.
        """
        if key is not None:
            check_text("Idempotency-Key", key.key)
        return self._run_later(lambda run_id: self.controller.store_measured(run, run_id, key))

    def delete_tasks(self) -> Future[int]:
        """Delete every task with its results; ids are not used again.

        Returns
        -------
        Future
            Running once the deletion is sure to be completed; gets the number of tasks at its end. Until it is
            running it can be cancelled.

        Raises
        ------
        JournalUnavailable
            If nothing can be deleted now.
        """
        deleted: Future[int] = Future()
        self._run_command(lambda: self.controller.delete_tasks(deleted))
        return deleted

    def forget(self) -> Future[int]:
        """Call `delete_tasks`; this former name will be removed in the next release."""
        warnings.warn(
            "ContinuousSimulation.forget is deprecated; use delete_tasks", DeprecationWarning, stacklevel=2
        )
        return self.delete_tasks()

    def delete_run(self, run_id: str) -> Future[int]:
        """Delete a run that has ended, with its tasks, results, events and model versions.

        Parameters
        ----------
        run_id
            The run.

        Returns
        -------
        Future
            Gets the number of deleted tasks. Until it is running it can be cancelled.

        Raises
        ------
        InvalidInputError
            If the run has not ended.
        JournalUnavailable
            If nothing can be deleted now.
        """
        deleted: Future[int] = Future()
        self._run_command(lambda: self.controller.delete_run(run_id, deleted))
        return deleted

    def describe_run(self, run_id: str, labels: RunLabels) -> Future[None]:
        """Replace name, tags and note of a run; does not wait.

        Parameters
        ----------
        run_id
            The run.
        labels
            Its new labels.

        Returns
        -------
        Future
            Done when they are durable, or gets `JournalUnavailable`.
        """
        return self._run_later(lambda stored: self.controller.describe_run(run_id, labels, stored))

    def models(self) -> list[ModelCard]:
        """Return descriptions of the learned schedulers' models."""
        return self._commands.submit(self.controller.models).result()

    def model_card(self, scheduler: str) -> ModelCard:
        """Return the description of one learned scheduler's model."""
        return self._commands.submit(lambda: self.controller.model_card(scheduler)).result()

    def explanations(self, task_id: int) -> dict[str, dict[str, Any]]:
        """Return the values by which each learned scheduler placed a task, if it is one of the newest 1,000."""
        return self._commands.submit(lambda: self.controller.explanations(task_id)).result()

    def status(self) -> LiveStatus:
        """Return the status after the last update or command; never waits."""
        storage = "away" if self._journal.unavailable else "ok"
        return replace(self.controller.last_status, unsaved_batches=self._journal.unsaved, storage=storage)

    def _run_command(self, command: Callable[[], None]) -> LiveStatus:
        """Run a command on the engine thread and wait for the status after it."""

        def run() -> LiveStatus:
            command()
            return self.controller.publish_status()

        return self._commands.submit(run).result()

    def _run_later(self, command: Callable[[Future[_T]], None]) -> Future[_T]:
        """Run a command that sets a future later; an error of the command is set at once."""
        result: Future[_T] = pending_future()

        def set_error(done: Future[None]) -> None:
            error = done.exception()
            if error is not None and not result.done():
                result.set_exception(error)

        self._commands.submit(lambda: command(result)).add_done_callback(set_error)
        return result

    # ---------------------------------------------------------------- the engine thread

    def _loop(self) -> None:
        while not self._closing:
            try:
                self._commands.run_all()
                idle = self.controller.step()
            except Exception as error:
                self._failed(error)
                idle = _ERROR_PAUSE_S
            self._clock.wait(idle, self._commands.wake)
            self._commands.wake.clear()
        try:
            self._commands.run_all()
            self.controller.finish(self._close_timeout)
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Report an error of the engine itself: no more tasks are made, but commands are still answered."""
        _log.error("the engine failed", exc_info=error)
        try:
            self.controller.fail(f"the engine failed: {type(error).__name__}: {error}")
        except Exception:
            _log.exception("the engine could not report its failure")
        if self._on_error is not None:
            self._on_error(error)
