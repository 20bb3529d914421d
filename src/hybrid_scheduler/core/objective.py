"""Scheduling objective: weights on latency, energy and cost, normalised by their payoff ranges."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .errors import InvalidInputError
from .workload import Floats


@dataclass(frozen=True, slots=True)
class Scales:
    """Units of the three goals.

    One unit is the payoff range of a goal: how far its mean moves between its own optimum and that of the others.
    """

    seconds: float = 1.0
    joules: float = 1.0
    dollars: float = 1.0


@dataclass(frozen=True, slots=True)
class Objective:
    """Weights on latency, energy and cost; only their proportions count.

    Each goal is divided by its payoff range (`Scales`), so equal weights mean equal influence.

    Parameters
    ----------
    latency, energy, cost
        Weights, finite and at least 0; at least one is above 0. The default is latency alone.

    Raises
    ------
    InvalidInputError
        If a weight is negative or not finite, or if all are 0.

    Examples
    --------
    >>> from hybrid_scheduler import Objective
    >>> Objective(latency=0.5, energy=0.5)
    Objective(latency=0.5, energy=0.5, cost=0.0)
    >>> Objective().is_latency_only
    True
    """

    latency: float = 1.0
    energy: float = 0.0
    cost: float = 0.0

    def __post_init__(self) -> None:
        for name in ("latency", "energy", "cost"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InvalidInputError(f"objective.{name}", "finite and >= 0", value)
        if self.latency + self.energy + self.cost == 0:
            raise InvalidInputError("objective", "at least one weight above 0", "all weights 0")

    @property
    def is_latency_only(self) -> bool:
        """Whether latency is the only goal."""
        return self.energy == 0 and self.cost == 0

    def prices(self, watts: Floats, dollars: Floats, scales: Scales) -> tuple[float, Floats]:
        """Return the weight of a second of latency, and of a busy second on each device.

        The unit is one second of latency if latency has a weight, so "latency only" gives exactly (1, zeros).

        Parameters
        ----------
        watts, dollars
            Power in watts and price in dollars of a busy second, per device.
        scales
            Units of the goals.

        Returns
        -------
        tuple of float and array
            Weight of latency, and one weight per device.
        """
        latency = self.latency / scales.seconds
        busy = self.energy * watts / scales.joules + self.cost * dollars / scales.dollars
        return (1.0, busy / latency) if latency > 0 else (0.0, busy)
