"""Simulated cluster: queues, memory, transfers, dependencies, and lower bounds on schedules."""

from .arrival_loop import MEMORY_POLICIES
from .bounds import isolated_optimum, makespan_bound
from .cluster import Cluster, RunResult
from .latency_bound import mean_latency_bound
from .machine import Machine
from .noise import Noise
from .physics_times import PhysicsTimes

__all__ = [
    "MEMORY_POLICIES",
    "Cluster",
    "Machine",
    "Noise",
    "PhysicsTimes",
    "RunResult",
    "isolated_optimum",
    "makespan_bound",
    "mean_latency_bound",
]
