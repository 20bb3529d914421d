"""Simulated cluster: queues, memory, transfers, dependencies, and lower bounds on schedules."""

from .arrival_loop import MEMORY_POLICIES
from .bounds import isolated_optimum, makespan_bound
from .cluster import Cluster
from .machine import Machine
from .noise import Noise
from .physics_times import PhysicsTimes
from .run_result import RunResult

__all__ = [
    "MEMORY_POLICIES",
    "Cluster",
    "Machine",
    "Noise",
    "PhysicsTimes",
    "RunResult",
    "isolated_optimum",
    "makespan_bound",
]
