"""Exact optimum of small batches."""

import pytest

from hybrid_scheduler import InvalidInputError, TablePhysics, Task, Workload, compare, platform_named, workstation
from hybrid_scheduler.cluster import makespan_bound
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.workload.scenarios import generate, scenario_named
from studies.exact_makespan import exact_makespan


def test_optimum_equals_the_one_computed_by_hand():
    pytest.importorskip("ortools")
    # CPU 0.5 s, GPU 0.2 s: alone the best split takes 1/7 s; two of them on one GPU keep both sides busy for 2/7 s.
    tasks = [Task(0, 2500, 0.5, 0), Task(1, 2500, 0.5, 0)]
    one = exact_makespan(Workload.from_tasks(tasks[:1]), workstation(1))
    two = exact_makespan(Workload.from_tasks(tasks), workstation(1))
    assert one.optimal
    assert one.makespan == pytest.approx(1 / 7, rel=0.01)
    assert two.makespan == pytest.approx(2 / 7, rel=0.01)
    assert one.proven == pytest.approx(one.makespan, rel=0.002)


def test_optimum_lies_between_the_bound_and_every_scheduler():
    pytest.importorskip("ortools")
    for seed in (1, 2):
        tasks = generate(scenario_named("transfer"), 6, seed, batch=True)
        best = exact_makespan(tasks, effort=5)
        assert best.optimal
        assert best.makespan >= makespan_bound(tasks, workstation(), AnalyticPhysics()) * (1 - 1e-9)
        summaries = compare(tasks, ["earliest_finish", "price_index", "gpu_only", "greedy"]).summaries
        for summary in summaries.values():
            assert summary.makespan >= 0.995 * best.makespan  # to the grid of the shares


def test_devices_with_different_times_are_not_interchangeable():
    pytest.importorskip("ortools")
    # Equal GPUs by description, but task 0 needs the second one and task 1 the first: both end after 1 s.
    tasks = Workload.from_tasks([Task(0, 1, 0.5, 0), Task(1, 1, 0.5, 0)])
    best = exact_makespan(tasks, workstation(2), TablePhysics([[100, 50, 1], [100, 1, 50]]))
    assert best.makespan == pytest.approx(1.0, rel=0.01)
    assert best.proven <= best.makespan


def test_unsuitable_input_is_refused():
    mixed = scenario_named("mixed")
    with pytest.raises(InvalidInputError, match="at most 60"):
        exact_makespan(generate(mixed, 61, 1, batch=True))
    with pytest.raises(InvalidInputError, match="a batch without dependencies"):
        exact_makespan(generate(mixed, 5, 1))
    with pytest.raises(InvalidInputError, match="a single node"):
        exact_makespan(generate(mixed, 5, 1, batch=True), platform_named("cluster-16"))
