"""Execution noise: log-normal factors with mean 1, keyed by (seed, task, device)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..compiled import entry, helper, normal
from ..core import Floats, Ints, InvalidInputError

#: Key of the noise's own stream. A scheduler that draws from the same seed gets other numbers.
_STREAM = 0x6E6F697365


@dataclass(frozen=True, slots=True)
class Noise:
    """Log-normal factors on durations, with mean 1.

    A factor depends on (seed, task, device) alone, never on the order of decisions.

    Parameters
    ----------
    sigma
        Standard deviation of the logarithm; 0 switches noise off.
    seed
        Seed of the factors.

    Raises
    ------
    InvalidInputError
        If `sigma` is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from hybrid_scheduler import Noise
    >>> Noise(sigma=0.0).factors(np.array([7]), num_devices=2).tolist()
    [[1.0, 1.0]]
    """

    sigma: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise InvalidInputError("noise.sigma", "finite and >= 0", self.sigma)

    def factors(self, task_id: Ints, num_devices: int) -> Floats:
        """Return the factor of every task on every device, shape (tasks, devices)."""
        return _factors(self.sigma, self.seed, task_id, num_devices)


@helper
def noise_factor(sigma, seed, task_id, device):  # type: ignore[no-untyped-def]
    """Return the factor on a task's duration on a device."""
    if sigma == 0.0:
        return 1.0
    return math.exp(sigma * normal(seed ^ _STREAM, task_id, device) - 0.5 * sigma * sigma)


@entry
def _factors(sigma, seed, task_id, num_devices):  # type: ignore[no-untyped-def]
    factors = np.empty((len(task_id), num_devices))
    for i in range(len(task_id)):
        for device in range(num_devices):
            factors[i, device] = noise_factor(sigma, seed, task_id[i], device)
    return factors
