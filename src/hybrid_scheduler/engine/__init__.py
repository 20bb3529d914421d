"""Joins workload, schedulers and cluster."""

from .comparison import Comparison, compare
from .virtual_multi_gpu import BASELINES, VirtualMultiGPU

__all__ = ["BASELINES", "Comparison", "VirtualMultiGPU", "compare"]
