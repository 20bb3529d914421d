"""Random workloads, platforms and physics for property tests."""

import numpy as np
from hypothesis import strategies as st

from hybrid_scheduler import AnalyticPhysics, Device, Platform, Workload
from hybrid_scheduler.core import cpu


@st.composite
def workloads(draw, max_tasks=40, max_memory=20000.0, batch=None):
    n = draw(st.integers(1, max_tasks))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(draw(st.sampled_from([0.01, 0.1, 1.0])), n)
    gaps[rng.random(n) < 0.2] = 0.0  # simultaneous arrivals
    arrival = np.zeros(n) if (draw(st.booleans()) if batch is None else batch) else np.cumsum(gaps)
    return Workload(
        task_id=rng.permutation(10 * n)[:n],
        size=rng.uniform(1, 6000, n),
        compute_intensity=np.where(rng.random(n) < 0.1, rng.integers(0, 2, n), rng.random(n)),
        memory_required=rng.uniform(0, max_memory, n),
        arrival_time=arrival,
    )


@st.composite
def graphs(draw, max_tasks=25):
    """A random acyclic graph: edges only from earlier rows to later ones."""
    base = draw(workloads(max_tasks=max_tasks, batch=True, max_memory=500.0))
    n = len(base)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dependencies = [
        sorted(base.task_id[rng.random(row).argsort()[: rng.integers(0, min(row, 3) + 1)]].tolist())
        for row in range(n)
    ]
    return Workload(
        **base.columns(),
        dependencies=dependencies,
        dependency_data=[rng.uniform(0, 2000, len(parents)).tolist() for parents in dependencies],
    )


@st.composite
def platforms(draw, max_nodes=3):
    devices = []
    for node in range(draw(st.integers(1, max_nodes))):
        devices.append(cpu(f"n{node}.cpu", node, speed=draw(st.sampled_from([0.5, 1.0, 2.0]))))
        devices += [
            Device(
                f"n{node}.gpu_{i}",
                node=node,
                speedup_base=draw(st.sampled_from([0.5, 1.0, 2.0])),
                speedup_slope=draw(st.sampled_from([0.0, 3.0])),
                memory=draw(st.sampled_from([500.0, 8000.0])),
                bandwidth=draw(st.sampled_from([1000.0, 16000.0])),
            )
            for i in range(draw(st.integers(0, 4)))
        ]
    return Platform("random", tuple(devices))


physics = st.builds(AnalyticPhysics, launch_overhead=st.sampled_from([0.0, 0.002, 0.5]))
