"""Scores of recent predictions, each made before its outcome was learned."""

from __future__ import annotations

from collections import deque

import numpy as np

from ...core import Floats

_LENGTH, _RESIDUALS = 500, 200
#: Fewest scores for an estimate of trust, and of R².
_LEAST_FOR_TRUST, _LEAST_FOR_R2 = 50, 30
#: Errors below two per cent are never outliers.
_NEGLIGIBLE = 0.02


class PredictionScores:
    """Observed log seconds (NaN where unknown) beside the model's predictions, see `compiled_prediction`."""

    def __init__(self, classes: int, reference: int) -> None:
        self.classes, self.reference = classes, reference
        self._rows: deque[Floats] = deque(maxlen=_LENGTH)
        self._residuals: deque[float] = deque(maxlen=_RESIDUALS)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def residuals(self) -> Floats:
        """One number per task: the root mean square of its known log errors."""
        return np.array(self._residuals)

    def add(self, logs: Floats, prediction: Floats) -> float:
        """Score one task and return its residual."""
        errors = logs - prediction[0]
        known = errors[errors == errors]
        residual = float(np.sqrt(known @ known / len(known)))
        self._residuals.append(residual)
        self._rows.append(np.concatenate([logs, prediction.ravel()]))
        return residual

    def trailing_outliers(self, most: int) -> int:
        """Return how many of the last tasks, without a gap, were predicted much worse than usual; at least 1."""
        residuals = self.residuals
        usual = max(float(np.median(residuals)), _NEGLIGIBLE)
        normal = np.flatnonzero(residuals[-most:] <= 3.0 * usual)
        return max(len(residuals[-most:]) - 1 - int(normal[-1]), 1) if len(normal) else most

    def trust(self) -> Floats:
        """Return, per target, the slope of the fit's residual against the forest's correction, between 0 and 1."""
        trust = np.ones(self.classes)
        if len(self._rows) < _LEAST_FOR_TRUST:
            return trust
        logs, predicted, _, fits, corrections = self._columns()
        own = logs[:, self.reference]
        work = np.where(np.isnan(own), predicted[:, self.reference], own)
        for k in range(self.classes):
            left = (own if k == self.reference else work - logs[:, k]) - fits[:, k]
            known = ~np.isnan(left) & (corrections[:, k] != 0)
            correction, left = corrections[known, k], left[known]
            if len(correction) >= _LEAST_FOR_TRUST:
                trust[k] = min(max(float(correction @ left) / float(correction @ correction), 0.0), 1.0)
        return trust

    def r2(self) -> float | None:
        """Return R² of the predicted log seconds over all classes together; None if there are too few scores."""
        if len(self._rows) < _LEAST_FOR_R2:
            return None
        logs, predicted, *_ = self._columns()
        spread = float(np.nansum((logs - np.nanmean(logs)) ** 2))
        return 1.0 - float(np.nansum((logs - predicted) ** 2)) / spread if spread > 0 else None

    def _columns(self) -> tuple[Floats, ...]:
        scores = np.array(self._rows)
        return tuple(scores[:, k * self.classes : (k + 1) * self.classes] for k in range(5))
