"""The learning side of a lane: wishes go to the trainer, what comes back is swapped in between two tasks.

It serves every scheduler that keeps its model of durations in an attribute ``times_`` (an `OnlineTimes`).
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import Protocol, runtime_checkable

from ..core import Online, Outcome, Task
from ..learning.online_times import OnlineTimes, Wanted
from ..learning.versions import LearningEvent, ModelVersion
from .trainer import Trained, Trainer


@runtime_checkable
class LearnsTimes(Protocol):
    """What the engine looks for in a scheduler."""

    times_: OnlineTimes


class Learner:
    """One scheduler's model, trained in the background. Version numbers go on where an earlier process stopped."""

    def __init__(self, scheduler: Online, times: OnlineTimes, trainer: Trainer) -> None:
        times.synchronous = False
        self._scheduler, self.times, self._trainer = scheduler, times, trainer
        self._job: tuple[Wanted, Future[Trained]] | None = None
        self._base, self._told = 0, 0
        self._seconds: float | None = None

    @property
    def version(self) -> int | None:
        """The number of the model that decides now."""
        count = len(self.times.versions)
        return self._base + count if count else self._base or None

    # ---------------------------------------------------------------- after a restart

    def warm(self, task: Task, outcome: Outcome) -> None:
        """Learn from a task that an earlier process decided."""
        self.times.learn(task, outcome)

    def go_on_from(self, version: int) -> None:
        """The models so far count as one, with the number after the checkpoint's."""
        count = len(self.times.versions)
        self._base = version + (1 if count else 0) - count
        self._told = max(0, count - 1)

    def new_versions(self) -> list[tuple[int, ModelVersion, float | None]]:
        """Versions since the last call: their number, what the model says of itself, how long training took."""
        fresh = self.times.versions[self._told :]
        first = self._base + self._told + 1
        self._told = len(self.times.versions)
        seconds, self._seconds = self._seconds, None
        return [(first + i, version, seconds) for i, version in enumerate(fresh)]

    # ---------------------------------------------------------------- background training

    @property
    def training(self) -> bool:
        return self._job is not None

    @property
    def finished(self) -> bool:
        """Whether something came back."""
        return self._job is not None and self._job[1].done()

    def send(self) -> None:
        """Hand the latest wish over, one at a time."""
        wish = self.times.wanted
        if wish is None or self._job is not None:
            return
        self.times.wanted = None
        # What is kept of the old model is its frame and fit: the trees need not travel.
        light = replace(wish, keep=wish.keep.youngest(0)) if wish.keep else wish
        self._job = wish, self._trainer.submit(light)

    def collect(self, at_task: int) -> list[LearningEvent]:
        """Swap in what came back."""
        assert self._job is not None
        (wish, answer), self._job = self._job, None
        try:
            trained = answer.result(timeout=0)
            before = len(self.times.versions)
            events = self.times.apply(wish, trained.growth, at_task)
            if len(self.times.versions) > before:
                self._seconds = trained.seconds
                renewed = getattr(self._scheduler, "renewed", None)
                if renewed is not None:
                    renewed()
            return events
        except Exception as error:  # whatever went wrong, yesterday's model is better than none
            reason = str(error) or type(error).__name__
            return [LearningEvent("retrain_failed", at_task, f"kept the old model: {reason}", self.version or 0)]
