"""Task graphs whose schedules are published."""

import pytest

from hybrid_scheduler import Cluster, Platform, TablePhysics, Workload, create
from hybrid_scheduler.core import cpu

# Topcuoglu, Hariri, Wu: Performance-effective and low-complexity task scheduling for heterogeneous computing,
# IEEE TPDS 13(3), 2002, figure 3: ten tasks on three processors.
SECONDS = [
    [14, 16, 9], [13, 19, 18], [11, 13, 19], [13, 8, 17], [12, 13, 10],
    [13, 16, 9], [7, 15, 11], [5, 11, 14], [18, 12, 20], [21, 7, 16],
]  # fmt: skip
EDGES = {
    (1, 2): 18, (1, 3): 12, (1, 4): 9, (1, 5): 11, (1, 6): 14, (2, 8): 19, (2, 9): 16, (3, 7): 23,
    (4, 8): 27, (4, 9): 23, (5, 9): 13, (6, 8): 15, (7, 10): 17, (8, 10): 11, (9, 10): 13,
}  # fmt: skip


def topcuoglu():
    parents = [[a for a, b in EDGES if b == task] for task in range(1, 11)]
    return Workload(
        task_id=range(1, 11),
        size=[1.0] * 10,
        compute_intensity=[0.5] * 10,
        memory_required=[0.0] * 10,
        arrival_time=[0.0] * 10,
        dependencies=parents,
        dependency_data=[[EDGES[a, b] for a in parents[b - 1]] for b in range(1, 11)],
    )


THREE = Platform("three", tuple(cpu(f"p{i}", node=i) for i in range(3)))


def makespan(name, workload, seconds, platform):
    cluster = Cluster(platform, TablePhysics(seconds, workload.task_id))
    return cluster.run(workload, create(name)).outcomes.finish.max()


@pytest.mark.parametrize(("name", "published"), [("heft", 80), ("cpop", 86)])
def test_published_makespans(name, published):
    assert makespan(name, topcuoglu(), SECONDS, THREE) == published


def test_published_upward_ranks():
    from hybrid_scheduler.cluster import PhysicsTimes
    from hybrid_scheduler.schedulers.list_scheduling import GraphCosts

    workload = topcuoglu()
    costs = GraphCosts(workload, THREE, PhysicsTimes(TablePhysics(SECONDS, workload.task_id), THREE))
    published = [108.000, 77.000, 80.000, 80.000, 69.000, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert costs.upward_rank().tolist() == pytest.approx(published, abs=5e-4)


def test_peft_optimistic_costs_by_hand():
    # 0 -> 1 with 4 s of transfer. Task 1 takes 10 s on P0 and 2 s on P1.
    # From P0 the best is to move: 4 + 2 = 6 (staying costs 10); from P1 staying costs 2.
    from hybrid_scheduler.cluster import PhysicsTimes
    from hybrid_scheduler.schedulers.list_scheduling import GraphCosts
    from hybrid_scheduler.schedulers.peft import optimistic_costs

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
