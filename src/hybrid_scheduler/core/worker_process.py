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
import weakref
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
    idle_s
        Seconds without work after which the process ends and gives its memory back; None keeps it.
    """

    def __init__(self, name: str, *, niceness: int = 0, idle_s: float | None = None) -> None:
        self._name = name
        self._niceness = niceness
        self._idle_s = idle_s
        self._pool: ProcessPoolExecutor | None = None
        self._parent_pipe: Connection | None = None
        # Calls come from the engine's thread, and the timer has a thread of its own.
        self._changing = threading.RLock()
        self._pending = 0
        self._timer: threading.Timer | None = None

    @property
    def started(self) -> bool:
        """Whether a process was started and not stopped since; it may have died."""
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
        with self._changing:
            for _ in range(2):
                pool = self._pool or self._start()
                try:
                    future = pool.submit(function, *arguments)
                except RuntimeError as error:  # it died, or was shut down from outside
                    _log.warning("the %s ended; restarting it: %s", self._name, error)
                    self.stop()
                    continue
                self._pending += 1
                future.add_done_callback(_call_if_alive(self._count_down))
                return future
        raise BrokenExecutor(f"no {self._name} can be started")

    def stop(self) -> None:
        """End the process at once, whatever it computes; the next call starts another."""
        with self._changing:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._pool is not None and self._parent_pipe is not None:
                for process in list((self._pool._processes or {}).values()):
                    process.kill()  # one that is stopped, or in the middle of a C function, would not see the pipe
                self._parent_pipe.close()
                # The thread that hands arguments over may be writing: without a reader it ends (CPython gh-94777).
                self._pool._call_queue._reader.close()  # type: ignore[attr-defined]
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = None

    def _count_down(self) -> None:
        with self._changing:
            self._pending -= 1
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._idle_s is not None and not self._pending and self._pool is not None:
                self._timer = threading.Timer(self._idle_s, _call_if_alive(self._stop_if_idle))
                self._timer.daemon = True
                self._timer.start()

    def _stop_if_idle(self) -> None:
        with self._changing:
            if not self._pending:
                self.stop()

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        end, self._parent_pipe = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(1, context, _prepare, (end, self._niceness))
        return self._pool


def _call_if_alive(method: Callable[[], None]) -> Callable[..., None]:
    """Return a function that calls a method of an object without keeping the object alive."""
    reference = weakref.WeakMethod(method)

    def call(*_: object) -> None:
        alive = reference()
        if alive is not None:
            alive()

    return call


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
