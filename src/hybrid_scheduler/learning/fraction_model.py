"""Forest that predicts the best share of an isolated task directly, which is the published target."""

from __future__ import annotations

import numpy as np

from ..core import Floats, Platform, Task
from ..physics import optimal_fraction
from .duration.features import NUM_FEATURES, features_row
from .duration.fitting import LEAST_SAMPLES
from .duration.flat_forest import FlatForest, join_forests
from .duration.online_duration_model import OnlineDurationModel


class FractionForest:
    """One share per class of device, 0 for CPUs, learned from the window of a duration model."""

    trees = 100

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.forest_: FlatForest | None = None
        self._row = np.zeros((1, NUM_FEATURES))

    def predict(self, task: Task, times: OnlineDurationModel) -> Floats:
        """Return the share per class; until there is a forest, it follows from the predicted durations."""
        if self.forest_ is None:
            row = times.row(task)
            reference = self.platform.class_of[np.argmax(self.platform.is_cpu)]
            shares = optimal_fraction(row[[reference], 0], row[:, 0], row[:, 1])
        else:
            features_row(task.size, task.compute_intensity, task.memory_required, self._row[0])
            shares = self.forest_.predict(self._row)[0][0]
        clipped: Floats = np.clip(shares, 0.0, 1.0)
        return clipped

    def refit(self, times: OnlineDurationModel) -> None:
        """Replace a tenth of the trees, or all of them after a change; predictions fill in unknown durations."""
        samples = times.samples()
        if len(samples) < LEAST_SAMPLES:
            return
        logs = np.where(np.isnan(samples.logs), np.log(times.predicted_window()[:, :, 0]), samples.logs)
        labels = _shares(logs, samples.fixed, samples.reference)
        labels[:, self.platform.class_of[self.platform.is_cpu]] = 0.0
        young = len(samples) < times.window
        fresh = _grow(
            samples.rows, labels, self.trees if young or not self.forest_ else self.trees // 10, times.seed
        )
        if self.forest_ is None or young:
            self.forest_ = fresh
        else:
            self.forest_ = join_forests([self.forest_.last(self.trees - len(fresh)), fresh])


def _shares(logs: Floats, fixed: Floats, reference: int) -> Floats:
    seconds = np.exp(logs)
    launch = np.nan_to_num(fixed, nan=0.0)
    return optimal_fraction(seconds[:, [reference]], seconds, launch)


def _grow(rows: Floats, labels: Floats, trees: int, seed: int) -> FlatForest:
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(trees, max_depth=15, random_state=(seed + len(rows)) % 2**32)
    forest.fit(rows.astype(np.float32), labels[:, 0] if labels.shape[1] == 1 else labels)
    return FlatForest.of(forest.estimators_, NUM_FEATURES)
