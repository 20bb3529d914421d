"""Price index: earliest finish plus prices on device time.

Assumes that durations are known and that backlogs are exact.
Rule: least ``finish - now + p_c * CPU seconds + p_a * GPU seconds + split_fee * [split]`` over {CPU, balancing
share, GPU}, with prices that rise with the backlog (`compiled/device_prices.py`). Below half load it is about 1 %
slower than earliest finish. Near capacity it halves the latency, because it does not split where that wastes device
time.

The coefficients were tuned on mean latency together with p99 and makespan. Tuning on the mean alone would delay
large tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..compiled import PRICE_COEFFICIENTS, FastRule, column_prices, helper, price_state, priced_placement, rule
from ..compiled.device_prices import SPLIT_FEE, PriceRule, price_rule
from ..compiled.split_placement import FORBIDDEN_SPLIT_FEE
from ..core import Floats, InvalidInputError, Knowledge
from .registry import Look, register


# The layout of params is that of `compiled/device_prices.py`.
@helper
def _place(now, task, times, free_at, earliest_start, devices, params, state):  # type: ignore[no-untyped-def]
    prices = price_rule(params)
    if task[0].indivisible == 1:
        coefficients = prices.coefficients.copy()
        coefficients[SPLIT_FEE] = FORBIDDEN_SPLIT_FEE
        prices = PriceRule(prices.cpus, prices.accelerators, coefficients, prices.weight, prices.objective)
    return priced_placement(now, task[0].memory, times, free_at, earliest_start, devices, prices, state)


@rule
def _price_index_rule(now, task, times, free_at, devices, params, state):  # type: ignore[no-untyped-def]
    return _place(now, task, times, free_at, free_at, devices, params, state)


@rule
def _data_rule(now, task, times, free_at, earliest_start, devices, params, state):  # type: ignore[no-untyped-def]
    return _place(now, task, times, free_at, earliest_start, devices, params, state)


@register("price_index", label="Price index (knows durations)", look=Look("#FFE841", "#684908", "✦", "dash-dot"))
class PriceIndex(FastRule):
    """Earliest finish plus prices on device time that rise with the backlog.

    Parameters
    ----------
    coefficients
        Seven coefficients of the prices; see `compiled/device_prices.py`.
    """

    rule = _price_index_rule
    data_rule = _data_rule
    knows = Knowledge.TOLD

    def __init__(self, coefficients: Sequence[float] = PRICE_COEFFICIENTS) -> None:
        if len(coefficients) != len(PRICE_COEFFICIENTS) or not np.isfinite(coefficients).all():
            raise InvalidInputError("coefficients", f"{len(PRICE_COEFFICIENTS)} finite numbers", coefficients)
        self.coefficients = tuple(coefficients)

    def make_params(self) -> Floats:
        """Return the device counts, the coefficients and the objective."""
        platform = self.setting.platform
        counts = [platform.is_cpu.sum(), len(platform.accelerators)]
        return np.concatenate([counts, self.coefficients, column_prices(self.setting)])

    def make_state(self) -> Floats:
        """Return the initial state of the prices."""
        return price_state(int(self.devices["column"].max()) + 1)
