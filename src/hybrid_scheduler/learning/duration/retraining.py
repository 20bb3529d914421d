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

    fitted: FittedDurations
    seconds: float


def train(request: TrainingRequest) -> TrainedModel:
    """The work itself."""
    began = time.perf_counter()
    return TrainedModel(request.fit(), time.perf_counter() - began)


class TrainingJob:
    """One wish under way: taken from the model and handed to `submit`, which must not wait."""

    def __init__(
        self, scheduler: LearnsDurations, submit: Callable[[TrainingRequest], Future[TrainedModel]]
    ) -> None:
        times = scheduler.times_
        assert times.pending_request is not None
        self._scheduler, self._request = scheduler, times.pending_request
        times.pending_request = None
        # What is kept of the old model is its frame and fit: the trees need not travel.
        keep = self._request.keep
        self._future = submit(replace(self._request, keep=keep.with_last_trees(0)) if keep else self._request)

    @property
    def done(self) -> bool:
        return self._future.done()

    def cancel(self) -> None:
        self._future.cancel()

    def deliver(self, at_task: int) -> tuple[list[LearningEvent], float | None]:
        """Swap in what came of it, between two tasks, and how many seconds it took; None if it came too late.

        Raises what the work raised: the model before it is still in place.
        """
        trained = self._future.result(timeout=0)
        events = self._scheduler.times_.apply(self._request, trained.fitted, at_task)
        if not events:
            return events, None
        on_retrained = getattr(self._scheduler, "on_retrained", None)
        if on_retrained is not None:
            on_retrained()
        return events, trained.seconds
