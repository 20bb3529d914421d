"""What a run leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..core import Floats, Ints, Outcomes, Platform
from ..physics import EnergyAndCost, Tariff


@dataclass(frozen=True)
class RunResult:
    """Outcomes of every task, with the bill and the device intervals."""

    outcomes: Outcomes
    platform: Platform
    tariff: Tariff
    busy: Floats

    @cached_property
    def bill(self) -> EnergyAndCost:
        return EnergyAndCost(self.outcomes, self.platform, self.tariff)

    def gantt(self) -> tuple[Ints, Ints, Floats, Floats]:
        """Every executed part as columns (row, device, start, end)."""
        return self.outcomes.intervals(self.platform.cpu_of)
