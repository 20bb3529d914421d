"""One thread per device, which takes parts of jobs from its queue, runs them and says how long they took.

A thread that dies is replaced, and so is one that hangs past a task's time limit: Python cannot end it, so it is
left behind, with the buffers it may still be writing to, and whatever it still says is ignored.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .device_backends import CpuBackend, DeviceLostError
from .device_pools import DevicePool

if TYPE_CHECKING:
    from .running_task import RunningTask

_log = logging.getLogger(__name__)
#: Seconds that a part counts for where nobody knows what it takes: of two queues the shorter one is free first.
_UNKNOWN = 1e-6


@dataclass(eq=False, slots=True)
class TaskPart:
    """A running, or the share of it that one device does."""

    running_task: RunningTask
    device: int
    share: float
    run: Callable[[CpuBackend], Any]
    predicted: float
    #: Which of the job's parts it is: 0 the accelerator's (or the only one), 1 the CPU's.
    place: int = 0
    started: float = 0.0
    ended: float = 0.0
    #: Of the time between, what went into memory that the next one will find ready.
    preparing: float = 0.0
    result: Any = None

    @property
    def expected(self) -> float:
        """Seconds that it counts for while it waits."""
        return self.predicted or _UNKNOWN

    @property
    def lasting(self) -> float:
        """Seconds that the next one like it will take."""
        return self.ended - self.started - self.preparing


class PartCallbacks:
    """Whoever wants to hear from workers."""

    def begin(self, part: TaskPart) -> bool:
        """It is about to run; False if it should not any more."""
        raise NotImplementedError

    def done(self, part: TaskPart) -> None:
        raise NotImplementedError

    def failed(self, part: TaskPart, error: BaseException) -> None:
        raise NotImplementedError

    def late(self, part: TaskPart) -> None:
        """It came back after it had been given up."""
        raise NotImplementedError


class DeviceWorker:
    """The device's queue and the thread that serves it."""

    def __init__(
        self,
        pool: DevicePool,
        backend: Callable[[DevicePool], CpuBackend],
        reports: PartCallbacks,
        clock: Callable[[], float],
    ) -> None:
        self.pool, self._make_backend = pool, backend
        self._reports, self._clock = reports, clock
        self._queue: queue.SimpleQueue[TaskPart | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0.0
        self._running: TaskPart | None = None
        self._generation = 0
        self._over = threading.Event()
        self.replaced = 0
        self._start()

    # ---------------------------------------------------------------- from outside

    def put(self, part: TaskPart) -> None:
        with self._lock:
            self._waiting += part.expected
        self._queue.put(part)

    def backlog(self, now: float) -> float:
        """Seconds until everything given to it so far is expected to be done.

        Asked before every decision, and an estimate: it is read as it stands, without waiting for the lock.
        """
        waiting, running = self._waiting, self._running
        seconds = waiting if waiting > 0.0 else 0.0
        if running is not None:
            left = running.predicted - (now - running.started)
            seconds += left if left > _UNKNOWN else _UNKNOWN
        return seconds

    def drain(self) -> list[TaskPart]:
        """Take back what has not begun."""
        taken: list[TaskPart] = []
        while True:
            try:
                part = self._queue.get_nowait()
            except queue.Empty:
                break
            if part is None:  # the thread still has to hear that no more will come
                self._queue.put(None)
                break
            taken.append(part)
        with self._lock:
            self._waiting = 0.0
        return taken

    def stop(self) -> None:
        """No more will come: the thread ends when its queue is empty."""
        self._queue.put(None)

    def join(self) -> None:
        """Until it has heard that no more will come; not until threads that were left behind come back."""
        self._over.wait()

    def abandon(self, part: TaskPart) -> None:
        """If it is busy with this part, leave its thread behind and go on with another."""
        with self._lock:
            if self._running is not part:
                return
            self._running = None
            self._generation += 1
        self.replaced += 1
        self._start()

    # ---------------------------------------------------------------- the thread

    def _start(self) -> None:
        # A backend of its own: a thread that was left behind may still be on the one before.
        self.backend = self._make_backend(self.pool)
        # A daemon: an abandoned one must not keep the program from ending.
        threading.Thread(
            target=self._serve, args=(self._generation, self.backend), name=f"hybrid-{self.pool.name}", daemon=True
        ).start()

    def _serve(self, generation: int, backend: CpuBackend) -> None:
        try:
            backend.enter()
            unusable = None
        except Exception as error:
            unusable = DeviceLostError(f"{self.pool.name} cannot be used: {type(error).__name__}: {error}")
        while generation == self._generation:
            part = self._queue.get()
            if part is None:
                self._over.set()
                return
            with self._lock:
                self._waiting -= part.expected
            try:
                goes_on = not self._reports.begin(part) or self._work(part, generation, backend, unusable)
            except Exception as error:  # in the books, not in the task: neither it nor those behind it may hang
                _log.exception("task %s could not be written down", part.running_task.task.task_id)
                goes_on = self._is_free(generation)
                self._reports.failed(part, error)
            # Let go of it before waiting for the next: its result may be large, and nobody else may want it.
            del part
            if not goes_on:
                return

    def _work(self, part: TaskPart, generation: int, backend: CpuBackend, unusable: DeviceLostError | None) -> bool:
        """True if this thread can go on."""
        part.started = self._clock()
        with self._lock:
            self._running = part
        if part.running_task.ended:  # its limit passed before anybody could know whom to leave behind
            return self._is_free(generation)
        error: BaseException | None = unusable
        backend.preparing = 0.0
        try:
            if error is None:
                part.result = part.run(backend)
                backend.synchronize()
        except BaseException as caught:
            error = caught
        part.ended, part.preparing = self._clock(), backend.preparing
        if not self._is_free(generation):
            self._reports.late(part)
            return False
        if error is None:
            self._reports.done(part)
            return True
        fatal = not isinstance(error, Exception)
        if fatal:  # the next thread is there before anybody hears that this one is gone
            with self._lock:
                self._generation += 1
            self.replaced += 1
            self._start()
        self._reports.failed(part, error)
        return not fatal

    def _is_free(self, generation: int) -> bool:
        """This thread has nothing to do any more; False if it was given up meanwhile."""
        with self._lock:
            if generation != self._generation:
                return False
            self._running = None
            return True


class TimeoutWatch:
    """Calls back when a time limit passes; its thread starts with the first limit."""

    def __init__(self) -> None:
        self._limits: dict[int, tuple[float, Callable[[], None]]] = {}
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, key: int, seconds: float, late: Callable[[], None]) -> None:
        with self._condition:
            self._limits[key] = (time.monotonic() + seconds, late)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="hybrid-watch", daemon=True)
                self._thread.start()
            self._condition.notify()

    def remove(self, key: int) -> None:
        with self._condition:
            self._limits.pop(key, None)

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._limits.clear()
            self._condition.notify()

    def _serve(self) -> None:
        while True:
            with self._condition:
                if self._closed:
                    return
                now = time.monotonic()
                late = [key for key, (at, _) in self._limits.items() if at <= now]
                calls = [self._limits.pop(key)[1] for key in late]
                if not calls:
                    next_at = min((at for at, _ in self._limits.values()), default=None)
                    self._condition.wait(None if next_at is None else next_at - now)
            for call in calls:
                call()
