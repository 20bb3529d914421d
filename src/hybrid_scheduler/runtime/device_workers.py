"""Device workers: one thread per device that runs task parts from a queue and measures them.

A thread that dies is replaced, and so is one that hangs past a task's time limit. Python cannot end a thread, so it
is abandoned with the buffers that it may still be writing to, and its late result is ignored.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .device_backends import CpuBackend, DeviceLostError
from .device_pools import DevicePool

if TYPE_CHECKING:
    from .running_task import RunningTask

_log = logging.getLogger(__name__)
#: Seconds that a part of unknown duration counts for, so that the shorter of two queues is free first.
_UNKNOWN = 1e-6


@dataclass(eq=False, slots=True)
class TaskPart:
    """Share of a running task that one device executes: all of it, or a part of a split."""

    running_task: RunningTask
    device: int
    share: float
    run: Callable[[CpuBackend], Any]
    predicted: float
    #: Its place among the task's parts: 0 the accelerator's (or the only one), 1 the CPU's.
    place: int = 0
    started: float = 0.0
    ended: float = 0.0
    #: Seconds of the time between that went into memory which later runs reuse.
    preparing: float = 0.0
    result: Any = None

    @property
    def expected(self) -> float:
        """Seconds that it counts for while it waits in a queue."""
        return self.predicted or _UNKNOWN

    @property
    def repeatable_seconds(self) -> float:
        """Seconds without preparation: what the next run like it will take."""
        return self.ended - self.started - self.preparing


class PartCallbacks:
    """Callbacks of workers."""

    def begin(self, part: TaskPart) -> bool:
        """Return whether a part should still run; called just before it does."""
        raise NotImplementedError

    def done(self, part: TaskPart) -> None:
        """Handle a part that has run."""
        raise NotImplementedError

    def failed(self, part: TaskPart, error: BaseException) -> None:
        """Handle a part that raised an error."""
        raise NotImplementedError

    def late(self, part: TaskPart) -> None:
        """Handle a part that ended after its worker had been replaced."""
        raise NotImplementedError


class DeviceWorker:
    """Queue of a device and the thread that serves it.

    Parameters
    ----------
    pool : DevicePool
        The device.
    backend : callable
        Makes the device's backend; called again for each replaced thread.
    callbacks : PartCallbacks
        Receives what becomes of each part.
    clock : callable
        Returns seconds.
    """

    def __init__(
        self,
        pool: DevicePool,
        backend: Callable[[DevicePool], CpuBackend],
        callbacks: PartCallbacks,
        clock: Callable[[], float],
    ) -> None:
        self.pool, self._make_backend = pool, backend
        self._callbacks, self._clock = callbacks, clock
        self._queue: queue.SimpleQueue[TaskPart | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0.0
        self._running: TaskPart | None = None
        self._generation = 0
        self._over = threading.Event()
        self.replaced = 0
        self._start()

    # ---------------------------------------------------------------- called by other threads

    def put(self, part: TaskPart) -> None:
        """Add a part to the queue."""
        with self._lock:
            self._waiting += part.expected
        self._queue.put(part)

    def backlog(self, now: float) -> float:
        """Return seconds until everything in the queue is expected to be done.

        Read before every decision, and an estimate anyway: it does not wait for the lock.
        """
        waiting, running = self._waiting, self._running
        seconds = waiting if waiting > 0.0 else 0.0
        if running is not None:
            left = running.predicted - (now - running.started)
            seconds += left if left > _UNKNOWN else _UNKNOWN
        return seconds

    def drain(self) -> list[TaskPart]:
        """Remove and return the parts that have not begun."""
        taken: list[TaskPart] = []
        while True:
            try:
                part = self._queue.get_nowait()
            except queue.Empty:
                break
            if part is None:  # the stop signal stays in the queue
                self._queue.put(None)
                break
            taken.append(part)
        with self._lock:
            self._waiting = 0.0
        return taken

    def stop(self) -> None:
        """Let the thread end when its queue is empty."""
        self._queue.put(None)

    def join(self) -> None:
        """Wait until the thread has ended; does not wait for abandoned threads."""
        self._over.wait()

    def abandon(self, part: TaskPart) -> None:
        """Abandon the thread if it is busy with this part, and start another one."""
        with self._lock:
            if self._running is not part:
                return
            self._running = None
            self._generation += 1
        self.replaced += 1
        self._start()

    # ---------------------------------------------------------------- the thread

    def _start(self) -> None:
        # A backend of its own: an abandoned thread may still use the one before.
        self.backend = self._make_backend(self.pool)
        # A daemon: an abandoned thread must not keep the program from ending.
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
                goes_on = not self._callbacks.begin(part) or self._work(part, generation, backend, unusable)
            except Exception as error:  # in a callback, not in the task: neither it nor those behind it may hang
                _log.exception("task %s could not be recorded", part.running_task.task.task_id)
                goes_on = self._is_free(generation)
                self._callbacks.failed(part, error)
            # Drop it before waiting for the next one: its result may be large.
            del part
            if not goes_on:
                return

    def _work(self, part: TaskPart, generation: int, backend: CpuBackend, unusable: DeviceLostError | None) -> bool:
        """Run a part; return whether this thread can go on."""
        part.started = self._clock()
        with self._lock:
            self._running = part
        if part.running_task.ended:  # its limit passed before it was known which thread runs it
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
            self._callbacks.late(part)
            return False
        if error is None:
            self._callbacks.done(part)
            return True
        fatal = not isinstance(error, Exception)
        if fatal:  # the next thread starts before the failure is reported
            with self._lock:
                self._generation += 1
            self.replaced += 1
            self._start()
        self._callbacks.failed(part, error)
        return not fatal

    def _is_free(self, generation: int) -> bool:
        """Mark this thread as idle; return False if it was abandoned meanwhile."""
        with self._lock:
            if generation != self._generation:
                return False
            self._running = None
            return True
