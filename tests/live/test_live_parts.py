"""The engine's small parts."""

import json

import numpy as np
import pytest

from hybrid_scheduler import AnalyticPhysics, Cluster, Noise, create, platform_named, workstation
from hybrid_scheduler.cluster import isolated_optimum
from hybrid_scheduler.core.canonical_json import content_hash
from hybrid_scheduler.core.ulid import UlidGenerator
from hybrid_scheduler.live.live_config import LiveConfig
from hybrid_scheduler.physics import isolated_split
from hybrid_scheduler.testing import small_workload


def test_ulids_sort_by_time_and_never_repeat():
    moments = iter([1.0, 1.0, 0.5, 2.0])
    entropy = iter([b"\xff" * 10, b"\x00" * 10, b"\x01" * 10, b"\x00" * 10])
    make = UlidGenerator(lambda: next(moments), lambda _: next(entropy))
    made = [make() for _ in range(4)]
    assert made == sorted(set(made))
    assert all(len(one) == 26 and set(one) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ") for one in made)
    assert made[3] == "00000001YG0000000000000000"


@pytest.mark.parametrize("name", ["workstation", "laptop", "mixed-gpus", "accelerators"])
@pytest.mark.parametrize("physics", [AnalyticPhysics(), AnalyticPhysics(launch_overhead=0.3)])
def test_isolated_optimum_with_its_share(name, physics):
    platform, tasks = platform_named(name), small_workload(300, max_memory=20_000.0)
    table, columns = physics.times(tasks, platform), physics.columns(platform)
    share, time = isolated_split(table, columns, platform, tasks.memory_required)
    assert time == pytest.approx(isolated_optimum(tasks, platform, physics))
    assert ((share >= 0) & (share <= 1)).all()
    assert (share > 0).any()


def test_the_hash_tells_courses_apart():
    one = LiveConfig()
    json.dumps(one.as_dict(), allow_nan=False)
    assert content_hash(one.as_dict()) == content_hash(LiveConfig().as_dict())
    others = [
        LiveConfig(seed=1),
        LiveConfig(platform=workstation(2)),
        LiveConfig(physics=AnalyticPhysics(launch_overhead=0.1)),
        LiveConfig(noise=Noise(0.1)),
        LiveConfig(utilisation=0.2),
        LiveConfig(schedulers=("greedy",)),
    ]
    assert len({content_hash(config.as_dict()) for config in [one, *others]}) == 7
    assert content_hash(LiveConfig(speed=3.0).as_dict()) == content_hash(one.as_dict())  # speed changes no row


@pytest.mark.parametrize("name", ["round_robin", "random", "greedy", "oracle", "price_index", "earliest_finish"])
def test_a_cluster_in_instalments(name):
    """Cut anywhere, saved and put back in between: the same outcomes as in one run."""
    tasks, noise = small_workload(500), Noise(0.2, seed=3)
    whole = Cluster(noise=noise).run(tasks, create(name), seed=1).outcomes
    first, scheduler = Cluster(noise=noise), create(name)
    first.start_scheduler(scheduler, tasks, seed=1)
    parts = [first.run_more(tasks.rows(0, 137), scheduler)]
    state = json.loads(json.dumps(first.state()))
    second = Cluster(noise=noise)
    second.restore(state)
    other = create(name)
    second.start_scheduler(other, tasks, seed=1)
    other.state[:] = scheduler.state
    parts += [second.run_more(tasks.rows(137, 138), other), second.run_more(tasks.rows(138, 500), other)]
    for column in ("device", "fraction", "finish", "cpu_start", "accelerator_time"):
        joined = np.concatenate([getattr(part, column) for part in parts])
        assert np.array_equal(joined, getattr(whole, column), equal_nan=True)


def test_busy_seconds_up_to_now():
    tasks, scheduler, cluster = small_workload(200), create("greedy"), Cluster()
    cluster.start_scheduler(scheduler, tasks)
    outcomes = cluster.run_more(tasks, scheduler)
    now = float(tasks.arrival_time[-1])
    _, device, start, end = outcomes.intervals(cluster.platform.cpu_of)
    worked = np.bincount(device, np.clip(np.minimum(end, now) - start, 0.0, None), len(cluster.platform))
    assert cluster.busy_by(now) == pytest.approx(worked)
    assert cluster.busy_by(1e9).sum() == pytest.approx(outcomes.cpu_time.sum() + outcomes.accelerator_time.sum())


def test_a_cluster_takes_only_its_own_state():
    with pytest.raises(ValueError, match="of 5 devices"):
        Cluster().restore(Cluster(workstation(2)).state())
