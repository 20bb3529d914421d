"""Joules and dollars out of busy seconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core import Floats, Outcomes, Platform

JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True)
class Tariff:
    """What electricity costs, and which parts of the bill count: rent, electricity or both."""

    dollars_per_kwh: float = 0.15
    rent: bool = True
    electricity: bool = True


@dataclass(frozen=True)
class EnergyAndCost:
    """Per-task energy and cost of a run, computed when first asked for."""

    outcomes: Outcomes
    platform: Platform
    tariff: Tariff = Tariff()

    def _per_device(self, field: str) -> tuple[Floats, Floats]:
        """The field's value for each task's CPU and for its accelerator."""
        values = self.platform.column(field)
        return values[self.platform.cpu_of[self.outcomes.device]], values[self.outcomes.device]

    @cached_property
    def energy(self) -> Floats:
        """Busy energy: each part's seconds at its device's watts."""
        cpu, accelerator = self._per_device("watts")
        return cpu * self.outcomes.cpu_time + accelerator * self.outcomes.accelerator_time

    @cached_property
    def energy_blended(self) -> Floats:
        """The published formula: fraction-weighted watts over the whole time."""
        cpu, accelerator = self._per_device("watts")
        share = self.outcomes.fraction
        return (share * accelerator + (1.0 - share) * cpu) * self.outcomes.time

    @cached_property
    def rent(self) -> Floats:
        cpu, accelerator = self._per_device("rent")
        return cpu * self.outcomes.cpu_time + accelerator * self.outcomes.accelerator_time

    @cached_property
    def electricity(self) -> Floats:
        return self.energy * (self.tariff.dollars_per_kwh / JOULES_PER_KWH)

    @cached_property
    def cost(self) -> Floats:
        total = np.zeros(len(self.outcomes))
        if self.tariff.rent:
            total += self.rent
        if self.tariff.electricity:
            total += self.electricity
        return total


def dollars_per_second(platform: Platform, tariff: Tariff) -> Floats:
    """What one busy second costs on each device, by the parts of the bill that count."""
    rent = platform.column("rent") if tariff.rent else np.zeros(len(platform))
    electricity = platform.column("watts") * (tariff.dollars_per_kwh / JOULES_PER_KWH)
    return rent + electricity if tariff.electricity else rent
