"""Where forests are grown while the engine goes on: in another process, or at once where a test wants it so."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import suppress
from typing import Protocol

from ..learning.duration.online_duration_model import TrainingRequest
from ..learning.duration.retraining import TrainedModel, train

_log = logging.getLogger(__name__)


class TrainingWorker(Protocol):
    """Grows what a model of durations wishes for. `submit` never waits and never raises."""

    def submit(self, wanted: TrainingRequest) -> Future[TrainedModel]: ...

    def close(self) -> None: ...


class InlineTrainingWorker:
    """Grows at once, in the caller's thread: the same wishes give the same models at the same tasks."""

    def __init__(self, work: Callable[[TrainingRequest], TrainedModel] = train) -> None:
        self._work = work

    def submit(self, wanted: TrainingRequest) -> Future[TrainedModel]:
        done: Future[TrainedModel] = Future()
        try:
            done.set_result(self._work(wanted))
        except Exception as error:
            done.set_exception(error)
        return done

    def close(self) -> None:
        pass


class ProcessTrainingWorker:
    """One process beside the engine, started for the first wish; if it dies, the next wish gets a new one."""

    def __init__(self, work: Callable[[TrainingRequest], TrainedModel] = train) -> None:
        self._work = work
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, wanted: TrainingRequest) -> Future[TrainedModel]:
        for _ in range(2):
            if self._pool is None:
                self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _prepare)
            try:
                return self._pool.submit(self._work, wanted)
            except (BrokenExecutor, RuntimeError) as error:  # RuntimeError: shut down from outside
                _log.warning("the training process is gone, starting another: %s", error)
                self._pool.shutdown(wait=False)
                self._pool = None
        failed: Future[TrainedModel] = Future()
        failed.set_exception(BrokenExecutor("no training process can be started"))
        return failed

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _prepare() -> None:
    """In the new process: yield to the engine, leave Ctrl-C to it, and do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(AttributeError, OSError):  # Windows has no nice
        os.nice(5)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)
