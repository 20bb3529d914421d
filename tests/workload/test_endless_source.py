"""An endless source gives the tasks of `generate`, and comes back to any place."""

import json

import numpy as np
import pytest

from hybrid_scheduler import AnalyticPhysics, workstation
from hybrid_scheduler.workload import (
    SCENARIOS,
    EndlessSource,
    generate,
    scenario_from_json,
    scenario_named,
    scenario_to_json,
)

MACHINE, PHYSICS = workstation(), AnalyticPhysics()


def source(name, seed=5, **options):
    return EndlessSource(scenario_named(name), seed, MACHINE, PHYSICS, **options)


def take(stream, count, most=333):
    """Size, intensity, memory and arrival of the next tasks."""
    rows = [np.empty((0, 4))]
    while count:
        piece = stream.next_tasks(0, min(most, count))
        stream.take(len(piece.size))
        count -= len(piece.size)
        columns = (piece.size, piece.compute_intensity, piece.memory_required, piece.arrival_time)
        rows.append(np.column_stack(columns))
    return np.concatenate(rows)


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "shift"])
def test_the_same_tasks_as_generate(name):
    drawn = take(source(name), 9000, 700)
    whole = generate(scenario_named(name), 9000, 5, platform=MACHINE, physics=PHYSICS)
    columns = (whole.size, whole.compute_intensity, whole.memory_required, whole.arrival_time)
    assert np.array_equal(drawn, np.column_stack(columns))


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("after", [0, 1, 4096, 7000])
def test_restored_source_continues_from_any_position(name, after):
    first = source(name)
    take(first, after)
    state = json.loads(json.dumps(first.state()))
    assert len(json.dumps(state)) < 2000
    again = source(name, seed=1)
    again.restore(state)
    assert again.taken == after
    assert again.next_arrival == first.next_arrival
    assert np.array_equal(take(again, 6000), take(first, 6000))


def test_source_returns_only_tasks_that_have_arrived():
    stream = source("default")
    piece = stream.next_tasks(0, 1000, until=10.0)
    assert piece.arrival_time.max() <= 10.0
    stream.take(len(piece.size))
    assert stream.next_arrival > 10.0
    assert stream.next_tasks(0, 1000, until=10.0) is None
    with pytest.raises(ValueError, match="more tasks taken"):
        stream.take(10_000)


def test_pause_delays_later_arrivals():
    plain, paused = source("bursty"), source("bursty")
    take(plain, 100)
    before = take(paused, 100)[-1, 3]
    paused.pause_until(500.0)
    gap = take(plain, 5000)[:, 3] - before
    moved = take(paused, 5000)[:, 3]
    assert moved == pytest.approx(500.0 + gap)
    # The pause survives a restart.
    again = source("bursty")
    again.restore(paused.state())
    assert again.next_arrival == paused.next_arrival


def test_change_of_scenario_starts_now():
    stream = source("default")
    take(stream, 100)
    stream.change(scenario_named("transfer"), 0.5, 77.0)
    tasks = take(stream, 20_000)
    assert tasks[0, 3] >= 77.0
    assert tasks[:, 2].max() > 3500.0
    rate = len(tasks) / (tasks[-1, 3] - 77.0)
    again = source("transfer", utilisation=0.5)
    take(again, 20_000)
    assert rate == pytest.approx(20_000 / again.next_arrival, rel=0.05)


def test_source_of_two_scenarios_alternates_between_them():
    memory = take(source("shift"), 3000)[:, 2]
    for first in range(0, 3000, 500):
        part = memory[first : first + 500]
        assert (part.max() <= 100.0) if first % 1000 == 0 else (part.min() >= 2000.0)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios_go_through_json(name):
    scenario = scenario_named(name)
    assert scenario_from_json(json.loads(json.dumps(scenario_to_json(scenario)))) == scenario
