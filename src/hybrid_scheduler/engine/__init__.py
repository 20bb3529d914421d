"""Batch comparison of schedulers on the simulated machine, and task-by-task scheduling."""

from .comparison import Comparison, compare
from .online_scheduler import OnlineScheduler, Placement
from .virtual_multi_gpu import VirtualMultiGPU

__all__ = ["Comparison", "OnlineScheduler", "Placement", "VirtualMultiGPU", "compare"]
