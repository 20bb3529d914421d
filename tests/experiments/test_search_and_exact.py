"""The search for the worst workload, and the exact optimum of small batches."""

import numpy as np
import pytest

from hybrid_scheduler import InvalidInputError, Task, Workload, compare, workstation
from hybrid_scheduler.cluster import makespan_bound
from hybrid_scheduler.experiments.spec import ExperimentSpec
from hybrid_scheduler.experiments.worst_case_search import find_worst, workload_at
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.workload.scenarios import generate, scenario_named


def make_spec(*schedulers):
    return ExperimentSpec(scenario_named("mixed"), 80, schedulers)


def test_the_search_finds_something_bad_and_finds_it_again():
    found = find_worst(make_spec("greedy", "oracle"), evaluations=12, confirmation_seeds=3)
    again = find_worst(make_spec("greedy", "oracle"), evaluations=12, confirmation_seeds=3)
    assert found.spec == again.spec
    assert found.ratio == again.ratio
    usual = find_worst(make_spec("greedy", "oracle"), evaluations=1, confirmation_seeds=3)
    assert found.searched_ratio >= usual.searched_ratio
    assert found.ratio.mean > 2
    assert [run.seed for run in found.paired.runs] == [3000, 3001, 3002]  # not those of the search
    assert (
        find_worst(make_spec("greedy", "oracle"), evaluations=12, confirmation_seeds=3, seed=1).spec != found.spec
    )


def test_every_point_is_a_workload():
    rng = np.random.default_rng(0)
    for point in (np.zeros(8), np.ones(8), *rng.random((20, 8))):
        workload_at(make_spec("greedy", "oracle"), point).workload(1)


def test_a_search_needs_two_and_an_interval():
    with pytest.raises(InvalidInputError, match="two schedulers"):
        find_worst(make_spec("greedy"))
    with pytest.raises(InvalidInputError, match="at least 2, for an interval"):
        find_worst(make_spec("greedy", "oracle"), confirmation_seeds=1)
    with pytest.raises(InvalidInputError, match="evaluations"):
        find_worst(make_spec("greedy", "oracle"), evaluations=0)


def test_the_exact_optimum_by_hand():
    pytest.importorskip("ortools")
    from hybrid_scheduler.experiments.exact_makespan import exact_makespan

    # CPU 0.5 s, GPU 0.2 s: alone the best split takes 1/7 s; two of them on one GPU keep both sides busy for 2/7 s.
    tasks = [Task(0, 2500, 0.5, 0), Task(1, 2500, 0.5, 0)]
    one = exact_makespan(Workload.from_tasks(tasks[:1]), workstation(1))
    two = exact_makespan(Workload.from_tasks(tasks), workstation(1))
    assert one.optimal
    assert one.makespan == pytest.approx(1 / 7, rel=0.01)
    assert two.makespan == pytest.approx(2 / 7, rel=0.01)
    assert one.proven == pytest.approx(one.makespan, rel=0.002)


def test_nothing_beats_the_optimum_and_the_optimum_does_not_beat_the_bound():
    pytest.importorskip("ortools")
    from hybrid_scheduler.experiments.exact_makespan import exact_makespan

    for seed in (1, 2):
        tasks = generate(scenario_named("transfer"), 6, seed, batch=True)
        best = exact_makespan(tasks, effort=5)
        assert best.optimal
        assert best.makespan >= makespan_bound(tasks, workstation(), AnalyticPhysics()) * (1 - 1e-9)
        summaries = compare(tasks, ["earliest_finish", "price_index", "gpu_only", "greedy"]).summaries
        for summary in summaries.values():
            assert summary.makespan >= 0.995 * best.makespan  # to the grid of the shares


def test_what_is_too_much_for_an_exact_optimum():
    from hybrid_scheduler import platform_named
    from hybrid_scheduler.experiments.exact_makespan import exact_makespan

    mixed = scenario_named("mixed")
    with pytest.raises(InvalidInputError, match="at most 60"):
        exact_makespan(generate(mixed, 61, 1, batch=True))
    with pytest.raises(InvalidInputError, match="a batch without dependencies"):
        exact_makespan(generate(mixed, 5, 1))
    with pytest.raises(InvalidInputError, match="a single node"):
        exact_makespan(generate(mixed, 5, 1, batch=True), platform_named("cluster-16"))
