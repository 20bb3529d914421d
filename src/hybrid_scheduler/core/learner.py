"""Protocol of schedulers that learn: what they offer beside their decisions, each with a default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .outcome import Outcome
from .workload import Task


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """One version of a model.

    `r2` is that of the predictions it replaced, made before their outcomes were known; None if there were too few.
    `error` is the mean absolute error of their log seconds, where it is measured.
    """

    version: int
    samples: int
    r2: float | None
    trigger: str
    at_task: int
    error: float | None = None


@dataclass(frozen=True, slots=True)
class LearningEvent:
    """An event of a learner that users should see.

    `kind` is retrained, drift, retrain_failed, model_refused, fallback (a simpler rule decides) or recovered.
    """

    kind: str
    at_task: int
    message: str
    version: int


class LearnedState(Protocol):
    """A copy of what was learned, which another thread writes to a file."""

    def save_model(self, path: str | Path) -> None:
        """Write the file completely or not at all."""


class Learner:
    """Base of schedulers that learn, beside `Online` or `Central`. A live run shows and stores what it offers.

    Examples
    --------
    >>> from hybrid_scheduler import create
    >>> from hybrid_scheduler.core import Learner
    >>> isinstance(create("hybrid_ml"), Learner), isinstance(create("greedy"), Learner)
    (True, False)
    """

    @property
    def state(self) -> str:
        """``warming`` (nothing learned yet), ``learned``, ``fallback`` (a simpler rule decides) or ``ready``."""
        return "ready"

    @property
    def versions(self) -> Sequence[ModelVersion]:
        """Versions of the model so far, oldest first."""
        return ()

    def take_events(self) -> list[LearningEvent]:
        """Return the events since the last call, oldest first."""
        return []

    def feature_importance(self) -> dict[str, float] | None:
        """Return the share of each task property in the predictions; None if it is unknown."""
        return None

    def accuracy(self) -> dict[str, Any] | None:
        """Return how wrong recent predictions were, ready for JSON; None if it is unknown."""
        return None

    def network_numbers(self) -> dict[str, float | int | None] | None:
        """Return exploration, updates and newest loss of a network; None without one."""
        return None

    def take_loss(self) -> float | None:
        """Return the mean loss of a network's updates since the last call; None without any."""
        return None

    def learn_from(self, task: Task, outcome: Outcome) -> None:
        """Learn from a task that an earlier process decided. The default does nothing."""

    def snapshot(self) -> LearnedState | None:
        """Return a copy of what a restart could not learn again; None if there is none.

        A scheduler that returns one reads its file by a parameter `model`.
        """
        return None


def taken(events: list[LearningEvent]) -> list[LearningEvent]:
    """Empty a list of events and return what it held."""
    held = list(events)
    events.clear()
    return held
