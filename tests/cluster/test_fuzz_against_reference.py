"""Random platforms, physics, options and schedulers against a plain-Python cluster.

2,000 cases by default, ten times as many with `--faults`. A failure names the seed of its case.
"""

import math

import numpy as np
import pytest
from invariants import check_laws
from reference_cluster import ReferenceCluster, earliest_finish

from hybrid_scheduler import (
    AnalyticPhysics,
    Cluster,
    Decision,
    Device,
    Noise,
    Online,
    Platform,
    Static,
    TablePhysics,
    Workload,
    create,
)
from hybrid_scheduler.cluster import isolated_optimum, makespan_bound
from hybrid_scheduler.core import cpu
from hybrid_scheduler.core.outcome import STATUS_NAMES

BLOCKS, CASES = 20, 100
ONLINE = ("any", "round_robin", "random", "greedy", "cpu_only", "gpu_only", "earliest_finish", "oracle",
          "oracle(grid=11)", "min_completion", "price_index", "two_level")  # fmt: skip
PLANNED = ("heft", "cpop", "peft", "fluid_plan", "any plan")
CENTRAL = ("shortest_first", "late_binding")


class Anything(Online):
    """Any device, any share."""

    def start(self, setting):
        super().start(setting)
        self.rng = np.random.default_rng(setting.seed)

    def decide(self, task, view):
        share = float(self.rng.choice([0.0, 1.0, self.rng.random()]))
        return Decision(int(self.rng.integers(len(view.platform))), share)


class Recorded(Online):
    """Another scheduler, with all its decisions kept. Python calls it task by task."""

    def __init__(self, inner):
        self.inner, self.decisions = inner, {}

    def start(self, setting):
        super().start(setting)
        self.inner.start(setting)

    def decide(self, task, view):
        decision = self.decisions[task.task_id] = self.inner.decide(task, view)
        return decision


def recorder_of(scheduler):
    """Return a recorder that knows the same durations as the scheduler that it records."""

    class RecorderOfScheduler(Recorded):
        knows = scheduler.knows

    return RecorderOfScheduler(scheduler)


class Fixed(Static):
    def __init__(self, given):
        self.given = given

    def plan(self, workload, platform):
        return self.given


def random_platform(rng):
    devices = []
    for node in range(rng.integers(1, 4)):
        devices += [
            cpu(f"n{node}.cpu_{i}", node, float(rng.choice([0.5, 1, 2]))) for i in range(rng.integers(1, 3))
        ]
        devices += [
            Device(
                f"n{node}.gpu_{i}", node=node, memory=float(rng.choice([500, 8000])),
                bandwidth=float(rng.choice([1000, 16000])), speedup_base=float(rng.choice([0.5, 1, 2])),
            )
            for i in range(rng.integers(0, 4))
        ]  # fmt: skip
    latency = float(rng.choice([0, 0.01]))
    return Platform("random", tuple(devices), network_bandwidth=1000.0, network_latency=latency)


def random_workload(rng, graph):
    n = int(rng.integers(1, 13))
    arrival = np.zeros(n) if rng.random() < 0.3 else np.cumsum(rng.exponential(0.05, n) * (rng.random(n) < 0.8))
    ids = rng.permutation(3 * n)[:n]
    parents = [
        ids[rng.choice(row, rng.integers(0, min(row, 3) + 1), replace=False)].tolist() if graph else []
        for row in range(n)
    ]
    data = [(rng.choice([0, 500.0]) * rng.random(len(one))).tolist() for one in parents]
    return Workload(
        task_id=ids, size=rng.uniform(10, 4000, n), compute_intensity=rng.random(n),
        memory_required=rng.choice([1.0, 300.0, 2000.0, 12000.0], n) * rng.random(n), arrival_time=arrival,
        dependencies=parents if graph else None,
        dependency_data=data if graph else None, divisible=rng.random(n) < rng.choice([0.5, 1.0]),
    )  # fmt: skip


def random_physics(rng, workload, platform):
    """Return a physics, and the reference's seconds and transfer costs."""
    if rng.random() < 0.5:
        launch = float(rng.choice([0, 0.002, 0.1]))

        def seconds(row, device):
            task, chosen = workload[row], platform.devices[device]
            base = 4e-6 * task.size**1.5 / (task.compute_intensity + 0.5)
            whole = base / (chosen.speedup_base + chosen.speedup_slope * task.compute_intensity)
            if chosen.kind == "cpu":
                return whole, 0.0
            inputs = workload.parent_data[workload.parent_start[row] : workload.parent_start[row + 1]].sum()
            return whole + max(0.0, task.memory_required - inputs) / chosen.bandwidth, launch

        return AnalyticPhysics(launch_overhead=launch), seconds, {}
    size = len(platform)
    table = rng.integers(0, 5, (len(workload), size)) * 0.1
    pairs, startup = rng.integers(0, 3, (size, size)) * 0.001, rng.integers(0, 2, (size, size)) * 0.05
    np.fill_diagonal(pairs, 0.0)
    np.fill_diagonal(startup, 0.0)
    physics = TablePhysics(table, workload.task_id, communication=pairs, startup=startup)
    return physics, lambda row, device: (float(table[row, device]), 0.0), {"pairs": pairs, "startup": startup}


def assert_same(outcomes, parts):
    for row, part in enumerate(parts):
        got = outcomes[row]
        assert STATUS_NAMES[got.status] == part.status, row
        if part.status == "failed":
            continue
        assert (got.device, got.fraction) == (part.device, pytest.approx(part.fraction, rel=1e-12)), row
        expected = (part.cpu_start, part.cpu_time, part.acc_start, part.acc_time)
        found = (got.cpu_start, got.cpu_time, got.accelerator_start, got.accelerator_time)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True), row


def run_case(seed):
    rng = np.random.default_rng(seed)
    platform = random_platform(rng)
    workload = random_workload(rng, graph=rng.random() < 0.4)
    physics, seconds, costs = random_physics(rng, workload, platform)
    noise = Noise(float(rng.choice([0, 0.4])), int(rng.integers(100)))
    policy = str(rng.choice(["clip", "to_cpu", "fail"]))
    name = str(rng.choice([*ONLINE, *PLANNED, *CENTRAL]))
    own = int(rng.integers(100))
    cluster = Cluster(platform, physics, noise=noise, memory_policy=policy)
    reference = ReferenceCluster(
        workload, platform, seconds, sigma=noise.sigma, seed=noise.seed, policy=policy, **costs
    )
    if name in ONLINE:
        scheduler = Anything() if name == "any" else create(name)
        recorded = recorder_of(scheduler)
        result = cluster.run(workload, recorded, seed=own)
        parts = reference.run_online(
            lambda row, now, free: _checked(name, reference, row, now, free, recorded.decisions, noise.sigma)
        )
        assert_same(result.outcomes, parts)
        if name != "any":  # without the recorder the compiled loop runs, where there is one
            again = cluster.run(workload, create(name), seed=own).outcomes
            for column in ("device", "fraction", "cpu_start", "cpu_time", "accelerator_start", "accelerator_time"):
                np.testing.assert_array_equal(getattr(again, column), getattr(result.outcomes, column))
    elif name in PLANNED:
        scheduler = Fixed(_any_plan(rng, workload, platform)) if name == "any plan" else create(name)
        result = cluster.run(workload, scheduler, seed=own)
        assert isinstance(scheduler, Static)
        plan = scheduler.plan(workload, platform)
        finish = plan.start if plan.finish is None else plan.finish
        assert_same(result.outcomes, reference.run_planned(plan.device, plan.fraction, plan.start, finish))
        if plan.finish is not None and noise.sigma == 0:
            assert result.outcomes.finish.tolist() == pytest.approx(plan.finish.tolist(), rel=1e-9, abs=1e-12)
    else:
        result = cluster.run(workload, create(name), seed=own)
    _check_result(seed, cluster, workload, result, noise, policy)


def _checked(name, reference, row, now, free, decisions, sigma):
    """Return the recorded decision; those of the earliest finish must not end later than the best of many."""
    decision = decisions[int(reference.workload.task_id[row])]
    if name in ("earliest_finish", "oracle"):
        starts = reference.starts(row, now)
        best = earliest_finish(reference, row, now, starts, realised=name == "oracle")
        assert math.isfinite(decision.fraction)
        if sigma == 0 or name == "oracle":
            assert _finish(reference, row, now, starts, decision) <= best * (1 + 1e-9) + 1e-12
    return decision.device, decision.fraction


def _finish(reference, row, now, free, decision):
    device, share, _ = reference.executed(row, decision.device, decision.fraction)
    host, end = reference.host(device), 0.0
    if share < 1:
        whole, fixed = reference.seconds(row, host)
        end = max(0.0, free[host] - now) + (fixed + (1 - share) * whole) * reference.factor(row, host)
    if share > 0:
        whole, fixed = reference.seconds(row, device)
        part = (fixed + share * whole) * reference.factor(row, device)
        end = max(end, max(0.0, free[device] - now) + part)
    return end


def _any_plan(rng, workload, platform):
    from hybrid_scheduler import Plan

    n = len(workload)
    start = np.empty(n)
    start[workload.topological_order] = np.sort(rng.random(n))
    return Plan(rng.integers(0, len(platform), n), rng.choice([0.0, 0.3, 1.0], n), start)


def _check_result(seed, cluster, workload, result, noise, policy):
    makespan = check_laws(cluster, workload, result)
    out, platform, physics = result.outcomes, cluster.platform, cluster.physics
    alone = isolated_optimum(workload, platform, physics, noise)
    done = out.completed
    assert (out.latency[done] >= alone[done] * (1 - 1e-9) - 1e-12).all()
    for row in np.flatnonzero(done).tolist():
        parents = workload.parents(row)
        assert (out.start[row] >= out.finish[parents] - 1e-9).all()
    classes = len(np.unique(physics.columns(platform)[platform.accelerators]))
    if classes <= 1 or seed % 25 == 0:  # with more classes the bound solves linear programmes
        bound = makespan_bound(workload, platform, physics, noise, memory_policy=policy)
        assert makespan >= bound * (1 - 1e-9) - 1e-12


@pytest.mark.parametrize("block", range(BLOCKS))
def test_cluster_equals_the_reference(block, pytestconfig):
    cases = CASES * (10 if pytestconfig.getoption("--faults") else 1)
    for seed in range(block * 10 * CASES, block * 10 * CASES + cases):
        try:
            run_case(seed)
        except Exception as error:
            raise AssertionError(f"case {seed}: {type(error).__name__}: {error}") from error
