"""One batch run: the same tasks through several schedulers, each on its own cluster, measured alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..cluster import Cluster, Noise, RunResult, isolated_optimum, makespan_bound
from ..core import Floats, InvalidInputError, Objective, Platform, Workload, workstation
from ..metrics import Charges, Summary, summarise, win_rates
from ..physics import AnalyticPhysics, Bill, Physics, Tariff
from ..schedulers import create

#: Called with (scheduler, tasks done since the last call).
Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class Comparison:
    """What each scheduler made of the same workload."""

    workload: Workload
    platform: Platform
    results: dict[str, RunResult]
    lower_bound: float | None
    isolated: Floats

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """Regret is against the run called "oracle", where there is one."""
        oracle = self.results.get("oracle")
        return {
            name: summarise(
                result.outcomes,
                self.platform,
                result.busy,
                _charges(result),
                bound=self.lower_bound,
                isolated=self.isolated,
                oracle_latency=oracle.outcomes.latency if oracle else None,
            )
            for name, result in self.results.items()
        }

    def win_rates(self) -> dict[str, dict[str, float]]:
        """Share of tasks on which the row's latency beats the column's."""
        return win_rates({name: result.outcomes.latency for name, result in self.results.items()})

    def as_dict(self) -> dict[str, Any]:
        """The JSON body shared by the command line and the reports."""
        return {
            "tasks": len(self.workload),
            "platform": self.platform.name,
            "lower_bound": {"makespan": self.lower_bound},
            "schedulers": {name: summary.as_dict() for name, summary in self.summaries.items()},
        }


def compare(
    workload: Workload,
    schedulers: Sequence[str],
    *,
    platform: Platform | None = None,
    physics: Physics | None = None,
    noise: Noise | None = None,
    memory_policy: str = "clip",
    tariff: Tariff | None = None,
    objective: Objective | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Run every scheduler (``name`` or ``name(parameter=value)``) over the workload."""
    if not schedulers:
        raise InvalidInputError("schedulers", "at least one name", "none")
    if len(set(schedulers)) < len(schedulers):
        raise InvalidInputError("schedulers", "different names", list(schedulers))
    machine, law = platform or workstation(), physics or AnalyticPhysics()
    contestants = {spec: create(spec) for spec in schedulers}  # a wrong name fails before any work is done
    results = {}
    for spec, scheduler in contestants.items():
        cluster = Cluster(machine, law, noise=noise, memory_policy=memory_policy, tariff=tariff)
        report = (lambda done, spec=spec: progress(spec, done)) if progress else None
        results[spec] = cluster.run(workload, scheduler, seed=seed, objective=objective, progress=report)
    return Comparison(
        workload,
        machine,
        results,
        makespan_bound(workload, machine, law, noise, memory_policy=memory_policy),
        isolated_optimum(workload, machine, law, noise),
    )


def _charges(result: RunResult) -> Charges:
    # A bill of its own: the result would keep five columns per run for as long as the comparison lives.
    bill = Bill(result.outcomes, result.platform, result.tariff)
    return Charges(bill.energy, bill.energy_blended, bill.rent, bill.electricity, bill.cost)
