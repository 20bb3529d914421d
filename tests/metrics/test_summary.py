"""Metrics worked out by hand."""

import numpy as np
import pytest

from hybrid_scheduler import Task, Workload, compare, workstation
from hybrid_scheduler.metrics import Spread, jain_index, win_rates

# Two equal tasks at t = 0: CPU 0.5 s, GPU 0.2 s.
TASKS = Workload.from_tasks([Task(0, 2500, 0.5, 0), Task(1, 2500, 0.5, 0)])


def test_jain_index_is_1_for_equal_loads():
    assert jain_index(np.array([2.0, 2.0, 2.0])) == pytest.approx(1.0)
    assert jain_index(np.array([6.0, 0.0, 0.0])) == pytest.approx(1 / 3)
    assert jain_index(np.array([1.0, 3.0])) == pytest.approx(16 / 20)
    assert jain_index(np.zeros(4)) == 1.0


def test_spread_has_mean_quantiles_and_maximum():
    spread = Spread.of(np.arange(101.0))
    assert (spread.mean, spread.p50, spread.p95, spread.p99, spread.max) == (50, 50, 95, 99, 100)


def test_summary_of_gpu_only():
    # Both on the one GPU: 0-0.2 and 0.2-0.4. CPU idle.
    s = compare(TASKS, ["gpu_only", "oracle"], platform=workstation(1)).summaries["gpu_only"]
    assert s.makespan == pytest.approx(0.4)
    assert (s.time.mean, s.latency.mean, s.wait.mean) == pytest.approx((0.2, 0.3, 0.1))
    assert s.throughput == pytest.approx(5.0)
    assert s.energy == pytest.approx(50 * 0.4)
    assert s.utilization == pytest.approx({"cpu": 0.0, "gpu_0": 1.0})
    assert s.average_utilization == pytest.approx(0.5)
    assert s.load_balance == pytest.approx(0.5)
    assert s.load_balance_gpu == pytest.approx(1.0)
    assert s.mean_slowdown == pytest.approx(0.3 / (1 / 7))
    # The oracle splits: 1/7 for the first, (1/7 + ... ) for the second; regret is the mean difference.
    first = 1 / 7
    second = 2 / 7  # both sides are busy until 1/7, then the same split again
    assert s.mean_regret == pytest.approx(0.3 - (first + second) / 2)


def test_flat_names_of_the_json():
    flat = compare(TASKS, ["greedy"]).summaries["greedy"].as_dict()
    for name in ("makespan", "mean_time", "mean_latency", "p50_latency", "p95_latency", "p99_latency", "energy",
                 "cost", "load_balance", "utilization", "max_wait"):  # fmt: skip
        assert name in flat
    assert flat["mean_regret"] is None  # no oracle in the race


def test_win_rates_leave_out_ties():
    rates = win_rates({"a": np.array([1.0, 2.0, 3.0, 4.0]), "b": np.array([2.0, 2.0, 2.0, 5.0])})
    assert rates == {"a": {"b": 0.5}, "b": {"a": 0.25}}


def test_regret_is_signed_and_zero_for_the_oracle():
    summaries = compare(TASKS, ["oracle", "cpu_only"]).summaries
    assert summaries["oracle"].mean_regret == 0
    assert summaries["cpu_only"].mean_regret > 0
