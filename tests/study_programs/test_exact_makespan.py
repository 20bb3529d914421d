"""Exact optimum of small batches."""

import pytest
from published_graphs import EDGES, PEFT_EDGES, PEFT_SECONDS, SECONDS, THREE, published_graph

from hybrid_scheduler import (
    Cluster,
    Device,
    InvalidInputError,
    Platform,
    TablePhysics,
    Task,
    Workload,
    compare,
    create,
    workstation,
)
from hybrid_scheduler.cluster import makespan_bound
from hybrid_scheduler.core import cpu
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


@pytest.mark.parametrize(("edges", "seconds", "optimum"), [(EDGES, SECONDS, 73), (PEFT_EDGES, PEFT_SECONDS, 113)])
def test_optima_of_published_graphs(edges, seconds, optimum):
    pytest.importorskip("ortools")
    workload = published_graph(edges)
    physics = TablePhysics(seconds, workload.task_id)
    best = exact_makespan(workload, THREE, physics, effort=20)
    assert best.optimal
    assert best.makespan == best.proven == optimum
    assert makespan_bound(workload, THREE, physics) <= optimum


def test_graph_with_a_communication_matrix_and_several_cpus_of_one_node():
    pytest.importorskip("ortools")
    # Two CPUs and a GPU in one node. 0 -> 1 on the GPU would take 1 + 2, but its data needs 0.5 + 4 * 0.25 s.
    platform = Platform("node", (cpu("a"), cpu("b"), Device("gpu_0")))
    matrix = [[0, 1, 0.25], [1, 0, 0.25], [1, 1, 0]]
    physics = TablePhysics([[1, 1, 4], [9, 9, 2], [3, 3, 9]], communication=matrix, startup=0.5)
    tasks = Workload(
        task_id=[0, 1, 2], size=[1, 1, 1], compute_intensity=[0.5] * 3, memory_required=[0] * 3,
        arrival_time=[0] * 3, dependencies=[[], [0], []], dependency_data=[[], [4.0], []],
    )  # fmt: skip
    best = exact_makespan(tasks, platform, physics)
    assert best.makespan == pytest.approx(1 + 0.5 + 1 + 2, rel=1e-3)
    assert best.proven <= best.makespan
    assert makespan_bound(tasks, platform, physics) <= best.proven  # its tasks may be split
    out = Cluster(platform, physics).run(tasks, create("heft")).outcomes
    assert out.finish.max() == pytest.approx(4.5)
    assert best.start[1] == pytest.approx(2.5)


def test_too_many_tasks_are_refused():
    mixed = scenario_named("mixed")
    with pytest.raises(InvalidInputError, match="at most 60"):
        exact_makespan(generate(mixed, 61, 1, batch=True))
    with pytest.raises(InvalidInputError, match="at most 40"):
        exact_makespan(generate(mixed, 41, 1))


def test_tasks_with_arrival_times_run_whole():
    pytest.importorskip("ortools")
    # CPU 0.5 s, GPU 0.2 s. The second arrives at 0.1 and ends earliest behind the first.
    tasks = Workload.from_tasks([Task(0, 2500, 0.5, 0), Task(1, 2500, 0.5, 0, arrival_time=0.1)])
    assert exact_makespan(tasks, workstation(1)).makespan == pytest.approx(0.4)
