"""Data between tasks: where its copies are, when they arrive, and what a scheduler is told about them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs, platforms

from hybrid_scheduler import Central, Cluster, Decision, Knowledge, Online, Plan, Static, Workload, workstation
from hybrid_scheduler.cluster import makespan_bound

CPU, GPU, OTHER = Decision(0, 0.0), Decision(1, 1.0), Decision(2, 1.0)
#: Seconds of a task on the CPU and on a GPU, and to move 1600 MB over a link of 16000 MB/s.
ON_CPU, ON_GPU, LINK = 0.5, 0.2, 0.1


class Scripted(Online):
    """Decisions by task id; keeps the views."""

    def __init__(self, **decisions):
        self.decisions = decisions

    def start(self, setting):
        super().start(setting)
        self.views = {}

    def decide(self, task, view):
        self.views[task.task_id] = view
        return self.decisions[f"t{task.task_id}"]


def graph(parents, data=None):
    n = len(parents)
    return Workload(
        task_id=range(n), size=[2500] * n, compute_intensity=[0.5] * n, memory_required=[0] * n,
        arrival_time=[0] * n, dependencies=parents,
        dependency_data=[[1600.0] * len(one) for one in parents] if data is None else data,
    )  # fmt: skip


def starts(workload, scheduler):
    return Cluster(workstation(2)).run(workload, scheduler).outcomes.start


def test_second_child_on_a_device_reads_the_copy_of_the_first():
    # Task 1 brings the data of task 0 to the GPU. Task 3 also waits for task 2 and is placed much later.
    tasks = graph([[], [0], [0], [0, 2]], [[], [1600.0], [0.0], [1600.0, 0.0]])
    found = starts(tasks, Scripted(t0=CPU, t1=GPU, t2=CPU, t3=GPU))
    assert found[1] == pytest.approx(ON_CPU + LINK)
    assert found[3] == pytest.approx(2 * ON_CPU)


def test_transfer_to_a_device_without_a_copy_begins_when_the_task_is_placed():
    tasks = graph([[], [0], [0], [0, 2]], [[], [1600.0], [0.0], [1600.0, 0.0]])
    found = starts(tasks, Scripted(t0=CPU, t1=GPU, t2=CPU, t3=OTHER))
    assert found[3] == pytest.approx(2 * ON_CPU + LINK)


def test_plan_sends_data_when_the_parent_ends():
    class Planned(Static):
        def plan(self, workload, platform):
            return Plan(np.array([0, 1, 0, 2]), np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0, 2.0]))

    tasks = graph([[], [0], [0], [0, 2]], [[], [1600.0], [0.0], [1600.0, 0.0]])
    assert starts(tasks, Planned())[3] == pytest.approx(2 * ON_CPU)


def test_children_that_are_placed_together_wait_for_one_transfer():
    tasks = graph([[], [0], [0]])
    found = starts(tasks, Scripted(t0=CPU, t1=GPU, t2=GPU))
    assert found.tolist() == pytest.approx([0.0, ON_CPU + LINK, ON_CPU + LINK + ON_GPU])


@pytest.mark.parametrize(("first", "waits"), [(1600.0, 0.0), (1599.0, LINK)])
def test_copy_serves_children_that_need_no_more_of_it(first, waits):
    tasks = graph([[], [0], [0], [0, 2]], [[], [first], [0.0], [1600.0, 0.0]])
    found = starts(tasks, Scripted(t0=CPU, t1=GPU, t2=CPU, t3=GPU))
    assert found[3] == pytest.approx(2 * ON_CPU + waits)


@pytest.mark.parametrize(("share", "waits"), [(0.5, 0.0), (0.4, 0.0), (0.6, 0.06)])
def test_copy_of_a_share_serves_smaller_shares(share, waits):
    tasks = graph([[], [0], [0], [0, 2]], [[], [1600.0], [0.0], [1600.0, 0.0]])
    half = Scripted(t0=CPU, t1=Decision(1, 0.5), t2=CPU, t3=Decision(1, share))
    out = Cluster(workstation(2)).run(tasks, half).outcomes
    released = max(out.finish[[0, 2]])
    assert out.accelerator_start[3] == pytest.approx(max(released + waits, out.accelerator_start[1]))


def test_view_says_when_data_would_be_on_each_device():
    tasks = graph([[], [0], [0], [0, 2], []], [[], [1600.0], [0.0], [1600.0, 0.0], []])
    scheduler = Scripted(t0=CPU, t1=GPU, t2=CPU, t3=GPU, t4=OTHER)
    starts(tasks, scheduler)
    views = scheduler.views
    assert [views[row].ready_at for row in (0, 2, 4)] == [None] * 3
    assert views[1].ready_at.tolist() == pytest.approx([ON_CPU, ON_CPU + LINK, ON_CPU + LINK])
    # The copy on the first GPU has arrived long ago.
    assert views[3].ready_at.tolist() == pytest.approx([2 * ON_CPU, 2 * ON_CPU, 2 * ON_CPU + LINK])


def test_queue_of_a_central_scheduler_shows_data_and_ranks():
    seen = []

    class Watching(Central):
        knows = Knowledge.TOLD

        def pick(self, queue, idle_device, view):
            seen.append((view.now, len(queue), queue.ready_at, queue.upward_rank))
            return 0

    workload = graph([[], [0], [0]])
    Cluster(workstation(0)).run(workload, Watching())
    assert [rank.tolist() for _, _, _, rank in seen] == [[1.0], [0.5, 0.5], [0.5]]
    assert [ready.tolist() for _, _, ready, _ in seen] == [[[0.0]], [[0.5], [0.5]], [[1.0]]]
    seen.clear()
    Cluster(workstation(0)).run(graph([[], [], []]), Watching())
    assert {(ready, rank) for _, _, ready, rank in seen} == {(None, None)}


class Anywhere(Online):
    """Random placements; keeps when the view said that whole tasks could start."""

    def __init__(self, seed):
        self.seed = seed

    def start(self, setting):
        super().start(setting)
        self.rng, self.expected = np.random.default_rng(self.seed), {}

    def decide(self, task, view):
        device, share = int(self.rng.integers(len(view.platform))), float(self.rng.choice([1.0, 1.0, 0.3]))
        if view.platform.is_cpu[device] or share == 1.0:
            self.expected[task.task_id] = view.earliest_start[device]
        return Decision(device, share)


@settings(max_examples=40)
@given(graphs(), platforms(), st.integers(0, 1000))
def test_tasks_start_when_the_view_says_and_never_beat_the_bound(workload, platform, seed):
    scheduler, cluster = Anywhere(seed), Cluster(platform)
    out = cluster.run(workload, scheduler).outcomes
    for row in range(len(workload)):
        expected = scheduler.expected.get(int(workload.task_id[row]))
        if expected is not None:
            assert out.start[row] == pytest.approx(expected, rel=1e-12)
    assert out.finish.max() >= makespan_bound(workload, platform, cluster.physics) * (1 - 1e-9)
