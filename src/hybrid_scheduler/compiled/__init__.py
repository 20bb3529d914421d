"""Compiled (numba) building blocks shared by the cluster's loop and the schedulers' rules."""

from .counter_random import normal, uniform
from .device_prices import PRICE_COEFFICIENTS, price_state, priced_placement
from .fast_rule import DEVICE, DEVICE_TABLE, RULE, TASK, FastRule, column_prices, device_table, rule
from .jit_cache import compiled, entry, helper, inner, loop_entry
from .split_placement import (
    beats,
    best_placement,
    earliest_free,
    earliest_free_accelerator,
    earliest_free_cpu,
    fitting_share,
)

__all__ = [
    "DEVICE",
    "DEVICE_TABLE",
    "PRICE_COEFFICIENTS",
    "RULE",
    "TASK",
    "FastRule",
    "beats",
    "best_placement",
    "column_prices",
    "compiled",
    "device_table",
    "earliest_free",
    "earliest_free_accelerator",
    "earliest_free_cpu",
    "entry",
    "fitting_share",
    "helper",
    "inner",
    "loop_entry",
    "normal",
    "price_state",
    "priced_placement",
    "rule",
    "uniform",
]
