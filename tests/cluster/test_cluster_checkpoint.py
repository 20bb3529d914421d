"""Clusters that run workloads in parts, and their checkpoints."""

import json

import numpy as np
import pytest

from hybrid_scheduler import Cluster, Noise, create, workstation
from hybrid_scheduler.compiled.fast_rule import FastRule
from hybrid_scheduler.testing import small_workload


@pytest.mark.parametrize("name", ["round_robin", "random", "greedy", "oracle", "price_index", "earliest_finish"])
def test_run_in_parts_with_a_checkpoint_equals_one_run(name):
    """Parts of a run on clusters restored from checkpoints give the outcomes of one run."""
    tasks, noise = small_workload(500), Noise(0.2, seed=3)
    whole = Cluster(noise=noise).run(tasks, create(name), seed=1).outcomes
    first, scheduler = Cluster(noise=noise), create(name)
    first.start_scheduler(scheduler, tasks, seed=1)
    parts = [first.run_more(tasks.rows(0, 137), scheduler)]
    state = json.loads(json.dumps(first.state()))
    second = Cluster(noise=noise)
    second.restore(state)
    other = create(name)
    assert isinstance(scheduler, FastRule)
    assert isinstance(other, FastRule)
    second.start_scheduler(other, tasks, seed=1)
    other.state[:] = scheduler.state
    parts += [second.run_more(tasks.rows(137, 138), other), second.run_more(tasks.rows(138, 500), other)]
    for column in ("device", "fraction", "finish", "cpu_start", "accelerator_time"):
        joined = np.concatenate([getattr(part, column) for part in parts])
        assert np.array_equal(joined, getattr(whole, column), equal_nan=True)


def test_busy_seconds_count_only_work_done_by_now():
    tasks, scheduler, cluster = small_workload(200), create("greedy"), Cluster()
    cluster.start_scheduler(scheduler, tasks)
    outcomes = cluster.run_more(tasks, scheduler)
    now = float(tasks.arrival_time[-1])
    _, device, start, end = outcomes.intervals(cluster.platform.cpu_of)
    worked = np.bincount(device, np.clip(np.minimum(end, now) - start, 0.0, None), len(cluster.platform))
    assert cluster.busy_by(now) == pytest.approx(worked)
    assert cluster.busy_by(1e9).sum() == pytest.approx(outcomes.cpu_time.sum() + outcomes.accelerator_time.sum())


def test_checkpoint_of_another_platform_is_refused():
    with pytest.raises(ValueError, match="of 5 devices"):
        Cluster().restore(Cluster(workstation(2)).state())
