"""Joins workload, schedulers and cluster."""

from .comparison import Comparison, compare
from .online_scheduler import OnlineScheduler, Placement
from .virtual_multi_gpu import BASELINES, VirtualMultiGPU

__all__ = ["BASELINES", "Comparison", "OnlineScheduler", "Placement", "VirtualMultiGPU", "compare"]
