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
from typing import Any

from ..core.ulid import UlidGenerator
from ..learning.duration.retraining import ProcessTrainingWorker, TrainingWorker
from ..workload import Scenario
from . import commands
from .clock import Clock, WallClock
from .command_queue import CommandQueue, EngineClosed, forward_result, pending_future
from .commands import Command, R, StoredCommand, SubmittedTask, V
from .controller import LiveController
from .journal import IdempotencyKey, Journal, RunLabels
from .live_config import LiveConfig
from .measured_run import MeasuredRun
from .model_versions import ModelSnapshots
from .status import FAILURE_NOTE, LiveStatus, ModelCard

_log = logging.getLogger(__name__)
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
        self._journal = journal
        self._on_error = on_error
        self._clock: Clock = clock or WallClock()
        self._trainer = trainer or ProcessTrainingWorker()
        self._snapshots = ModelSnapshots(snapshots, self._clock)
        new_id = UlidGenerator(self._clock.unix, entropy)
        self.controller = LiveController(
            config, journal, self._clock, self._snapshots, self._trainer, new_id, defaults
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
        self.controller.output.number_from(recovered.counters, recovered.keys)
        self._commands.open()
        self._thread = threading.Thread(target=self._loop, name="engine", daemon=True)
        self._thread.start()
        try:
            return self.send(commands.Recover(recovered)).result()
        except BaseException:
            self.close()
            raise

    def close(self, timeout: float = 5.0) -> None:
        """End the thread and store what is left, within `timeout` seconds each. The next engine resumes the run."""
        if self._thread is None or self._closing:
            return
        self._close_timeout = timeout
        self._closing = True
        self._commands.wake.set()
        self._thread.join(timeout + _ERROR_PAUSE_S)
        self._commands.close()
        self._trainer.close()
        self._snapshots.close()
        self._journal.close(timeout)

    # ---------------------------------------------------------------- commands

    def send(self, command: Command[V, Any]) -> Future[V]:
        """Send a command; does not wait. The future gets what its `apply` returns, or its error."""
        return self._commands.submit(lambda: command.apply(self.controller))

    def store(self, command: StoredCommand[R]) -> Future[R]:
        """Send a command that stores something; does not wait. The future is done when that is durable."""
        result: Future[R] = pending_future()

        def applied(done: Future[Future[R]]) -> None:
            error = done.exception()
            if error is not None:
                result.set_exception(error)
            else:
                forward_result(done.result(), result)

        self.send(command).add_done_callback(applied)
        return result

    def start(self) -> LiveStatus:
        """Begin a run if there is none, or resume it if it is paused."""
        return self.send(commands.Start()).result()

    def stop(self) -> LiveStatus:
        """End the run; it will not be resumed."""
        return self.send(commands.Stop()).result()

    def pause(self) -> LiveStatus:
        """Stop virtual time; queues and models stay."""
        return self.send(commands.Pause()).result()

    def resume(self) -> LiveStatus:
        """Let virtual time go on after a pause."""
        return self.send(commands.Resume()).result()

    def set_speed(self, speed: float) -> LiveStatus:
        """Set the virtual seconds per wall second; infinity means as fast as possible."""
        return self.send(commands.SetSpeed(speed)).result()

    def set_scenario(self, scenario: Scenario, utilisation: float | None = None) -> LiveStatus:
        """Draw the next tasks from another scenario; queues, models and averages stay.

        Parameters
        ----------
        scenario
            The scenario.
        utilisation
            Offered load as a share of capacity; None means the scenario's own.
        """
        return self.send(commands.SetScenario(scenario, utilisation)).result()

    def restart(self, config: LiveConfig) -> LiveStatus:
        """End the run and begin another."""
        return self.send(commands.Restart(config)).result()

    def retrain(self, scheduler: str) -> LiveStatus:
        """Train the model of a learned scheduler from its window, unless it is being trained."""
        return self.send(commands.Retrain(scheduler)).result()

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
        return self.store(commands.Submit(task, key))

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
        return self.store(commands.StoreMeasured(run, key))

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
        return self.send(commands.DeleteTasks()).result()

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
        return self.send(commands.DeleteRun(run_id)).result()

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
        return self.store(commands.DescribeRun(run_id, labels))

    def models(self) -> list[ModelCard]:
        """Return descriptions of the learned schedulers' models."""
        return self.send(commands.Models()).result()

    def explanations(self, task_id: int) -> dict[str, dict[str, Any]]:
        """Return the values by which each learned scheduler placed a task, if it is one of the newest 1,000."""
        return self.send(commands.Explanations(task_id)).result()

    def status(self) -> LiveStatus:
        """Return the status after the last update or command; never waits."""
        last = self.controller.output.last_status
        unsaved = self._journal.unsaved
        return replace(last, unsaved_batches=unsaved, storage=self.controller.storage)

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
            self.controller.fail(f"{FAILURE_NOTE}{type(error).__name__}: {error}")
        except Exception:
            _log.exception("the engine could not report its failure")
        if self._on_error is not None:
            self._on_error(error)
