"""Slowdowns of live runs: durations by hand, bounds, restarts, notifications and checks."""

from dataclasses import replace

import numpy as np
import pytest

from hybrid_scheduler import (
    AnalyticPhysics,
    InvalidInputError,
    LiveConfig,
    Noise,
    Slowdown,
    SlowedPhysics,
    Task,
    Workload,
    create,
    platform_named,
    workstation,
)
from hybrid_scheduler.cluster import makespan_bound, mean_latency_bound
from hybrid_scheduler.config.configured_run import wave_slowdown
from hybrid_scheduler.core.canonical_json import content_hash
from hybrid_scheduler.learning.duration.retraining import InlineTrainingWorker
from hybrid_scheduler.live.live_config import LiveTrace
from hybrid_scheduler.live.live_run import LiveRun
from hybrid_scheduler.workload import capacity_of, generate, save_workload

RULES = ("round_robin", "greedy", "earliest_finish", "price_index", "late_binding", "oracle")
SLOW = Slowdown("gpu_1", 3.0, start=10.0, until=20.0)
BUSY = LiveConfig(schedulers=RULES, slowdown=SLOW, utilisation=0.5)


def on_time(run, seconds):
    """Let a run reach a virtual time, in steps of half a second."""
    at = run.now
    while at < seconds:
        at = min(seconds, at + 0.5)
        while run.advance(run.ordinal + 1, 100, at) is not None:
            pass
        run.pass_time(at)
    return run


# ------------------------------------------------------------------------------------------ durations


def test_golden_case_by_hand(live, tmp_path):
    # Size 2500 at intensity 0.5 without data: 0.5 s on the CPU, 0.2 s on a GPU, 0.6 s on the slow one.
    arrivals = [0.0, 0.0, 12.0, 12.0, 12.0, 20.0, 20.0]
    tasks = Workload.from_tasks([Task(i, 2500, 0.5, 0, arrival_time=at) for i, at in enumerate(arrivals)])
    save_workload(tasks, tmp_path / "seven.csv")
    machine = workstation(2)
    trace = LiveTrace.read(tmp_path / "seven.csv", machine, AnalyticPhysics())
    config = LiveConfig(schedulers=("gpu_only",), platform=machine, slowdown=SLOW, trace=trace, speed=20.0)
    one = live(config).started()
    one.run(3.0)
    assert one.column("gpu_only", "device").tolist() == [1, 2, 1, 2, 1, 1, 2]
    finish = [0.2, 0.2, 12.2, 12.6, 12.4, 20.2, 20.2]  # at 20 s the slowdown is over
    assert one.column("gpu_only", "finish") == pytest.approx(finish, abs=1e-12)


@pytest.mark.parametrize("device", ["gpu_1", "gpu", "cpu"])
def test_durations_change_for_the_named_devices_and_arrivals_alone(device):
    platform, base = workstation(3), AnalyticPhysics(launch_overhead=0.01)
    tasks = generate(LiveConfig().scenario, 500, 1, utilisation=0.5)
    slowdown = Slowdown(device, 2.5, start=5.0, until=7.0, every=10.0)
    slowed = SlowedPhysics(base, slowdown)
    before = base.times(tasks, platform)[:, base.columns(platform)]
    after = slowed.times(tasks, platform)[:, slowed.columns(platform)]
    late = np.array([5.0 <= at % 10.0 < 7.0 for at in tasks.arrival_time])
    assert 0 < late.sum() < len(tasks)
    for number, one in enumerate(platform.devices):
        factor = np.where(late & (device in (one.name, one.kind)), 2.5, 1.0)
        assert np.array_equal(after[:, number], before[:, number] * factor[:, None])


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_rows_equal_those_of_a_simulation(noise):
    config = replace(BUSY, noise=Noise(noise, 42))
    run = on_time(LiveRun(config, InlineTrainingWorker()), 30.0)
    tasks = generate(config.scenario, run.ordinal, config.seed, utilisation=0.5, first_id=1)
    run.lanes.finish_queues()
    run.lanes.take_started()
    for row in run.statistics():
        whole = config.machine.run(tasks, create(row.name), seed=config.seed)
        assert row.mean_latency == pytest.approx(whole.outcomes.latency.mean(), rel=1e-9), row.name


def test_bounds_hold_and_references_know_the_current_durations():
    config = replace(BUSY, schedulers=(*RULES, "hybrid_ml"), slowdown=Slowdown("gpu", 3.0, start=3.0, until=60.0))
    run = on_time(LiveRun(config, InlineTrainingWorker()), 40.0)
    tasks = generate(config.scenario, run.ordinal, config.seed, utilisation=0.5, first_id=1)
    run.lanes.finish_queues()
    run.lanes.take_started()
    machine, rows = config.machine, {row.name: row for row in run.statistics()}
    least = mean_latency_bound(tasks, machine.platform, machine.physics)
    assert least > 1.2 * mean_latency_bound(tasks, machine.platform, config.physics)
    for row in rows.values():
        assert row.mean_latency >= least >= 0.999 * run.latency_bound.mean
        assert row.makespan >= makespan_bound(tasks, machine.platform, machine.physics)
    blind = replace(machine, physics=config.physics).run(tasks, create("price_index"), seed=42)
    informed = machine.run(tasks, create("price_index"), seed=42)
    placed = [outcome.outcomes.fraction for outcome in (blind, informed)]
    assert not np.array_equal(*placed)  # it plans with the longer durations


def test_load_and_arrivals_are_those_at_full_speed():
    slow = replace(BUSY, slowdown=Slowdown("gpu", 5.0, start=0.0, until=1e6))
    scenario, platform = BUSY.scenario, BUSY.platform
    assert capacity_of(scenario, platform, slow.machine.physics) == capacity_of(scenario, platform, BUSY.physics)
    ours, theirs = (one.source().next_tasks(1, 200, 1e9) for one in (slow, replace(BUSY, slowdown=None)))
    assert np.array_equal(ours.arrival_time, theirs.arrival_time)
    assert slow.warnings() == replace(BUSY, slowdown=None).warnings()


# ------------------------------------------------------------------------------------------ restarts


@pytest.mark.parametrize("killed", [False, True])
def test_restart_in_the_middle_of_a_slowdown_changes_no_row(live, killed):
    config = replace(BUSY, slowdown=replace(SLOW, every=15.0), speed=20.0)
    undisturbed = live(config).started()
    undisturbed.run(2.0)
    first = live(config).started()
    first.run(0.77)  # 15.4 s
    if killed:
        first.journal.hold()  # what comes after this is never stored
        first.run(0.1)
        first.journal.lose_waiting()
    else:
        first.engine.close()
    defaults = LiveConfig(schedulers=RULES)
    second = live(config, journal=first.journal, clock=first.clock, defaults=defaults)
    second.started()
    second.run(2.0)
    assert second.engine.status().slowdown == config.slowdown
    n = len(undisturbed.task_column("task_id"))
    assert len(second.task_column("task_id")) >= n
    for name in ("arrival_time", "size"):
        assert np.array_equal(second.task_column(name)[:n], undisturbed.task_column(name))
    for scheduler in ("round_robin", "greedy", "earliest_finish", "price_index", "oracle"):
        for name in ("device", "fraction", "latency", "start", "finish"):
            ours, theirs = second.column(scheduler, name)[:n], undisturbed.column(scheduler, name)
            assert np.array_equal(ours, theirs, equal_nan=True), (scheduler, name)


def test_stored_configuration_has_the_slowdown_and_older_ones_keep_their_hash():
    stored = BUSY.as_dict()
    assert stored["physics"]["slowdown"] == SLOW.as_dict()
    assert LiveConfig().resumed(stored) == BUSY
    assert "slowdown" not in str(LiveConfig().as_dict())
    assert content_hash(stored) != content_hash(replace(BUSY, slowdown=None).as_dict())
    assert replace(BUSY, slowdown=None, physics=BUSY.machine.physics) == BUSY


# ------------------------------------------------------------------------------------------ notifications


def test_beginning_and_end_are_announced_and_learners_find_the_change(live):
    story = wave_slowdown(LiveConfig().scenario, None, LiveConfig().machine)
    assert story == Slowdown("gpu", 3.0, 25.1, 40.1, 59.83)
    one = live(LiveConfig(schedulers=("hybrid_ml", "oracle"), slowdown=story, speed=10.0)).started()
    one.run(5.6)  # 56 s
    (slow,), (fast,) = one.notifications("slowdown"), one.notifications("full_speed")
    assert slow["message"] == "tasks on every GPU take 3 times as long from 25.1 s on"
    assert fast["message"] == "tasks on every GPU are back at full speed from 40.1 s on"
    assert (slow["level"], fast["level"], slow["scheduler"]) == ("warning", "info", None)
    noticed, recovered = (event.t for event in one.journal.events if event.body.get("kind") == "drift")
    assert 25.1 < noticed < 30.0
    assert 40.1 < recovered < 45.0
    versions = [version for batch in one.journal.batches for version in batch.versions]
    errors = [version.error for version in versions if version.error is not None]
    assert max(errors) > 10.0 * errors[-1]  # it rises, and falls again


def test_changes_are_listed_in_order_and_once():
    once, again = SLOW, replace(SLOW, every=30.0)
    assert once.changes(-1.0, 9.9) == []
    assert once.changes(9.9, 25.0) == [(10.0, True), (20.0, False)]
    assert once.changes(10.0, 15.0) == []
    assert again.changes(19.0, 51.0) == [(20.0, False), (40.0, True), (50.0, False)]
    assert [again.changes(at, at + 0.5) for at in (39.5, 40.0, 49.9)] == [[(40.0, True)], [], [(50.0, False)]]


# ------------------------------------------------------------------------------------------ checks


@pytest.mark.parametrize(
    ("fields", "field", "allowed"),
    [
        ({"device": ""}, "slowdown.device", "the name or kind of a device"),
        ({"factor": 1.0}, "slowdown.factor", "> 1 and at most 1000"),
        ({"factor": float("nan")}, "slowdown.factor", "a finite number"),
        ({"factor": True}, "slowdown.factor", "a finite number"),
        ({"start": -1.0}, "slowdown.start", ">= 0 s"),
        ({"until": 10.0}, "slowdown.until", "after the start (10 s)"),
        ({"every": 10.0}, "slowdown.every", "longer than the slowdown (10 s)"),
        ({"factor": "3"}, "slowdown.factor", "a finite number"),
    ],
)
def test_impossible_values_are_refused(fields, field, allowed):
    with pytest.raises(InvalidInputError) as error:
        Slowdown.from_dict({**SLOW.as_dict(), **fields})
    assert (error.value.field, error.value.allowed) == (field, allowed)


def test_device_must_be_part_of_the_platform():
    with pytest.raises(InvalidInputError) as error:
        LiveConfig(platform=platform_named("laptop"), slowdown=SLOW)
    assert (error.value.field, error.value.got) == ("slowdown.device", "gpu_1")
    assert error.value.allowed == "one of cpu, gpu, gpu_0"
    assert error.value.hint == "did you mean 'gpu_0'?"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("gpu_1", "slowdown"),
        ("device=gpu_1,factor=3,start=1", "slowdown.until"),
        ("device=gpu_1,factor=much,start=1,until=2", "slowdown.factor"),
        ("device=gpu_1,factor=3,begin=1,until=2", "slowdown"),
        ("device=gpu_1,device=gpu_2,factor=3,start=1,until=2", "slowdown"),
    ],
)
def test_bad_texts_are_refused(text, field):
    with pytest.raises(InvalidInputError) as error:
        Slowdown.from_text(text)
    assert error.value.field == field


@pytest.mark.parametrize("slowdown", [SLOW, Slowdown("gpu", 1.25, start=0.1, until=7.5, every=60.0)])
def test_text_is_read_back_exactly(slowdown):
    assert Slowdown.from_text(slowdown.as_text()) == slowdown
