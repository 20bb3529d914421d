"""The isolated optimum with the share that reaches it."""

import pytest

from hybrid_scheduler import AnalyticPhysics, platform_named
from hybrid_scheduler.cluster import isolated_optimum
from hybrid_scheduler.physics import isolated_split
from hybrid_scheduler.testing import small_workload


@pytest.mark.parametrize("name", ["workstation", "laptop", "mixed-gpus", "accelerators"])
@pytest.mark.parametrize("physics", [AnalyticPhysics(), AnalyticPhysics(launch_overhead=0.3)])
def test_best_share_reaches_the_isolated_optimum(name, physics):
    platform, tasks = platform_named(name), small_workload(300, max_memory=20_000.0)
    table, columns = physics.times(tasks, platform), physics.columns(platform)
    share, time = isolated_split(table, columns, platform, tasks.memory_required)
    assert time == pytest.approx(isolated_optimum(tasks, platform, physics))
    assert ((share >= 0) & (share <= 1)).all()
    assert (share > 0).any()
