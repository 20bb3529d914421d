"""Fakes for tests: an accelerator without a GPU, a clock that is moved by hand, and a journal in memory.

The accelerator's arrays are NumPy arrays of a class of their own, in a memory of limited size. Its copies and runs
report the seconds that a link and a speed-up would give, without waiting for them. With the clock, nothing sleeps.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any

import numpy as np

from ..live.journal import (
    Batch,
    Counters,
    Event,
    IdempotencyKey,
    JournalFull,
    JournalUnavailable,
    Recovered,
    RunLabels,
    SchedulerResults,
    check_text,
)
from ..runtime.accelerators import AcceleratorBackend
from ..runtime.task_function import replaced


class OutOfMemoryError(RuntimeError):
    """Error of an allocation that does not fit into the accelerator's memory."""


class _FakeArray(np.ndarray[Any, Any]):
    """Array in the memory of a `FakeAccelerator`."""

    owner: Any = None


class _TimedEvent(threading.Event):
    """Event that knows when it happened."""

    at = 0.0

    def set(self) -> None:
        self.at = time.perf_counter()
        super().set()


class FakeAccelerator(AcceleratorBackend):
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
        self.name = name
        self.device_class = "fake"
        self.memory = memory
        self.capacity = memory if capacity is None else capacity
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
        return isinstance(array, _FakeArray) and array.owner is self

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
        self._add("locked", target.nbytes)
        weakref.finalize(target, self._add, "locked", -target.nbytes)
        return target

    def mark(self, *, timed: bool = True) -> Any:
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
            events = self._paused or []
            self._paused = None
        for event in events:
            event.set()

    # ---------------------------------------------------------------- memory

    def _kept(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        return self._allocate(np.array(value)) if value.ndim else value[()]

    def _allocate(self, array: Any) -> _FakeArray:
        with self._lock:
            if self.allocated + array.nbytes > self.memory:
                raise OutOfMemoryError(f"{array.nbytes} bytes do not fit beside {self.allocated}")
            self.allocated += array.nbytes
        kept: _FakeArray = array.view(_FakeArray)
        kept.owner = self
        weakref.finalize(kept, self._add, "allocated", -array.nbytes)
        return kept

    def _add(self, name: str, nbytes: int) -> None:
        with self._lock:
            setattr(self, name, getattr(self, name) + nbytes)

    def _step(self, name: str) -> None:
        self.counts[name] += 1
        if self.fault is not None:
            self.fault(name)


#: Longest wait for the other thread, in seconds; after that it counts as dead.
_TIMEOUT_S = 60.0


class FakeClock:
    """Clock whose time passes only in `advance`, in step with the one thread that waits on it.

    `advance` lets that thread run until it waits, then sets the time to the end of that wait, and so on. Its
    behaviour therefore depends on the clock alone, never on the speed of the machine.

    Parameters
    ----------
    start
        Initial time in seconds.
    tick
        Shortest duration of a wait in seconds.
    """

    def __init__(self, start: float = 1_000_000.0, tick: float = 0.001) -> None:
        self._now = start
        self._tick = tick
        self._changed = threading.Condition()
        self._deadline: float | None = None  # end of the thread's current wait
        self._wake = threading.Event()

    def now(self) -> float:
        """Return the time in seconds."""
        return self._now

    def unix(self) -> float:
        """Return the time as seconds since 1970."""
        return self._now

    def thread_cpu_time(self) -> float:
        """Return the time as a measure of computing time."""
        return self._now

    def wait(self, timeout: float, wake: threading.Event) -> None:
        """Wait until `timeout` seconds have passed or `wake` is set."""
        with self._changed:
            self._deadline = self._now + max(timeout, self._tick)
            self._wake = wake
            self._changed.notify_all()
        wake.wait()
        with self._changed:
            self._deadline = None

    def advance(self, seconds: float) -> None:
        """Advance the time by `seconds`; the thread does all that is due by then."""
        end = self._now + seconds
        while True:
            with self._changed:
                self._idle()
                if self._now >= end:
                    return
                assert self._deadline is not None
                self._now = min(end, self._deadline)
                self._deadline = None
                self._wake.set()

    def spend(self, seconds: float) -> None:
        """Let so much time pass in the middle of the thread's work; called by that thread itself."""
        self._now += seconds

    def settle(self) -> None:
        """Wait until the thread has nothing more to do at the current time."""
        with self._changed:
            self._idle()

    def _idle(self) -> None:
        def waiting() -> bool:
            return self._deadline is not None and not self._wake.is_set()

        if not self._changed.wait_for(waiting, _TIMEOUT_S):
            raise TimeoutError("the thread that waits on this clock is not running")


class MemoryJournal:
    """Journal that keeps every batch in a list, durable at once by default.

    After ``hold()`` batches wait, as on a slow disk, until ``release()``. After ``fail()`` waiting batches get
    `JournalUnavailable`, until ``release()``. A second `open` returns the state that a restart would find.

    Parameters
    ----------
    most_batches
        Batches that may wait before the journal is full.
    on_events
        Called with the events of stored batches.
    """

    def __init__(self, *, most_batches: int = 256, on_events: Callable[[list[Event]], None] | None = None) -> None:
        self.batches: list[Batch] = []
        self.events: list[Event] = []
        self.labels: dict[str, RunLabels] = {}
        self.deleted_tasks = 0
        self.opened = False
        self._waiting: list[Batch] = []
        self._most = most_batches
        self._on_events = on_events
        self._held = False
        self._unavailable = False
        self._counters = Counters()
        self._lock = threading.Condition()

    # ---------------------------------------------------------------- Journal

    def open(self) -> Recovered:
        """Open the journal and return where the last engine ended."""
        self.opened = True
        stopped = {batch.run.run_id for batch in self.batches if batch.run.status == "stopped"}
        last = next((batch for batch in reversed(self.batches) if batch.run.run_id not in stopped), None)
        keys = {key: _stored_id(batch, key) for batch in self.batches for key in batch.idempotency}
        if last is None:
            return Recovered(self._counters, keys=keys)
        recent = self._recent(last.run.run_id)
        return Recovered(self._counters, last.run, last.state, recent, keys, last.device_names)

    @property
    def has_capacity(self) -> bool:
        """Whether a batch with tasks can be appended."""
        return len(self._waiting) < self._most

    @property
    def unsaved(self) -> int:
        """Number of batches that are not durable yet."""
        return len(self._waiting)

    @property
    def unavailable(self) -> bool:
        """Whether the store is unavailable."""
        return self._unavailable

    def check(self, batch: Batch) -> None:
        """Refuse names that no database holds; see `Journal.check`."""
        for name in (batch.run.platform, *batch.device_names):
            check_text("name", name)

    def append(self, batch: Batch) -> None:
        """Take a batch; see `Journal.append`."""
        if not self.has_capacity and batch.tasks is not None:
            raise JournalFull("too many batches wait to be stored")
        with self._lock:
            self._waiting.append(batch)
            if self._unavailable:
                _settle(batch.committed, error=JournalUnavailable("the journal was set to fail"))
        if not self._held:
            self._store()

    def delete_tasks(self, deleted: Future[int]) -> None:
        """Count all tasks as deleted; see `Journal.delete_tasks`."""
        with self._lock:
            count = sum(map(len, self.batches)) - self.deleted_tasks
            self.deleted_tasks += count
        _settle(deleted, count)

    def delete_run(self, run_id: str, deleted: Future[int]) -> None:
        """Remove the batches of a run; see `Journal.delete_run`."""
        with self._lock:
            count = sum(len(batch) for batch in self.batches if batch.run.run_id == run_id)
            self.batches = [batch for batch in self.batches if batch.run.run_id != run_id]
        _settle(deleted, count)

    def describe(self, run_id: str, labels: RunLabels, stored: Future[None]) -> None:
        """Keep the labels of a run; see `Journal.describe`."""
        self.labels[run_id] = labels
        _settle(stored)

    def close(self, timeout: float = 5.0) -> None:
        """Store what waits, and close."""
        if not self._unavailable:
            self._store()
        self.opened = False

    # ---------------------------------------------------------------- for tests

    def hold(self) -> None:
        """Let batches wait from now on."""
        self._held = True

    def fail(self) -> None:
        """Make the store unavailable from now on."""
        self._held = self._unavailable = True
        for batch in self._waiting:
            _settle(batch.committed, error=JournalUnavailable("the journal was set to fail"))

    def lose_waiting(self) -> None:
        """Drop the batches that wait, as if the process had been killed, and store later ones at once."""
        self._waiting.clear()
        self.release()

    def release(self) -> None:
        """Store everything that waits, and later batches at once."""
        self._held = self._unavailable = False
        self._store()

    def wait_for(self, condition: Callable[[MemoryJournal], bool], timeout: float = 10.0) -> bool:
        """Wait until the condition holds for the stored batches; return False after the timeout."""
        with self._lock:
            return self._lock.wait_for(lambda: condition(self), timeout)

    @property
    def tasks(self) -> int:
        """Number of stored tasks."""
        return sum(map(len, self.batches))

    def _store(self) -> None:
        with self._lock:
            done = self._waiting
            self._waiting = []
            self.batches += done
            for batch in done:
                self._counters = batch.counters
                self.events += batch.events
            self._lock.notify_all()
        for batch in done:
            _settle(batch.committed)
            _settle(batch.stored)
        events = [event for batch in done for event in batch.events]
        if events and self._on_events is not None:
            self._on_events(events)

    def _recent(self, run_id: str) -> dict[str, SchedulerResults]:
        """Return the results of the newest batch that has tasks."""
        for batch in reversed(self.batches):
            if batch.run.run_id == run_id and batch.tasks is not None:
                return {group.scheduler: group for group in batch.groups}
        return {}


def _stored_id(batch: Batch, key: IdempotencyKey) -> int | str:
    return batch.run.run_id if batch.run.source == "measured" else key.task_id


def _settle(future: Future[Any] | None, value: Any = None, *, error: Exception | None = None) -> None:
    if future is not None:
        with contextlib.suppress(InvalidStateError):
            future.set_exception(error) if error is not None else future.set_result(value)
