"""The laws keep their ranges and have the moments that the formulas promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.workload import BoundedPareto, LogNormal, Uniform
from hybrid_scheduler.workload.distributions import exponential, size_distribution
from hybrid_scheduler.workload.random_columns import column_stream

COUNT = 100_000


def sample(law, seed=3):
    return law.sample(column_stream(seed, 1), COUNT)


def test_uniform_draws_have_the_expected_range_and_mean():
    values = sample(Uniform(100.0, 5000.0))
    assert values.min() >= 100.0
    assert values.max() <= 5000.0
    assert values.mean() == pytest.approx(2550.0, rel=0.01)
    assert values.std() == pytest.approx(4900.0 / math.sqrt(12), rel=0.01)


def test_uniform_of_one_point_and_of_awkward_ends_stays_inside():
    assert np.all(sample(Uniform(7.0, 7.0)) == 7.0)
    low, high = 0.1, np.nextafter(0.1, 1.0)
    assert set(sample(Uniform(low, high))) <= {low, high}


def test_lognormal_median_spread_and_clipping():
    law = LogNormal(1200.0, 0.8, 50.0, 30000.0)
    values = sample(law)
    assert values.min() >= 50.0
    assert values.max() <= 30000.0
    assert np.median(values) == pytest.approx(1200.0, rel=0.01)
    assert np.log(values).std() == pytest.approx(0.8, rel=0.01)
    # Both tails are there: the normal numbers are not cut.
    assert np.mean(values > 1200.0 * math.exp(1.6)) == pytest.approx(0.02275, rel=0.1)
    assert np.mean(values < 1200.0 * math.exp(-1.6)) == pytest.approx(0.02275, rel=0.1)
    assert sample(LogNormal(1200.0, 0.8, 1000.0, 1500.0)).min() == 1000.0


def test_bounded_pareto_mean_and_tail():
    alpha, low, high = 1.8, 400.0, 30000.0
    values = sample(BoundedPareto(alpha, low, high))
    beyond = (low / high) ** alpha
    mean = alpha * low / (alpha - 1) * (1 - (low / high) ** (alpha - 1)) / (1 - beyond)
    assert values.min() >= low
    assert values.max() <= high
    assert values.mean() == pytest.approx(mean, rel=0.02)
    above = ((low / 2000.0) ** alpha - beyond) / (1 - beyond)
    assert np.mean(values > 2000.0) == pytest.approx(above, rel=0.05)


def test_exponential_draws_have_the_expected_moments():
    gaps = exponential(column_stream(3, 4), COUNT)
    assert gaps.min() >= 0
    assert gaps.mean() == pytest.approx(1.0, rel=0.01)
    assert gaps.std() == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("law", [Uniform(1.0, 9.0), LogNormal(5.0, 1.0, 1.0, 50.0), BoundedPareto(1.8, 1.0, 9.0)])
def test_two_draws_continue_each_other(law):
    rng = column_stream(11, 1)
    parts = [law.sample(rng, 137), law.sample(rng, 1), law.sample(rng, 362)]
    whole = law.sample(column_stream(11, 1), 500)
    assert np.concatenate(parts).tobytes() == whole.tobytes()


@pytest.mark.parametrize("name", ["uniform", "lognormal", "pareto"])
def test_named_distributions_fill_their_range(name):
    values = sample(size_distribution(name, 100.0, 5000.0))
    assert values.min() >= 100.0
    assert values.max() <= 5000.0
    assert values.max() > 4500.0
    assert values.min() < 110.0


def test_a_fitted_lognormal_has_its_median_in_the_geometric_middle():
    assert np.median(sample(size_distribution("lognormal", 100.0, 10000.0))) == pytest.approx(1000.0, rel=0.02)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Uniform(5.0, 1.0), "uniform"),
        (lambda: Uniform(-1.0, 1.0), "uniform"),
        (lambda: LogNormal(0.0, 1.0, 1.0, 2.0), "lognormal.median"),
        (lambda: LogNormal(1.0, -1.0, 1.0, 2.0), "lognormal.sigma"),
        (lambda: LogNormal(1.0, 1.0, 0.0, 2.0), "lognormal"),
        (lambda: BoundedPareto(0.0, 1.0, 2.0), "pareto.alpha"),
        (lambda: BoundedPareto(1.8, 3.0, 2.0), "pareto"),
    ],
)
def test_impossible_distributions_are_refused(make, field):
    with pytest.raises(InvalidInputError) as error:
        make()
    assert error.value.field == field


def test_columns_have_their_own_streams():
    first = [column_stream(0, column).random(4).tolist() for column in range(1, 8)]
    assert len({tuple(numbers) for numbers in first}) == 7
    assert column_stream(0, 1).random() != np.random.default_rng(0).random(), (
        "differs from the stream of the bare seed"
    )
