"""What "best" means: weights on latency, energy and cost, made comparable by their payoff range."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .errors import InvalidInputError
from .workload import Floats


@dataclass(frozen=True, slots=True)
class Scales:
    """One unit of each goal: how far its mean moves between its own optimum and the others'."""

    seconds: float = 1.0
    joules: float = 1.0
    dollars: float = 1.0


@dataclass(frozen=True, slots=True)
class Objective:
    """Weights; only their proportions count. The default cares about latency alone."""

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
        return self.energy == 0 and self.cost == 0

    def prices(self, watts: Floats, dollars: Floats, scales: Scales) -> tuple[float, Floats]:
        """Weight of a second of latency, and of a busy second on each device.

        Expressed in seconds of latency where latency counts at all, so that "latency only" is exactly (1, zeros).
        """
        latency = self.latency / scales.seconds
        busy = self.energy * watts / scales.joules + self.cost * dollars / scales.dollars
        return (1.0, busy / latency) if latency > 0 else (0.0, busy)
