"""A wish of a model of durations, carried out elsewhere while its scheduler goes on deciding."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

from .fitting import FittedDurations
from .model_versions import LearningEvent
from .online_duration_model import OnlineDurationModel, TrainingRequest


@runtime_checkable
class LearnsDurations(Protocol):
    """A scheduler whose forests can be fitted in another process.

    If it has a method `on_retrained`, that is called after each new model.
    """

    times_: OnlineDurationModel


class TrainedModel(NamedTuple):
    """What came of a wish, and how long it took."""

    growth: FittedDurations
    seconds: float


def train(wanted: TrainingRequest) -> TrainedModel:
    """The work itself."""
    began = time.perf_counter()
    return TrainedModel(wanted.fit(), time.perf_counter() - began)


class TrainingJob:
    """One wish under way: taken from the model and handed to `submit`, which must not wait."""

    def __init__(
        self, scheduler: LearnsDurations, submit: Callable[[TrainingRequest], Future[TrainedModel]]
    ) -> None:
        times = scheduler.times_
        assert times.wanted is not None
        self._scheduler, self._wish = scheduler, times.wanted
        times.wanted = None
        # What is kept of the old model is its frame and fit: the trees need not travel.
        keep = self._wish.keep
        self._answer = submit(replace(self._wish, keep=keep.youngest(0)) if keep else self._wish)

    @property
    def done(self) -> bool:
        return self._answer.done()

    def cancel(self) -> None:
        self._answer.cancel()

    def deliver(self, at_task: int) -> tuple[list[LearningEvent], float | None]:
        """Swap in what came of it, between two tasks, and how many seconds it took; None if it came too late.

        Raises what the work raised: the model before it is still in place.
        """
        trained = self._answer.result(timeout=0)
        events = self._scheduler.times_.apply(self._wish, trained.growth, at_task)
        if not events:
            return events, None
        on_retrained = getattr(self._scheduler, "on_retrained", None)
        if on_retrained is not None:
            on_retrained()
        return events, trained.seconds
