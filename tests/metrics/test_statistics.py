"""Intervals cover what they promise, tests raise no more alarms than stated, and small cases come out by hand."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from hybrid_scheduler import InvalidInputError
from hybrid_scheduler.metrics import statistics as s

TRIALS = 4000
#: Three standard errors of a rate near 0.05 or 0.95 over that many trials.
SLACK = 3 * math.sqrt(0.05 * 0.95 / TRIALS)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# ------------------------------------------------------------------------------------------ by hand


def test_t_interval_by_hand():
    # mean 3, standard deviation sqrt(2.5), error sqrt(0.5); t(4, 0.975) = 2.776445
    interval = s.t_interval(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert interval.mean == 3.0
    assert interval.half_width == pytest.approx(2.776445 * math.sqrt(0.5), abs=1e-6)
    assert interval.excludes(1.0)
    assert not interval.excludes(2.0)


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([1.0, 2.0, 3.0], 2 / 8),  # all one way: both tails of 8 equally likely patterns of signs
        ([1.0, 2.0, -3.0], 1.0),  # ranks 3 against 3
        ([-1.0, 2.0, 3.0, 4.0], 4 / 16),  # below: {}, {1}; twice
        ([0.0, 0.0, 5.0], 1.0),  # what is equal says nothing: one coin is left
        ([0.0, 0.0], 1.0),
        ([1.0, 1.0, 1.0, -1.0], 10 / 16),  # ties: four equal ranks, at most one against: 5 of 16, twice
    ],
)
def test_wilcoxon_equals_values_computed_by_hand(differences, p):
    assert s.wilcoxon(np.array(differences)) == pytest.approx(p)


@pytest.mark.parametrize("ties", [False, True])
def test_wilcoxon_counts_what_a_full_listing_counts(ties):
    values = rng(1).normal(0.4, 1.0, 11)
    if ties:
        values = np.round(values, 0)
    ranks, above, below = s.signed_ranks(values)
    sums = [
        sum(r for r, sign in zip(ranks, signs, strict=True) if sign) for signs in product((0, 1), repeat=len(ranks))
    ]
    expected = min(1.0, 2 * np.mean(np.array(sums) <= min(above, below) + 1e-9))
    assert s.wilcoxon(values) == pytest.approx(expected)


def test_wilcoxon_agrees_with_scipy():
    for seed, n in product(range(3), (8, 40, 200)):
        values = rng(seed).normal(0.2, 1.0, n)
        assert s.wilcoxon(values) == pytest.approx(stats.wilcoxon(values, correction=n > 60).pvalue, rel=1e-9)


def test_holm_equals_values_computed_by_hand():
    # 0.01 * 4, 0.02 * 3, 0.03 * 2, 0.9, and never below the one before
    assert s.holm([0.02, 0.9, 0.01, 0.03]) == pytest.approx([0.06, 0.9, 0.04, 0.06])
    assert s.holm([0.5, 0.4]) == pytest.approx([0.8, 0.8])
    assert s.holm([]) == []


def test_effect_sizes_by_hand():
    differences = np.array([1.0, 2.0, -3.0, 4.0])  # ranks 1 2 3 4: (7 - 3) / 10
    assert s.rank_biserial(differences) == pytest.approx(0.4)
    assert s.cohens_dz(np.array([1.0, 3.0])) == pytest.approx(2 / math.sqrt(2))
    assert s.rank_biserial(np.zeros(3)) == 0.0
    assert s.cohens_dz(np.zeros(3)) == 0.0
    assert s.cohens_dz(np.full(3, -2.0)) == -math.inf


def test_batch_means_by_hand():
    values = np.array([1.0, 3.0, 5.0, 7.0, 9.0])  # three and two: sums 9 and 16, of which 25 / 5 is the mean
    assert s.batch_means(values, 2).tolist() == pytest.approx([9 * 2 / 5, 16 * 2 / 5])
    interval = s.dependent_interval(s.batch_means(values, 2))
    assert interval.mean == pytest.approx(values.mean())
    assert interval.half_width == pytest.approx(12.706205 * math.sqrt(2.8**2 / 2) / math.sqrt(2), rel=1e-6)
    with pytest.raises(InvalidInputError, match="batches: must be from 2 to 2, for 5 values, got 3"):
        s.batch_means(values, 3)


def test_fewest_seeds_allow_a_significant_result():
    assert s.fewest_seeds(1) == 6  # 2 / 2^6 = 0.031, 2 / 2^5 = 0.063
    assert s.fewest_seeds(15) == 10
    for pairs in (1, 5, 15, 36):
        n = s.fewest_seeds(pairs)
        assert pairs * 2 / 2**n < 0.05 <= pairs * 2 / 2 ** (n - 1)


def test_one_seed_has_no_interval():
    one = np.array([1.0])
    for function in (s.t_interval, s.sequential_interval, s.cohens_dz):
        with pytest.raises(InvalidInputError, match="seeds: must be at least 2, for an interval, got 1"):
            function(one)
    with pytest.raises(InvalidInputError, match="at least 2"):
        s.bootstrap_interval(one, rng())
    with pytest.raises(InvalidInputError, match="at least 2"):
        s.compare_pairs({"a": one, "b": one}, rng())


def test_values_that_cannot_be_paired_are_refused():
    with pytest.raises(InvalidInputError, match="paired"):
        s.paired_differences(np.zeros(3), np.zeros(2))
    with pytest.raises(InvalidInputError, match="finite"):
        s.paired_differences(np.array([1.0, np.nan]), np.zeros(2))


def test_pairs_read_the_same_from_both_sides():
    samples = {"a": rng(1).normal(1.0, 0.1, 12), "b": rng(2).normal(2.0, 0.1, 12), "c": rng(1).normal(1.0, 0.1, 12)}
    pairs = s.compare_pairs(samples, rng())
    assert set(pairs) == {(x, y) for x in samples for y in samples if x != y}
    ab, ba = pairs["a", "b"], pairs["b", "a"]
    assert (ab.verdict, ba.verdict) == (s.LOWER, s.HIGHER)
    assert (ab.wins, ab.losses, ba.wins, ba.losses) == (12, 0, 0, 12)
    assert ab.difference.low == -ba.difference.high
    assert ab.p_holm == pytest.approx(3 * 2 / 2**12)
    assert ab.rank_biserial == -1.0
    assert ab.bootstrap.low < ab.difference.mean < ab.bootstrap.high
    ac = pairs["a", "c"]  # the same numbers
    assert (ac.verdict, ac.ties, ac.p_holm) == (s.TOO_CLOSE, 12, 1.0)


def test_neither_ranks_nor_means_decide_alone():
    assert s.verdict(s.Interval(-1.0, -2.0, -0.1), 0.2) == s.TOO_CLOSE
    assert s.verdict(s.Interval(-1.0, -2.1, 0.1), 0.001) == s.TOO_CLOSE
    assert s.verdict(s.Interval(1.0, 0.1, 2.0), 0.001) == s.HIGHER


# ------------------------------------------------------------------------------------------ by simulation


@pytest.mark.parametrize("n", [5, 10, 20])
def test_t_intervals_cover_the_mean_as_often_as_stated(n):
    draws = rng(n).normal(3.0, 2.0, (TRIALS, n))
    covered = np.mean([not s.t_interval(row).excludes(3.0) for row in draws])
    assert covered == pytest.approx(0.95, abs=SLACK)


@pytest.mark.parametrize(("name", "least"), [("normal", 0.92), ("skewed", 0.88)])
def test_bootstrap_intervals_cover_the_mean_as_often_as_stated(name, least):
    """With 20 seeds a bootstrap is a little narrow by nature, more so with a skewed spread; that is stated."""
    draws = rng(7).normal(1.0, 1.0, (1500, 20)) if name == "normal" else rng(8).exponential(1.0, (1500, 20))
    choose = rng(9)
    covered = np.mean([not s.bootstrap_interval(row, choose, resamples=1000).excludes(1.0) for row in draws])
    assert least <= covered <= 0.97


def test_the_bootstrap_follows_the_seed_it_is_given():
    values = rng(3).exponential(1.0, 15)
    assert s.bootstrap_interval(values, rng(5)) == s.bootstrap_interval(values, rng(5))
    assert s.bootstrap_interval(values, rng(5)) != s.bootstrap_interval(values, rng(6))
    assert s.bootstrap_interval(np.full(4, 2.0), rng()) == s.Interval(2.0, 2.0, 2.0)


def test_batch_means_cover_a_run_with_memory():
    """Neighbours in a run resemble each other: the plain interval is far too narrow, batches are not."""
    noise = rng(4).normal(0.0, 1.0, (400, 8000))
    plain, batched = 0, 0
    from scipy.signal import lfilter

    runs = lfilter([1.0], [1.0, -0.9], noise, axis=1)[:, 1000:]
    for run in runs:
        plain += not s.t_interval(run).excludes(0.0)
        batched += not s.dependent_interval(s.batch_means(run)).excludes(0.0)
    # The widest of three batch lengths: never too narrow, slightly too wide where 20 batches are independent.
    assert 0.95 <= batched / len(runs) <= 0.995
    assert plain / len(runs) < 0.5


def wandering(pull, runs, length=20, seed=5):
    """Values that remember a share of the one before."""
    from scipy.signal import lfilter

    return lfilter([1.0], [1.0, -pull], rng(seed).normal(0.0, 1.0, (runs, length + 200)), axis=1)[:, 200:]


@pytest.mark.parametrize(("pull", "least", "plainly"), [(0.0, 0.94, 0.93), (0.4, 0.89, 0.84), (0.6, 0.87, 0.70)])
def test_correlation_widens_the_interval(pull, least, plainly):
    runs = wandering(pull, 1500)
    covered = np.mean([not s.dependent_interval(run).excludes(0.0) for run in runs])
    plain = np.mean([not s.t_interval(run).excludes(0.0) for run in runs])
    assert covered >= least
    assert plain <= plainly + 0.03
    assert all(s.dependent_interval(run).half_width >= s.t_interval(run).half_width for run in runs[:100])


def test_growing_queue_has_a_trend_and_no_interval():
    noise = rng(6).normal(0.0, 1.0, 20)
    growing = np.cumsum(2.0 + noise)
    assert s.trend_direction(growing) == 1.0
    assert s.trend_direction(-growing) == -1.0
    assert math.isinf(s.dependent_interval(growing).half_width)
    # Neither a level that swings nor one that wanders without aim is taken for growth.
    assert np.mean([s.trend_direction(run) != 0 for run in wandering(0.8, 1000)]) < 0.01
    assert np.mean([s.trend_direction(run) != 0 for run in wandering(1.0, 1000)]) <= 0.05 + SLACK
    assert s.trend_direction(np.full(20, 3.0)) == s.trend_direction(np.array([1.0, 2.0])) == 0.0
    pairs = s.compare_pairs({"grows": growing, "calm": noise}, rng(), one_run=True)
    assert pairs["grows", "calm"].verdict == s.HIGHER
    assert pairs["calm", "grows"].verdict == s.LOWER
    assert pairs["grows", "calm"].bootstrap is None


@pytest.mark.parametrize("n", [6, 10, 25])
def test_wilcoxon_keeps_its_level(n):
    alarms = np.mean([s.wilcoxon(row) < 0.05 for row in rng(n).standard_t(3, (TRIALS, n))])
    assert alarms <= 0.05 + SLACK


def test_identical_policies_are_too_close_to_call():
    """Six policies that differ by chance alone, on 12 shared seeds: any verdict among the 15 pairs is an error."""
    trials, choose = 600, rng(11)
    errors = 0
    for _ in range(trials):
        shared = choose.exponential(1.0, 12)
        samples = {name: shared + choose.normal(0.0, 0.2, 12) for name in "abcdef"}
        differences = {(x, y): samples[x] - samples[y] for x, y in combinations(samples, 2)}
        adjusted = s.holm([s.wilcoxon(values) for values in differences.values()])
        verdicts = [
            s.verdict(s.t_interval(values), p) for values, p in zip(differences.values(), adjusted, strict=True)
        ]
        errors += any(verdict != s.TOO_CLOSE for verdict in verdicts)
    assert errors / trials <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


def test_checking_after_every_seed_stays_below_the_level():
    """From 2 to 60 seeds, stopping at the first alarm. The t-interval would raise false alarms in a third."""
    runs = rng(12).normal(0.0, 1.0, (1200, 60))
    careful = careless = 0
    for run in runs:
        looks = [run[:n] for n in range(2, 61)]
        careful += any(s.sequential_verdict(look) != s.TOO_CLOSE for look in looks)
        careless += any(s.t_interval(look).excludes(0.0) for look in looks)
    assert careful / len(runs) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / len(runs))
    assert careless / len(runs) > 0.25


def test_a_clear_difference_is_soon_found():
    run = rng(13).normal(1.5, 1.0, 60)
    found = next(n for n in range(2, 61) if s.sequential_verdict(run[:n], comparisons=5) == s.HIGHER)
    assert found <= 25
    assert s.sequential_interval(np.full(3, 2.0)) == s.Interval(2.0, 2.0, 2.0)
    assert s.sequential_interval(np.array([1.0, 1.1])).high == math.inf


def queue_latencies(load: float, tasks: int, runs: int, seed: int) -> np.ndarray:
    """Latencies in a single queue with exponential gaps and durations of mean 1."""
    draw = rng(seed)
    duration, gap = draw.exponential(1.0, (runs, tasks)), draw.exponential(1.0 / load, (runs, tasks))
    walk = np.cumsum(np.pad(duration[:, :-1] - gap[:, 1:], ((0, 0), (1, 0))), axis=1)
    return walk - np.minimum(np.minimum.accumulate(walk, axis=1), 0.0) + duration


@pytest.mark.parametrize(("load", "tasks"), [(0.3, 200), (0.5, 500), (0.7, 1000), (0.85, 4000)])
def test_interval_covers_the_mean_latency_of_a_queue_with_enough_tasks(load: float, tasks: int) -> None:
    truth = 1.0 / (1.0 - load)
    assert s.values_needed(truth, rng(1).exponential(1.0, tasks)) <= tasks
    runs = queue_latencies(load, tasks, 300, 8)
    covered = np.mean([not s.dependent_interval(s.batch_means(run)).excludes(truth) for run in runs])
    assert covered >= 0.92


@pytest.mark.parametrize(("load", "tasks"), [(0.7, 200), (0.85, 500), (0.95, 2000)])
def test_short_run_of_a_busy_queue_needs_more_tasks(load: float, tasks: int) -> None:
    assert s.values_needed(1.0 / (1.0 - load), rng(1).exponential(1.0, tasks)) > tasks


def test_heavy_tailed_durations_need_a_much_longer_run() -> None:
    heavy, light = rng(2).pareto(1.3, 2000) + 1.0, rng(2).uniform(1.0, 2.0, 2000)
    assert s.tail_index(heavy) < 2 < s.tail_index(light)
    assert s.values_needed(1.1, heavy) >= 20_000
    assert s.values_needed(1.1, light) < 200
    assert math.isinf(s.tail_index(np.ones(100)))


@pytest.mark.parametrize(("sigma", "seeds", "plain", "least"), [(1.0, 20, 0.90, 0.93), (1.5, 20, 0.83, 0.89)])
def test_skewed_seeds_get_a_wider_interval(sigma: float, seeds: int, plain: float, least: float) -> None:
    samples, truth = rng(3).lognormal(0.0, sigma, (1000, seeds)), math.exp(sigma**2 / 2)
    assert np.mean([not s.t_interval(one).excludes(truth) for one in samples]) < plain
    assert np.mean([not s.skewed_interval(one).excludes(truth) for one in samples]) >= least
    normal = rng(4).normal(0.0, 1.0, (1000, seeds))
    assert np.mean([not s.skewed_interval(one).excludes(0.0) for one in normal]) == pytest.approx(0.955, abs=0.02)
    assert s.skew_factor(np.full(5, 0.1)) == 1.0
