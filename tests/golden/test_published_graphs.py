"""Task graphs whose schedules are published."""

import pytest
from published_graphs import EDGES, PEFT_EDGES, PEFT_SECONDS, SECONDS, THREE, published_graph

from hybrid_scheduler import Cluster, Platform, TablePhysics, Workload, create
from hybrid_scheduler.cluster import makespan_bound
from hybrid_scheduler.core import cpu


def makespan(name, workload, seconds, platform):
    cluster = Cluster(platform, TablePhysics(seconds, workload.task_id))
    return cluster.run(workload, create(name)).outcomes.finish.max()


@pytest.mark.parametrize(
    ("name", "edges", "seconds", "published"),
    [
        ("heft", EDGES, SECONDS, 80),
        ("cpop", EDGES, SECONDS, 86),
        ("heft", PEFT_EDGES, PEFT_SECONDS, 133),
        ("peft", PEFT_EDGES, PEFT_SECONDS, 122),
    ],
)
def test_planners_reach_the_published_makespans(name, edges, seconds, published):
    assert makespan(name, published_graph(edges), seconds, THREE) == published


@pytest.mark.parametrize(("edges", "seconds", "bound"), [(EDGES, SECONDS, 54), (PEFT_EDGES, PEFT_SECONDS, 85)])
def test_critical_path_counts_transfers(edges, seconds, bound):
    # Without the data between tasks the bounds are 41 and 67; the optima are 73 and 113.
    workload = published_graph(edges)
    assert makespan_bound(workload, THREE, TablePhysics(seconds, workload.task_id)) == bound


def test_upward_ranks_equal_the_published_ones():
    from hybrid_scheduler.cluster import PhysicsTimes
    from hybrid_scheduler.cluster.graph_costs import GraphCosts

    workload = published_graph(EDGES)
    costs = GraphCosts(workload, THREE, PhysicsTimes(TablePhysics(SECONDS, workload.task_id), THREE))
    published = [108.000, 77.000, 80.000, 80.000, 69.000, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert costs.upward_rank().tolist() == pytest.approx(published, abs=5e-4)


def test_peft_optimistic_costs_by_hand():
    # 0 -> 1 with 4 s of transfer. Task 1 takes 10 s on P0 and 2 s on P1.
    # From P0 the best is to move: 4 + 2 = 6 (staying costs 10); from P1 staying costs 2.
    from hybrid_scheduler.cluster import PhysicsTimes
    from hybrid_scheduler.cluster.graph_costs import GraphCosts
    from hybrid_scheduler.schedulers.list_scheduling import optimistic_costs

    workload = Workload(
        task_id=[0, 1], size=[1, 1], compute_intensity=[0, 0], memory_required=[0, 0], arrival_time=[0, 0],
        dependencies=[[], [0]], dependency_data=[[], [4.0]],
    )  # fmt: skip
    two = Platform("two", tuple(cpu(f"p{i}", node=i) for i in range(2)))
    seconds = [[3, 5], [10, 2]]
    costs = GraphCosts(workload, two, PhysicsTimes(TablePhysics(seconds), two))
    assert optimistic_costs(costs).tolist() == [[6.0, 2.0], [0.0, 0.0]]
    # HEFT sees only that task 0 ends first on P0 (3 s) and ends at 3 + 4 + 2 = 9; PEFT goes to P1: 5 + 2 = 7.
    assert makespan("heft", workload, seconds, two) == 9
    assert makespan("peft", workload, seconds, two) == 7
