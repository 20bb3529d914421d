"""How other threads talk to the engine's: they leave a wish, and are answered once it has taken effect."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from ..core import HybridSchedulerError, InvalidInputError, Task, Workload

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
#: Longer names are not names.
_LONGEST_TEXT = 200


class EngineClosed(HybridSchedulerError):
    """The engine was not opened, or has been closed."""


@dataclass(frozen=True, slots=True)
class SubmittedTask:
    """A task of the user's own. It arrives when the engine takes it."""

    size: float
    compute_intensity: float
    memory_required: float
    kind: str = "generic"
    external_id: str | None = None

    def __post_init__(self) -> None:
        self.arriving(0, 0.0)
        for name, text in (("kind", self.kind), ("external_id", self.external_id)):
            if text is None and name == "external_id":
                continue
            check_text(name, text)

    def arriving(self, task_id: int, now: float) -> Workload:
        """As a workload of one; refuses what is not a task."""
        size, intensity, memory = self.size, self.compute_intensity, self.memory_required
        return Workload.from_tasks([Task(task_id, size, intensity, memory, now, (), self.kind, self.external_id)])


def check_text(field: str, text: object) -> None:
    """Refuse what no database stores and no JSON carries."""
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST_TEXT:
        raise InvalidInputError(field, f"a text of 1 to {_LONGEST_TEXT} characters", text)
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidInputError(field, "a text without NUL and half characters", text)


class CommandQueue:
    """Commands in the order they came. Any thread may ask; one thread answers."""

    def __init__(self) -> None:
        #: Set while there is something to do.
        self.wake = threading.Event()
        self._waiting: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open = False

    def open(self) -> None:
        self._open = True

    def ask(self, command: Callable[[], _T]) -> Future[_T]:
        """The future gets what the command returns, or raises."""
        answer: Future[_T] = Future()
        with self._lock:  # or a command could slip in after the last look
            if not self._open:
                raise EngineClosed("the engine is not open")
            self._waiting.put((command, answer))
        self.wake.set()
        return answer

    def answer_all(self) -> int:
        """Run what waits; returns how many commands that were."""
        count = 0
        while not self._waiting.empty():
            command, answer = self._waiting.get()
            count += 1
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                answer.set_result(command())
            except Exception as error:
                if not isinstance(error, HybridSchedulerError):
                    _log.exception("a command of the engine failed")
                answer.set_exception(error)
        return count

    def close(self) -> None:
        """Refuse new commands, and those that still wait."""
        with self._lock:
            self._open = False
        while not self._waiting.empty():
            _, answer = self._waiting.get()
            if answer.set_running_or_notify_cancel():
                answer.set_exception(EngineClosed("the engine is closing"))


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
