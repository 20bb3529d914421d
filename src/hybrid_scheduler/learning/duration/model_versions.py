"""What a learner tells about itself: its versions, and what happened to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """One model: `r2` of the predictions it replaced, made before their outcomes were known; None if too few."""

    version: int
    samples: int
    r2: float | None
    trigger: str
    at_task: int


@dataclass(frozen=True, slots=True)
class LearningEvent:
    """Something a person should hear of.

    `kind` is retrained, drift, retrain_failed, model_refused, fallback (greedy takes over) or recovered.
    """

    kind: str
    at_task: int
    message: str
    version: int
