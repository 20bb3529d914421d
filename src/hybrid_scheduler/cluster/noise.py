"""Optional execution noise: log-normal factors with mean 1, keyed by (seed, task, device)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..compiled import entry, helper, normal
from ..core import Floats, Ints, InvalidInputError


@dataclass(frozen=True, slots=True)
class Noise:
    """`sigma` is the standard deviation of the logarithm; 0 switches noise off."""

    sigma: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise InvalidInputError("noise.sigma", "finite and >= 0", self.sigma)

    def factors(self, task_id: Ints, num_devices: int) -> Floats:
        """What every task's seconds are multiplied by on every device."""
        return _factors(self.sigma, self.seed, task_id, num_devices)


@helper
def noise_factor(sigma, seed, task_id, device):  # type: ignore[no-untyped-def]
    if sigma == 0.0:
        return 1.0
    return math.exp(sigma * normal(seed, task_id, device) - 0.5 * sigma * sigma)


@entry
def _factors(sigma, seed, task_id, num_devices):  # type: ignore[no-untyped-def]
    factors = np.empty((len(task_id), num_devices))
    for i in range(len(task_id)):
        for device in range(num_devices):
            factors[i, device] = noise_factor(sigma, seed, task_id[i], device)
    return factors
