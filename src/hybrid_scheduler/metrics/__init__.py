"""Metrics: pure functions from outcomes to summaries, intervals and tests."""

from ..core.exports import exported
from .running_statistics import RunningMean as RunningMean
from .running_statistics import busy_share as busy_share
from .statistics import Interval as Interval
from .statistics import Pair as Pair
from .statistics import batch_means as batch_means
from .statistics import bootstrap_interval as bootstrap_interval
from .statistics import compare_pairs as compare_pairs
from .statistics import dependent_interval as dependent_interval
from .statistics import t_interval as t_interval
from .summary import Spread as Spread
from .summary import Summary as Summary
from .summary import jain_index as jain_index
from .summary import queue_grows as queue_grows
from .summary import summarise as summarise
from .summary import win_rates as win_rates

__all__ = exported(globals())
