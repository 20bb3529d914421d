"""Simulated cluster: queues, memory, transfers, dependencies, and lower bounds on schedules."""

from ..core.exports import exported
from .arrival_loop import MEMORY_POLICIES as MEMORY_POLICIES
from .bounds import isolated_optimum as isolated_optimum
from .bounds import makespan_bound as makespan_bound
from .cluster import Cluster as Cluster
from .cluster import RunResult as RunResult
from .latency_bound import mean_latency_bound as mean_latency_bound
from .machine import Machine as Machine
from .noise import Noise as Noise
from .physics_times import PhysicsTimes as PhysicsTimes

__all__ = exported(globals())
