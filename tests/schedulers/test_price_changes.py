"""Prices after a change: older tasks no longer count, and without a change none is forgotten."""

import numpy as np
import pytest

from hybrid_scheduler import (
    AnalyticPhysics,
    Cluster,
    Slowdown,
    SlowedPhysics,
    create,
    platform_named,
    workstation,
)
from hybrid_scheduler.compiled.device_prices import BLOCK, first_alike, keep_newest
from hybrid_scheduler.compiled.late_binding import CLASS_WINDOW
from hybrid_scheduler.schedulers import LateBinding, PriceIndex
from hybrid_scheduler.workload.scenarios import generate, scenario_named

MIXED_GPUS = platform_named("mixed-gpus")


def mean_latency(cluster, workload, spec, rows=slice(None)):
    return cluster.run(workload, create(spec)).outcomes.latency[rows].mean()


@pytest.mark.parametrize("spec", ["price_index", "late_binding", "hybrid_ml", "hybrid_ml(binding=late)"])
def test_prices_follow_a_shift_of_the_tasks(spec):
    ratios = []
    for seed in (5000, 5001, 5002):
        workload = generate(scenario_named("shift"), 2000, seed, platform=workstation(), utilisation=0.7)
        reference = mean_latency(Cluster(), workload, "earliest_finish")
        ratios.append(mean_latency(Cluster(), workload, spec) / reference)
    assert np.mean(ratios) < 1.1  # with prices of the last 1000 tasks 2.8


@pytest.mark.parametrize("device", ["gpu_0", "gpu_3"])
def test_late_binding_stays_ahead_after_a_gpu_halves(device):
    ratios = []
    for seed in (5000, 5001, 5002, 5003):
        workload = generate(scenario_named("mixed"), 2000, seed, platform=MIXED_GPUS, utilisation=0.75)
        slowdown = Slowdown(device, 2.0, start=float(workload.arrival_time[1000]), until=1e9)
        cluster = Cluster(MIXED_GPUS, SlowedPhysics(AnalyticPhysics(), slowdown))
        late, index = (
            mean_latency(cluster, workload, spec, slice(1000, None)) for spec in ("late_binding", "price_index")
        )
        ratios.append(late / index)
    assert np.mean(ratios) < 0.95


@pytest.mark.parametrize("scenario", ["mixed", "pareto", "bursty"])
def test_without_a_change_no_task_is_forgotten(scenario):
    workload = generate(scenario_named(scenario), 20_000, 6000, platform=MIXED_GPUS, utilisation=0.7)
    scheduler = PriceIndex()
    Cluster(MIXED_GPUS).run(workload, scheduler)
    assert scheduler.state[0] == len(workload)


def test_after_a_change_old_tasks_are_forgotten_by_prices_and_classes():
    workload = generate(scenario_named("shift"), 1900, 5000, platform=MIXED_GPUS, utilisation=0.7)
    scheduler = LateBinding()
    Cluster(MIXED_GPUS).run(workload, scheduler)
    # The last 500 tasks are the new ones; the block of the change may have some older ones.
    assert 500 - BLOCK <= scheduler.queue_arrays.prices[0] < 500 + BLOCK
    assert scheduler.queue_arrays.classes[0] == scheduler.queue_arrays.prices[0] < CLASS_WINDOW + BLOCK


def test_newest_blocks_of_other_mean_are_found():
    """In plain Python: compiling it takes seconds."""
    rng = np.random.default_rng(3)
    for changed in (1, 2, 4, 8):
        values = rng.exponential(size=(20, BLOCK, 3))
        sums = np.stack([values.sum(axis=1), (values**2).sum(axis=1)], axis=-1)
        assert first_alike.py_func(sums) == 0
        values[-changed:, :, 1] += 1.5
        sums = np.stack([values.sum(axis=1), (values**2).sum(axis=1)], axis=-1)
        assert first_alike.py_func(sums) == 20 - changed
    equal = np.stack([np.full((20, 3), 32.0), np.full((20, 3), 32.0)], axis=-1)
    assert first_alike.py_func(equal) == 0
    assert first_alike.py_func(equal[:1]) == 0
    assert first_alike.py_func(equal[:0]) == 0


def test_newest_numbers_of_a_ring_come_to_its_front():
    for seen in (1, 5, 7, 8, 19):
        ring = np.zeros(7)
        for number in range(seen):
            ring[number % 7] = number
        for kept in range(1, min(seen, 7) + 1):
            moved = ring.copy()
            keep_newest.py_func(moved, seen, kept)
            assert moved[:kept].tolist() == list(range(seen - kept, seen))
