"""Result of a run: outcomes, busy seconds, energy and cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..core import Floats, Ints, Outcomes, Platform
from ..physics import EnergyAndCost, Tariff


@dataclass(frozen=True)
class RunResult:
    """Outcomes of a run, with energy, cost and the busy intervals of devices.

    Parameters
    ----------
    outcomes
        Results of all tasks, as columns.
    platform
        Devices.
    tariff
        Price of electricity and the parts of the cost that count.
    busy
        Busy seconds of each device.

    Examples
    --------
    >>> from hybrid_scheduler import Cluster, WorkloadGenerator, create
    >>> workload = WorkloadGenerator(seed=1).generate_workload(20, utilisation=0.5)
    >>> result = Cluster().run(workload, create("earliest_finish"))
    >>> len(result.outcomes), len(result.busy), float(result.bill.energy.sum()) > 0
    (20, 5, True)
    """

    outcomes: Outcomes
    platform: Platform
    tariff: Tariff
    busy: Floats

    @cached_property
    def bill(self) -> EnergyAndCost:
        """Energy and cost of each task."""
        return EnergyAndCost(self.outcomes, self.platform, self.tariff)

    def gantt(self) -> tuple[Ints, Ints, Floats, Floats]:
        """Return every executed part as columns (row, device, start, end)."""
        return self.outcomes.intervals(self.platform.cpu_of)
