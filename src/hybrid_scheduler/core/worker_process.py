"""Worker process that ends with its parent.

Training and what-if analyses take a second of Python each. In the parent's process they would compete with the live
engine for the interpreter.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class WorkerProcess:
    """One process that runs functions in turn; it is started when needed, and replaced after it died.

    The process also ends when this object is deleted, because its end of the pipe is closed then.

    Parameters
    ----------
    name
        Used in log messages, such as "training process".
    niceness
        Added to the scheduling priority value of the process, so that it gives way to its parent.
    """

    def __init__(self, name: str, *, niceness: int = 0) -> None:
        self._name, self._niceness = name, niceness
        self._pool: ProcessPoolExecutor | None = None
        self._lifeline: Connection | None = None

    @property
    def started(self) -> bool:
        """Whether there is a process, or will be with the next call."""
        return self._pool is not None

    def submit(self, function: Callable[..., _T], *arguments: Any) -> Future[_T]:
        """Run a function in the process; never waits.

        Parameters
        ----------
        function, arguments
            Must be picklable. The process imports the function's module anew.

        Returns
        -------
        Future
            Gets the result, or `BrokenExecutor` if the process dies.

        Raises
        ------
        BrokenExecutor
            If no process can be started.
        """
        for _ in range(2):
            pool = self._pool or self._start()
            try:
                return pool.submit(function, *arguments)
            except RuntimeError as error:  # it died, or was shut down from outside
                _log.warning("the %s is gone, starting another: %s", self._name, error)
                self.stop()
        raise BrokenExecutor(f"no {self._name} can be started")

    def stop(self) -> None:
        """End the process at once, whatever it computes; the next call starts another."""
        if self._pool is not None and self._lifeline is not None:
            self._lifeline.close()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        end, self._lifeline = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(1, context, _prepare, (end, self._niceness))
        return self._pool


def _prepare(lifeline: Connection, niceness: int) -> None:
    """Set up the new process: Ctrl-C is left to the parent; it ends when the parent closes the pipe or dies."""

    def end_with_parent() -> None:
        with suppress(EOFError, OSError):
            lifeline.recv()
        os._exit(0)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if niceness:
        with suppress(AttributeError, OSError):  # Windows has no nice
            os.nice(niceness)
    threading.Thread(target=end_with_parent, daemon=True).start()
