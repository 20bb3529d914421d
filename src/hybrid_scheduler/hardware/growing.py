"""Forests of learned schedulers, grown in a thread of their own.

Growing one takes a tenth of a second, which whoever submits kernels of a millisecond should not wait for. So a
model's wish is carried out beside, and what came of it is swapped in between two tasks.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ..core import Online
from ..learning.growth import Growth
from ..learning.online_times import OnlineTimes, Wanted


class Growing:
    """Serves every scheduler that keeps its model of durations in an attribute ``times_``."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._closed = False
        self._jobs: dict[OnlineTimes, tuple[Wanted, Future[Growth]]] = {}
        #: Growths that failed: the model before them went on.
        self.failed = 0

    def adopt(self, scheduler: Online) -> None:
        """From now on its forests are grown here."""
        times = getattr(scheduler, "times_", None)
        if not isinstance(times, OnlineTimes) or self._closed:
            return
        times.synchronous = False
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "hybrid-growing")
            self._thread.submit(_load)  # takes a second or two: not in the middle of a run

    def turn(self, scheduler: Online, at_task: int) -> None:
        """Between two tasks of this scheduler: swap in what is done, begin what is wished for."""
        times = getattr(scheduler, "times_", None)
        if not isinstance(times, OnlineTimes) or self._thread is None:
            return
        job = self._jobs.get(times)
        if job is not None and job[1].done():
            del self._jobs[times]
            self._swap_in(scheduler, times, *job, at_task)
            job = None
        if job is None and times.wanted is not None:
            wish, times.wanted = times.wanted, None
            self._jobs[times] = wish, self._thread.submit(wish.grow)

    def _swap_in(
        self, scheduler: Any, times: OnlineTimes, wish: Wanted, answer: Future[Growth], at_task: int
    ) -> None:
        try:
            growth = answer.result(timeout=0)
        except Exception:  # whatever went wrong, yesterday's model is better than none
            self.failed += 1
            return
        if times.apply(wish, growth, at_task) and hasattr(scheduler, "renewed"):
            scheduler.renewed()

    def forget(self) -> None:
        """Another policy decides from now on: what its predecessor wished for is of no use."""
        for _, answer in self._jobs.values():
            answer.cancel()
        self._jobs.clear()

    def close(self) -> None:
        """What has not begun is dropped."""
        self.forget()
        thread, self._thread, self._closed = self._thread, None, True
        if thread is not None:
            thread.shutdown(wait=False, cancel_futures=True)


def _load() -> None:
    import sklearn.ensemble  # noqa: F401
