"""How a quantity is spread over tasks: uniform, log-normal or bounded Pareto.

Every law turns a fixed number of uniform numbers into one value, so drawing 1,000 values and then 1,000 more
gives the same as drawing 2,000. Only `Generator.random` is used: of all of NumPy's draws it is the one that a
version of NumPy has least reason to change.
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
    """A distribution. Laws are immutable and hashable, so that capacities can be cached by them."""

    @property
    def low(self) -> float:
        """No value is below this."""

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        """`count` values, continuing where the generator stands."""


#: The spread of task sizes: any `Distribution` whose values are above 0.
SizeDistribution = Distribution


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every value of [low, high] is as likely as any other."""

    low: float
    high: float

    def __post_init__(self) -> None:
        number_range("uniform", (self.low, self.high))

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        # Rounding could pass the upper end by the last digit; an intensity above 1 would be refused.
        return np.minimum(self.low + (self.high - self.low) * rng.random(count), self.high)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """``median * exp(sigma * normal)``; values beyond [low, high] are moved to its ends."""

    median: float
    sigma: float
    low: float
    high: float

    def __post_init__(self) -> None:
        positive_number("lognormal.median", self.median)
        number_range("lognormal.sigma", (self.sigma, self.sigma))
        number_range("lognormal", (self.low, self.high), open_below=True)

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        u = rng.random((count, 2))
        normal = np.sqrt(-2.0 * log(1.0 - u[:, 0])) * cos_turns(u[:, 1])  # Box and Muller
        return np.clip(self.median * exp(self.sigma * normal), self.low, self.high)


@dataclass(frozen=True, slots=True)
class BoundedPareto:
    """Density proportional to ``x^-(alpha + 1)`` on [low, high]: many small values and a heavy tail."""

    alpha: float
    low: float
    high: float

    def __post_init__(self) -> None:
        positive_number("pareto.alpha", self.alpha)
        number_range("pareto", (self.low, self.high), open_below=True)

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        beyond = exp(self.alpha * log(np.array(self.low / self.high)))
        value = self.low * exp(log(1.0 - rng.random(count) * (1.0 - beyond)) / -self.alpha)
        return np.clip(value, self.low, self.high)


def exponential(rng: np.random.Generator, count: int) -> Floats:
    """Waiting times of mean 1."""
    return -log(1.0 - rng.random(count))


def _fitted_lognormal(low: float, high: float) -> SizeDistribution:
    """The median at the geometric middle, and the range two standard deviations wide on either side of it."""
    middle = float(np.sqrt(low) * np.sqrt(high))
    return LogNormal(middle, float(log(np.array(high / low))) / 4.0, low, high)


#: Laws of task size by name, each fitted to a range of sizes.
DISTRIBUTIONS: dict[str, Callable[[float, float], SizeDistribution]] = {
    "uniform": Uniform,
    "lognormal": _fitted_lognormal,
    "pareto": lambda low, high: BoundedPareto(1.8, low, high),  # the tail of the scenario of that name
}


def size_distribution(distribution: str, low: float, high: float) -> SizeDistribution:
    """The law of that name for sizes in [low, high]."""
    if distribution not in DISTRIBUTIONS:
        raise UnknownNameError("distribution", distribution, DISTRIBUTIONS)
    return DISTRIBUTIONS[distribution](low, high)
