"""Lower bound of responses: below every simulated policy, and tight on one machine."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybrid_scheduler.jobs import BACKFILLING, JobLog, simulate_queue
from hybrid_scheduler.jobs.lower_bound import least_weighted_response


@given(st.integers(0, 10_000), st.sampled_from(["fcfs", "sjf", "saf"]), st.sampled_from(sorted(BACKFILLING)))
@settings(max_examples=100, deadline=None)
def test_no_policy_is_below_the_bound(seed: int, policy: str, backfilling: str) -> None:
    random = np.random.Generator(np.random.PCG64(seed))
    count = 20
    run = random.integers(0, 20, count).astype(float)
    log = JobLog(np.arange(count), np.cumsum(random.integers(0, 5, count)), run, run, random.integers(1, 9, count))
    weight = 1.0 / np.maximum(run, 10.0)
    result = simulate_queue(log, 8, policy, backfilling)
    response = float(np.sum(weight * (result.finish - log.submit)))
    assert least_weighted_response(log, 8, weight) <= response + 1e-9


def test_bound_is_reached_where_jobs_hold_the_whole_pool() -> None:
    log = JobLog([1, 2, 3], [0, 0, 0], [30, 10, 20], [30, 10, 20], [8, 8, 8])
    best = simulate_queue(log, 8, "sjf", "none")
    assert least_weighted_response(log, 8, np.ones(3)) == pytest.approx(float(np.sum(best.finish)))
