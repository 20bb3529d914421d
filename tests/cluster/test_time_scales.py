"""Simulations, bounds and live runs end at any offset of the clock and for any ratio of durations."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybrid_scheduler import AnalyticPhysics, LiveConfig, Noise, OnlineScheduler, Slowdown, Workload, compare
from hybrid_scheduler.learning.duration.retraining import InlineTrainingWorker
from hybrid_scheduler.live.live_config import LiveTrace
from hybrid_scheduler.live.live_run import LiveRun
from hybrid_scheduler.physics import SlowedPhysics

SCHEDULERS = (
    "earliest_finish", "greedy", "oracle", "price_index", "split_search", "late_binding", "shortest_first",
    "min_min", "two_level", "heft", "fluid_plan", "hybrid_ml", "hybrid_ml(binding=late)", "rl_agent", "dqn",
    "random_forest",
)  # fmt: skip
OFFSETS = (0.0, 86_400.0, 30 * 86_400.0, 1.7e9)
DURATIONS = ((1e-9, 1e-9), (1e-9, 1e6), (1e6, 1e6), (0.01, 0.02))


@st.composite
def tasks_at_any_scale(draw, *, graphs=True):
    count, rng = draw(st.integers(2, 40)), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shortest, longest = draw(st.sampled_from(DURATIONS))
    arrival = np.sort(rng.random(count)) * draw(st.sampled_from([0.0, 1e-6, 1.0, 86_400.0]))
    arrival[1 : count // 3] = arrival[1]
    parents = (
        [[row - 1] if row % 3 == 2 else [] for row in range(count)] if graphs and draw(st.booleans()) else None
    )
    return Workload(
        task_id=np.arange(count),
        size=2500.0 * np.exp(rng.uniform(math.log(shortest), math.log(longest), count)),
        compute_intensity=rng.random(count),
        memory_required=rng.uniform(0.0, 12_000.0, count),
        arrival_time=draw(st.sampled_from(OFFSETS)) + np.sort(arrival),
        divisible=rng.random(count) < draw(st.sampled_from([0.5, 1.0])),
        dependencies=parents,
        dependency_data=None if parents is None else [[1e-3] * len(row) for row in parents],
    )


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@settings(max_examples=12)
@given(
    workload=tasks_at_any_scale(),
    sigma=st.sampled_from([0.0, 1.0]),
    policy=st.sampled_from(["clip", "to_cpu", "page"]),
    slowed=st.booleans(),
)
def test_every_run_and_its_bounds_end(scheduler, workload, sigma, policy, slowed):
    start = float(workload.arrival_time[0])
    slowdown = Slowdown("gpu", 3.0, start=start, until=start + 10.0, every=20.0)
    physics = SlowedPhysics(AnalyticPhysics(), slowdown) if slowed else None
    noise = Noise(sigma, 3)
    comparison = compare(workload, [scheduler], noise=noise, physics=physics, memory_policy=policy)
    summary = comparison.summaries[scheduler]
    assert summary.tasks == len(workload)
    assert comparison.lower_bound is not None
    assert comparison.latency_bound is not None
    # The clock of a Unix time has seven digits after the point.
    rounding = 4 * np.spacing(float(comparison.results[scheduler].outcomes.finish.max()))
    assert summary.makespan >= comparison.lower_bound * (1.0 - 1e-9) - rounding
    assert summary.latency.mean >= comparison.latency_bound * (1.0 - 1e-9) - rounding


@settings(max_examples=12)
@given(workload=tasks_at_any_scale(graphs=False), scheduler=st.sampled_from(["greedy", "hybrid_ml"]))
def test_every_task_of_an_online_scheduler_is_placed(workload, scheduler):
    queue = OnlineScheduler(scheduler)
    for task in workload:
        queue.submit_task(task)
    placements = queue.process_queue()
    assert [placement.task for placement in placements] == list(workload)
    assert all(placement.outcome.finish >= placement.task.arrival_time for placement in placements)


@settings(max_examples=12)
@given(tasks_at_any_scale(graphs=False))
def test_every_live_run_of_a_trace_ends(workload):
    trace = LiveTrace("tasks", workload, "0" * 64)
    config = LiveConfig(trace=trace, schedulers=(*SCHEDULERS[:2], "late_binding", "hybrid_ml"))
    run = LiveRun(config, InlineTrainingWorker())
    decided, rounds = 0, 0
    while not run.source.ended:
        chunk = run.advance(decided + 1, 16, math.inf)
        decided, rounds = decided + (0 if chunk is None else len(chunk)), rounds + 1
        assert rounds <= len(workload)
    run.lanes.finish_queues()
    assert decided == len(workload)
    assert not run.lanes.events or all(event.kind != "scheduler_failed" for event in run.lanes.events)
    assert all(lane.failure is None for lane in run.lanes)
