"""The familiar front of the virtual cluster: one CPU and a number of equal GPUs."""

from __future__ import annotations

from collections.abc import Iterable

from ..cluster import Cluster
from ..core import Task, Workload, workstation
from .comparison import compare

BASELINES = ("round_robin", "random", "greedy", "cpu_only", "gpu_only", "oracle")


class VirtualMultiGPU(Cluster):
    """A `Cluster` on the default workstation, with the baselines one call away."""

    def __init__(self, num_gpus: int = 4, memory_per_gpu: float = 8000.0) -> None:
        super().__init__(workstation(num_gpus, memory_per_gpu))

    def evaluate_baseline_schedulers(
        self, tasks: Workload | Iterable[Task], *, seed: int = 0
    ) -> dict[str, dict[str, float]]:
        """Makespan, mean and longest execution time of every baseline, each on a cluster of its own."""
        workload = tasks if isinstance(tasks, Workload) else Workload.from_tasks(tasks)
        comparison = compare(workload, BASELINES, platform=self.platform, physics=self.physics, seed=seed)
        return {
            name: {"makespan": s.makespan, "avg_time": s.time.mean, "max_time": s.time.max}
            for name, s in comparison.summaries.items()
        }
