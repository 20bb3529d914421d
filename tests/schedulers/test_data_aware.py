"""Schedulers weigh the transfer of a task's data against the queues."""

import numpy as np
import pytest

from hybrid_scheduler import Cluster, Setting, Task, View, Workload, create, workstation
from hybrid_scheduler.cluster import PhysicsTimes, makespan_bound
from hybrid_scheduler.core import Knowledge, multi_node_platform
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.schedulers import TwoLevel
from hybrid_scheduler.workload.task_graphs import cholesky, fork_join

ONLINE = (
    "earliest_finish", "min_completion", "oracle", "oracle(grid=11)", "price_index", "two_level", "greedy",
    "gpu_only", "hybrid_ml",
)  # fmt: skip
MACHINE = workstation(2)
NOW = 5.0
TASK = Task(7, 2500.0, 0.9, 10.0, arrival_time=NOW)


def started(name):
    scheduler = create(name)
    times = None if scheduler.knows is Knowledge.NOTHING else PhysicsTimes(AnalyticPhysics(), MACHINE)
    scheduler.start(Setting(MACHINE, dollars=np.zeros(3), times=times))
    return scheduler


@pytest.mark.parametrize("name", ONLINE)
def test_data_is_left_where_it_is_when_its_transfer_takes_longer_than_the_queue(name):
    on_second = View(NOW, np.array([NOW, NOW, NOW + 0.5]), MACHINE, ready_at=np.array([90.0, 90.0, NOW]))
    assert started(name).decide(TASK, on_second).device == 2


@pytest.mark.parametrize("name", ONLINE)
def test_data_is_moved_when_the_queue_takes_longer(name):
    busy = View(NOW, np.array([NOW, NOW, 90.0]), MACHINE, ready_at=np.array([NOW + 0.01, NOW + 0.01, NOW]))
    assert started(name).decide(TASK, busy).device != 2


@pytest.mark.parametrize("name", ONLINE)
def test_data_that_is_everywhere_changes_nothing(name):
    free_at = np.array([NOW + 0.3, NOW + 0.2, NOW + 0.1])
    without = started(name).decide(TASK, View(NOW, free_at, MACHINE))
    assert started(name).decide(TASK, View(NOW, free_at, MACHINE, np.full(3, NOW))) == without


def test_prices_follow_the_queues_and_not_the_data():
    # A long transfer to one GPU is no load on the machine: with it the other GPU is used as without it.
    far = View(NOW, np.full(3, NOW), MACHINE, ready_at=np.array([NOW, NOW, 90.0]))
    near = View(NOW, np.full(3, NOW), MACHINE, ready_at=np.full(3, NOW))
    for name in ("price_index", "hybrid_ml"):
        assert started(name).decide(TASK, far) == started(name).decide(TASK, near)


def test_two_level_goes_to_the_node_that_has_the_data():
    platform = multi_node_platform(3, 1)
    scheduler = TwoLevel()
    scheduler.start(Setting(platform, times=PhysicsTimes(AnalyticPhysics(), platform)))
    for node in (2, 1, 1, 0):
        ready = np.where(platform.node == node, NOW, 90.0)
        chosen = scheduler.decide(TASK, View(NOW, np.zeros(len(platform)), platform, ready))
        assert platform.node[chosen.device] == node
    # Without data the tree decides, by queues that are up to date.
    free_at = np.where(platform.node == 1, 0.0, 90.0)
    for _ in range(3):
        chosen = scheduler.decide(TASK, View(NOW, free_at, platform))
    assert platform.node[chosen.device] == 1


@pytest.mark.parametrize("name", ["late_binding", "shortest_first"])
@pytest.mark.parametrize(("megabytes", "same"), [(160_000.0, True), (0.1, False)])
def test_central_queue_keeps_children_with_large_data_on_one_device(name, megabytes, same):
    # One parent and two children: 10 s per transfer over a link keep both children on the parent's device.
    graph = Workload(
        task_id=range(3), size=[3000] * 3, compute_intensity=[1.0] * 3, memory_required=[0] * 3,
        arrival_time=[0] * 3, dependencies=[[], [0], [0]], dependency_data=[[], [megabytes], [megabytes]],
        divisible=[False] * 3,
    )  # fmt: skip
    device = Cluster(MACHINE).run(graph, create(name)).outcomes.device
    assert (len(set(device.tolist())) == 1) == same


@pytest.mark.parametrize(
    ("graph", "most"), [(fork_join(3, 8, seed=2100), 1.25), (cholesky(8), 1.25)], ids=["fork-join", "cholesky"]
)
def test_late_binding_of_graphs_is_near_the_bound(graph, most):
    cluster = Cluster()
    makespan = cluster.run(graph, create("late_binding")).outcomes.finish.max()
    assert makespan <= most * makespan_bound(graph, cluster.platform, cluster.physics)
    # Upward ranks alone would not do: without splits the fork-join graph is at 1.7 of the bound.
    assert makespan < cluster.run(graph, create("min_completion")).outcomes.finish.max()
