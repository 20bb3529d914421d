"""Learned schedulers on indivisible tasks that all belong on one side of the machine."""

import numpy as np
import pytest

from hybrid_scheduler import Cluster, Workload, create, platform_named

LEARNERS = [
    "hybrid_ml",
    "hybrid_ml(binding=late)",
    "hybrid_ml(model=None)",
    "rl_agent",
    "rl_agent(binding=early)",
]
FORESTS = ["random_forest"]


def one_sided(intensity, size, count=90):
    draw = np.random.default_rng(1)
    return Workload(
        task_id=np.arange(count),
        size=size * draw.uniform(1.0, 5.0, count),
        compute_intensity=np.full(count, intensity),
        memory_required=draw.uniform(1.0, 2.0, count),
        arrival_time=np.cumsum(draw.exponential(10.0, count)),
        divisible=np.zeros(count, bool),
    )


@pytest.mark.parametrize("spec", [*LEARNERS, *FORESTS])
@pytest.mark.parametrize(("intensity", "size"), [(1.0, 1000.0), (1.0, 100.0), (0.0, 1.0)])
def test_a_side_without_any_outcome_is_no_error(spec, intensity, size):
    if spec in FORESTS:
        pytest.importorskip("sklearn")
    tasks = one_sided(intensity, size)
    result = Cluster(platform_named("laptop")).run(tasks, create(spec))
    assert len(result.outcomes) == len(tasks)
    assert np.isfinite(result.outcomes.finish).all()
    assert set(result.outcomes.fraction) <= {0.0, 1.0}
