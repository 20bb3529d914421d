"""Price index: earliest finish plus prices on machine time.

Assumes that durations are told and that backlogs are exact.
Rule: least ``finish - now + p_c * CPU seconds + p_g * GPU seconds + k * [split]`` over {CPU, balancing share, GPU}.
The prices rise with the backlog: when the machine is busy, a second of it taken from everybody else weighs more
than a second of this task's own latency, so wasteful splits stop. A GPU second is worth r* CPU seconds, where r* is
the ratio T/G at which the fluid optimum changes sides, estimated over the last 1000 tasks. Backlogs are measured
in typical task times, so the rule does not care about the unit of time.

The seven coefficients were found by evolution (`python -m hybrid_scheduler.experiments.tune_prices`) on seeds that
no reported figure uses. Tuned on mean latency together with p99 and makespan: tuning on the mean alone would
sacrifice large tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core import Floats, InvalidInputError, Knowledge
from ..kernels import FastRule, best_placement, column_prices, helper, rule
from .registry import Look, register

#: base price, slope with mean backlog, slope with imbalance, GPU factors of both, split fee: fixed, with backlog
COEFFICIENTS = (0.255, 1.111, 0.155, 0.973, 1.045, 0.0127, 0.093)

WINDOW = 1000
_REFRESH = 64
# state: [tasks seen, r*, typical time, window of CPU times, window of accelerator times, value per column...]
_RING = 3


@helper
def pivot(cpu, accelerator, cpus, accelerators):  # type: ignore[no-untyped-def]
    """The ratio of CPU to accelerator time at which the fluid optimum changes sides."""
    ratio = cpu / accelerator
    order = np.argsort(-ratio)
    left = cpu.sum() / cpus
    moved = 0.0
    for i in order:
        left -= cpu[i] / cpus
        moved += accelerator[i] / accelerators
        if moved >= left:
            return ratio[i]
    return ratio[order[-1]]


@helper
def learn_window(times, devices, cpus, accelerators, state):  # type: ignore[no-untyped-def]
    """Add this task to the window; now and then renew r* and the typical task time."""
    cpu_sum, rate = 0.0, 0.0
    for d in range(len(devices)):
        column = devices[d].column
        seconds = times[column, 0] + times[column, 1]
        if devices[d].is_cpu == 1:
            cpu_sum += seconds
        else:
            rate += 1.0 / max(seconds, 1e-12)
    cpu = max(cpu_sum / cpus, 1e-12)
    accelerator = accelerators / rate  # time on the average accelerator
    seen = int(state[0])
    state[_RING + seen % WINDOW] = cpu
    state[_RING + WINDOW + seen % WINDOW] = accelerator
    blend = max(1.0 / (seen + 1), 0.005)
    value = state[_RING + 2 * WINDOW :]
    for d in range(len(devices)):
        if devices[d].is_cpu == 0 and devices[d].group == d:
            column = devices[d].column
            seconds = max(times[column, 0] + times[column, 1], 1e-12)
            value[column] += blend * (accelerator / seconds - value[column])
    state[0] += 1.0
    if seen < _REFRESH or seen % _REFRESH == 0:
        filled = min(seen + 1, WINDOW)
        c = state[_RING : _RING + filled]
        a = state[_RING + WINDOW : _RING + WINDOW + filled]
        state[1] = pivot(c, a, cpus, accelerators)
        state[2] = (c * a / (c + a)).mean()


@rule
def price_index_rule(now, task, times, free_at, devices, params, state):  # type: ignore[no-untyped-def]
    cpus, accelerators = params[0], params[1]
    theta = params[2:9]
    weight, objective = params[9], params[10:]
    if accelerators == 0.0:
        return best_placement(now, task[0].memory, times, free_at, devices, 0, len(devices), weight, objective, 0.0)
    learn_window(times, devices, cpus, accelerators, state)
    worth, typical = state[1], state[2]
    value = state[_RING + 2 * WINDOW :]
    cpu_backlog, accelerator_backlog = 0.0, 0.0
    for d in range(len(devices)):
        wait = max(0.0, free_at[d] - now)
        if devices[d].is_cpu == 1:
            cpu_backlog += wait
        else:
            accelerator_backlog += wait
    backlog = (cpu_backlog + accelerator_backlog) / (cpus + accelerators)
    imbalance = cpu_backlog / cpus - accelerator_backlog / accelerators
    level = weight * (theta[0] + theta[1] * backlog / typical)
    tilt = weight * theta[2] * imbalance / typical
    prices = objective.copy()
    for d in range(len(devices)):
        if devices[d].group == d:
            column = devices[d].column
            if devices[d].is_cpu == 1:
                prices[column] = objective[column] + max(0.0, level + tilt)
            else:
                scaled = value[column] * (theta[3] * worth * level - theta[4] * tilt)
                prices[column] = objective[column] + max(0.0, scaled)
    fee = weight * (theta[5] * typical + theta[6] * backlog)
    return best_placement(now, task[0].memory, times, free_at, devices, 0, len(devices), weight, prices, fee)


@register("price_index", label="Price index (told)", look=Look("#FDA4AF", "#BE123C", "✦", "dash-dot"))
class PriceIndex(FastRule):
    """Told the times: earliest finish, plus prices on machine time that rise with the backlog."""

    rule = price_index_rule
    knows = Knowledge.TOLD

    def __init__(self, coefficients: Sequence[float] = COEFFICIENTS) -> None:
        if len(coefficients) != len(COEFFICIENTS) or not np.isfinite(coefficients).all():
            raise InvalidInputError("coefficients", f"{len(COEFFICIENTS)} finite numbers", coefficients)
        self.coefficients = tuple(coefficients)

    def make_params(self) -> Floats:
        platform = self.setting.platform
        counts = [platform.is_cpu.sum(), len(platform.accelerators)]
        return np.concatenate([counts, self.coefficients, column_prices(self.setting)])

    def make_state(self) -> Floats:
        return np.zeros(_RING + 2 * WINDOW + int(self.devices["column"].max()) + 1)
