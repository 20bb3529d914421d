"""Compiled decision of Hybrid ML: predict a task's durations, place it, and note greedy's choice, in one call.

One call, because entering and leaving compiled code costs as much as the prediction itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import from_dtype, types

from ...compiled import (
    DEVICE,
    PRICE_COEFFICIENTS,
    best_placement,
    compiled,
    earliest_free,
    earliest_free_accelerator,
    entry,
    fitting_share,
    helper,
    priced_placement,
)
from .duration_model import MODEL, predict_task, to_times

EARLIEST, PRICED, FRACTION = 0, 1, 2
# params: [mode, number of CPUs, number of accelerators, seven coefficients, latency weight, objective prices...]
_COEFFICIENTS = 3
WEIGHT = _COEFFICIENTS + len(PRICE_COEFFICIENTS)
#: Index of the fee of a split among the coefficients, and a fee that no task pays.
_SPLIT_FEE, _NEVER = 5, 1e300
#: A note is (device, fraction, the device's wait, its CPU's wait), of the learned placement and of greedy's.
NOTE, GREEDY = 8, 4


@helper
def _note_greedy(now, intensity, memory, free_at, devices, note):  # type: ignore[no-untyped-def]
    """Note greedy's choice: fraction = intensity, on the accelerator that is free earliest."""
    best = max(earliest_free_accelerator(free_at, devices), 0)
    share = 0.0 if devices[best].is_cpu == 1 else min(intensity, fitting_share(memory, devices[best].memory))
    note[GREEDY], note[GREEDY + 1] = best, share
    note[GREEDY + 2] = max(0.0, free_at[best] - now)
    note[GREEDY + 3] = max(0.0, free_at[devices[best].cpu] - now)


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
    *(types.float64,) * 4, types.boolean, *MODEL, _READ_ONLY, _DEVICES, *(_VECTOR,) * 3, *(_MATRIX,) * 2, _VECTOR
)
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
    numbers, coefficients, reference, feature, threshold, child, values, roots, depth,
    free_at, devices, params, state, fractions, prediction, times, note,
):  # fmt: skip
    predict_task(
        size, intensity, memory, numbers, coefficients, reference,
        feature, threshold, child, values, roots, depth, prediction,
    )  # fmt: skip
    to_times(numbers, prediction, times)
    weight, prices = params[WEIGHT], params[WEIGHT + 1 :]
    if params[0] == PRICED:
        theta = params[_COEFFICIENTS:WEIGHT]
        if not divisible:
            theta = theta.copy()
            theta[_SPLIT_FEE] = _NEVER
        device, fraction = priced_placement(
            now, memory, times, free_at, devices, params[1], params[2], theta, weight, prices, state
        )
    elif params[0] == EARLIEST or not divisible:
        fee = 0.0 if divisible else _NEVER
        device, fraction = best_placement(
            now, memory, times, free_at, devices, 0, len(devices), weight, prices, fee
        )
    else:
        device, fraction = _best_for_share(now, memory, times, free_at, devices, weight, prices, fractions)
    note[0], note[1] = device, fraction
    note[2] = max(0.0, free_at[device] - now)
    note[3] = max(0.0, free_at[devices[device].cpu] - now)
    _note_greedy(now, intensity, memory, free_at, devices, note)


@entry
def _choose_greedily(now, intensity, memory, free_at, devices, note):  # type: ignore[no-untyped-def]
    _note_greedy(now, intensity, memory, free_at, devices, note)
