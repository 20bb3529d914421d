"""Late binding: both loops agree, nothing starves, and the queue is served as the rule says."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linprog

from hybrid_scheduler import (
    Cluster,
    Device,
    InvalidInputError,
    Noise,
    Objective,
    Platform,
    Task,
    Workload,
    create,
    platform_named,
    workstation,
)
from hybrid_scheduler.compiled.device_prices import window_prices
from hybrid_scheduler.compiled.late_binding import LOOK_AHEAD
from hybrid_scheduler.core import cpu, multi_node_platform
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.schedulers import LateBinding, ShortestFirst
from hybrid_scheduler.workload.scenarios import generate, scenario_named
from hybrid_scheduler.workload.task_graphs import cholesky


class LateByEvents(LateBinding):
    """The same rule without its compiled loop."""

    compiled_loop = None


class ShortestByEvents(ShortestFirst):
    """The same rule without its compiled loop."""

    compiled_loop = None


PAIRS = [(LateBinding, LateByEvents), (ShortestFirst, ShortestByEvents)]


@pytest.mark.parametrize(("fast", "slow"), PAIRS)
@pytest.mark.parametrize(
    ("scenario", "load", "platform", "sigma"),
    [
        ("mixed", 0.95, workstation(), 0.0),
        ("bursty", 0.9, workstation(2), 0.3),
        ("oom", 0.8, workstation(), 0.0),
        ("pareto", 0.9, platform_named("mixed-gpus"), 0.1),
        ("transfer", 0.9, multi_node_platform(2, 2), 0.0),
    ],
)
def test_compiled_loop_equals_the_event_loop(fast, slow, scenario, load, platform, sigma):
    workload = generate(scenario_named(scenario), 300, seed=3, platform=platform, utilisation=load)
    first, second = (
        Cluster(platform, noise=Noise(sigma, 5)).run(workload, scheduler()).outcomes for scheduler in (fast, slow)
    )
    assert np.array_equal(first.device, second.device)
    assert np.array_equal(first.fraction, second.fraction)
    assert np.array_equal(first.latency, second.latency)


@pytest.mark.parametrize(("fast", "slow"), PAIRS)
def test_loops_agree_on_ties_and_tasks_of_zero_seconds(fast, slow):
    tasks = [Task(i, 1e-300 if i % 3 == 0 else 500, 0.5, 0, arrival_time=float(i // 4)) for i in range(40)]
    workload = Workload.from_tasks(tasks)
    first, second = (Cluster(workstation(1)).run(workload, scheduler()).outcomes for scheduler in (fast, slow))
    assert np.array_equal(first.latency, second.latency)


def test_without_boost_equal_tasks_start_in_order_of_arrival():
    tasks = [Task(i, 2500, 0.5, 0, arrival_time=0.001 * i) for i in range(50)]
    outcomes = Cluster(Platform("cpu", (cpu(),))).run(Workload.from_tasks(tasks), LateBinding(boost=0.0)).outcomes
    assert (np.diff(outcomes.start) >= 0).all()


def test_small_tasks_overtake_a_large_one_for_a_bounded_time_even_under_overload():
    # Five times as many small tasks as the device can serve: with shortest first the large one waits for all.
    small = [Task(i, 50, 0.0, 0, arrival_time=0.002 * i) for i in range(2000)]
    tasks = sorted([*small, Task(5000, 5000, 0.0, 0, arrival_time=0.5)], key=lambda t: t.arrival_time)
    workload = Workload.from_tasks(tasks)
    large = int(np.flatnonzero(workload.size == 5000)[0])
    cluster = Cluster(Platform("cpu", (cpu(),)))
    by_boost = [cluster.run(workload, LateBinding(boost=b)).outcomes for b in (0.0, 1.0, 10.0)]
    starts = [outcomes.start[large] for outcomes in by_boost]
    assert starts == sorted(starts)
    overtakers = [int(((o.start < o.start[large]) & (workload.arrival_time > 0.5)).sum()) for o in by_boost]
    assert overtakers[0] == 0 < overtakers[1] < overtakers[2] < 1000


def test_mean_and_tail_move_against_each_other_with_the_boost():
    workloads = [generate(scenario_named("mixed"), 3000, seed=s, utilisation=0.95) for s in (2000, 2001)]
    latency = {
        boost: np.concatenate([Cluster().run(w, LateBinding(boost=boost)).outcomes.latency for w in workloads])
        for boost in (0.0, 1.0, 8.0)
    }
    means = [values.mean() for values in latency.values()]
    tails = [np.quantile(values, 0.999) for values in latency.values()]
    assert means[0] > means[1] > means[2]
    assert tails[0] < tails[2]


def test_at_high_load_it_beats_schedulers_that_decide_at_arrival():
    workload = generate(scenario_named("mixed"), 3000, seed=2002, utilisation=0.95)
    mean = {
        name: Cluster().run(workload, create(name)).outcomes.latency.mean()
        for name in ("late_binding", "price_index", "earliest_finish")
    }
    assert mean["late_binding"] < 0.85 * mean["price_index"] < 0.85 * mean["earliest_finish"]


def test_a_task_that_waits_for_the_cpu_does_not_keep_an_accelerator_idle():
    # The second task fits into the GPU's memory with a tiny share only, and must wait for the CPU.
    tasks = [
        Task(0, 50_000, 0.0, 1e6, arrival_time=0.0),
        Task(1, 50_000, 0.0, 1e6, arrival_time=0.1),
        Task(2, 500, 1.0, 1.0, arrival_time=3.0),
    ]
    outcomes = Cluster(workstation(1)).run(Workload.from_tasks(tasks), LateBinding()).outcomes
    assert outcomes.start[1] > 5.0
    assert outcomes.start[2] == pytest.approx(3.0)


def test_graphs_objectives_and_indivisible_tasks_run():
    graph = cholesky(5)
    outcomes = Cluster().run(graph, LateBinding()).outcomes
    ends = outcomes.finish
    for row in range(len(graph)):
        for parent in graph.parents(row):
            assert outcomes.start[row] >= ends[parent]
    workload = generate(scenario_named("mixed"), 200, seed=4, utilisation=0.7)
    thrifty = Cluster().run(workload, LateBinding(), objective=Objective(0.2, 0.8))
    quick = Cluster().run(workload, LateBinding())
    assert thrifty.outcomes.latency.mean() > quick.outcomes.latency.mean()
    whole = Workload.from_tasks([Task(i, 2500, 0.5, 0, 0.01 * i, divisible=False) for i in range(50)])
    assert set(Cluster().run(whole, LateBinding()).outcomes.fraction) <= {0.0, 1.0}


def test_classes_of_accelerators_have_the_prices_of_the_fluid_optimum():
    gpus = [
        Device(f"gpu_{i}", speedup_base=1.0, speedup_slope=slope, bandwidth=bandwidth)
        for i, (slope, bandwidth) in enumerate([(0.5, 5e4), (3.0, 8e3), (6.0, 3e4)])
    ]
    platform = Platform("unequal", (cpu(), *gpus))
    workload = generate(scenario_named("mixed"), 500, seed=2000, platform=platform, utilisation=0.9)
    scheduler = LateBinding()
    Cluster(platform).run(workload, scheduler)
    value, worth, _ = window_prices(scheduler.rule.prices)
    found = worth * value[scheduler.devices["column"][~platform.is_cpu]]
    # The fluid optimum: most work of all tasks under prices that add up to 1 over all devices.
    columns = scheduler.devices["column"]
    seconds = AnalyticPhysics().times(workload, platform).sum(axis=2)
    tasks, classes = seconds.shape
    per_class = np.hstack([np.tile(np.eye(tasks), (classes, 1)), np.zeros((tasks * classes, classes))])
    for column in range(classes):
        per_class[column * tasks : (column + 1) * tasks, tasks + column] = -seconds[:, column]
    total = np.concatenate([np.zeros(tasks), np.bincount(columns, minlength=classes)])
    gain = -np.concatenate([np.ones(tasks), np.zeros(classes)])
    dual = linprog(gain, per_class, np.zeros(len(per_class)), total[None], [1.0]).x[tasks:]
    exact = dual[columns] / dual[columns[platform.is_cpu][0]]
    assert np.allclose(found, exact[~platform.is_cpu], rtol=0.05)


@pytest.mark.parametrize("platform", [workstation(), platform_named("mixed-gpus")])
def test_restored_queue_continues_with_the_same_prices(platform):
    workload = generate(scenario_named("mixed"), 100, seed=5, platform=platform, utilisation=0.9)
    first, second = LateByEvents(), LateByEvents()
    cluster = Cluster(platform)
    cluster.run(workload, first)
    cluster.run(workload.rows(0, 1), second)
    state, queue = first.queue_state(), SimpleNamespace(times=np.empty((0, 2, 2)))
    second.restore_queue(state, queue)
    assert all(np.array_equal(values, second.queue_state()[name]) for name, values in state.items())
    second.restore_queue({name: values for name, values in state.items() if name != "classes"}, queue)


def test_a_look_at_the_queue_is_bounded():
    # More waiting tasks than one look may leave: all need the CPU, while the GPU is idle.
    tasks = [Task(i, 500, 0.0, 1e9) for i in range(LOOK_AHEAD + 50)]
    outcomes = Cluster(workstation(1)).run(Workload.from_tasks(tasks), LateBinding()).outcomes
    assert outcomes.completed.all()


@pytest.mark.parametrize("boost", [-1.0, float("nan"), float("inf")])
def test_boost_is_checked(boost):
    with pytest.raises(InvalidInputError, match="boost"):
        LateBinding(boost=boost)
