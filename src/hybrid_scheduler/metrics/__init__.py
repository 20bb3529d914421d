"""Metrics: pure functions from outcomes to summaries, intervals and tests."""

from .running_statistics import RunningMean, busy_share
from .statistics import (
    Interval,
    Pair,
    batch_means,
    batch_means_interval,
    bootstrap_interval,
    compare_pairs,
    dependent_interval,
    t_interval,
)
from .summary import Spread, Summary, jain_index, queue_grows, summarise, win_rates

__all__ = [
    "Interval",
    "Pair",
    "RunningMean",
    "Spread",
    "Summary",
    "batch_means",
    "batch_means_interval",
    "bootstrap_interval",
    "busy_share",
    "compare_pairs",
    "dependent_interval",
    "jain_index",
    "queue_grows",
    "summarise",
    "t_interval",
    "win_rates",
]
