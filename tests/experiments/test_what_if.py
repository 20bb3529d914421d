"""What-if analysis: the same figures as `compare`, pair by pair."""

import numpy as np
import pytest
from scipy import stats

from hybrid_scheduler.cluster import Machine, Noise
from hybrid_scheduler.core import InvalidInputError, Objective, platform_named, workstation
from hybrid_scheduler.engine import compare
from hybrid_scheduler.experiments.what_if import WhatIfChange, what_if
from hybrid_scheduler.workload.scenarios import generate, scenario_named


def test_figures_equal_those_of_compare():
    seeds, tasks = range(3000, 3004), 60
    rows = what_if(WhatIfChange(num_gpus=2, utilisation=0.3), schedulers=("greedy", "oracle"), tasks=tasks, seeds=4)
    mix = scenario_named("default")
    for row in rows:
        before, after = [], []
        for seed in seeds:
            then = generate(mix, tasks, seed, platform=workstation(4))
            now = generate(mix, tasks, seed, platform=workstation(4), utilisation=0.3)
            before.append(compare(then, [row.name], seed=seed).summaries[row.name])
            after.append(compare(now, [row.name], platform=workstation(2), seed=seed).summaries[row.name])
        differences = np.array([b.latency.mean - a.latency.mean for a, b in zip(before, after, strict=True)])
        assert row.latency.baseline == pytest.approx(np.mean([a.latency.mean for a in before]), rel=1e-12)
        assert row.latency.changed == pytest.approx(np.mean([b.latency.mean for b in after]), rel=1e-12)
        low, high = stats.t.interval(0.95, 3, differences.mean(), stats.sem(differences))
        assert (row.latency.low, row.latency.high) == pytest.approx((low, high), rel=1e-9)
        assert row.energy.changed == pytest.approx(np.mean([b.energy / tasks for b in after]), rel=1e-12)
        assert row.cost.changed == pytest.approx(np.mean([b.cost / tasks for b in after]), rel=1e-12)
        assert row.n == 4
        ratios = [b.latency.mean / b.latency_over_bound for b in after]
        assert row.latency_bound.changed == pytest.approx(np.mean(ratios), rel=1e-12)
        assert row.latency_bound.changed < row.latency.changed


def test_every_seed_draws_its_own_noise():
    machine = Machine(workstation(2), noise=Noise(0.5, seed=7))
    (row,) = what_if(WhatIfChange(num_gpus=3), machine=machine, schedulers=("oracle",), tasks=40, seeds=3)
    before: list[float] = []
    after: list[float] = []
    for seed in range(3000, 3003):
        workload = generate(scenario_named("default"), 40, seed, platform=workstation(2))
        for gpus, latencies in ((2, before), (3, after)):
            run = compare(workload, ["oracle"], platform=workstation(gpus), noise=Noise(0.5, seed), seed=seed)
            latencies.append(run.summaries["oracle"].latency.mean)
    low, high = stats.t.interval(
        0.95, 2, np.mean(np.subtract(after, before)), stats.sem(np.subtract(after, before))
    )
    assert (row.latency.low, row.latency.high) == pytest.approx((low, high), rel=1e-9)


def test_no_change_gives_no_difference():
    for row in what_if(WhatIfChange(), tasks=60, seeds=3):
        for pair in (row.latency, row.energy, row.cost):
            assert pair.difference == pair.low == pair.high == 0


def test_faster_gpus_cut_latency_and_energy_weight_saves_energy():
    (faster,) = what_if(WhatIfChange(gpu_speed=4), schedulers=("oracle",), tasks=100, seeds=4)
    assert faster.latency.high < 0
    (thrifty,) = what_if(WhatIfChange(energy_weight=1), load=0.3, schedulers=("oracle",), tasks=100, seeds=4)
    assert thrifty.energy.high < 0


def test_energy_weight_sets_the_objective():
    (row,) = what_if(WhatIfChange(energy_weight=0.5), schedulers=("oracle",), tasks=50, seeds=2)
    runs = [
        compare(
            generate(scenario_named("default"), 50, seed, platform=workstation()),
            ["oracle"],
            objective=Objective(0.5, 0.5),
            seed=seed,
        )
        for seed in (3000, 3001)
    ]
    assert row.latency.changed == np.mean([run.summaries["oracle"].latency.mean for run in runs])


def test_change_is_applied_to_the_platform():
    machine = WhatIfChange(num_gpus=6, gpu_speed=2.0, bandwidth=1000.0).platform(workstation(4))
    gpus = [device for device in machine.devices if not device.is_cpu]
    assert [device.name for device in gpus] == [f"gpu_{i}" for i in range(6)]
    assert {(d.speedup_base, d.speedup_slope, d.bandwidth) for d in gpus} == {(2.0, 6.0, 1000.0)}
    assert machine.devices[0] == workstation().devices[0]
    mixed = WhatIfChange(num_gpus=2).platform(platform_named("mixed-gpus"))
    assert len(mixed) == 3
    assert WhatIfChange().platform(workstation()) == workstation()


def test_schedulers_that_learn_slowly_do_not_learn():
    (first,) = what_if(WhatIfChange(num_gpus=2), schedulers=("rl_agent",), tasks=50, seeds=2)
    assert first.name == "rl_agent"
    fixed = [
        compare(
            generate(scenario_named("default"), 50, seed, platform=workstation()),
            ["rl_agent(learn=False)"],
            seed=seed,
        ).summaries["rl_agent(learn=False)"]
        for seed in (3000, 3001)
    ]
    assert first.latency.baseline == np.mean([summary.latency.mean for summary in fixed])


@pytest.mark.parametrize(
    ("change", "machine"),
    [
        ({"num_gpus": 0}, None),
        ({"gpu_speed": 0}, None),
        ({"gpu_speed": float("nan")}, None),
        ({"energy_weight": 2}, None),
    ],
)
def test_impossible_changes_are_refused(change, machine):
    with pytest.raises(InvalidInputError, match=next(iter(change))):
        WhatIfChange(**change)


def test_gpu_count_of_several_nodes_cannot_be_changed():
    with pytest.raises(InvalidInputError, match="num_gpus"):
        WhatIfChange(num_gpus=3).platform(platform_named("cluster-16"))
    with pytest.raises(InvalidInputError, match="seeds"):
        what_if(WhatIfChange(), seeds=1)
