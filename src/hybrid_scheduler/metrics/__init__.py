"""Pure functions: outcomes in, numbers out."""

from .running_mean import RunningMean, share_worked
from .statistics import (
    Interval,
    Pair,
    batch_means,
    bootstrap_interval,
    compare_pairs,
    dependent_interval,
    stretches,
    t_interval,
)
from .summary import Charges, Spread, Summary, jain_index, summarise, win_rates

__all__ = [
    "Charges",
    "Interval",
    "Pair",
    "RunningMean",
    "Spread",
    "Summary",
    "batch_means",
    "bootstrap_interval",
    "compare_pairs",
    "dependent_interval",
    "jain_index",
    "share_worked",
    "stretches",
    "summarise",
    "t_interval",
    "win_rates",
]
