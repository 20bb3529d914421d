"""Queue of commands from other threads to the engine thread, and the futures that carry the results back."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from ..core import HybridSchedulerError

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class EngineClosed(HybridSchedulerError):
    """The engine was not opened, or has been closed."""


class CommandQueue:
    """Commands in the order they came. Any thread may submit them; the engine thread runs them."""

    def __init__(self) -> None:
        #: Set when a command has come.
        self.wake = threading.Event()
        self._waiting: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open = False

    def open(self) -> None:
        """Accept commands from now on."""
        self._open = True

    def submit(self, command: Callable[[], _T]) -> Future[_T]:
        """Add a command; the future gets its result or its error.

        Raises
        ------
        EngineClosed
            If the queue is not open.
        """
        result: Future[_T] = Future()
        with self._lock:  # otherwise a command could be added after `close` has emptied the queue
            if not self._open:
                raise EngineClosed("the engine is not open")
            self._waiting.put((command, result))
        self.wake.set()
        return result

    def run_all(self) -> None:
        """Run the commands that wait."""
        while not self._waiting.empty():
            command, result = self._waiting.get()
            if not result.set_running_or_notify_cancel():
                continue
            try:
                result.set_result(command())
            except Exception as error:
                if not isinstance(error, HybridSchedulerError):
                    _log.exception("a command of the engine failed")
                result.set_exception(error)

    def close(self) -> None:
        """Refuse new commands, and fail those that still wait."""
        with self._lock:
            self._open = False
        while not self._waiting.empty():
            _, result = self._waiting.get()
            if result.set_running_or_notify_cancel():
                result.set_exception(EngineClosed("the engine is closing"))


def pending_future() -> Future[Any]:
    """Return a future that its receiver cannot cancel: the command is on its way."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def forward_result(done: Future[Any], to: Future[_T], value: _T | None = None) -> None:
    """When `done` is set, set the other future: to the same error, or to `value`, by default the same result."""

    def forward(finished: Future[Any]) -> None:
        error = finished.exception()
        if error is not None:
            to.set_exception(error)
        else:
            to.set_result(finished.result() if value is None else value)

    done.add_done_callback(forward)
