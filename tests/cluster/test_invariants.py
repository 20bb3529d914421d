"""What must hold for every workload, platform and decision: the laws of the virtual cluster."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from invariants import check_laws
from strategies import graphs, physics, platforms, workloads

from hybrid_scheduler import Cluster, Decision, Noise, Online, create
from hybrid_scheduler.cluster import isolated_optimum, makespan_bound
from hybrid_scheduler.engine.comparison import compare
from hybrid_scheduler.schedulers import Oracle


class Whim(Online):
    """Any device, any fraction: the laws must hold for bad decisions too."""

    def __init__(self, seed):
        self.seed = seed

    def start(self, setting):
        super().start(setting)
        self.rng = np.random.default_rng(self.seed)

    def decide(self, task, view):
        fraction = self.rng.choice([0.0, 1.0, self.rng.random()])
        return Decision(int(self.rng.integers(len(view.platform))), float(fraction))


@given(workloads(), platforms(), physics, st.integers(0, 1000), st.sampled_from(["clip", "to_cpu", "fail"]),
       st.sampled_from([0.0, 0.5]))  # fmt: skip
def test_invariants_hold_for_any_decision(workload, platform, law, seed, policy, sigma):
    noise = Noise(sigma, seed)
    cluster = Cluster(platform, law, noise=noise, memory_policy=policy)
    result = cluster.run(workload, Whim(seed))
    makespan = check_laws(cluster, workload, result)
    bound = makespan_bound(workload, platform, law, noise, memory_policy=policy)
    assert makespan >= bound * (1 - 1e-9)


@given(workloads(), platforms(), physics)
def test_parts_are_the_physics_times(workload, platform, law):
    out = Cluster(platform, law).run(workload, Whim(1)).outcomes
    times, columns = law.times(workload, platform), law.columns(platform)
    for i in range(len(workload)):
        device, f = out.device[i], out.fraction[i]
        whole, fixed = times[i, columns[platform.cpu_of[device]]]
        assert out.cpu_time[i] == pytest.approx(fixed + (1 - f) * whole if f < 1 else 0.0, rel=1e-12)
        whole, fixed = times[i, columns[device]]
        assert out.accelerator_time[i] == pytest.approx(fixed + f * whole if f > 0 else 0.0, rel=1e-12)


@settings(max_examples=25)
@given(graphs(), platforms(), st.integers(0, 1000), st.sampled_from([0.0, 0.4]))
def test_invariants_hold_for_graphs(workload, platform, seed, sigma):
    noise = Noise(sigma, seed)
    for scheduler in (Whim(seed), create("earliest_finish"), create("heft"), create("shortest_first")):
        cluster = Cluster(platform, noise=noise)
        result = cluster.run(workload, scheduler)
        makespan = check_laws(cluster, workload, result)
        out = result.outcomes
        for row in range(len(workload)):
            for parent in workload.parents(row):
                assert out.start[row] >= out.finish[parent] - 1e-9
        assert makespan >= makespan_bound(workload, platform, cluster.physics, noise) * (1 - 1e-9)


NAMES = ["round_robin", "random", "greedy", "oracle", "cpu_only", "gpu_only", "earliest_finish", "min_completion",
         "shortest_first", "price_index", "two_level"]  # fmt: skip


@given(workloads(), platforms(), physics)
def test_every_scheduler_respects_the_bound(workload, platform, law):
    comparison = compare(workload, NAMES, platform=platform, physics=law)
    for summary in comparison.summaries.values():
        assert summary.makespan >= comparison.lower_bound * (1 - 1e-9)
        assert summary.makespan >= comparison.isolated.max() * (1 - 1e-9)
        assert 0 < summary.load_balance <= 1 + 1e-12
        assert all(share <= 1 + 1e-9 for share in summary.utilization.values())
        assert summary.mean_slowdown >= 1 - 1e-9


@given(workloads(), platforms(), physics)
def test_no_decision_finishes_the_next_task_before_the_oracle(workload, platform, law):
    """On the same queues no decision ends the next task earlier than the oracle's."""
    rng = np.random.default_rng(0)
    cluster = Cluster(platform, law)
    cluster.run(workload, create("random"))
    last = workload.arrival_time[-1]
    queues = cluster.state()
    task = workload[0]
    probe = type(task)(10**9, task.size, task.compute_intensity, task.memory_required, last)
    oracle = Oracle()
    from hybrid_scheduler import Setting, View
    from hybrid_scheduler.cluster import PhysicsTimes

    oracle.start(Setting(platform, times=PhysicsTimes(law, platform)))
    best = cluster.simulate(probe, oracle.decide(probe, View(last, cluster.free_at_view, platform))).finish
    for _ in range(20):
        cluster.restore(queues)
        decision = Decision(int(rng.integers(len(platform))), float(rng.choice([0, 1, rng.random()])))
        assert cluster.simulate(probe, decision).finish >= best * (1 - 1e-9)


@given(workloads(), platforms(), physics, st.sampled_from([0.0, 0.3]))
def test_isolated_optimum_is_the_best_of_a_fine_grid(workload, platform, law, sigma):
    noise = Noise(sigma, 3)
    best = isolated_optimum(workload, platform, law, noise)
    factors = noise.factors(workload.task_id, len(platform))
    times, columns = law.times(workload, platform), law.columns(platform)
    grid = np.full(len(workload), np.inf)
    for d in range(len(platform)):
        host = platform.cpu_of[d]
        c = times[:, columns[host]] * factors[:, host, None]
        g = times[:, columns[d]] * factors[:, d, None]
        for f in np.linspace(0, 1, 401):
            if platform.is_cpu[d] and f > 0:
                continue
            fits = f * workload.memory_required <= platform.devices[d].memory
            on_cpu = np.where(f < 1, c[:, 1] + (1 - f) * c[:, 0], 0)
            on_gpu = np.where(f > 0, g[:, 1] + f * g[:, 0], 0)
            grid = np.minimum(grid, np.where(fits, np.maximum(on_cpu, on_gpu), np.inf))
    assert (best <= grid * (1 + 1e-12)).all()
    # The grid's nearest point is at most a step away: no time below that can be had.
    step = 1 / 400
    slack = step * (times[:, :, 0] * factors.max(axis=1, keepdims=True)).max(axis=1)
    assert (best >= grid - slack - 1e-9).all()
