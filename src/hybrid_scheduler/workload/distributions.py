"""Distributions of task properties: uniform, log-normal and bounded Pareto.

Each value takes a fixed number of uniform numbers, so drawing 1,000 values and then 1,000 more gives the same as
drawing 2,000. Only `Generator.random` is used: new versions of NumPy are least likely to change it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..core import Floats, UnknownNameError
from .argument_checks import number_range, positive_number
from .portable_math import cos_turns, exp, log


class Distribution(Protocol):
    """Interface of a distribution. Instances are immutable and hashable, so capacities can be cached by them."""

    @property
    def low(self) -> float:
        """Lower limit of the values."""

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        """Draw `count` values."""


#: Distribution of task sizes: any `Distribution` whose values are above 0.
SizeDistribution = Distribution


@dataclass(frozen=True, slots=True)
class Uniform:
    """Uniform distribution on [low, high].

    Parameters
    ----------
    low, high
        Smallest and largest value.

    Examples
    --------
    >>> from hybrid_scheduler import Uniform
    >>> Uniform(100.0, 5000.0)
    Uniform(low=100.0, high=5000.0)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        number_range("uniform", (self.low, self.high))

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        """Draw `count` values."""
        # Rounding could exceed the upper end in the last digit, and an intensity above 1 is invalid.
        return np.minimum(self.low + (self.high - self.low) * rng.random(count), self.high)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Log-normal distribution ``median * exp(sigma * normal)``, clipped to [low, high].

    Parameters
    ----------
    median
        Median before clipping, > 0.
    sigma
        Standard deviation of the logarithm.
    low, high
        Smallest and largest value, > 0.

    Examples
    --------
    >>> from hybrid_scheduler import LogNormal
    >>> LogNormal(median=1000.0, sigma=1.0, low=100.0, high=5000.0).median
    1000.0
    """

    median: float
    sigma: float
    low: float
    high: float

    def __post_init__(self) -> None:
        positive_number("lognormal.median", self.median)
        number_range("lognormal.sigma", (self.sigma, self.sigma))
        number_range("lognormal", (self.low, self.high), open_below=True)

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        """Draw `count` values."""
        u = rng.random((count, 2))
        normal = np.sqrt(-2.0 * log(1.0 - u[:, 0])) * cos_turns(u[:, 1])  # Box-Muller transform
        return np.clip(self.median * exp(self.sigma * normal), self.low, self.high)


@dataclass(frozen=True, slots=True)
class BoundedPareto:
    """Bounded Pareto distribution: density proportional to ``x^-(alpha + 1)`` on [low, high].

    Parameters
    ----------
    alpha
        Exponent, > 0; a smaller one gives a heavier tail.
    low, high
        Smallest and largest value, > 0.

    Examples
    --------
    >>> from hybrid_scheduler import BoundedPareto
    >>> BoundedPareto(alpha=1.8, low=100.0, high=5000.0).alpha
    1.8
    """

    alpha: float
    low: float
    high: float

    def __post_init__(self) -> None:
        positive_number("pareto.alpha", self.alpha)
        number_range("pareto", (self.low, self.high), open_below=True)

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        """Draw `count` values."""
        tail = exp(self.alpha * log(np.array(self.low / self.high)))
        value = self.low * exp(log(1.0 - rng.random(count) * (1.0 - tail)) / -self.alpha)
        return np.clip(value, self.low, self.high)


def exponential(rng: np.random.Generator, count: int) -> Floats:
    """Draw exponential times of mean 1."""
    return -log(1.0 - rng.random(count))


def _fitted_lognormal(low: float, high: float) -> SizeDistribution:
    """Return a log-normal with its median at the geometric mean and the ends two standard deviations away."""
    middle = float(np.sqrt(low) * np.sqrt(high))
    return LogNormal(middle, float(log(np.array(high / low))) / 4.0, low, high)


#: Distributions of task size by name, each fitted to a range of sizes.
DISTRIBUTIONS: dict[str, Callable[[float, float], SizeDistribution]] = {
    "uniform": Uniform,
    "lognormal": _fitted_lognormal,
    "pareto": lambda low, high: BoundedPareto(1.8, low, high),  # the exponent of the scenario `pareto`
}


def size_distribution(distribution: str, low: float, high: float) -> SizeDistribution:
    """Return the distribution of this name for sizes in [low, high]."""
    if distribution not in DISTRIBUTIONS:
        raise UnknownNameError("distribution", distribution, DISTRIBUTIONS)
    return DISTRIBUTIONS[distribution](low, high)
