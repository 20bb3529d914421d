"""Batch comparison of schedulers on the simulated machine, and task-by-task scheduling."""

from .comparison import Comparison, VirtualMultiGPU, compare
from .online_scheduler import OnlineScheduler, Placement

__all__ = ["Comparison", "OnlineScheduler", "Placement", "VirtualMultiGPU", "compare"]
