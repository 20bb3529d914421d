"""Energy and cost of busy seconds, in joules and dollars."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .outcome import Outcomes
from .platform import Platform
from .workload import Floats

_JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True)
class Tariff:
    """Price of electricity, and the parts of the cost that count.

    Parameters
    ----------
    dollars_per_kwh
        Price of electricity.
    rent, electricity
        Whether the devices' rent and the electricity are part of the cost.

    Examples
    --------
    >>> from hybrid_scheduler import Tariff
    >>> Tariff(dollars_per_kwh=0.30, rent=False)
    Tariff(dollars_per_kwh=0.3, rent=False, electricity=True)
    """

    dollars_per_kwh: float = 0.15
    rent: bool = True
    electricity: bool = True


@dataclass(frozen=True)
class EnergyAndCost:
    """Energy and cost of each task of a run, computed on first access.

    Parameters
    ----------
    outcomes
        Results of the run.
    platform
        Devices with their watts and rent.
    tariff
        Price of electricity and the parts of the cost that count.
    """

    outcomes: Outcomes
    platform: Platform
    tariff: Tariff = Tariff()

    def _per_device(self, field: str) -> tuple[Floats, Floats]:
        """Return the field's value for each task's CPU and for its accelerator."""
        values = self.platform.column(field)
        return values[self.platform.cpu_of[self.outcomes.device]], values[self.outcomes.device]

    @cached_property
    def energy(self) -> Floats:
        """Busy energy in joules: each part's seconds times its device's watts."""
        cpu, accelerator = self._per_device("watts")
        return cpu * self.outcomes.cpu_time + accelerator * self.outcomes.accelerator_time

    @cached_property
    def energy_blended(self) -> Floats:
        """Energy by the published formula (see `analytic.py`): fraction-weighted watts times the whole time."""
        cpu, accelerator = self._per_device("watts")
        share = self.outcomes.fraction
        return (share * accelerator + (1.0 - share) * cpu) * self.outcomes.time

    @cached_property
    def rent(self) -> Floats:
        """Rent of each task's busy seconds in dollars."""
        cpu, accelerator = self._per_device("rent")
        return cpu * self.outcomes.cpu_time + accelerator * self.outcomes.accelerator_time

    @cached_property
    def electricity(self) -> Floats:
        """Price of each task's busy energy in dollars."""
        return self.energy * (self.tariff.dollars_per_kwh / _JOULES_PER_KWH)

    @cached_property
    def cost(self) -> Floats:
        """Dollars per task: the parts that the tariff counts."""
        total = np.zeros(len(self.outcomes))
        if self.tariff.rent:
            total += self.rent
        if self.tariff.electricity:
            total += self.electricity
        return total


def dollars_per_second(platform: Platform, tariff: Tariff) -> Floats:
    """Return the dollars of one busy second on each device, by the parts of the cost that count."""
    rent = platform.column("rent") if tariff.rent else np.zeros(len(platform))
    electricity = platform.column("watts") * (tariff.dollars_per_kwh / _JOULES_PER_KWH)
    return rent + electricity if tariff.electricity else rent
