"""CPU cores as a pool: small tasks run side by side, and a task that runs alone gets all cores.

BLAS and torch start threads of their own. With several tasks on the CPU at once each gets one thread, so that
threads never outnumber cores by much.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from functools import lru_cache
from typing import Any, Protocol

from .ranked_queue import RankedQueue

#: Seconds without a second task on the CPU before one gets all cores: changing the number of threads takes time.
_CALM = 0.005


class CoreTask(Protocol):
    """Task that the pool can run."""

    rank: float

    @property
    def may_use_torch(self) -> bool:
        """Whether torch's threads must be limited for it."""

    def run_on_cores(self, threads: int) -> None:
        """Run with so many threads; raises nothing."""

    def cancel(self) -> bool:
        """Cancel it before it runs."""


class CpuCores:
    """Pool of threads, one per core, that takes the task with the highest rank first.

    Parameters
    ----------
    cores : int
        Number of cores.
    """

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._queue: RankedQueue[tuple[CoreTask, int | None]] = RankedQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        #: Threads that run a task; adding to a set and removing from it need no lock.
        self._busy: set[int] = set()
        #: Threads that end after the task that they run, because others have taken their place.
        self._replaced: set[int] = set()
        self._crowded_at = -math.inf
        self._limits = _ThreadLimits(cores)
        self._local = threading.local()

    def prepare(self) -> None:
        """Find the BLAS libraries now, so that no task waits for the search."""
        blas_libraries(_loaded_blas())

    def put(self, task: CoreTask, threads: int | None = None) -> None:
        """Add a task; `threads` fixes the threads that BLAS and torch may use for it."""
        self._queue.put((task, threads), task.rank)
        if len(self._threads) < self.cores:
            with self._lock:
                if len(self._threads) < self.cores and len(self._queue) + len(self._busy) > len(self._threads):
                    self._start_thread()

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs or waits."""
        return not self._busy and not len(self._queue)

    @property
    def has_free_core(self) -> bool:
        """Whether a task would start at once."""
        return len(self._busy) + len(self._queue) < self.cores

    @property
    def waiting(self) -> int:
        """Number of tasks that wait for a core."""
        return len(self._queue)

    @property
    def runs_caller(self) -> bool:
        """Whether the calling thread is one of the cores, running a task."""
        return threading.get_ident() in self._busy

    def replace(self, thread: int) -> None:
        """Start another thread in place of one whose task takes too long; Python cannot end a thread."""
        with self._lock:
            for one in self._threads:
                if one.ident == thread:
                    self._threads.remove(one)
                    self._replaced.add(thread)
                    self._busy.discard(thread)
                    self._start_thread()
                    return

    def cancel_waiting(self) -> None:
        """Cancel the tasks that have not begun."""
        for task, _ in self._queue.drain():
            task.cancel()

    def close(self) -> None:
        """End the threads after the tasks in the queue, and wait for them."""
        with self._lock:
            threads, self._threads = self._threads, []
        self._queue.close(len(threads))
        for thread in threads:
            thread.join()
        self._limits.restore()

    def _start_thread(self) -> None:
        # Daemons: a program that ends by an error must not wait for a task that hangs.
        thread = threading.Thread(target=self._serve, name=f"hybrid-core-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        busy, me = self._busy, threading.get_ident()
        while (found := self._queue.get()) is not None:
            task, fixed = found
            busy.add(me)
            now = time.monotonic()
            if len(busy) > 1 or len(self._queue):
                self._crowded_at = now
            threads = fixed or (1 if now - self._crowded_at < _CALM else self.cores)
            self._limits.apply(threads, self._local if task.may_use_torch else None)
            try:
                task.run_on_cores(threads)
            finally:
                del task, found
                busy.discard(me)
            if me in self._replaced:
                self._replaced.discard(me)
                return


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
                self._blas, self._touched = threads, True
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
                self._touched, self._blas = False, 0


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
