"""Compiled (numba) building blocks shared by the cluster's loop and the schedulers' rules."""

from ..core.exports import exported
from .counter_random import normal as normal
from .counter_random import uniform as uniform
from .device_prices import PRICE_COEFFICIENTS as PRICE_COEFFICIENTS
from .device_prices import price_state as price_state
from .device_prices import priced_placement as priced_placement
from .fast_rule import DEVICE as DEVICE
from .fast_rule import DEVICE_TABLE as DEVICE_TABLE
from .fast_rule import RULE as RULE
from .fast_rule import TASK as TASK
from .fast_rule import FastRule as FastRule
from .fast_rule import column_prices as column_prices
from .fast_rule import device_table as device_table
from .fast_rule import rule as rule
from .jit_cache import compiled as compiled
from .jit_cache import entry as entry
from .jit_cache import helper as helper
from .jit_cache import inner as inner
from .jit_cache import loop_entry as loop_entry
from .split_placement import beats as beats
from .split_placement import best_placement as best_placement
from .split_placement import earliest_free as earliest_free
from .split_placement import earliest_free_of as earliest_free_of
from .split_placement import fitting_share as fitting_share

__all__ = exported(globals())
