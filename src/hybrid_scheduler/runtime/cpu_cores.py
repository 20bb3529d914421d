"""CPU cores as a pool: small tasks run side by side, and a task that runs alone gets all cores.

BLAS and torch start threads of their own. With several tasks on the CPU at once each gets one thread, so that
threads never outnumber cores by much.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from .task_future import TaskFuture

_log = logging.getLogger(__name__)
#: Seconds without a second task on the CPU before one gets all cores: changing the number of threads takes time.
_CALM = 0.005
#: Tasks that wait inside of a core for other tasks; each holds a thread.
_MAX_WAITING = 1_000
_Item = TypeVar("_Item")
#: By thread: the pool that it belongs to.
_own = threading.local()


class RankedQueue(Generic[_Item]):
    """Queue between threads: the item with the highest rank is taken first, and the oldest among equals.

    A plain `queue.PriorityQueue` waits on conditions in Python. Here waiting is left to a `SimpleQueue`, which is C
    and wakes a thread in a few microseconds. The heap needs no lock: its functions are C, and ranks and numbers are
    compared before any item, so that no other thread runs in between.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _Item]] = []
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, item: _Item, rank: float) -> None:
        """Add an item."""
        heapq.heappush(self._heap, (-rank, next(self._order), item))
        self._tokens.put(True)

    def get(self) -> _Item | None:
        """Wait for an item and remove it; None means that the queue was closed."""
        while self._tokens.get():
            try:
                return heapq.heappop(self._heap)[2]
            except IndexError:  # the items were drained
                continue
        self._tokens.put(False)  # for the next reader
        return None

    def wake(self) -> None:
        """Wake a reader, because another one may have failed before it took its item."""
        self._tokens.put(True)

    def drain(self) -> list[_Item]:
        """Remove and return all items."""
        taken: list[_Item] = []
        while True:
            try:
                taken.append(heapq.heappop(self._heap)[2])
            except IndexError:
                return taken

    def close(self) -> None:
        """Let all readers end after the items that are in the queue."""
        self._tokens.put(False)


class CpuCores:
    """Pool of threads, one per core, that takes the task with the highest rank first.

    Parameters
    ----------
    cores : int
        Number of cores.
    """

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._queue: RankedQueue[tuple[TaskFuture, int | None]] = RankedQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        #: Threads that run a task; adding to a set and removing from it need no lock.
        self._busy: set[int] = set()
        #: Threads that end after the task that they run, because others have taken their place.
        self._replaced: set[int] = set()
        #: Threads whose task waits for another one, and for how many.
        self._waiting: Counter[int] = Counter()
        self._crowded_at = -math.inf
        #: Expected seconds of the calls that wait for a core or run on one.
        self.backlog = 0.0
        #: Other pools of threads on the same cores: their threads, and what returns their queues.
        self.pools: list[tuple[int, Callable[[], float]]] = []
        #: Threads of those pools that run now.
        self._lent = 0
        self._limits = _ThreadLimits(cores)
        self._local = threading.local()

    def prepare(self) -> None:
        """Find the BLAS libraries now, so that no task waits for the search."""
        blas_libraries(_loaded_blas())

    def put(self, task: TaskFuture, threads: int | None = None) -> None:
        """Add a task; `threads` fixes the threads that BLAS and torch may use for it."""
        self._queue.put((task, threads), task.rank)
        self._start_if_needed()

    def _start_if_needed(self) -> None:
        if len(self._threads) < self.cores + len(self._waiting):
            with self._lock:
                idle = len(self._threads) - len(self._busy) - len(self._waiting)
                if len(self._threads) < self.cores + len(self._waiting) and len(self._queue) > idle:
                    self._start_thread()

    def give_core(self) -> Callable[[], None]:
        """Give the calling thread's core to other tasks, because its task waits; return what ends that."""
        me = threading.get_ident()
        with self._lock:
            if len(self._waiting) >= _MAX_WAITING and me not in self._waiting:
                raise RuntimeError(f"more than {_MAX_WAITING:,} calls wait for calls that they have submitted")
            self._waiting[me] += 1
            self._busy.discard(me)
        self._start_if_needed()
        return partial(self._end_waiting, me)

    def _end_waiting(self, thread: int) -> None:
        with self._lock:
            self._waiting[thread] -= 1
            if not self._waiting[thread]:
                del self._waiting[thread]
                self._busy.add(thread)

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs or waits."""
        return not self._busy and not len(self._queue) and not self._lent

    @property
    def has_free_core(self) -> bool:
        """Whether a task would start at once."""
        return len(self._busy) + len(self._queue) + self._lent < self.cores

    @property
    def queue_seconds(self) -> float:
        """Seconds until a task would start, with what other pools of threads run on the same cores."""
        if self.has_free_core:
            return 0.0
        return (self.backlog + sum(threads * backlog() for threads, backlog in self.pools)) / self.cores

    @contextmanager
    def lend(self, threads: int) -> Iterator[None]:
        """Lend cores to another pool of threads while it runs a task."""
        with self._lock:
            self._lent += threads
        try:
            yield
        finally:
            with self._lock:
                self._lent -= threads

    @property
    def waiting(self) -> int:
        """Number of tasks that wait for a core."""
        return len(self._queue)

    @property
    def runs_caller(self) -> bool:
        """Whether the calling thread is one of the cores, running a task."""
        return getattr(_own, "cores", None) is self

    def replace(self, thread: int) -> None:
        """Start another thread in place of one whose task takes too long; Python cannot end a thread."""
        with self._lock:
            for worker in self._threads:
                if worker.ident == thread:
                    self._threads.remove(worker)
                    self._replaced.add(thread)
                    self._busy.discard(thread)
                    self._start_thread()
                    return

    def cancel_waiting(self) -> None:
        """Cancel the tasks that have not begun."""
        for task, threads in self._queue.drain():
            if not task.cancel():  # it had begun on an accelerator
                self.put(task, threads)

    def close(self) -> None:
        """End the threads after the tasks in the queue, and wait for them."""
        with self._lock:
            threads = self._threads
            self._threads = []
        self._queue.close()
        for thread in threads:
            thread.join()
        self._limits.restore()

    def _start_thread(self) -> None:
        # Daemons: a program that ends by an error must not wait for a task that hangs.
        thread = threading.Thread(target=self._serve, name=f"hybrid-core-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        try:
            thread.start()
        except BaseException as error:
            self._threads.remove(thread)
            if not self._threads or not isinstance(error, RuntimeError):  # else the system has no more threads
                raise

    def _serve(self) -> None:
        me = threading.get_ident()
        _own.cores = self
        while True:
            try:
                if not self._serve_one(me):
                    return
            except BaseException:  # the thread goes on, whatever happened to one task
                _log.exception("a task of the CPU's cores")
                self._queue.wake()

    def _serve_one(self, me: int) -> bool:
        """Run the next task; return False if this thread is to end."""
        busy = self._busy
        item = self._queue.get()
        if item is None:
            return False
        task, fixed = item
        busy.add(me)
        try:
            now = time.monotonic()
            if len(busy) > 1 or len(self._queue) or self._lent:
                self._crowded_at = now
            threads = fixed or (1 if now - self._crowded_at < _CALM else self.cores)
            self._limits.apply(threads, self._local if task.may_use_torch else None)
            task.run_on_cores(threads)
        finally:
            del task, item
            busy.discard(me)
        if me in self._replaced:
            self._replaced.discard(me)
            return False
        if len(self._threads) > self.cores + len(self._waiting):  # a task that waited goes on
            with self._lock:
                if len(self._threads) > self.cores + len(self._waiting):
                    self._threads = [worker for worker in self._threads if worker.ident != me]
                    return False
        return True


def _give_core() -> Callable[[], None]:
    cores: CpuCores | None = getattr(_own, "cores", None)
    return cores.give_core() if cores is not None else lambda: None


@contextmanager
def waiting_for_cores() -> Iterator[None]:
    """Give the calling thread's core, if it is one, to other tasks while it waits."""
    end = _give_core()
    try:
        yield
    finally:
        end()


class Waiters(list[Any]):
    """Waiters of a future, as `concurrent.futures.wait` and `as_completed` install and remove them.

    A thread of the cores that installs one is about to wait, so that it gives its core to other tasks.
    """

    def __init__(self) -> None:
        super().__init__()
        self._ends: dict[int, Callable[[], None]] = {}

    def append(self, waiter: Any) -> None:
        """Install a waiter."""
        self._ends[id(waiter)] = _give_core()
        super().append(waiter)

    def remove(self, waiter: Any) -> None:
        """Remove a waiter."""
        super().remove(waiter)
        self._ends.pop(id(waiter))()


class _ThreadLimits:
    """Number of threads that BLAS and torch use; set only when it changes."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._blas = 0
        self._lock = threading.Lock()
        self._touched = False
        #: Every BLAS library that was changed, with its threads before.
        self._before: dict[str, tuple[Any, int]] = {}

    def apply(self, threads: int, local: threading.local | None) -> None:
        """Let BLAS use so many threads for the task that this thread is about to run; torch, too, with `local`."""
        if threads != self._blas and (self._touched or threads != self._cores):
            with self._lock:
                for library in blas_libraries(_loaded_blas()):
                    self._before.setdefault(library.filepath, (library, library.num_threads))
                    library.set_num_threads(threads)
                self._blas = threads
                self._touched = True
        if local is None:
            return
        torch = sys.modules.get("torch")
        if torch is not None and getattr(local, "torch", None) != threads and hasattr(torch, "set_num_threads"):
            set_torch_threads(torch, threads)
            local.torch = threads

    def restore(self) -> None:
        """Give BLAS back the threads that it had."""
        if self._touched:
            with self._lock:
                for library, before in self._before.values():
                    library.set_num_threads(before)
                self._before.clear()
                self._touched = False
                self._blas = 0


#: Modules that bring a BLAS library along.
_BLAS_USERS = ("numpy", "scipy.linalg", "torch")


def _loaded_blas() -> tuple[bool, ...]:
    return tuple(name in sys.modules for name in _BLAS_USERS)


@lru_cache(maxsize=1)
def blas_libraries(loaded: tuple[bool, ...]) -> list[Any]:
    """Return the BLAS libraries of this process; the search takes milliseconds, so it is made once."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


_setting = threading.Lock()
#: By thread: the number of torch's threads that it had at first, which other threads keep.
_first_seen = threading.local()


def set_torch_threads(torch: Any, threads: int) -> None:
    """Set the number of torch's threads for the calling thread alone."""
    with _setting:
        # A thread that is asked for its number for the first time takes the one that any thread set last. So ask
        # now, and let a third thread set that number back: else the program's own threads would inherit this one.
        if not hasattr(_first_seen, "threads"):
            _first_seen.threads = torch.get_num_threads()
        torch.set_num_threads(threads)
        restore = threading.Thread(target=torch.set_num_threads, args=(_first_seen.threads,))
        restore.start()
        restore.join()
