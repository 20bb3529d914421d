"""Model of a learned scheduler in a lane: its version numbers across restarts, and its background retraining."""

from __future__ import annotations

from ..core import Outcome, Task
from ..learning.duration.online_duration_model import LearningEvent, ModelVersion
from ..learning.duration.retraining import BackgroundRetraining, LearnsDurations, TrainingWorker


class LaneModel:
    """The duration model of one scheduler. Version numbers continue where an earlier process stopped.

    Parameters
    ----------
    scheduler
        Keeps its duration model in the attribute `times_`.
    trainer
        Where the model is trained.
    """

    def __init__(self, scheduler: LearnsDurations, trainer: TrainingWorker) -> None:
        self._scheduler, self.times = scheduler, scheduler.times_
        self.retraining = BackgroundRetraining(trainer)
        self.retraining.adopt(scheduler)
        #: Versions of earlier processes, and versions of this one that were reported.
        self._base, self._reported = 0, 0
        self._seconds: float | None = None

    @property
    def version(self) -> int | None:
        """The number of the model that decides now; None before the first."""
        count = len(self.times.versions)
        return self._base + count if count else self._base or None

    def learn(self, task: Task, outcome: Outcome) -> None:
        """Learn from a task that an earlier process decided."""
        self.times.learn(task, outcome)

    def resume_from(self, version: int) -> None:
        """Count the models so far as one, with the number after the checkpoint's `version`."""
        count = len(self.times.versions)
        self._base = version + (1 if count else 0) - count
        self._reported = max(0, count - 1)

    def start_training(self) -> None:
        """Start the latest request of the model, if it has one and none runs."""
        self.retraining.start(self._scheduler)

    def swap_in(self, at_task: int) -> list[LearningEvent]:
        """Swap in the model that was trained; it decides from task `at_task` on."""
        events = self.retraining.collect(at_task)
        self._seconds = self.retraining.seconds
        return events

    def new_versions(self) -> list[tuple[int, ModelVersion, float | None]]:
        """Return the versions since the last call: number, description, and seconds of training."""
        fresh = self.times.versions[self._reported :]
        first = self._base + self._reported + 1
        self._reported = len(self.times.versions)
        seconds, self._seconds = self._seconds, None
        return [(first + i, version, seconds) for i, version in enumerate(fresh)]
