"""Change detectors for the residuals of a duration model.

All take the residual of one finished task, |log(observed / predicted)|, and return whether it raises an alarm.
`calibrate` sets what is normal from residuals of the current model. A detector must be calibrated before the
change, or it takes the first residuals after it for normal.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from ...core import Floats, UnknownNameError, require


class Detector(Protocol):
    """Interface of a change detector: one stream of residuals, one alarm."""

    def calibrate(self, residuals: Floats) -> None:
        """Reset, with these residuals as the normal state."""

    def update(self, residual: float) -> bool:
        """Add one residual; True is an alarm."""


class Cusum:
    """Cumulative sum with a cap: x = min(residual / s, 6), m = max(0, m + x - mean of x - 1), alarm at m > 8.

    s is the root mean square of normal residuals, at least 0.05. The cap keeps a single outlier from raising an
    alarm; two in a row do, after a change that matters.
    """

    def __init__(
        self, min_scale: float = 0.05, cap: float = 6.0, slack: float = 1.0, threshold: float = 8.0
    ) -> None:
        self.min_scale, self.cap, self.slack, self.threshold = min_scale, cap, slack, threshold
        self.calibrate(np.zeros(0))

    def calibrate(self, residuals: Floats) -> None:
        """Reset, with these residuals as the normal state."""
        self.scale_ = (
            max(float(np.sqrt(np.mean(residuals**2))), self.min_scale) if len(residuals) else self.min_scale
        )
        self.mean_ = float(np.minimum(residuals / self.scale_, self.cap).mean()) if len(residuals) else 0.0
        self.sum_ = 0.0

    def update(self, residual: float) -> bool:
        """Add one residual; True is an alarm."""
        self.sum_ = max(0.0, self.sum_ + min(residual / self.scale_, self.cap) - self.mean_ - self.slack)
        return self.sum_ > self.threshold


class _River:
    """A detector of the river package, fed with residuals in units of their normal root mean square."""

    def __init__(self, make: Callable[[], Any], min_scale: float = 0.05) -> None:
        self._make, self.min_scale = make, min_scale
        self.calibrate(np.zeros(0))

    def calibrate(self, residuals: Floats) -> None:
        self.scale_ = (
            max(float(np.sqrt(np.mean(residuals**2))), self.min_scale) if len(residuals) else self.min_scale
        )
        self.detector_ = self._make()
        for residual in residuals.tolist():
            self.update(residual)

    def update(self, residual: float) -> bool:
        self.detector_.update(residual / self.scale_)
        return bool(self.detector_.drift_detected)


def _river_drift(name: str) -> Any:
    require("river", f"the drift detector {name}", hint="drift='cusum' needs no other package")
    return import_module("river.drift")


def _page_hinkley() -> Detector:
    drift = _river_drift("page_hinkley")
    return _River(lambda: drift.PageHinkley(min_instances=10, delta=0.5, threshold=20.0, mode="up"))


def _adwin() -> Detector:
    drift = _river_drift("adwin")
    return _River(lambda: drift.ADWIN(delta=1e-4, clock=1, grace_period=5))


DETECTORS: dict[str, Callable[[], Detector]] = {"cusum": Cusum, "page_hinkley": _page_hinkley, "adwin": _adwin}


def detector_named(name: str) -> Detector:
    """Return a new detector by its name in `DETECTORS`.

    Raises
    ------
    UnknownNameError
        If there is no such detector.
    """
    if name not in DETECTORS:
        raise UnknownNameError("drift", name, DETECTORS)
    return DETECTORS[name]()
