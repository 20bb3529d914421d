"""Accelerator for tests on machines without a GPU: a memory of its own, copies, and failures on demand.

Its arrays are NumPy arrays of a class of their own, in a memory of limited size. Copies and runs report the seconds
that a link and a speed-up would give, without waiting for them.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ..runtime.task_function import replaced


class OutOfMemoryError(RuntimeError):
    """Error of an allocation that does not fit into the accelerator's memory."""


class FakeArray(np.ndarray[Any, Any]):
    """Array in the memory of a `FakeAccelerator`."""

    owner: Any = None


class _TimedEvent(threading.Event):
    """Event that knows when it happened."""

    at = 0.0

    def set(self) -> None:
        self.at = time.perf_counter()
        super().set()


class FakeAccelerator:
    """An accelerator that computes with NumPy.

    Parameters
    ----------
    memory : float, optional
        Bytes of its memory; allocations beyond raise `OutOfMemoryError`.
    capacity : float, optional
        Bytes of arrays that the executor may keep in it; all of its memory if left out.
    speedup : float, optional
        How many times as fast as the CPU its runs are reported to be.
    fault : callable, optional
        Called with ``enter``, ``upload``, ``run``, ``download`` or ``finish`` before each such step; may raise.
    name : str, optional
        Name of the device.

    Attributes
    ----------
    counts : Counter
        Steps so far, and bytes copied as ``uploaded`` and ``downloaded``.
    allocated, locked : int
        Bytes in use: of its own memory, and of page-locked main memory, which holds what was downloaded.

    Examples
    --------
    >>> import numpy as np
    >>> import hybrid_scheduler as hs
    >>> from hybrid_scheduler.testing import FakeAccelerator
    >>> double = hs.auto(lambda values: values * 2)
    >>> with hs.HybridExecutor(accelerators=[FakeAccelerator()], history=False) as executor:
    ...     print(executor.submit(double, np.arange(3)).result())
    [0 2 4]
    """

    def __init__(
        self,
        *,
        memory: float = math.inf,
        capacity: float | None = None,
        speedup: float = 1.0,
        fault: Callable[[str], None] | None = None,
        name: str = "fake_0",
    ) -> None:
        self.name, self.device_class = name, "fake"
        self.memory, self.capacity = memory, memory if capacity is None else capacity
        self.speedup = speedup
        self.fault = fault
        self.counts: Counter[str] = Counter()
        self.allocated = self.locked = 0
        self._lock = threading.RLock()
        self._paused: list[_TimedEvent] | None = None

    def enter(self) -> None:
        """Prepare the worker's thread."""
        self._step("enter")

    def holds(self, array: Any) -> bool:
        """Return whether an array is in its memory."""
        return isinstance(array, FakeArray) and array.owner is self

    def upload(self, array: Any) -> Any:
        """Copy an array into its memory."""
        self._step("upload")
        self.counts["uploaded"] += array.nbytes
        return self._allocate(np.array(array))

    def download(self, array: Any, event: Any) -> Any:
        """Copy an array out of its memory."""
        self.finish(event)
        self._step("download")
        self.counts["downloaded"] += array.nbytes
        target = np.array(array).view(np.ndarray)
        with self._lock:
            self.locked += target.nbytes
        weakref.finalize(target, self._unlock, target.nbytes)
        return target

    def release(self, array: Any, event: Any) -> None:
        """Do nothing: memory is free when the array is gone."""

    def mark(self) -> Any:
        """Return an event, which happens at once unless the accelerator is paused."""
        event = _TimedEvent()
        with self._lock:
            if self._paused is None:
                event.set()
            else:
                self._paused.append(event)
        return event

    def is_complete(self, event: Any) -> bool:
        """Return whether an event has happened."""
        return event is None or event.is_set()

    def finish(self, event: Any) -> None:
        """Wait for an event."""
        self._step("finish")
        if event is not None:
            event.wait()

    def seconds(self, start: Any, end: Any, measured: float) -> float:
        """Return the seconds that a run counts for."""
        return max(float(end.at - start.at) / self.speedup, 1e-9)

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a function; arrays of its result are in this memory."""
        self._step("run")
        return replaced(function(*args, **kwargs), self._kept)

    def recover(self) -> None:
        """Count that memory had to be freed."""
        self._step("recover")

    def pause(self) -> None:
        """Let events happen only after `resume`."""
        with self._lock:
            self._paused = []

    def resume(self) -> None:
        """Let all events happen."""
        with self._lock:
            events, self._paused = self._paused or [], None
        for event in events:
            event.set()

    # ---------------------------------------------------------------- memory

    def _kept(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or value.ndim == 0:
            return value
        return self._allocate(np.array(value))

    def _allocate(self, array: Any) -> FakeArray:
        with self._lock:
            if self.allocated + array.nbytes > self.memory:
                raise OutOfMemoryError(f"{array.nbytes} bytes do not fit beside {self.allocated}")
            self.allocated += array.nbytes
        kept: FakeArray = array.view(FakeArray)
        kept.owner = self
        weakref.finalize(kept, self._free, array.nbytes)
        return kept

    def _free(self, nbytes: int) -> None:
        with self._lock:
            self.allocated -= nbytes

    def _unlock(self, nbytes: int) -> None:
        with self._lock:
            self.locked -= nbytes

    def _step(self, name: str) -> None:
        self.counts[name] += 1
        if self.fault is not None:
            self.fault(name)
