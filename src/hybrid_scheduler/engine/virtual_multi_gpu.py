"""Simulated machine with one CPU and a number of equal GPUs."""

from __future__ import annotations

from collections.abc import Iterable

from ..cluster import Cluster
from ..core import Task, Workload, workstation
from .comparison import compare

_BASELINES = ("round_robin", "random", "greedy", "cpu_only", "gpu_only", "oracle")


class VirtualMultiGPU(Cluster):
    """A `Cluster` on the default workstation, with a method that runs the baseline schedulers.

    Parameters
    ----------
    num_gpus
        Number of GPUs.
    memory_per_gpu
        Megabytes of memory of each GPU.

    Examples
    --------
    >>> from hybrid_scheduler import VirtualMultiGPU, WorkloadGenerator
    >>> tasks = WorkloadGenerator(seed=1).generate_workload(50, utilisation=0.5)
    >>> sorted(VirtualMultiGPU(num_gpus=2).evaluate_baseline_schedulers(tasks)["greedy"])
    ['avg_time', 'makespan', 'max_time']
    """

    def __init__(self, num_gpus: int = 4, memory_per_gpu: float = 8000.0) -> None:
        super().__init__(workstation(num_gpus, memory_per_gpu))

    def evaluate_baseline_schedulers(
        self, tasks: Workload | Iterable[Task], *, seed: int = 0
    ) -> dict[str, dict[str, float]]:
        """Run every baseline scheduler on a cluster of its own.

        Parameters
        ----------
        tasks
            The tasks.
        seed
            Seed of schedulers that draw random numbers.

        Returns
        -------
        dict
            By scheduler: makespan, mean (avg_time) and longest (max_time) execution time in seconds.
        """
        workload = tasks if isinstance(tasks, Workload) else Workload.from_tasks(tasks)
        comparison = compare(workload, _BASELINES, platform=self.platform, physics=self.physics, seed=seed)
        return {
            name: {"makespan": s.makespan, "avg_time": s.time.mean, "max_time": s.time.max}
            for name, s in comparison.summaries.items()
        }
