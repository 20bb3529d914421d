"""The learning side of a lane: wishes go to the trainer, what comes back is swapped in between two tasks.

It serves every scheduler that keeps its model of durations in an attribute ``times_``.
"""

from __future__ import annotations

from ..core import Outcome, Task
from ..learning.duration.model_versions import LearningEvent, ModelVersion
from ..learning.duration.retraining import LearnsDurations, TrainingJob
from .training_worker import TrainingWorker


class LaneTraining:
    """One scheduler's model, trained in the background. Version numbers go on where an earlier process stopped."""

    def __init__(self, scheduler: LearnsDurations, trainer: TrainingWorker) -> None:
        self._scheduler, self.times, self._trainer = scheduler, scheduler.times_, trainer
        self.times.synchronous = False
        self._errand: TrainingJob | None = None
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
        return self._errand is not None

    @property
    def finished(self) -> bool:
        """Whether something came back."""
        return self._errand is not None and self._errand.done

    def send(self) -> None:
        """Hand the latest wish over, one at a time."""
        if self.times.pending_request is not None and self._errand is None:
            self._errand = TrainingJob(self._scheduler, self._trainer.submit)

    def collect(self, at_task: int) -> list[LearningEvent]:
        """Swap in what came back."""
        assert self._errand is not None
        errand, self._errand = self._errand, None
        try:
            events, seconds = errand.deliver(at_task)
        except Exception as error:  # whatever went wrong, yesterday's model is better than none
            reason = str(error) or type(error).__name__
            return [LearningEvent("retrain_failed", at_task, f"kept the old model: {reason}", self.version or 0)]
        if events:
            self._seconds = seconds
        return events
