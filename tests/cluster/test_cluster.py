"""The cluster's front: single tasks, utilisation, refusals, dependencies and their data."""

from dataclasses import replace

import numpy as np
import pytest

from hybrid_scheduler import (
    Central,
    Cluster,
    Decision,
    InvalidInputError,
    Plan,
    Platform,
    SerialPhysics,
    Static,
    TablePhysics,
    Task,
    UnknownNameError,
    VirtualMultiGPU,
    Workload,
    create,
    workstation,
)
from hybrid_scheduler.cluster import isolated_optimum
from hybrid_scheduler.core import Device, cpu
from hybrid_scheduler.schedulers import schedulers
from hybrid_scheduler.testing import small_workload

A = Task(0, 2500, 0.5, 0)  # CPU 0.5 s, GPU 0.2 s


def test_simulate_queues_behind_what_is_there():
    cluster = VirtualMultiGPU(num_gpus=2)
    first = cluster.simulate(A, Decision(1, 1.0))
    second = cluster.simulate(Task(1, 2500, 0.5, 0, arrival_time=0.1), Decision(1, 0.5))
    assert (first.start, first.finish) == pytest.approx((0.0, 0.2))
    # CPU part 0.1-0.35, GPU part waits until 0.2 and ends at 0.3.
    assert (second.start, second.finish, second.wait) == pytest.approx((0.1, 0.35, 0.0))
    assert second.accelerator_start == pytest.approx(0.2)


def test_utilization_is_the_busy_share_of_each_device():
    cluster = VirtualMultiGPU(num_gpus=2)
    assert cluster.get_utilization()["average_utilization"] == 0.0
    cluster.simulate(A, Decision(1, 1.0))
    cluster.simulate(A, Decision(0, 0.0))
    report = cluster.get_utilization()
    assert report["gpu_0"]["utilization"] == pytest.approx(0.4)
    assert report["gpu_1"]["utilization"] == 0.0
    assert report["cpu"]["utilization"] == pytest.approx(1.0)
    assert report["average_utilization"] == pytest.approx(1.4 / 3)


def test_baseline_evaluation_has_times_of_every_scheduler():
    report = VirtualMultiGPU().evaluate_baseline_schedulers(list(small_workload()))
    assert {"round_robin", "random", "greedy", "oracle"} <= set(report)
    for row in report.values():
        assert row["max_time"] >= row["avg_time"] > 0
        assert row["makespan"] >= row["max_time"]


def test_bill_is_the_former_name_of_energy_and_cost():
    result = Cluster().run(small_workload(5), create("greedy"))
    with pytest.warns(DeprecationWarning, match="use energy_and_cost"):
        assert result.bill is result.energy_and_cost


def test_single_tasks_equal_the_batch():
    workload = small_workload(100)
    batch = Cluster().run(workload, create("random"), seed=1).outcomes
    one_by_one = Cluster()
    for row, task in enumerate(workload):
        decision = Decision(int(batch.device[row]), float(batch.fraction[row]))
        assert one_by_one.simulate(task, decision) == batch[row]


def test_long_run_equals_the_same_run_in_chunks(monkeypatch):
    """The chunks of the fast loop do not show: 100,000 tasks are several of them."""
    rng = np.random.default_rng(1)
    n = 100_000
    workload = Workload(
        task_id=np.arange(n), size=rng.uniform(100, 5000, n), compute_intensity=rng.random(n),
        memory_required=rng.uniform(10, 500, n), arrival_time=np.cumsum(rng.exponential(0.1, n)),
    )  # fmt: skip
    seen: list[int] = []
    pieces = Cluster().run(workload, create("price_index"), progress=seen.append).outcomes
    assert sum(seen) == n
    assert len(seen) > 1
    monkeypatch.setattr("hybrid_scheduler.cluster.cluster.CHUNK_NUMBERS", 10**9)
    whole = Cluster().run(workload, create("price_index")).outcomes
    for name in ("device", "fraction", "cpu_start", "accelerator_start", "cpu_time", "accelerator_time"):
        np.testing.assert_array_equal(getattr(pieces, name), getattr(whole, name))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Cluster(physics=SerialPhysics()),
            "physics: must be one whose two parts run at once on a cluster, got 'serial'",
        ),
        (
            lambda: Cluster(memory_policy="swap"),
            "memory_policy: must be one of clip, fail, page, to_cpu, got 'swap'",
        ),
        (lambda: Cluster().simulate(A, Decision(9, 1.0)), "device: must be an index from 0 to 4, got 9"),
        (lambda: Cluster().simulate(A, Decision(1, 1.1)), "fraction: must be a number in [0, 1], got 1.1"),
        (lambda: Cluster().simulate(A, Decision(1, float("nan"))), "fraction: must be a number in [0, 1], got nan"),
        (lambda: workstation(-1), "num_gpus: must be >= 0, got -1"),
        (lambda: Cluster().platform.index("gpu_7"), "device: must be one of cpu, gpu_0"),
    ],
)
def test_invalid_arguments_are_refused(make, message):
    with pytest.raises((InvalidInputError, UnknownNameError)) as error:
        make()
    assert message in str(error.value)


def chain(data):
    return Workload(
        task_id=[0, 1], size=[2500, 2500], compute_intensity=[0.5, 0.5], memory_required=[0, 0],
        arrival_time=[0, 0], dependencies=[[], [0]], dependency_data=[[], [data]],
    )  # fmt: skip


class Scripted:
    """Plays decisions in order."""

    def __new__(cls, *decisions):
        from hybrid_scheduler import Online

        class Player(Online):
            def start(self, setting):
                super().start(setting)
                self.left = list(decisions)

            def decide(self, task, view):
                return self.left.pop(0)

        return Player()


@pytest.mark.parametrize(
    ("second", "delay"),
    [
        (Decision(1, 1.0), 0.0),  # the same GPU: nothing moves
        (Decision(2, 1.0), 0.2),  # another GPU: out over one link (0.1 s) and in over the other
        (Decision(0, 0.0), 0.1),  # the CPU: out over the GPU's link
        (Decision(1, 0.5), 0.05),  # half stays, half goes to the CPU
    ],
)
def test_data_pays_for_crossing_devices(second, delay):
    # 1600 MB over links of 16000 MB/s.
    out = Cluster(workstation(2)).run(chain(1600.0), Scripted(Decision(1, 1.0), second)).outcomes
    assert out.start[1] == pytest.approx(0.2 + delay)


def test_data_pays_for_crossing_nodes():
    two = Platform("two", (cpu("a", 0), cpu("b", 1)), network_bandwidth=1000.0, network_latency=0.01)
    out = Cluster(two).run(chain(100.0), Scripted(Decision(0, 0.0), Decision(1, 0.0))).outcomes
    assert out.start[1] == pytest.approx(0.5 + 0.01 + 0.1)


@pytest.mark.parametrize(("policy", "delay"), [("to_cpu", 0.0), ("clip", 0.05), ("fail", None)])
def test_data_moves_to_where_the_memory_policy_lets_the_task_run(policy, delay):
    # The child wants the GPU whole: half of it fits, or all of it runs on the CPU, where its data is.
    tasks = Workload(
        task_id=[0, 1], size=[2500, 2500], compute_intensity=[0.5, 0.5], memory_required=[0, 16000],
        arrival_time=[0, 0], dependencies=[[], [0]], dependency_data=[[], [1600.0]],
    )  # fmt: skip
    cluster = Cluster(workstation(1), memory_policy=policy)
    out = cluster.run(tasks, Scripted(Decision(0, 0.0), Decision(1, 1.0))).outcomes
    if delay is None:
        assert out.status.tolist() == [0, 3]
    else:
        assert out.start[1] == pytest.approx(0.5 + delay)


class Planned(Static):
    def plan(self, workload, platform):
        n = len(workload)
        return Plan(np.ones(n, np.int64), np.ones(n), np.zeros(n))


def test_planned_children_of_failed_tasks_fail():
    tasks = Workload.from_tasks([Task(0, 100, 1, 9000), Task(1, 100, 1, 1, dependencies=(0,))])
    assert Cluster(memory_policy="fail").run(tasks, Planned()).outcomes.status.tolist() == [3, 3]


@pytest.mark.parametrize(("position", "message"), [(None, "none with 3 waiting"), (3, "0 to 2"), (-1, "0 to 2")])
def test_central_scheduler_that_leaves_tasks_is_refused(position, message):
    class Idle(Central):
        def pick(self, queue, idle_device, view):
            return position

    tasks = Workload.from_tasks([Task(i, 100, 0.5, 0) for i in range(3)])
    with pytest.raises(InvalidInputError, match=message) as error:
        Cluster().run(tasks, Idle())
    assert "Idle" in str(error.value)


@pytest.mark.parametrize("name", ["shortest_first", "heft", "cpop", "peft", "fluid_plan", "min_completion"])
def test_memory_of_the_host_is_no_limit(name):
    host = replace(cpu(), memory=1000.0)
    platform = Platform("small host", (Device("gpu_0", memory=500.0), host))
    out = Cluster(platform).run(Workload.from_tasks([Task(0, 2500, 0.5, 4000)]), create(name)).outcomes
    assert (out.device[0], out.finish[0]) == (1, pytest.approx(0.5))


@pytest.mark.parametrize("name", ["earliest_finish", "oracle", "price_index", "two_level", "min_completion"])
def test_tasks_of_zero_seconds_run(name):
    tasks = Workload.from_tasks([Task(i, 1, 0.5, 0) for i in range(3)])
    out = Cluster(workstation(1), TablePhysics([[0, 0], [1, 1], [0, 0]])).run(tasks, create(name)).outcomes
    assert np.isfinite(out.fraction).all()
    assert out.finish.max() <= 1.0


@pytest.mark.parametrize("name", ["heft", "cpop", "peft"])
def test_plan_with_tasks_of_zero_seconds_runs_as_planned(name):
    # The entry and the exit of many graphs cost nothing; they must not queue behind tasks planned at the same time.
    rng = np.random.default_rng(5)
    for _ in range(40):
        n = 8
        seconds = rng.integers(0, 3, (n, 3)).astype(float)
        parents = [sorted(rng.choice(i, min(i, 2), replace=False).tolist()) if i else [] for i in range(n)]
        tasks = Workload.from_tasks([Task(i, 1, 0.5, 0, dependencies=tuple(p)) for i, p in enumerate(parents)])
        cluster = Cluster(workstation(2), TablePhysics(seconds))
        scheduler = create(name)
        out = cluster.run(tasks, scheduler).outcomes
        assert isinstance(scheduler, Static)
        plan = scheduler.plan(tasks, cluster.platform)
        assert out.finish.tolist() == pytest.approx(plan.finish.tolist())


@pytest.mark.parametrize(("first", "delay"), [(Decision(1, 1.0), 0.0), (Decision(0, 0.0), 0.1)])
def test_data_of_parents_is_paid_for_once(first, delay):
    # The child's 1600 MB come from its parent: they cross the link once, or lie on the GPU already.
    tasks = Workload(
        task_id=[0, 1], size=[2500, 2500], compute_intensity=[0.5, 0.5], memory_required=[0, 1600],
        arrival_time=[0, 0], dependencies=[[], [0]], dependency_data=[[], [1600.0]],
    )  # fmt: skip
    out = Cluster(workstation(1)).run(tasks, Scripted(first, Decision(1, 1.0))).outcomes
    assert out.start[1] == pytest.approx(out.finish[0] + delay)
    assert out.accelerator_time[1] == pytest.approx(0.2)


@pytest.mark.parametrize("name", [*schedulers()])
def test_indivisible_tasks_run_whole(name):
    sizes = [(2500, 10), (400, 4000), (2500, 9000), (3000, 30), (10, 10), (900, 20000)]
    tasks = [Task(i, size, i / 6, memory, 0.05 * i, divisible=i == 4) for i, (size, memory) in enumerate(sizes)]
    workload = Workload.from_tasks(tasks)
    cluster = Cluster(workstation(2))
    out = cluster.run(workload, create(name)).outcomes
    assert out.completed.all()
    assert set(out.fraction[~workload.divisible]) <= {0.0, 1.0}
    alone = isolated_optimum(workload, cluster.platform, cluster.physics)
    assert (out.latency >= alone * (1 - 1e-9)).all()
    assert alone[0] == pytest.approx(min(1.0, 1.0 + 10 / 16000))  # intensity 0: CPU and GPU are equally fast


def test_indivisible_task_goes_to_the_device_where_it_ends_first():
    # Whole on the GPU 0.2 s, on the CPU 0.5 s; split it would take 1/7 s.
    tasks = [Task(i, 2500, 0.5, 0, divisible=False) for i in range(3)]
    for name in ("earliest_finish", "oracle", "oracle(grid=11)", "two_level", "min_completion"):
        out = Cluster(workstation(1)).run(Workload.from_tasks(tasks), create(name)).outcomes
        assert out.finish.tolist() == pytest.approx([0.2, 0.4, 0.5]), name


def test_flag_of_divisibility_must_be_true_or_false():
    with pytest.raises(InvalidInputError, match="divisible"):
        Workload(task_id=[0], size=[1], compute_intensity=[0], memory_required=[0], arrival_time=[0], divisible=[2])


def test_communication_matrix_gives_each_pair_its_cost():
    # 10 MB at 0.1 s/MB from the CPU to the GPU, and 0.3 s to start; 0.2 s/MB and 0.5 s back.
    physics = TablePhysics([[1, 1], [1, 1]], communication=[[0, 0.1], [0.2, 0]], startup=[[0, 0.3], [0.5, 0]])
    for decisions, moved in [
        ((Decision(0, 0.0), Decision(1, 1.0)), 1.3),
        ((Decision(1, 1.0), Decision(0, 0.0)), 2.5),
        ((Decision(0, 0.0), Decision(1, 0.5)), 0.8),
        ((Decision(1, 1.0), Decision(1, 1.0)), 0.0),
    ]:
        out = Cluster(workstation(1), physics).run(chain(10.0), Scripted(*decisions)).outcomes
        assert out.start[1] == pytest.approx(1 + moved)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"communication": [[0, 1]]}, "2 x 2"),
        ({"communication": [[0, -1], [1, 0]]}, r"communication\[0, 1\]"),
        ({"startup": [[0, 1], [float("nan"), 0]]}, r"startup\[1, 0\]"),
        ({"startup": [1, 2]}, "2 x 2"),
    ],
)
def test_invalid_communication_is_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        TablePhysics([[1, 1]], **options)


def test_further_cpus_of_a_node_are_devices_of_their_own():
    platform = Platform("node", (cpu("a"), cpu("b"), Device("gpu_0")))
    assert platform.cpu_of.tolist() == [0, 1, 0]
    tasks = Workload.from_tasks([Task(i, 2500, 0.5, 0) for i in range(4)])
    assert Cluster(platform).run(tasks, create("cpu_only")).outcomes.device.tolist() == [0, 1, 0, 1]
    for name in ("min_completion", "earliest_finish", "two_level", "heft"):
        out = Cluster(platform).run(tasks, create(name)).outcomes
        assert out.finish.max() <= 0.5 + 1e-9, name


def test_children_of_failed_tasks_fail():
    workload = Workload(
        task_id=[0, 1], size=[100, 100], compute_intensity=[1, 1], memory_required=[9000, 1], arrival_time=[0, 0],
        dependencies=[[], [0]],
    )  # fmt: skip
    out = Cluster(memory_policy="fail").run(workload, create("greedy")).outcomes
    assert out.count(3) == 2
    assert np.isnan(out.latency).all()


def test_only_schedulers_that_want_labels_get_them():
    from hybrid_scheduler import Noise, Online

    class Learner(Online):
        def __init__(self, wants):
            self.wants, self.seen = wants, []

        @property
        def wants_labels(self):
            return self.wants

        def decide(self, task, view):
            return Decision(1, 1.0)

        def observe(self, outcome):
            self.seen.append(outcome)

    workload = Workload.from_tasks([A, Task(1, 10000, 0.5, 0)])
    asking, modest = Learner(True), Learner(False)
    Cluster(workstation(2), noise=Noise(0.2, 1)).run(workload, asking)
    Cluster(workstation(2)).run(workload, modest)
    assert all(outcome.labels is None for outcome in modest.seen)
    assert asking.seen[0].labels[1, 0] == pytest.approx(asking.seen[0].accelerator_time)
    assert [outcome.finish for outcome in asking.seen] == sorted(outcome.finish for outcome in asking.seen)


def test_parts_are_observed_when_they_end():
    from hybrid_scheduler import Online

    class Learner(Online):
        def start(self, setting):
            super().start(setting)
            self.seen = []

        def decide(self, task, view):
            self.seen.append(("decided", task.task_id))
            return Decision(1, (0.5, 0.5, 1.0)[task.task_id])

        def observe_part(self, part):
            self.seen.append(("part", part.task_id, part.cpu_time, part.accelerator_time, part.finish))

        def observe(self, outcome):
            self.seen.append(("task", outcome.task_id, outcome.cpu_time, outcome.accelerator_time, outcome.finish))

    # On the GPU the half of the first task takes a second, on the CPU four; both halves of the second end together.
    physics = TablePhysics(np.array([[8.0, 2.0], [2.0, 2.0], [1.0, 1.0]]))
    arrivals = [0.0, 10.0, 11.0]
    workload = Workload.from_tasks([Task(i, 100, 0.5, 0, arrival_time=at) for i, at in enumerate(arrivals)])
    between = Workload.from_tasks([Task(0, 100, 0.5, 0), Task(2, 100, 0.5, 0, arrival_time=2.0)])
    learner = Learner()
    Cluster(workstation(1), physics).run(workload, learner)
    assert learner.seen == [
        ("decided", 0), ("part", 0, 0.0, 1.0, 1.0), ("task", 0, 4.0, 1.0, 4.0),
        ("decided", 1), ("task", 1, 1.0, 1.0, 11.0), ("decided", 2), ("task", 2, 0.0, 1.0, 12.0),
    ]  # fmt: skip
    Cluster(workstation(1), physics).run(between, learner)
    assert [entry[:2] for entry in learner.seen] == [
        ("decided", 0), ("part", 0), ("decided", 2), ("task", 2), ("task", 0)
    ]  # fmt: skip


def test_tasks_that_end_at_once_are_observed_after_all_releases_of_their_round():
    from hybrid_scheduler import Online

    class Recorder(Online):
        def start(self, setting):
            super().start(setting)
            self.calls = []

        def decide(self, task, view):
            self.calls.append(("decided", task.task_id))
            return Decision(1, 1.0)

        def observe(self, outcome):
            self.calls.append(("observed", outcome.task_id))

    parents = [(), (0,), (0,), (1,)]  # tasks 1 and 2 are released when 0 ends, take no time and release 3
    workload = Workload.from_tasks([Task(i, 1, 0.5, 0, dependencies=parents[i]) for i in range(4)])
    recorder = Recorder()
    Cluster(workstation(1), TablePhysics([[1, 1], [0, 0], [0, 0], [0, 0]])).run(workload, recorder)
    assert recorder.calls == [
        ("decided", 0), ("observed", 0), ("decided", 1), ("decided", 2),
        ("observed", 1), ("observed", 2), ("decided", 3), ("observed", 3),
    ]  # fmt: skip


def test_unequal_device_of_the_same_kind_is_its_own_class():
    platform = Platform("odd", (cpu(), Device("gpu_0"), Device("gpu_1", watts=60), Device("gpu_2")))
    assert platform.class_of.tolist() == [0, 1, 2, 1]
