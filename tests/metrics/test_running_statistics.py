"""Means of a stream: the same however it is cut, with an interval that holds."""

import json

import numpy as np
import pytest
from scipy import stats

from hybrid_scheduler.metrics import RunningMean, busy_share


def test_mean_and_interval_do_not_depend_on_the_cuts():
    values = np.random.default_rng(0).exponential(1.0, 5000)
    whole, pieces = RunningMean(), RunningMean()
    whole.add(values)
    for part in np.split(values, [1, 17, 18, 1000, 1000, 4321]):
        pieces.add(part)
    assert whole.mean == pytest.approx(values.mean())
    assert pieces.mean == pytest.approx(whole.mean)
    assert pieces.half_width == pytest.approx(whole.half_width)


def test_running_interval_equals_one_computed_by_hand():
    mean = RunningMean()
    assert (mean.mean, mean.half_width) == (None, None)
    values = np.random.default_rng(1).normal(size=16 * 9 + 5)
    mean.add(values[: 16 * 8 - 1])
    assert mean.half_width is None  # seven complete batches
    mean.add(values[16 * 8 - 1 :])
    batches = values[: 16 * 9].reshape(9, 16).mean(axis=1)
    expected = stats.t.ppf(0.975, 8) * batches.std(ddof=1) / 3.0
    assert mean.half_width == pytest.approx(expected)


def test_interval_is_students_for_every_number_of_batches():
    mean = RunningMean()
    values = np.random.default_rng(3).normal(size=(63, 16))
    for number, batch in enumerate(values, 1):
        mean.add(batch)
        if number >= 8:
            spread = values[:number].mean(axis=1).std(ddof=1)
            expected = stats.t.ppf(0.975, number - 1) * spread / np.sqrt(number)
            assert mean.half_width == pytest.approx(expected, rel=1e-12)


def test_full_batches_are_merged_in_pairs():
    mean = RunningMean()
    values = np.arange(16.0 * 64)
    mean.add(values)
    batches = values.reshape(32, 32).mean(axis=1)
    expected = stats.t.ppf(0.975, 31) * batches.std(ddof=1) / np.sqrt(32)
    assert mean.half_width == pytest.approx(expected)
    mean.add(np.random.default_rng(2).normal(size=100_000))
    assert len(mean.state()["sums"]) < 64


def test_interval_of_a_correlated_stream_covers_the_mean():
    """The 95 % interval of an autocorrelated stream holds the truth about as often as it says."""
    draw = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        noise = draw.normal(size=4000)
        stream = np.empty(4000)
        level = 0.0
        for i, step in enumerate(noise):
            level = 0.8 * level + step
            stream[i] = level
        mean = RunningMean()
        mean.add(stream)
        hits += abs(mean.mean) <= mean.half_width
    assert 180 <= hits <= 199


def test_state_goes_through_json():
    draw = np.random.default_rng(4)
    mean = RunningMean()
    mean.add(draw.normal(size=777))
    again = RunningMean.from_state(json.loads(json.dumps(mean.state())))
    more = draw.normal(size=5000)
    mean.add(more)
    again.add(more)
    assert again.state() == mean.state()


def test_busy_share_of_an_interval():
    before, after = np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 3.5])
    assert busy_share(before, after, 2.0).tolist() == [0.5, 0.0, 0.25]
    assert busy_share(before, after, 0.0).tolist() == [0.0, 0.0, 0.0]
