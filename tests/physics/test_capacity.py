"""The fluid relaxation against a general LP solver."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from strategies import physics, platforms, workloads

from hybrid_scheduler import AnalyticPhysics, Task, Workload, workstation
from hybrid_scheduler.physics import FluidTasks, capacity, fluid_makespan, fluid_tasks


def general_lp(tasks: FluidTasks) -> float:
    """min M with x[i, k] >= 0: the textbook formulation, solved as it stands."""
    n, classes = tasks.whole.shape
    objective = np.zeros(n * classes + 1)
    objective[-1] = 1
    loads = np.zeros((classes, n * classes + 1))
    for k in range(classes):
        loads[k, k : n * classes : classes] = tasks.whole[:, k]
        loads[k, -1] = -tasks.servers[k]
    limits = np.zeros(classes)
    limits[0] = -tasks.pinned.sum()
    shares = np.zeros((n, n * classes + 1))
    for i in range(n):
        shares[i, i * classes : (i + 1) * classes] = 1
    return linprog(objective, A_ub=loads, b_ub=limits, A_eq=shares, b_eq=np.ones(n)).fun


@given(
    n=st.integers(1, 12),
    servers=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    seed=st.integers(0, 2**31),
    pinned=st.booleans(),
)
def test_fluid_makespan_equals_the_lp(n, servers, seed, pinned):
    rng = np.random.default_rng(seed)
    tasks = FluidTasks(
        rng.uniform(0.01, 5, (n, len(servers))), rng.uniform(0, 1, n) * pinned, np.array(servers, dtype=float)
    )
    assert fluid_makespan(tasks) == pytest.approx(general_lp(tasks), rel=1e-6)


@given(workloads(max_tasks=10), platforms(), physics)
def test_fluid_tasks_never_exceed_reality(workload, platform, law):
    """What a class needs in the relaxation is at most what its devices need in the cluster."""
    table, columns = law.times(workload, platform), law.columns(platform)
    tasks = fluid_tasks(table, columns, columns, workload.memory_required, platform)
    cpu = table[:, columns[platform.is_cpu]].sum(axis=2).min(axis=1)
    assert (tasks.whole[:, 0] + tasks.pinned <= cpu * (1 + 1e-12)).all()
    assert tasks.servers.sum() == len(platform)


def test_capacity_equals_values_computed_by_hand():
    # CPU 0.5 s, GPU 0.2 s, one of each: rates 2 + 5 tasks per second.
    workload = Workload.from_tasks([Task(i, 2500, 0.5, 0) for i in range(10)])
    assert capacity(workload, workstation(1), AnalyticPhysics()) == pytest.approx(7.0)
    assert capacity(workload, workstation(0), AnalyticPhysics()) == pytest.approx(2.0)
    assert capacity(workload, workstation(4), AnalyticPhysics()) == pytest.approx(22.0)
