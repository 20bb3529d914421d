"""Forests of learned schedulers, grown in a thread of their own.

Growing one takes a tenth of a second, which whoever submits kernels of a millisecond should not wait for. So a
model's wish is carried out beside, and what came of it is swapped in between two tasks. Meanwhile kernels are
slower, as trees compete with them for cores and for the interpreter: most of the time, therefore, growing rests.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from ..core import Online
from ..learning.duration.online_duration_model import TrainingRequest
from ..learning.duration.retraining import LearnsDurations, TrainedModel, TrainingJob, train

#: The share of the time that may go into growing.
SHARE = 0.05


class BackgroundTraining:
    """Serves every scheduler that keeps its model of durations in an attribute ``times_``, one wish at a time."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._thread: ThreadPoolExecutor | None = None
        self._closed = False
        self._errand: TrainingJob | None = None
        self._rests_until = -math.inf
        #: Growths that failed: the model before them went on.
        self.failed = 0

    def adopt(self, scheduler: Online) -> None:
        """From now on its forests are grown here."""
        if self._closed or not isinstance(scheduler, LearnsDurations):
            return
        scheduler.times_.synchronous = False
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "hybrid-growing")
            self._thread.submit(_load)  # takes a second or two: not in the middle of a run

    def turn(self, scheduler: Online, at_task: int) -> None:
        """Between two tasks, the last one of this scheduler: swap in what is done, begin what it wishes for."""
        if self._thread is None:
            return
        if self._errand is not None:
            if not self._errand.done:
                return
            errand, self._errand = self._errand, None
            try:
                errand.deliver(at_task)
            except Exception:  # whatever went wrong, yesterday's model is better than none
                self.failed += 1
        if (
            self._clock() >= self._rests_until
            and isinstance(scheduler, LearnsDurations)
            and scheduler.times_.pending_request
        ):
            try:
                self._errand = TrainingJob(scheduler, self._begin)
            except RuntimeError:  # the program is about to end, and begins no more threads
                self.failed += 1

    def _begin(self, wish: TrainingRequest) -> Future[TrainedModel]:
        assert self._thread is not None
        return self._thread.submit(self._carry_out, wish)

    def _carry_out(self, wish: TrainingRequest) -> TrainedModel:
        began = self._clock()
        try:
            return train(wish)
        finally:
            now = self._clock()
            self._rests_until = now + (now - began) * (1.0 / SHARE - 1.0)

    def forget(self) -> None:
        """Another policy decides from now on: what its predecessor wished for is of no use."""
        if self._errand is not None:
            self._errand.cancel()
            self._errand = None

    def close(self) -> None:
        """What has not begun is dropped."""
        self.forget()
        thread, self._thread, self._closed = self._thread, None, True
        if thread is not None:
            thread.shutdown(wait=False, cancel_futures=True)


def _load() -> None:
    import sklearn.ensemble  # noqa: F401
