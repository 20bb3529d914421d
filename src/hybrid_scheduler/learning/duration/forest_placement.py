"""Placement of Hybrid ML with a forest: the compiled decision, and the forest of shares of the published target.

The decision predicts a task's durations, places it and writes greedy's choice in one call, because entering and
leaving compiled code costs as much as the prediction itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import from_dtype, types

from ...compiled import (
    DEVICE,
    best_placement,
    compiled,
    earliest_free,
    earliest_free_accelerator,
    entry,
    fitting_share,
    helper,
    priced_placement,
)
from ...compiled.device_prices import FIRST_COEFFICIENT, LATENCY_WEIGHT, SPLIT_FEE
from ...compiled.split_placement import FORBIDDEN_SPLIT_FEE
from ...core import Floats, Platform, Task
from ...physics import optimal_fraction
from .duration_model import MODEL, predict_task, to_times
from .features import NUM_FEATURES, features_row
from .fitting import MIN_SAMPLES
from .flat_forest import FlatForest, join_forests
from .online_duration_model import OnlineDurationModel

EARLIEST, PRICED, FRACTION = 0, 1, 2
# params: the mode, then the parameters of a rule with prices, see `compiled/device_prices.py`
_COEFFICIENTS, WEIGHT = 1 + FIRST_COEFFICIENT, 1 + LATENCY_WEIGHT
#: Candidates are (device, fraction, the device's wait, its CPU's wait) of the learned placement, then of greedy's.
CANDIDATES_SIZE, GREEDY = 8, 4


@helper
def _fill_greedy(now, intensity, memory, free_at, devices, candidates):  # type: ignore[no-untyped-def]
    """Write greedy's choice: fraction = intensity, on the accelerator that is free earliest."""
    best = max(earliest_free_accelerator(free_at, devices), 0)
    share = 0.0 if devices[best].is_cpu == 1 else min(intensity, fitting_share(memory, devices[best].memory))
    candidates[GREEDY], candidates[GREEDY + 1] = best, share
    candidates[GREEDY + 2] = max(0.0, free_at[best] - now)
    candidates[GREEDY + 3] = max(0.0, free_at[devices[best].cpu] - now)


@helper
def _best_for_share(now, memory, times, free_at, devices, weight, prices, fractions):  # type: ignore[no-untyped-def]
    """Return, given a share per class, the accelerator with the least weighted latency and busy seconds."""
    best, best_share, best_value = devices[0].cpu, 0.0, np.inf
    first = 0
    while first < len(devices):
        d = earliest_free(free_at, first, devices[first].group_end)
        first = devices[first].group_end
        if devices[d].is_cpu == 0:
            cpu = devices[d].cpu
            column, host = devices[d].column, devices[cpu].column
            share = min(max(fractions[column], 0.0), fitting_share(memory, devices[d].memory))
            part = times[column, 1] + share * times[column, 0] if share > 0.0 else 0.0
            rest = (1.0 - share) * times[host, 0]
            end = max(0.0, free_at[d] - now) + part if share > 0.0 else 0.0
            if share < 1.0:
                end = max(end, max(0.0, free_at[cpu] - now) + rest)
            value = weight * end + prices[column] * part + prices[host] * rest
            if value < best_value:
                best, best_share, best_value = d, share, value
    return best, best_share


_READ_ONLY = types.Array(types.float64, 1, "C", readonly=True)
_VECTOR, _MATRIX = types.float64[::1], types.float64[:, ::1]
_DEVICES = from_dtype(DEVICE)[::1]
_CHOOSE = types.void(
    *(types.float64,) * 4, types.boolean, *MODEL, *(_READ_ONLY,) * 2, _DEVICES, *(_VECTOR,) * 3, *(_MATRIX,) * 2,
    _VECTOR,
)  # fmt: skip
_GREEDILY = types.void(*(types.float64,) * 3, _READ_ONLY, _DEVICES, _VECTOR)


def compiled_choice() -> Any:
    """Return the compiled `_choose`."""
    return compiled(_choose, _CHOOSE)


def compiled_greedy_choice() -> Any:
    """Return the compiled `_choose_greedily`."""
    return compiled(_choose_greedily, _GREEDILY)


@entry
def _choose(  # type: ignore[no-untyped-def]
    now, size, intensity, memory, divisible,
    constants, coefficients, reference, feature, threshold, child, values, roots, depth,
    free_at, earliest_start, devices, params, state, fractions, prediction, times, candidates,
):  # fmt: skip
    """Place a task that can start at `earliest_start`; prices follow the queues in `free_at`."""
    predict_task(
        size, intensity, memory, constants, coefficients, reference,
        feature, threshold, child, values, roots, depth, prediction,
    )  # fmt: skip
    to_times(constants, prediction, times)
    weight, prices = params[WEIGHT], params[WEIGHT + 1 :]
    if params[0] == PRICED:
        price_coefficients = params[_COEFFICIENTS:WEIGHT]
        if not divisible:
            price_coefficients = price_coefficients.copy()
            price_coefficients[SPLIT_FEE] = FORBIDDEN_SPLIT_FEE
        device, fraction = priced_placement(
            now,
            memory,
            times,
            free_at,
            earliest_start,
            devices,
            params[1],
            params[2],
            price_coefficients,
            weight,
            prices,
            state,
        )
    elif params[0] == EARLIEST or not divisible:
        split_fee = 0.0 if divisible else FORBIDDEN_SPLIT_FEE
        device, fraction = best_placement(
            now, memory, times, earliest_start, devices, 0, len(devices), weight, prices, split_fee
        )
    else:
        device, fraction = _best_for_share(now, memory, times, earliest_start, devices, weight, prices, fractions)
    candidates[0], candidates[1] = device, fraction
    candidates[2] = max(0.0, earliest_start[device] - now)
    candidates[3] = max(0.0, earliest_start[devices[device].cpu] - now)
    _fill_greedy(now, intensity, memory, earliest_start, devices, candidates)


@entry
def _choose_greedily(now, intensity, memory, free_at, devices, candidates):  # type: ignore[no-untyped-def]
    _fill_greedy(now, intensity, memory, free_at, devices, candidates)


class FractionForest:
    """Best share of an isolated task by class of device, 0 for CPUs, learned from a duration model's window."""

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
        if len(samples) < MIN_SAMPLES:
            return
        logs = np.where(
            np.isnan(samples.log_seconds), np.log(times.predicted_window()[:, :, 0]), samples.log_seconds
        )
        labels = _shares(logs, samples.fixed, samples.reference)
        labels[:, self.platform.class_of[self.platform.is_cpu]] = 0.0
        young = len(samples) < times.window
        fresh = _grow(
            samples.features, labels, self.trees if young or not self.forest_ else self.trees // 10, times.seed
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
