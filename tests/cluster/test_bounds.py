"""The lower bound equals its definition, suffix by suffix."""

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import physics, platforms, workloads

from hybrid_scheduler import (
    Cluster,
    Decision,
    Device,
    Noise,
    Online,
    Platform,
    Task,
    Workload,
    create,
    platform_named,
    workstation,
)
from hybrid_scheduler.cluster import isolated_optimum, makespan_bound
from hybrid_scheduler.core import cpu
from hybrid_scheduler.physics import FluidTasks, fluid_makespan, fluid_tasks


class AlwaysDevice(Online):
    def __init__(self, device):
        self.device = device

    def decide(self, task, view):
        return Decision(self.device, 1.0)


def by_definition(workload, platform, law):
    """max over suffixes of arrival + LP, and max of arrival + isolated optimum, minus the first arrival."""
    table, columns = law.times(workload, platform), law.columns(platform)
    tasks = fluid_tasks(table, columns, columns, workload.memory_required, platform)
    work = max(
        workload.arrival_time[k] + fluid_makespan(FluidTasks(tasks.whole[k:], tasks.pinned[k:], tasks.servers))
        for k in range(len(workload))
    )
    alone = (workload.arrival_time + isolated_optimum(workload, platform, law)).max()
    return max(work, alone) - workload.arrival_time[0]


@settings(max_examples=40)
@given(workloads(max_tasks=20), platforms(max_nodes=2), physics)
def test_bound_equals_its_definition(workload, platform, law):
    bound, definition = makespan_bound(workload, platform, law), by_definition(workload, platform, law)
    assert bound <= definition * (1 + 1e-9)
    if len(np.unique(law.columns(platform)[~platform.is_cpu])) <= 1:
        assert bound == pytest.approx(definition, rel=1e-9)
    else:  # three or more classes climb to a local optimum over suffixes; never above, seldom below
        assert bound >= definition * 0.9


def test_bound_is_tight_where_a_schedule_reaches_it():
    # Equal tasks at t = 0 on one CPU and one GPU with rates 2 and 5: seven tasks take exactly one second.
    workload = Workload.from_tasks([Task(i, 2500, 0.5, 0) for i in range(7)])
    cluster = Cluster(workstation(1))
    bound = makespan_bound(workload, cluster.platform, cluster.physics)
    assert bound == pytest.approx(1.0)
    assert cluster.run(workload, create("earliest_finish")).outcomes.finish.max() == pytest.approx(1.0)


def test_release_times_raise_the_bound():
    # One late task: the plain LP would say 2/7 s, but it cannot end before 10 + 1/7.
    workload = Workload.from_tasks([Task(0, 2500, 0.5, 0), Task(1, 2500, 0.5, 0, arrival_time=10.0)])
    assert makespan_bound(workload, workstation(1), Cluster().physics) == pytest.approx(10 + 1 / 7)


def test_critical_path_raises_the_bound():
    tasks = [Task(i, 2500, 0.5, 0, dependencies=(i - 1,) if i else ()) for i in range(5)]
    workload = Workload.from_tasks(tasks)
    assert makespan_bound(workload, workstation(4), Cluster().physics) == pytest.approx(5 / 7)


def test_bound_with_noise_uses_the_realised_times():
    workload = Workload.from_tasks([Task(0, 2500, 0.5, 0)])
    noise = Noise(0.5, seed=9)
    law, platform = Cluster().physics, workstation(1)
    c, g = np.array([0.5, 0.2]) * noise.factors(workload.task_id, 2)[0]
    assert makespan_bound(workload, platform, law, noise) == pytest.approx(c * g / (c + g))


def test_noise_has_mean_one_and_does_not_depend_on_order():
    ids = np.arange(40000)
    factors = Noise(0.3, seed=4).factors(ids, 3)
    assert factors.mean() == pytest.approx(1.0, abs=0.005)
    assert np.log(factors).std() == pytest.approx(0.3, abs=0.005)
    assert abs(np.corrcoef(factors[:, 0], factors[:, 1])[0, 1]) < 0.02
    assert abs(np.corrcoef(factors[1:, 0], factors[:-1, 0])[0, 1]) < 0.02
    np.testing.assert_array_equal(Noise(0.3, seed=4).factors(ids[::-1].copy(), 3)[::-1], factors)
    assert not np.array_equal(Noise(0.3, seed=5).factors(ids, 3), factors)


def test_noise_is_independent_of_the_random_scheduler():
    # Both draw by task and with the same seed: the noise of the CPU must not repeat the shares.
    workload = Workload.from_tasks([Task(i, 2500, 0.5, 0, arrival_time=10.0 * i) for i in range(2000)])
    shares = Cluster(workstation(1)).run(workload, create("random"), seed=11).outcomes.fraction
    noise = np.log(Noise(0.3, seed=11).factors(workload.task_id, 2))
    for device in range(2):
        for values in (shares, np.cos(2 * np.pi * shares)):
            assert abs(np.corrcoef(noise[:, device], values)[0, 1]) < 0.07


def test_tasks_that_may_fail_do_not_raise_the_bound():
    # The second task fails on the small accelerator, its child with it, and so may the last to arrive.
    small, large = Device("small", memory=1000.0), Device("large", memory=8000.0)
    platform = Platform("two sizes", (cpu(), small, large))
    workload = Workload.from_tasks(
        [
            Task(0, 500, 0.5, 10),
            Task(1, 9000, 0.5, 2000),
            Task(2, 9000, 0.5, 10, dependencies=(1,)),
            Task(3, 500, 0.5, 2000, arrival_time=5.0),
        ]
    )
    law = Cluster().physics
    out = Cluster(platform, memory_policy="fail").run(workload, AlwaysDevice(1)).outcomes
    assert out.count(3) == 3
    bound = makespan_bound(workload, platform, law, memory_policy="fail")
    assert 0 < bound <= out.finish[0]
    assert makespan_bound(workload, platform, law) > bound
    assert makespan_bound(workload.subset(np.array([1, 2])), platform, law, memory_policy="fail") == 0.0


@pytest.mark.parametrize("name", ["mixed-gpus", "accelerators", "cluster-16"])
def test_bound_holds_on_unequal_machines(name):
    platform = platform_named(name)
    rng = np.random.default_rng(3)
    n = 60 * len(platform)
    workload = Workload(
        task_id=np.arange(n),
        size=rng.uniform(100, 5000, n),
        compute_intensity=rng.uniform(0, 1, n),
        memory_required=rng.uniform(10, 500, n),
        arrival_time=np.zeros(n),
    )
    cluster = Cluster(platform)
    makespan = cluster.run(workload, create("earliest_finish")).outcomes.finish.max()
    bound = makespan_bound(workload, platform, cluster.physics)
    assert bound <= makespan <= 1.2 * bound
