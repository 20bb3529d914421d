"""The bound on the mean latency never exceeds an exact optimum or any schedule, and is tight where it should be."""

from itertools import pairwise, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from scipy.optimize import linprog
from strategies import physics, platforms, workloads

from hybrid_scheduler import (
    AnalyticPhysics,
    Cluster,
    Noise,
    TablePhysics,
    Task,
    Workload,
    create,
    mean_latency_bound,
    workstation,
)
from hybrid_scheduler.cluster import isolated_optimum
from hybrid_scheduler.core import Floats
from hybrid_scheduler.workload.scenarios import generate, scenario_named


def table_workload(seconds, arrivals, *, divisible):
    """Tasks with these seconds on a CPU and one or two GPUs."""
    count = len(seconds)
    tasks = Workload(
        task_id=np.arange(count), size=np.ones(count), compute_intensity=np.full(count, 0.5),
        memory_required=np.zeros(count), arrival_time=arrivals, divisible=np.full(count, divisible),
        kind=[str(i) for i in range(count)],
    )  # fmt: skip
    return tasks, TablePhysics([list(map(float, row)) for row in seconds])


@njit
def least_total_latency(arrivals, seconds, orders, choices):
    """Exact optimum of indivisible tasks: every order and every assignment, as early as possible."""
    best = np.inf
    for o in range(len(orders)):
        for c in range(len(choices)):
            free = np.zeros(seconds.shape[1])
            total = 0.0
            for i in orders[o]:
                d = choices[c, i]
                free[d] = max(free[d], arrivals[i]) + seconds[i, d]
                total += free[d] - arrivals[i]
            best = min(best, total)
    return best


def test_bound_is_never_above_the_exact_optimum_of_indivisible_tasks():
    count, devices = 5, 3
    orders = np.array(list(permutations(range(count))))
    choices = np.array(list(product(range(devices), repeat=count)))
    rng = np.random.default_rng(1)
    ratios = []
    for _ in range(1000):
        seconds = np.exp(rng.normal(0.0, rng.choice([0.3, 1.0, 2.0]), (count, devices)))
        arrivals = np.cumsum(rng.exponential(rng.choice([0.01, 0.3, 1.0]), count))
        tasks, law = table_workload(seconds, arrivals, divisible=False)
        exact = least_total_latency(arrivals, seconds, orders, choices) / count
        ratios.append(mean_latency_bound(tasks, workstation(2), law) / exact)
    assert max(ratios) <= 1.0 + 1e-9
    assert np.mean(ratios) > 0.8  # it says something


def exact_divisible(seconds, arrivals):
    """Exact optimum on one CPU and one GPU: a linear program for every order of the parts on each device."""
    count = len(seconds)
    best = np.inf
    # Variables: share on the GPU, start on the CPU, start on the GPU, end.
    cost = np.concatenate([np.zeros(3 * count), np.ones(count)])
    for cpu_order, gpu_order in product(permutations(range(count)), repeat=2):
        rows: list[Floats] = []
        limits: list[float] = []

        def at_most(limit, rows=rows, limits=limits, **terms):
            row = np.zeros(4 * count)
            for name, value in terms.items():
                kind, i = name.split("_")
                row["scge".index(kind) * count + int(i)] += value
            rows.append(row)
            limits.append(limit)

        for i in range(count):
            whole_cpu, whole_gpu = seconds[i]
            at_most(-whole_cpu, **{f"c_{i}": 1, f"s_{i}": -whole_cpu, f"e_{i}": -1})
            at_most(0.0, **{f"g_{i}": 1, f"s_{i}": whole_gpu, f"e_{i}": -1})
        for before, after in pairwise(cpu_order):
            whole = seconds[before][0]
            at_most(-whole, **{f"c_{before}": 1, f"s_{before}": -whole, f"c_{after}": -1})
        for before, after in pairwise(gpu_order):
            at_most(0.0, **{f"g_{before}": 1, f"s_{before}": seconds[before][1], f"g_{after}": -1})
        limits_of = [(0, 1)] * count + [(a, None) for a in arrivals] * 2 + [(0, None)] * count
        solved = linprog(cost, A_ub=np.array(rows), b_ub=limits, bounds=limits_of)
        best = min(best, solved.fun - arrivals.sum())
    return best / count


def test_bound_is_never_above_the_exact_optimum_of_divisible_tasks():
    rng = np.random.default_rng(2)
    ratios = []
    for _ in range(12):
        seconds = np.exp(rng.normal(0.0, 1.0, (3, 2)))
        arrivals = np.cumsum(rng.exponential(rng.choice([0.01, 0.5]), 3))
        tasks, law = table_workload(seconds, arrivals, divisible=True)
        ratios.append(mean_latency_bound(tasks, workstation(1), law) / exact_divisible(seconds, arrivals))
    assert max(ratios) <= 1.0 + 1e-9
    assert np.mean(ratios) > 0.8


@settings(max_examples=60)
@given(workloads(max_tasks=30), platforms(max_nodes=2), physics, st.sampled_from([0.0, 0.3]))
def test_bound_is_below_every_scheduler(workload, platform, law, sigma):
    noise = Noise(sigma, 3)
    bound = mean_latency_bound(workload, platform, law, noise)
    assert bound >= isolated_optimum(workload, platform, law, noise).mean() * (1 - 1e-9)
    for name in ("late_binding", "late_binding(boost=8)", "shortest_first", "oracle", "greedy"):
        outcomes = Cluster(platform, law, noise=noise).run(workload, create(name)).outcomes
        assert outcomes.latency.mean() >= bound * (1 - 1e-9)


def test_bound_is_the_isolated_optimum_where_no_task_waits():
    workload = Workload.from_tasks([Task(i, 2500, 0.5, 0, arrival_time=100.0 * i) for i in range(20)])
    bound = mean_latency_bound(workload, workstation(), AnalyticPhysics())
    assert bound == pytest.approx(isolated_optimum(workload, workstation(), AnalyticPhysics()).mean(), rel=1e-9)


def test_bound_proves_waiting_at_high_load():
    workload = generate(scenario_named("mixed"), 1000, seed=2000, utilisation=0.95)
    alone = isolated_optimum(workload, workstation(), AnalyticPhysics()).mean()
    assert mean_latency_bound(workload, workstation(), AnalyticPhysics()) > 1.3 * alone


def test_children_wait_for_their_parents():
    chain = Workload.from_tasks([Task(i, 2500, 0.5, 0, dependencies=[i - 1] if i else []) for i in range(4)])
    bound = mean_latency_bound(chain, workstation(1), AnalyticPhysics())
    alone = isolated_optimum(chain, workstation(1), AnalyticPhysics())
    assert bound == pytest.approx(np.cumsum(alone).mean(), rel=1e-6)


def test_blocks_of_a_long_run_add_up_to_a_valid_bound():
    workload = generate(scenario_named("mixed"), 5000, seed=2001, utilisation=0.9)
    bound = mean_latency_bound(workload, workstation(), AnalyticPhysics())
    best = Cluster().run(workload, create("late_binding(boost=8)")).outcomes.latency.mean()
    assert 0.4 * best < bound <= best


def test_tasks_of_zero_seconds_have_a_bound_of_zero():
    tasks, law = table_workload([[0.0, 1.0]], np.zeros(1), divisible=True)
    assert mean_latency_bound(tasks, workstation(1), law) == 0.0
