"""Batch comparison of schedulers on the simulated machine, and task-by-task scheduling."""

from ..core.exports import exported
from .comparison import Comparison as Comparison
from .comparison import VirtualMultiGPU as VirtualMultiGPU
from .comparison import compare as compare
from .online_scheduler import OnlineScheduler as OnlineScheduler
from .online_scheduler import Placement as Placement

__all__ = exported(globals())
