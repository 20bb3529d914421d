"""The fast kernels equal a plain-Python simulation that shares no code with them."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from strategies import workloads

from hybrid_scheduler import AnalyticPhysics, Cluster, create, workstation


@pytest.mark.parametrize("name", reference.RULES)
@given(workload=workloads(), gpus=st.integers(1, 5), launch=st.sampled_from([0.0, 0.05]))
def test_cluster_equals_the_plain_python_reference(name, workload, gpus, launch):
    machine = reference.Machine(gpus, launch=launch)
    expected = reference.run(list(workload), machine, reference.RULES[name]())
    out = Cluster(workstation(gpus), AnalyticPhysics(launch_overhead=launch)).run(workload, create(name)).outcomes
    np.testing.assert_allclose(out.finish, [p.finish for p in expected], rtol=1e-9)
    np.testing.assert_allclose(out.start, [p.start for p in expected], rtol=1e-9)
    np.testing.assert_allclose(out.cpu_time, [p.cpu_time for p in expected], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(out.accelerator_time, [p.gpu_time for p in expected], rtol=1e-9, atol=1e-12)
    assert out.device.tolist() == [p.device for p in expected]


def test_kernel_equals_reference_over_a_long_run():
    """Thousands of tasks, so that queues build up and drain many times."""
    rng = np.random.default_rng(7)
    n = 3000
    from hybrid_scheduler import Workload

    workload = Workload(
        task_id=np.arange(n),
        size=rng.uniform(100, 5000, n),
        compute_intensity=rng.uniform(0, 1, n),
        memory_required=rng.uniform(10, 500, n),
        arrival_time=np.cumsum(rng.exponential(1 / 10, n)),
    )
    for name in ("greedy", "earliest_finish", "min_completion", "round_robin"):
        expected = reference.run(list(workload), reference.Machine(), reference.RULES[name]())
        out = Cluster().run(workload, create(name)).outcomes
        np.testing.assert_allclose(out.finish, [p.finish for p in expected], rtol=1e-9)
