"""Trace as the task source of an experiment, with intervals from batch means.

A scenario gives as many workloads as there are seeds; a trace is one. So the run is cut into batches of consecutive
tasks, and every scheduler is compared with every other batch by batch. The spread of the batches gives the
intervals: they say what a longer trace of the same kind would show. A number of the whole run, such as its
makespan, has no batches and gets no interval.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from ..core import Floats, InvalidInputError, Workload
from ..engine import Comparison
from ..metrics import batch_averages
from ..physics import EnergyAndCost

BATCHES = 20
#: Fewest tasks of a batch: smaller batches depend too much on their neighbours.
_TASKS_PER_BATCH = 10
#: Metrics that batches of a run have: means over tasks, and sums over them.
MEANS = ("mean_latency", "mean_time", "mean_wait", "mean_slowdown", "mean_regret", "mean_gpu_fraction")
SUMS = ("energy", "cost")


@dataclass(frozen=True)
class TraceSource:
    """Tasks and the name they came under. `sha256` is over all their columns and identifies the trace."""

    name: str
    workload: Workload = field(compare=False, repr=False)
    sha256: str
    batches: int

    @classmethod
    def of(cls, name: str, workload: Workload, batches: int | None = None) -> TraceSource:
        """Return the source of these tasks.

        Parameters
        ----------
        name
            Name for captions.
        workload
            The tasks.
        batches
            Number of batches; chosen by the number of tasks if left out.

        Raises
        ------
        InvalidInputError
            If the trace is too short for that many batches.
        """
        most = len(workload) // _TASKS_PER_BATCH
        if batches is not None and not 2 <= batches <= most:
            allowed = (
                f"from 2 to {most}, for {len(workload):,} tasks" if most >= 2 else "left out: the trace is short"
            )
            raise InvalidInputError("--batches", allowed, batches)
        return cls(name, workload, digest(workload), batches or min(BATCHES, most))

    @property
    def why_no_interval(self) -> str | None:
        """Reason why batches of this trace give no interval; None if they do."""
        if self.workload.has_dependencies:
            return "its tasks depend on each other, so that it is one piece"
        if self.workload.arrival_time[0] == self.workload.arrival_time[-1]:
            return "all its tasks arrive at once, so that it is one piece"
        if self.batches < 2:
            return f"it has {len(self.workload)} tasks, and two batches need {2 * _TASKS_PER_BATCH}"
        return None

    @property
    def label(self) -> str:
        """Text that says how its intervals come about."""
        return f"one trace; interval from batch means over {self.batches} batches"


def digest(workload: Workload) -> str:
    """Return the SHA-256 over all columns of a workload."""
    found = hashlib.sha256()
    columns = [*workload.columns().values(), workload.kind, workload.parent_start, workload.parent_rows]
    for column in [*columns, workload.parent_data]:
        found.update(np.ascontiguousarray(column, column.dtype.newbyteorder("<")).tobytes())
    found.update("\0".join(workload.kinds).encode())
    if not workload.divisible.all():  # otherwise left out, so that older records keep their digest
        found.update(workload.divisible.tobytes())
    return found.hexdigest()


def batch_values(comparison: Comparison, batches: int) -> dict[str, dict[str, list[float]]]:
    """Return one value per batch for every scheduler and metric, over the tasks that all schedulers completed."""
    results = comparison.results
    done = np.logical_and.reduce([result.outcomes.completed for result in results.values()])
    if done.sum() < 2 * batches:
        return {}
    oracle = results["oracle"].outcomes.latency if "oracle" in results else None
    found: dict[str, dict[str, list[float]]] = {}
    for name, result in results.items():
        outcomes, bill = result.outcomes, EnergyAndCost(result.outcomes, result.platform, result.tariff)
        columns: dict[str, Floats] = {
            "mean_latency": outcomes.latency,
            "mean_time": outcomes.time,
            "mean_wait": outcomes.wait,
            "mean_slowdown": outcomes.latency / comparison.isolated,
            "mean_gpu_fraction": outcomes.fraction,
            "energy": bill.energy,
            "cost": bill.cost,
        }
        if oracle is not None:
            columns["mean_regret"] = outcomes.latency - oracle
        found[name] = {
            metric: (batch_averages(column[done], batches) * (done.sum() if metric in SUMS else 1)).tolist()
            for metric, column in columns.items()
        }
    return found
