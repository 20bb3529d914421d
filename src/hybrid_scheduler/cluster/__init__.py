"""The virtual cluster: queues, memory, transfers, dependencies, and the bounds nobody can beat."""

from .bounds import isolated_optimum, makespan_bound
from .cluster import Cluster
from .loop import MEMORY_POLICIES
from .noise import Noise
from .result import RunResult
from .times import PhysicsTimes

__all__ = [
    "MEMORY_POLICIES",
    "Cluster",
    "Noise",
    "PhysicsTimes",
    "RunResult",
    "isolated_optimum",
    "makespan_bound",
]
