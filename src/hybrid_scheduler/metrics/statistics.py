"""Statistics of paired runs: intervals, tests and effect sizes, as pure functions.

Schedulers are compared on the same seeds. The tests judge the difference on each seed, so the spread between seeds
cancels out. All random numbers come from a generator that is passed in. Terms:

    difference    one scheduler's value minus the other's, seed by seed
    significant   the Holm-corrected Wilcoxon test and the 95 % interval both say so; else "too close to call"
    relevant      significant, and at least 1 % of the baseline's mean
    wins, losses  seeds on which the first has the lower or the higher value
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from statistics import NormalDist

import numpy as np

from ..core import Floats, InvalidInputError

_CONFIDENCE = 0.95
TOO_CLOSE = "too close to call"
LOWER = "lower"
HIGHER = "higher"
#: Smallest significant difference that is relevant, as a share of the baseline's mean.
RELEVANT_SHARE = 0.01
#: Constant of `values_needed`, fitted to simulated queues with known means.
_BUSY_PERIODS = 25.0
#: Below this index the variance of a sample says little about that of its source.
_HEAVY_TAIL = 2.0
#: Up to this number of differences the distribution of the signed ranks is exact, beyond it is nearly normal.
_EXACT_UP_TO = 60
_RESAMPLES = 4000
#: Fewest means of neighbouring batches from which a spread is estimated.
_MIN_MERGED = 4
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Interval:
    """Mean with a confidence interval.

    Parameters
    ----------
    mean
        Mean of the sample.
    low, high
        Ends of the range that covers the true mean with the stated confidence.

    Examples
    --------
    >>> from hybrid_scheduler import Interval
    >>> interval = Interval(mean=1.0, low=0.5, high=1.5)
    >>> interval.half_width, interval.excludes(0.0)
    (0.5, True)
    """

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2

    def excludes(self, value: float) -> bool:
        """Return whether the value lies outside the interval."""
        return value < self.low or value > self.high


# ------------------------------------------------------------------------------------------ intervals


def paired_differences(first: Floats, second: Floats) -> Floats:
    """Return first - second, seed by seed."""
    if first.shape != second.shape or first.ndim != 1:
        raise InvalidInputError("runs", f"paired: {len(first)} values on either side", f"{len(second)} values")
    return _finite(first - second)


def t_interval(values: Floats, confidence: float = _CONFIDENCE) -> Interval:
    """Return Student's interval of the mean."""
    seen = _several(values)
    mean = float(seen.mean())
    half = float(t_half_width(seen, confidence))
    return Interval(mean, mean - half, mean + half)


def skewed_interval(values: Floats, confidence: float = _CONFIDENCE) -> Interval:
    """Return Student's interval, widened where the values are skewed.

    The mean of a few skewed values is itself skewed, and Student's interval then misses the true mean too often.
    The half width grows with the skewness beyond that of a normal sample of this size, less for larger samples.
    """
    plain = t_interval(values, confidence)
    half = plain.half_width * skew_factor(values)
    return Interval(plain.mean, plain.mean - half, plain.mean + half)


def skew_factor(values: Floats) -> float:
    """Return the factor, at least 1, by which skewed values widen Student's interval."""
    n = len(values)
    deviation = float(values.std())
    # Rounding errors of a constant have no shape.
    if n < 3 or deviation <= 1e-12 * float(np.abs(values).max()):
        return 1.0
    skewness = abs(float((((values - values.mean()) / deviation) ** 3).mean()))
    return 1.0 + math.sqrt(20.0 / n) * max(0.0, skewness - math.sqrt(6.0 / n))


def tail_index(values: Floats) -> float:
    """Return Hill's estimate of the tail index from the largest tenth of the values; infinite if they are equal.

    Below 2 the source has no finite variance, and below 1 no finite mean.
    """
    count = max(10, len(values) // 10)
    largest = np.sort(values)[-count - 1 :]
    if len(largest) <= count or not largest[0] > 0:
        return math.inf
    spread = float(np.log(largest[1:] / largest[0]).mean())
    return 1.0 / spread if spread > 1e-9 else math.inf


def values_needed(slowdown: float, durations: Floats) -> int:
    """Return how many tasks a run needs before its mean latency has an interval that covers.

    Latencies of a queue are correlated over its busy periods, which last about ``(1 + c^2) S^2`` tasks for a mean
    latency of S times the mean duration and a coefficient of variation c. A run needs 25 of them. Durations with a
    heavy tail need ten times the run.
    """
    mean = float(durations.mean())
    variation = float(durations.var()) / mean**2 if mean > 0 else 0.0
    needed = _BUSY_PERIODS * (1.0 + variation) * max(slowdown, 1.0) ** 2
    if tail_index(durations) < _HEAVY_TAIL:
        needed = max(needed, 10.0 * len(durations))
    return math.ceil(needed) if math.isfinite(needed) else 2**62


def t_half_width(values: Floats, confidence: float = _CONFIDENCE) -> Floats:
    """Return half the width of Student's interval of the mean over the first dimension, the seeds."""
    n = len(values)
    half: Floats = _t_quantile(n - 1, 0.5 + confidence / 2) * (values.std(axis=0, ddof=1) / math.sqrt(n))
    return half


def bootstrap_interval(
    values: Floats, rng: np.random.Generator, confidence: float = _CONFIDENCE, resamples: int = _RESAMPLES
) -> Interval:
    """Return the bias-corrected and accelerated bootstrap interval of the mean, which follows a skewed spread."""
    seen = _several(values)
    n = len(seen)
    mean = float(seen.mean())
    if (seen == seen[0]).all():
        return Interval(mean, mean, mean)
    means = seen[rng.integers(0, n, (resamples, n))].mean(axis=1)
    below = ((means < mean).sum() + 0.5 * (means == mean).sum()) / resamples
    shift = _NORMAL.inv_cdf(min(max(float(below), 1 / resamples), 1 - 1 / resamples))
    spread = mean - (seen.sum() - seen) / (n - 1)  # jackknife: change of the mean when one seed is left out
    skew = float((spread**3).sum() / (6.0 * (spread**2).sum() ** 1.5))
    edges = [shift + _NORMAL.inv_cdf(0.5 + side * confidence / 2) for side in (-1, 1)]
    low, high = np.quantile(means, [_NORMAL.cdf(shift + edge / (1.0 - skew * edge)) for edge in edges])
    return Interval(mean, float(low), float(high))


def batch_means(values: Floats, batches: int = 20) -> Floats:
    """Return one number per batch of consecutive values; their mean is the mean of all values.

    Batch sizes differ by one at most. Each number is the batch's sum, scaled alike for all batches, so the mean is
    exact.
    """
    if batches < 2 or len(values) < 2 * batches:
        raise InvalidInputError("batches", f"from 2 to {len(values) // 2}, for {len(values)} values", batches)
    sums = np.array([part.sum() for part in np.array_split(_finite(values), batches)])
    return np.asarray(sums * (batches / len(values)), np.float64)


def lag1_autocorrelation(values: Floats) -> float:
    """Return the correlation of each value with the next, at least 0; for batches of a run.

    It is taken around a straight line, so that a queue that grows throughout the run does not count as correlation.
    It is corrected for the bias that the fitted line and mean cause in short samples.
    """
    n = len(values)
    if n < 4:
        return 0.0
    position = np.arange(n) - (n - 1) / 2.0
    centred = values - values.mean()
    residual = centred - position * float((position * centred).sum() / (position**2).sum())
    total = float((residual**2).sum())
    if total <= 1e-24 * float((values**2).sum()):
        return 0.0
    correlation = float((residual[1:] * residual[:-1]).sum()) / total
    return min(max(0.0, correlation + (2.0 + 4.0 * correlation) / n), 0.95)


def trend_direction(values: Floats, confidence: float = _CONFIDENCE) -> float:
    """Return 1 if values keep rising, -1 if they keep falling, 0 if neither is significant.

    The test is on the steps from each value to the next. The steps of an oscillation cancel, and a random walk
    counts as a trend no more often than the confidence allows.
    """
    steps = np.diff(_finite(values))
    if len(steps) < 2:
        return 0.0
    step = t_interval(steps, confidence)
    # Rounding errors of a constant are not a trend.
    small = abs(step.mean) <= 1e-12 * float(np.abs(values).max())
    return 0.0 if small or not step.excludes(0.0) else math.copysign(1.0, step.mean)


def dependent_interval(values: Floats, confidence: float = _CONFIDENCE, *, congested: bool = True) -> Interval:
    """Return Student's interval for consecutive, possibly correlated values of one run.

    Correlated values carry as much information as a smaller number of independent ones; the interval uses that
    effective number. It is the widest of those for the values themselves, for means of two neighbours and of four,
    because congestion may outlast a batch, and is widened for skewness. It is never narrower than `t_interval`.
    Values with a trend, as in a queue that grows, have no stable mean: the interval is infinite. Without queues
    (`congested` false) no congestion can outlast a batch, and the values themselves are enough.
    """
    plain = t_interval(values, confidence)
    if trend_direction(values, confidence):
        return Interval(plain.mean, -math.inf, math.inf)
    half = plain.half_width
    merged = values
    fewest = _MIN_MERGED if congested else max(_MIN_MERGED, len(values))
    while len(merged) >= fewest:
        correlation = lag1_autocorrelation(merged) if len(merged) >= 2 * _MIN_MERGED else 0.0
        effective = max(2.0, len(merged) * (1.0 - correlation) / (1.0 + correlation))
        error = float(merged.std(ddof=1)) / math.sqrt(effective)
        half = max(half, _t_quantile(effective - 1.0, 0.5 + confidence / 2) * error)
        merged = merged[len(merged) % 2 :].reshape(-1, 2).mean(axis=1)
    half *= skew_factor(values)
    return Interval(plain.mean, plain.mean - half, plain.mean + half)


def sequential_interval(values: Floats, confidence: float = _CONFIDENCE, spread: float = 1.0) -> Interval:
    """Return an interval that stays valid when it is checked after every seed.

    It covers the true mean at all checks together (for normal differences) and is about 1.5 times as wide as the
    t-interval. It holds the means for which the t statistic's mixture likelihood ratio, with effects of size
    N(0, spread) against none, stays below 1/alpha. The ratio is a martingale under every mean, so Ville's
    inequality bounds the chance that it ever exceeds 1/alpha.
    """
    seen = _several(values)
    n = len(seen)
    mean = float(seen.mean())
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
    """Return the ranks of the nonzero differences by size, and the rank sums of positive and negative ones."""
    nonzero = differences[differences != 0]
    _, group, counts = np.unique(np.abs(nonzero), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2.0)[group]
    return ranks, float(ranks[nonzero > 0].sum()), float(ranks[nonzero < 0].sum())


def wilcoxon(differences: Floats) -> float:
    """Return the two-sided p-value of the signed-rank test; exact up to 60 seeds, also with ties."""
    ranks, above, below = signed_ranks(_finite(differences))
    n = len(ranks)
    if n == 0:
        return 1.0
    smaller = min(above, below)
    if n <= _EXACT_UP_TO:
        # All signs are equally likely: count the ways to reach each sum, in half ranks because of ties.
        steps = np.rint(2 * ranks).astype(np.int64)
        ways = np.zeros(int(steps.sum()) + 1)
        ways[0] = 1.0
        for step in steps.tolist():
            ways[step:] += ways[:-step].copy()
        return min(1.0, 2.0 * float(ways[: round(2 * smaller) + 1].sum()) / 2.0**n)
    deviation = math.sqrt(float((ranks**2).sum()) / 4.0)
    return min(1.0, 2.0 * _NORMAL.cdf((smaller + 0.5 - float(ranks.sum()) / 2.0) / deviation))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's method: it bounds the chance of any false positive among them."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    worst = 0.0
    for rank, index in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted


def rank_biserial(differences: Floats) -> float:
    """Return the matched-pairs effect size: -1 if all differences are negative, 0 if balanced, 1 if positive."""
    _, above, below = signed_ranks(_finite(differences))
    return (above - below) / (above + below) if above + below > 0 else 0.0


def cohens_dz(differences: Floats) -> float:
    """Return the mean difference divided by its standard deviation; infinite if all differences are equal."""
    seen = _several(differences)
    mean = float(seen.mean())
    deviation = float(seen.std(ddof=1))
    if deviation == 0.0:
        return 0.0 if mean == 0.0 else math.copysign(math.inf, mean)
    return mean / deviation


def fewest_seeds(pairs: int, confidence: float = _CONFIDENCE) -> int:
    """Return the smallest number of seeds at which the corrected signed-rank test can be significant."""
    return max(2, math.floor(math.log2(2.0 * pairs / (1.0 - confidence))) + 1)


# ------------------------------------------------------------------------------------------ all pairs


@dataclass(frozen=True, slots=True)
class Pair:
    """Comparison of two schedulers on the same seeds.

    Parameters
    ----------
    first, second
        Names of the schedulers.
    difference
        Mean of first minus second, with its interval.
    bootstrap
        The same interval from resampled seeds; None for batches of one run, whose order matters.
    p, p_holm
        p-value of Wilcoxon's signed-rank test, and the same after Holm's correction for all pairs.
    rank_biserial
        Effect size of that test, from -1 (first always lower) to 1 (always higher).
    dz
        Cohen's d of the paired differences: their mean over their standard deviation.
    wins, losses, ties
        Seeds in which the first is lower, higher or equal.
    verdict
        Whether the first is lower, higher or too close to call.
    """

    first: str
    second: str
    difference: Interval
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
        """Return the same comparison from the second scheduler's side."""
        opposite = {LOWER: HIGHER, HIGHER: LOWER}.get(self.verdict, self.verdict)
        return Pair(
            self.second, self.first, _negative(self.difference),
            None if self.bootstrap is None else _negative(self.bootstrap), self.p, self.p_holm,
            0.0 - self.rank_biserial, 0.0 - self.dz, self.losses, self.wins, self.ties, opposite,
        )  # fmt: skip


def compare_pairs(
    samples: Mapping[str, Floats],
    rng: np.random.Generator,
    confidence: float = _CONFIDENCE,
    *,
    one_run: bool = False,
    without_queues: Collection[str] = (),
) -> dict[tuple[str, str], Pair]:
    """Compare every scheduler with every other; Holm's correction covers all pairs.

    Parameters
    ----------
    samples
        Values of each scheduler: one per seed, or with `one_run` one per batch of the run, in order.
    rng
        Generator for the bootstrap.
    confidence
        Confidence of intervals and tests.
    one_run
        Whether the values are batches of one run. Two schedulers of one run also differ if the gap between them
        keeps growing, as on an overloaded platform.
    without_queues
        Schedulers of one run whose tasks hardly wait, so that congestion cannot outlast a batch.

    Returns
    -------
    dict
        Comparison under both orders of each pair of names.
    """
    for values in samples.values():
        _several(values)
    names = list(combinations(samples, 2))
    differences = [paired_differences(samples[first], samples[second]) for first, second in names]
    p_values = [wilcoxon(values) for values in differences]
    pairs: dict[tuple[str, str], Pair] = {}
    for (first, second), values, p, adjusted in zip(names, differences, p_values, holm(p_values), strict=True):
        congested = not {first, second} <= set(without_queues)
        difference = (
            dependent_interval(values, confidence, congested=congested)
            if one_run
            else skewed_interval(values, confidence)
        )
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
        pairs[first, second] = pair
        pairs[second, first] = pair.reversed()
    return pairs


def exact_pairs(samples: Mapping[str, Floats]) -> dict[tuple[str, str], Pair]:
    """Compare schedulers whose one run every seed repeats: differences are exact, so there are no p-values.

    Parameters
    ----------
    samples
        The one value of each scheduler.

    Returns
    -------
    dict
        Comparison under both orders of each pair of names.
    """
    pairs: dict[tuple[str, str], Pair] = {}
    for first, second in combinations(samples, 2):
        gap = float(samples[first][0] - samples[second][0])
        word = TOO_CLOSE if gap == 0 else LOWER if gap < 0 else HIGHER
        pair = Pair(
            first, second, Interval(gap, gap, gap), None, math.nan, math.nan, float(np.sign(gap)), math.nan,
            wins=int(gap < 0), losses=int(gap > 0), ties=int(gap == 0), verdict=word,
        )  # fmt: skip
        pairs[first, second] = pair
        pairs[second, first] = pair.reversed()
    return pairs


def verdict(difference: Interval, p: float, confidence: float = _CONFIDENCE, *, diverging: bool = False) -> str:
    """Return lower or higher only if test and interval agree, so that no single seed decides; else too close."""
    if p >= 1.0 - confidence or not (diverging or difference.excludes(0.0)):
        return TOO_CLOSE
    return LOWER if difference.mean < 0 else HIGHER


def sequential_verdict(differences: Floats, comparisons: int = 1, confidence: float = _CONFIDENCE) -> str:
    """Return the verdict after any number of seeds, for one of `comparisons` watched at the same time."""
    interval = sequential_interval(differences, 1.0 - (1.0 - confidence) / comparisons)
    if not interval.excludes(0.0):
        return TOO_CLOSE
    return LOWER if interval.mean < 0 else HIGHER


@cache
def _t_quantile(freedom: float, probability: float) -> float:
    from scipy.special import stdtrit  # imported here because it is slow and summaries do not need it

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
