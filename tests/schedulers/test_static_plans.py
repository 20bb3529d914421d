"""Split search and the classical list heuristics: quality, order of the plan, parameters."""

import numpy as np
import pytest

from hybrid_scheduler.cluster import Cluster, Noise, makespan_bound
from hybrid_scheduler.core import InvalidInputError, Static, Task, Workload, platform_named, workstation
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.schedulers import create
from hybrid_scheduler.workload import cholesky, fork_join
from hybrid_scheduler.workload.scenarios import generate, scenario_named


def makespan(workload: Workload, spec: str) -> float:
    return float(Cluster().run(workload, create(spec)).outcomes.finish.max())


def ratio(workload: Workload, spec: str) -> float:
    return makespan(workload, spec) / makespan_bound(workload, workstation(), AnalyticPhysics())


def batch(tasks: int, seed: int) -> Workload:
    return generate(scenario_named("mixed"), tasks, seed, batch=True)


@pytest.mark.parametrize(("tasks", "limit"), [(10, 1.12), (100, 1.03)])
def test_search_comes_near_the_bound_of_batches(tasks: int, limit: float) -> None:
    assert np.mean([ratio(batch(tasks, seed), "split_search") for seed in range(1000, 1003)]) <= limit


def test_search_splits_tasks_of_graphs() -> None:
    graph = fork_join(5, 8, 1000)
    assert ratio(graph, "split_search(iterations=2000)") <= 1.2 < ratio(graph, "heft")
    assert ratio(cholesky(5), "split_search(iterations=500)") <= ratio(cholesky(5), "heft")


def test_search_never_worsens_the_list_schedule() -> None:
    for workload in (batch(30, 1000), fork_join(3, 6, 1000)):
        plain = makespan(workload, "split_search(iterations=0)")
        assert makespan(workload, "split_search(iterations=300)") <= plain * (1 + 1e-9)


def test_tasks_end_as_the_search_expects() -> None:
    stream = generate(scenario_named("transfer"), 20, 1000, utilisation=0.9)
    for workload in (batch(20, 1000), stream, fork_join(3, 6, 1000)):
        scheduler = create("split_search(iterations=200)")
        ends = Cluster().run(workload, scheduler).outcomes.finish
        assert isinstance(scheduler, Static)
        np.testing.assert_allclose(ends, scheduler.plan(workload, workstation()).finish)


def test_time_limit_replaces_the_number_of_moves() -> None:
    workload = batch(20, 1000)
    plain = makespan(workload, "split_search(iterations=0)")
    assert makespan(workload, "split_search(seconds=0.01)") <= plain * (1 + 1e-9)


@pytest.mark.parametrize(("parameter", "value"), [("iterations", -1), ("seconds", 0.0), ("replan", 1.0)])
def test_parameter_out_of_range_is_refused(parameter: str, value: float) -> None:
    with pytest.raises(InvalidInputError, match=parameter):
        create(f"split_search({parameter}={value})")


@pytest.mark.parametrize("graph", [False, True])
def test_plan_that_is_never_revised_runs_as_a_fixed_one(graph: bool) -> None:
    workload = fork_join(3, 6, 1000) if graph else batch(30, 1000)
    runs = [
        Cluster(noise=Noise(0.3, 1)).run(workload, create(f"split_search(iterations=200{more})")).outcomes
        for more in ("", ",replan=1000")
    ]
    for name in ("device", "fraction", "finish"):
        np.testing.assert_array_equal(getattr(runs[0], name), getattr(runs[1], name))


def test_planning_again_shortens_the_makespan_when_durations_differ() -> None:
    ratios = []
    for seed in range(1000, 1006):
        fixed, revised = (
            Cluster(noise=Noise(0.3, seed)).run(batch(60, seed), create(f"split_search(iterations=500{more})"))
            for more in ("", ",replan=1.2")
        )
        assert revised.outcomes.completed.all()
        ratios.append(revised.outcomes.finish.max() / fixed.outcomes.finish.max())
    assert np.mean(ratios) < 0.95


def test_revised_plan_of_a_graph_keeps_its_dependencies() -> None:
    graph = fork_join(4, 6, 1000)
    outcomes = Cluster(noise=Noise(0.3, 2)).run(graph, create("split_search(iterations=100,replan=1.1)")).outcomes
    assert outcomes.completed.all()
    for row in range(len(graph)):
        assert (outcomes.start[row] >= outcomes.finish[graph.parents(row)] - 1e-12).all()


def test_without_noise_nothing_is_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybrid_scheduler.schedulers.static_plans.SplitSearch.replan", None)
    assert makespan(batch(20, 1000), "split_search(iterations=100,replan=1.01)") > 0


def test_indivisible_tasks_stay_whole_and_large_ones_fit() -> None:
    workload = batch(12, 1000).indivisible()
    shares = Cluster().run(workload, create("split_search(iterations=500)")).outcomes.fraction
    assert set(shares.tolist()) <= {0.0, 1.0}
    large = Workload.from_tasks([Task(i, 3000.0, 0.9, 20_000.0) for i in range(4)])
    outcomes = Cluster().run(large, create("split_search(iterations=200)")).outcomes
    assert outcomes.completed.all()
    assert (outcomes.status == 0).all()


def test_search_plans_for_several_nodes() -> None:
    graph = fork_join(2, 6, 1000)
    outcomes = Cluster(platform_named("cluster-16")).run(graph, create("split_search(iterations=200)")).outcomes
    assert outcomes.completed.all()


def test_min_min_and_max_min_by_hand() -> None:
    # One CPU: 1, 2 and 3 s. Min-min runs the short ones first, max-min and LPT the long ones.
    sizes = [(second / 4e-6) ** (2 / 3) for second in (2.0, 1.0, 3.0)]
    workload = Workload.from_tasks([Task(i, size, 0.5, 0.0) for i, size in enumerate(sizes)])
    for name, order in (("min_min", [1, 0, 2]), ("max_min", [2, 0, 1]), ("lpt", [2, 0, 1])):
        start = Cluster(workstation(0)).run(workload, create(name)).outcomes.start
        assert np.argsort(start).tolist() == order, name
