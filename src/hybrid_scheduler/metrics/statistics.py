"""Is the difference real? Intervals, tests and effect sizes for paired runs, as pure functions.

Policies are compared on the same seeds, so what is judged is the difference on each seed; the seeds' own spread
drops out. Nothing here draws a random number that was not passed in. Words used everywhere alike:

    difference    one policy's value minus the other's, seed by seed
    different     the Holm-corrected Wilcoxon test and the 95 % t-interval both say so; else "too close to call"
    wins, losses  seeds on which the first has the lower or the higher value
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from statistics import NormalDist

import numpy as np

from ..core import Floats, InvalidInputError

CONFIDENCE = 0.95
TOO_CLOSE = "too close to call"
LOWER, HIGHER = "lower", "higher"
#: Up to so many differences the distribution of the signed ranks is counted out, beyond it is close to normal.
_EXACT_UP_TO = 60
_RESAMPLES = 4000
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the range that covers the true one with the stated confidence."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def excludes(self, value: float) -> bool:
        return value < self.low or value > self.high


# ------------------------------------------------------------------------------------------ intervals


def paired_differences(first: Floats, second: Floats) -> Floats:
    """first - second, seed by seed."""
    if first.shape != second.shape or first.ndim != 1:
        raise InvalidInputError("runs", f"paired: {len(first)} values on either side", f"{len(second)} values")
    return _finite(first - second)


def t_interval(values: Floats, confidence: float = CONFIDENCE) -> Interval:
    """Student's interval of the mean."""
    seen = _several(values)
    mean, half = float(seen.mean()), float(t_half_width(seen, confidence))
    return Interval(mean, mean - half, mean + half)


def t_half_width(values: Floats, confidence: float = CONFIDENCE) -> Floats:
    """Return half the width of Student's interval of the mean over the first dimension, the seeds."""
    n = len(values)
    half: Floats = _t_quantile(n - 1, 0.5 + confidence / 2) * (values.std(axis=0, ddof=1) / math.sqrt(n))
    return half


def bootstrap_interval(
    values: Floats, rng: np.random.Generator, confidence: float = CONFIDENCE, resamples: int = _RESAMPLES
) -> Interval:
    """Of the mean, from resampled seeds: bias-corrected and accelerated, so that it follows a skewed spread."""
    seen = _several(values)
    n, mean = len(seen), float(seen.mean())
    if (seen == seen[0]).all():
        return Interval(mean, mean, mean)
    means = seen[rng.integers(0, n, (resamples, n))].mean(axis=1)
    below = ((means < mean).sum() + 0.5 * (means == mean).sum()) / resamples
    shift = _NORMAL.inv_cdf(min(max(float(below), 1 / resamples), 1 - 1 / resamples))
    spread = mean - (seen.sum() - seen) / (n - 1)  # how the mean reacts when one seed is left out
    skew = float((spread**3).sum() / (6.0 * (spread**2).sum() ** 1.5))
    edges = [shift + _NORMAL.inv_cdf(0.5 + side * confidence / 2) for side in (-1, 1)]
    low, high = np.quantile(means, [_NORMAL.cdf(shift + edge / (1.0 - skew * edge)) for edge in edges])
    return Interval(mean, float(low), float(high))


def batch_means(values: Floats, batches: int = 20, confidence: float = CONFIDENCE) -> Interval:
    """Interval of the mean within one run: means of long stretches hardly depend on each other, single tasks do."""
    return dependent_interval(batch_averages(values, batches), confidence)


def batch_averages(values: Floats, batches: int = 20) -> Floats:
    """The values cut into so many stretches, one number for each, whose mean is that of all values.

    Stretches differ by one value at most; each stands for its sum, so the mean is exact and nothing is left over.
    """
    if batches < 2 or len(values) < 2 * batches:
        raise InvalidInputError("batches", f"from 2 to {len(values) // 2}, for {len(values)} values", batches)
    sums = np.array([part.sum() for part in np.array_split(_finite(values), batches)])
    return np.asarray(sums * (batches / len(values)), np.float64)


def lag1_autocorrelation(values: Floats) -> float:
    """Correlation of each value with the next, 0 where there is none; for stretches of a run that should be short.

    Taken around a straight line, so that a queue that grows throughout the run is not mistaken for a slow swing,
    and corrected for what that line and the mean take away from few values.
    """
    n = len(values)
    if n < 4:
        return 0.0
    place = np.arange(n) - (n - 1) / 2.0
    off = values - values.mean()
    rest = off - place * float((place * off).sum() / (place**2).sum())
    total = float((rest**2).sum())
    if total <= 1e-24 * float((values**2).sum()):
        return 0.0
    seen = float((rest[1:] * rest[:-1]).sum()) / total
    return min(max(0.0, seen + (2.0 + 4.0 * seen) / n), 0.95)


def trend_direction(values: Floats, confidence: float = CONFIDENCE) -> float:
    """Where a run is heading: 1 if its values keep rising, -1 if they keep falling, 0 if neither is sure.

    Judged by the steps from each value to the next. A level that merely swings has steps that cancel, and one that
    wanders without aim is called heading somewhere no more often than the confidence allows.
    """
    steps = np.diff(_finite(values))
    if len(steps) < 2:
        return 0.0
    step = t_interval(steps, confidence)
    # The rounding of a constant is no direction.
    small = abs(step.mean) <= 1e-12 * float(np.abs(values).max())
    return 0.0 if small or not step.excludes(0.0) else math.copysign(1.0, step.mean)


def dependent_interval(values: Floats, confidence: float = CONFIDENCE) -> Interval:
    """Student's interval for values that follow each other in one run.

    Where neighbours are alike, so many values tell as much as fewer independent ones would; the interval is that of
    the fewer. Never narrower than `t_interval`. Values that keep rising, as in a queue that grows, have no mean to
    speak of: it depends on the run's length, and the interval is infinite.
    """
    plain = t_interval(values, confidence)
    if trend_direction(values, confidence):
        return Interval(plain.mean, -math.inf, math.inf)
    alike = lag1_autocorrelation(values)
    if alike == 0.0:
        return plain
    fewer = max(2.0, len(values) * (1.0 - alike) / (1.0 + alike))
    half = _t_quantile(fewer - 1.0, 0.5 + confidence / 2) * float(values.std(ddof=1)) / math.sqrt(fewer)
    return Interval(plain.mean, plain.mean - half, plain.mean + half)


def sequential_interval(values: Floats, confidence: float = CONFIDENCE, spread: float = 1.0) -> Interval:
    """An interval that one may look at after every seed, and stop whenever it is clear.

    It covers the true mean at all looks together (for normal differences). The price is width, about half as much
    again as the t-interval's. Where the t statistic's mixture likelihood ratio, with effects of size
    N(0, spread) against none, stays below 1/alpha: a martingale under every mean, so Ville's inequality bounds
    the chance that it ever goes above.
    """
    seen = _several(values)
    n, mean = len(seen), float(seen.mean())
    error = float(seen.std(ddof=1)) / math.sqrt(n)
    if error == 0.0:
        return Interval(mean, mean, mean)
    growth = 1.0 + n * spread
    ratio = (math.sqrt(growth) / (1.0 - confidence)) ** (2.0 / n)
    if ratio >= growth:
        return Interval(mean, -math.inf, math.inf)
    half = math.sqrt((n - 1) * (ratio - 1.0) / (1.0 - ratio / growth)) * error
    return Interval(mean, mean - half, mean + half)


# ------------------------------------------------------------------------------------------ tests and sizes


def signed_ranks(differences: Floats) -> tuple[Floats, float, float]:
    """Ranks of what is not 0 by size, ties sharing theirs, and the sums of the positive and the negative ones."""
    moved = differences[differences != 0]
    _, place, counts = np.unique(np.abs(moved), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2.0)[place]
    return ranks, float(ranks[moved > 0].sum()), float(ranks[moved < 0].sum())


def wilcoxon(differences: Floats) -> float:
    """Two-sided p of the signed-rank test; exact for few seeds, also with ties. All equal: 1."""
    ranks, above, below = signed_ranks(_finite(differences))
    n = len(ranks)
    if n == 0:
        return 1.0
    smaller = min(above, below)
    if n <= _EXACT_UP_TO:
        # Every sign is a coin: count the ways to reach each sum, in half ranks because ties share theirs.
        steps = np.rint(2 * ranks).astype(np.int64)
        ways = np.zeros(int(steps.sum()) + 1)
        ways[0] = 1.0
        for step in steps.tolist():
            ways[step:] += ways[:-step].copy()
        return min(1.0, 2.0 * float(ways[: round(2 * smaller) + 1].sum()) / 2.0**n)
    deviation = math.sqrt(float((ranks**2).sum()) / 4.0)
    return min(1.0, 2.0 * _NORMAL.cdf((smaller + 0.5 - float(ranks.sum()) / 2.0) / deviation))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted so that the chance of any false alarm among all of them stays below the level."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, worst = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted


def rank_biserial(differences: Floats) -> float:
    """Matched-pairs effect size: -1 when every seed falls one way, 0 when they balance, 1 the other way."""
    _, above, below = signed_ranks(_finite(differences))
    return (above - below) / (above + below) if above + below > 0 else 0.0


def cohens_dz(differences: Floats) -> float:
    """Mean difference in units of its own spread over seeds; infinite where every seed shows the same one."""
    seen = _several(differences)
    mean, deviation = float(seen.mean()), float(seen.std(ddof=1))
    if deviation == 0.0:
        return 0.0 if mean == 0.0 else math.copysign(math.inf, mean)
    return mean / deviation


def fewest_seeds(pairs: int, confidence: float = CONFIDENCE) -> int:
    """With fewer seeds than this no signed-rank test can pass the correction for so many pairs."""
    return max(2, math.floor(math.log2(2.0 * pairs / (1.0 - confidence))) + 1)


# ------------------------------------------------------------------------------------------ all pairs


@dataclass(frozen=True, slots=True)
class Pair:
    """Two policies on the same seeds. `verdict` is about the first: lower, higher or too close to call."""

    first: str
    second: str
    difference: Interval
    #: Of resampled seeds; None for stretches of one run, which cannot be shuffled.
    bootstrap: Interval | None
    p: float
    p_holm: float
    rank_biserial: float
    dz: float
    wins: int
    losses: int
    ties: int
    verdict: str

    def reversed(self) -> Pair:
        """The same, told from the other side."""
        turned = {LOWER: HIGHER, HIGHER: LOWER}.get(self.verdict, self.verdict)
        return Pair(
            self.second, self.first, _negative(self.difference),
            None if self.bootstrap is None else _negative(self.bootstrap), self.p, self.p_holm,
            0.0 - self.rank_biserial, 0.0 - self.dz, self.losses, self.wins, self.ties, turned,
        )  # fmt: skip


def compare_pairs(
    samples: Mapping[str, Floats],
    rng: np.random.Generator,
    confidence: float = CONFIDENCE,
    *,
    one_run: bool = False,
) -> dict[tuple[str, str], Pair]:
    """Every policy against every other, under both orders of their names; Holm's correction covers all pairs.

    The values are seeds, or with `one_run` the stretches of one run in their order. Two policies of one run are
    also different if the gap between them keeps growing, which is what an overloaded machine looks like.
    """
    for values in samples.values():
        _several(values)
    names = list(combinations(samples, 2))
    differences = [paired_differences(samples[first], samples[second]) for first, second in names]
    p_values = [wilcoxon(values) for values in differences]
    pairs: dict[tuple[str, str], Pair] = {}
    for (first, second), values, p, adjusted in zip(names, differences, p_values, holm(p_values), strict=True):
        difference = (dependent_interval if one_run else t_interval)(values, confidence)
        diverging = one_run and trend_direction(values, confidence) * difference.mean > 0
        pair = Pair(
            first,
            second,
            difference,
            None if one_run else bootstrap_interval(values, rng, confidence),
            p,
            adjusted,
            rank_biserial(values),
            cohens_dz(values),
            wins=int((values < 0).sum()),
            losses=int((values > 0).sum()),
            ties=int((values == 0).sum()),
            verdict=verdict(difference, adjusted, confidence, diverging=diverging),
        )
        pairs[first, second], pairs[second, first] = pair, pair.reversed()
    return pairs


def verdict(difference: Interval, p: float, confidence: float = CONFIDENCE, *, diverging: bool = False) -> str:
    """Different only where ranks and means agree: neither one lucky seed nor one wild one decides."""
    if p >= 1.0 - confidence or not (diverging or difference.excludes(0.0)):
        return TOO_CLOSE
    return LOWER if difference.mean < 0 else HIGHER


def sequential_verdict(differences: Floats, comparisons: int = 1, confidence: float = CONFIDENCE) -> str:
    """The same question after any number of seeds; `comparisons` are watched at the same time."""
    interval = sequential_interval(differences, 1.0 - (1.0 - confidence) / comparisons)
    if not interval.excludes(0.0):
        return TOO_CLOSE
    return LOWER if interval.mean < 0 else HIGHER


@cache
def _t_quantile(freedom: float, probability: float) -> float:
    from scipy.special import stdtrit  # not above: whoever only adds up a run need not wait for scipy

    return float(stdtrit(freedom, probability))


def _negative(interval: Interval) -> Interval:
    return Interval(-interval.mean, -interval.high, -interval.low)


def _several(values: Floats) -> Floats:
    if len(values) < 2:
        raise InvalidInputError("seeds", "at least 2, for an interval", len(values))
    return _finite(values)


def _finite(values: Floats) -> Floats:
    if not np.isfinite(values).all():
        raise InvalidInputError("values", "finite numbers", values[~np.isfinite(values)][0])
    return values
