"""Scenarios: their laws, capacities and arrival rates; chunks equal to the whole; seeds that decide everything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybrid_scheduler.cluster import Cluster
from hybrid_scheduler.core import InvalidInputError, UnknownNameError, platform_named, workstation
from hybrid_scheduler.physics import AnalyticPhysics, Curve, ProfiledPhysics, SerialPhysics, physics_named
from hybrid_scheduler.schedulers import create
from hybrid_scheduler.workload import (
    SCENARIOS,
    EndlessSource,
    Scenario,
    Uniform,
    capacity_of,
    default_scenario,
    generate,
    scenario_from_json,
    scenario_named,
    scenario_to_json,
    shift_scenarios,
    stream,
)
from hybrid_scheduler.workload.arrivals import BurstyArrivals, DiurnalArrivals, WaveArrivals

NAMES = sorted(SCENARIOS)
COLUMNS = ("task_id", "size", "compute_intensity", "memory_required", "arrival_time")


def same_bits(one, other) -> bool:
    return all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in COLUMNS)


def glued(chunks) -> dict[str, np.ndarray]:
    parts = list(chunks)
    return {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}


def mu(scenario: Scenario) -> float:
    return capacity_of(scenario, workstation(), physics_named(scenario.physics))


# -------------------------------------------------------------------- what they are


def test_all_scenarios_of_the_experiments_are_there():
    assert set(SCENARIOS) == {
        "default",
        "mixed",
        "small",
        "transfer",
        "low-intensity",
        "lognormal",
        "pareto",
        "oom",
        "bursty",
        "diurnal",
        "rush-hour",
        "waves",
        "shift",
    }


@pytest.mark.parametrize(
    ("name", "size", "intensity", "memory"),
    [
        ("default", (500, 1500), (0.1, 0.9), (50, 150)),
        ("mixed", (100, 5000), (0, 1), (10, 500)),
        ("small", (500, 1500), (0, 1), (10, 500)),
        ("transfer", (100, 5000), (0, 1), (100, 4000)),
        ("low-intensity", (100, 5000), (0, 0.3), (100, 4000)),
        ("lognormal", (50, 30000), (0, 1), (10, 500)),
        ("pareto", (400, 30000), (0, 1), (10, 500)),
        ("oom", (100, 5000), (0, 1), (10, 16000)),
        ("bursty", (100, 5000), (0, 1), (10, 500)),
        ("diurnal", (100, 5000), (0, 1), (10, 500)),
        ("rush-hour", (500, 1500), (0.1, 0.9), (50, 150)),
        ("waves", (500, 1500), (0.1, 0.9), (50, 150)),
    ],
)
def test_columns_keep_their_ranges_and_fill_them(name, size, intensity, memory):
    tasks = generate(scenario_named(name), 20_000, 5, batch=True)
    uniform = [(tasks.compute_intensity, intensity), (tasks.memory_required, memory)]
    if name not in ("lognormal", "pareto"):
        uniform.append((tasks.size, size))
    assert size[0] <= tasks.size.min() <= tasks.size.max() <= size[1]
    for column, (low, high) in uniform:
        assert low <= column.min() <= column.max() <= high
        assert column.mean() == pytest.approx((low + high) / 2, rel=0.02)
        assert column.std() == pytest.approx((high - low) / 12**0.5, rel=0.02)


def test_default_loads_and_attributes():
    assert scenario_named("default").utilisation == 0.10
    assert scenario_named("rush-hour").utilisation == 0.9
    assert scenario_named("rush-hour").episode_length == 2000
    assert scenario_named("waves").utilisation == 0.125
    assert scenario_named("shift").physics == "serial"
    others = [s for s in SCENARIOS.values() if s.name not in ("default", "rush-hour", "waves")]
    assert {s.utilisation for s in others} == {0.7}


def test_configuration_can_move_the_default_ranges():
    tasks = generate(default_scenario((10, 20), [0.2, 0.3], (1, 2)), 1000, 0, batch=True)
    assert 10 <= tasks.size.min() <= tasks.size.max() <= 20
    assert 0.2 <= tasks.compute_intensity.min() <= tasks.compute_intensity.max() <= 0.3
    assert 1 <= tasks.memory_required.min() <= tasks.memory_required.max() <= 2


def test_bursty_and_diurnal_have_the_tasks_of_mixed():
    mixed = generate(scenario_named("mixed"), 500, 9)
    for name in ("bursty", "diurnal"):
        other = generate(scenario_named(name), 500, 9)
        assert np.array_equal(other.size, mixed.size)
        assert not np.array_equal(other.arrival_time, mixed.arrival_time)


def test_variants_by_replace_are_hashable_and_used():
    variant = replace(scenario_named("mixed"), memory=[10, 20], size=Uniform(1, 2))
    assert hash(variant) == hash(replace(variant))
    assert generate(variant, 100, 0, batch=True).memory_required.max() <= 20
    assert mu(variant) > mu(scenario_named("mixed"))


# -------------------------------------------------------------------- capacity


@pytest.mark.parametrize(
    ("name", "expected"), [("mixed", 14.20), ("default", 66.88), ("transfer", 11.56), ("small", 54.78)]
)
def test_capacities_of_scenarios_equal_independent_estimates(name, expected):
    # The middle between independent estimates; 200,000 draws leave about 0.2 % of chance in each.
    assert mu(scenario_named(name)) == pytest.approx(expected, rel=0.005)


def test_capacity_is_computed_once_per_scenario():
    from hybrid_scheduler.workload.scenarios import capacity_of_regime

    scenario = replace(scenario_named("small"), memory=(1.0, 2.0))
    first = capacity_of(scenario, workstation(), AnalyticPhysics())
    misses = capacity_of_regime.cache_info().misses
    renamed = replace(scenario, name="other", utilisation=0.3)
    assert capacity_of(renamed, workstation(), AnalyticPhysics()) == first
    assert capacity_of_regime.cache_info().misses == misses


def test_capacity_grows_with_the_platform():
    mixed = scenario_named("mixed")
    one = capacity_of(mixed, platform_named("laptop"), AnalyticPhysics())
    many = capacity_of(mixed, platform_named("cluster-16"), AnalyticPhysics())
    assert one < mu(mixed) < many
    assert many == pytest.approx(16 * mu(mixed), rel=1e-6)


# -------------------------------------------------------------------- arrivals


@pytest.mark.parametrize("name", [name for name in NAMES if name != "shift"])
def test_tasks_arrive_at_the_utilisation_times_the_capacity(name):
    scenario = scenario_named(name)
    tasks = generate(scenario, 200_000, 1)
    rate = len(tasks) / tasks.arrival_time[-1]
    assert rate == pytest.approx(scenario.utilisation * mu(scenario), rel=0.02)


@pytest.mark.parametrize("name", ["mixed", "bursty", "diurnal", "waves"])
def test_utilisation_replaces_the_scenarios_own_and_only_stretches_time(name):
    scenario = scenario_named(name)
    slow = generate(scenario, 3000, 4, utilisation=0.2)
    fast = generate(scenario, 3000, 4, utilisation=0.8)
    assert np.allclose(slow.arrival_time, 4 * fast.arrival_time, rtol=1e-12)
    assert np.array_equal(slow.size, fast.size)


def test_poisson_gaps_are_exponential_and_the_first_task_waits_for_one():
    tasks = generate(scenario_named("mixed"), 50_000, 2)
    gaps = np.diff(tasks.arrival_time, prepend=0.0)
    assert gaps[0] > 0
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, rel=0.02)


def dispersion(arrival_time: np.ndarray, window_in_gaps: float) -> float:
    """Variance over mean of the number of arrivals in a window: 1 for a Poisson process."""
    window = window_in_gaps * arrival_time[-1] / len(arrival_time)
    counts = np.bincount((arrival_time / window).astype(int))[:-1]
    return float(counts.var() / counts.mean())


def test_bursty_arrivals_are_burstier_than_poisson():
    poisson = generate(scenario_named("mixed"), 100_000, 3).arrival_time
    bursty = generate(scenario_named("bursty"), 100_000, 3).arrival_time
    assert dispersion(poisson, 50) == pytest.approx(1.0, abs=0.1)
    assert dispersion(bursty, 50) > 10
    gaps = np.diff(bursty)
    assert gaps.std() / gaps.mean() > 1.3


def test_bursts_take_a_fifth_of_the_time_and_three_fifths_of_the_tasks():
    mean = BurstyArrivals.SHARE * BurstyArrivals.RATE + (1 - BurstyArrivals.SHARE) * BurstyArrivals.CALM_RATE
    assert mean == pytest.approx(1.0)
    tasks = generate(scenario_named("bursty"), 200_000, 8)
    per_gap = tasks.arrival_time * 200_000 / tasks.arrival_time[-1]
    counts = np.bincount((per_gap / 10).astype(int))  # ten mean gaps: 30 tasks in a burst, 5 in a calm
    assert np.mean(counts > 15) == pytest.approx(0.2, abs=0.03)
    assert counts[counts > 15].sum() / counts.sum() == pytest.approx(0.6, abs=0.05)


def test_bursts_may_start_with_a_burst_or_with_a_calm():
    scenario = scenario_named("bursty")
    mean_gap = 1 / (0.7 * mu(scenario))
    tenth = [generate(scenario, 10, seed).arrival_time[-1] / mean_gap for seed in range(200)]
    # Ten tasks take about 3.3 mean gaps in a burst and 20 in a calm.
    assert 0.1 < np.mean(np.array(tenth) < 8) < 0.35


def test_a_day_is_quiet_at_night_and_busy_at_noon():
    scenario = scenario_named("diurnal")
    tasks = generate(scenario, 100_000, 6)
    day = DiurnalArrivals.LENGTH / (scenario.utilisation * mu(scenario))
    hour = (tasks.arrival_time % day / day * 24).astype(int)
    counts = np.bincount(hour, minlength=24) / (100_000 / 24)
    assert counts[[23, 0]].mean() == pytest.approx(0.4, abs=0.05)
    assert counts[[11, 12]].mean() == pytest.approx(1.6, abs=0.05)
    assert counts[[5, 6]].mean() == pytest.approx(1.0, abs=0.05)


def test_a_wave_is_calm_then_a_rush_then_calm_and_lasts_a_minute():
    scenario = scenario_named("waves")
    tasks = generate(scenario, 100_000, 6)
    wave = WaveArrivals.LENGTH / (scenario.utilisation * mu(scenario))
    assert wave == pytest.approx(60, abs=1)
    part = (tasks.arrival_time % wave / wave * 50).astype(int)
    counts = np.bincount(part, minlength=50) / (100_000 / 50)
    assert counts[6:11] == pytest.approx([7.2] * 5, rel=0.05)
    assert [*counts[:6], *counts[11:]] == pytest.approx([140 / 450] * 45, rel=0.15)


def test_simple_schedulers_saturate_in_the_rush_and_catch_up_in_the_calm():
    scenario = scenario_named("waves")
    tasks = generate(scenario, 5000, 42)
    wave = WaveArrivals.LENGTH / (scenario.utilisation * mu(scenario))
    number, passed = np.divmod(tasks.arrival_time / wave, 1.0)
    before_rush, rush_end = (passed < 0.12) & (number > 0), (passed > 0.2) & (passed < 0.22)
    for name, saturated, caught_up in (("round_robin", 20, 12), ("random", 10, 1), ("greedy", 12, 1)):
        latency = Cluster().run(tasks, create(name), seed=42).outcomes.latency
        # The last of ten waves is no worse than the first: the queue does not grow over the run.
        for wave_number in (0, 8):
            assert latency[rush_end & (number == wave_number)].max() > saturated, name
        assert latency[before_rush].max() < caught_up, name
    means = {}
    for name in ("earliest_finish", "price_index"):
        latency = Cluster().run(tasks, create(name)).outcomes.latency
        assert latency.max() < 2, name
        means[name] = latency.mean()
    assert means["price_index"] < 0.95 * means["earliest_finish"]  # the rush tells references apart


def test_diurnal_arrivals_invert_the_cumulated_rate():
    points = np.linspace(0.0, 3.0 * DiurnalArrivals.LENGTH, 10_001)
    days = DiurnalArrivals()(points) / DiurnalArrivals.LENGTH
    mapped = days - DiurnalArrivals.SWING / (2 * np.pi) * np.sin(2 * np.pi * days)
    assert np.allclose(mapped * DiurnalArrivals.LENGTH, points, rtol=0, atol=1e-9)
    assert np.all(np.diff(days) > 0)
    whole = [0.0, DiurnalArrivals.LENGTH, 2 * DiurnalArrivals.LENGTH]
    assert np.allclose(DiurnalArrivals()(np.array(whole)), whole), "every whole day has its 2,000 tasks"


def test_all_tasks_of_a_batch_arrive_at_time_zero():
    for name in NAMES:
        assert np.all(generate(scenario_named(name), 100, 0, batch=True).arrival_time == 0.0)


# -------------------------------------------------------------------- shift


def test_shift_goes_from_its_train_tasks_to_500_test_tasks():
    tasks = generate(scenario_named("shift"), 2000, 3)
    assert len(tasks) == 2000
    before, after = slice(0, 1500), slice(1500, 2000)
    assert tasks.size[before].min() >= 1000
    assert tasks.compute_intensity[before].min() >= 0.6
    assert tasks.memory_required[before].max() <= 100
    assert tasks.size[after].max() <= 360
    assert tasks.compute_intensity[after].max() <= 0.1
    assert tasks.memory_required[after].min() >= 2000


def test_a_short_shift_has_half_of_each():
    assert np.count_nonzero(generate(scenario_named("shift"), 11, 0).size < 500) == 5


def test_the_load_stays_the_same_across_the_shift():
    train, test = shift_scenarios()
    shift = replace(scenario_named("shift"), then_tasks=50_000)
    tasks = generate(shift, 100_000, 3)
    border = tasks.arrival_time[49_999]
    assert 50_000 / border == pytest.approx(0.7 * mu(train), rel=0.02)
    assert 50_000 / (tasks.arrival_time[-1] - border) == pytest.approx(0.7 * mu(test), rel=0.02)
    assert mu(shift) == mu(train)


def test_shift_regimes_carry_the_serial_physics():
    assert [regime.physics for regime in shift_scenarios()] == ["serial", "serial"]
    assert isinstance(physics_named(shift_scenarios()[0].physics), SerialPhysics)


# -------------------------------------------------------------------- chunks and seeds


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("chunk", [1, 97, 1000, 5000])
def test_chunks_join_up_to_the_whole_bit_for_bit(name, chunk):
    scenario = scenario_named(name)
    number = 1100 if chunk > 1 else 120
    whole = generate(scenario, number, 13, first_id=70)
    parts = glued(stream(scenario, number, 13, chunk=chunk, first_id=70))
    for column in COLUMNS:
        assert parts[column].tobytes() == getattr(whole, column).tobytes(), column


@given(
    number=st.integers(1, 3000),
    chunk=st.integers(1, 3500),
    seed=st.integers(0, 2**63 - 1),
    name=st.sampled_from(["mixed", "lognormal", "bursty", "diurnal", "waves", "shift"]),
)
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
def test_chunks_join_up_for_any_cut(number, chunk, seed, name):
    scenario = scenario_named(name)
    if number / chunk > 200:
        chunk = number // 200 + 1
    whole = generate(scenario, number, seed)
    parts = glued(stream(scenario, number, seed, chunk=chunk))
    for column in COLUMNS:
        assert parts[column].tobytes() == getattr(whole, column).tobytes()


def test_bursts_join_up_over_many_cycles():
    scenario = scenario_named("bursty")
    whole = generate(scenario, 300_000, 1)
    assert (
        glued(stream(scenario, 300_000, 1, chunk=70_000))["arrival_time"].tobytes() == whole.arrival_time.tobytes()
    )


def test_a_longer_workload_begins_with_the_shorter_one():
    for name in ("default", "pareto", "bursty", "diurnal", "waves"):
        short, long = (generate(scenario_named(name), n, 21) for n in (200, 700))
        assert same_bits(short, long.rows(0, 200))


def test_profiled_physics_draws_all_kinds_equally_often():
    curves = tuple(Curve(kind, device, (64, 128), (1, 2)) for kind in ("fft", "sort") for device in ("cpu", "gpu"))
    physics = ProfiledPhysics((*curves, Curve("conv", "cpu", (64,), (1,))))  # conv was not measured on the GPU
    whole = generate(SCENARIOS["mixed"], 1000, 7, physics=physics)
    assert sorted(whole.kinds) == ["fft", "sort"]
    assert 450 < np.bincount(whole.kind)[0] < 550
    parts = list(stream(SCENARIOS["mixed"], 1000, 7, chunk=130, physics=physics))
    assert [t.kind for part in parts for t in part] == [t.kind for t in whole]
    plain = generate(SCENARIOS["mixed"], 1000, 7)
    assert np.array_equal(plain.size, whole.size)  # kinds have random numbers of their own
    with pytest.raises(InvalidInputError, match="a profile with a kernel measured on all of cpu, gpu"):
        generate(SCENARIOS["mixed"], 10, 7, physics=ProfiledPhysics((Curve("conv", "cpu", (64,), (1,)),)))


def test_the_seed_decides_everything():
    for name in NAMES:
        scenario = scenario_named(name)
        assert same_bits(generate(scenario, 300, 5), generate(scenario, 300, 5))
        one, other = generate(scenario, 300, 5), generate(scenario, 300, 6)
        for column in COLUMNS[1:]:
            assert not np.array_equal(getattr(one, column), getattr(other, column))


def test_global_random_state_is_neither_read_nor_changed():
    before = np.random.get_state(legacy=False)["state"]  # noqa: NPY002 - looking at it is the point
    generate(scenario_named("bursty"), 100, 0)
    after = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    assert np.array_equal(after["key"], before["key"])
    assert after["pos"] == before["pos"]


def test_ids_start_at_first_id():
    last = 2**63 - 1
    assert generate(scenario_named("mixed"), 3, 0, first_id=last - 2, batch=True).task_id[-1] == last


# -------------------------------------------------------------------- bad arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_tasks": 0}, "num_tasks: must be a whole number >= 1, got 0"),
        ({"num_tasks": 2.5}, "num_tasks: must be a whole number >= 1, got 2.5"),
        ({"num_tasks": True}, "num_tasks: must be a whole number >= 1, got True"),
        ({"seed": -1}, "seed: must be a whole number >= 0, got -1"),
        ({"seed": "7"}, "seed: must be a whole number >= 0, got '7'"),
        ({"utilisation": 0}, "utilisation: must be finite and > 0, got 0"),
        ({"utilisation": float("nan")}, "utilisation: must be finite and > 0, got nan"),
        ({"utilisation": 0.5, "batch": True}, "utilisation: must be left out of a batch"),
        ({"first_id": -1}, "first_id: must be a whole number >= 0, got -1"),
        ({"first_id": 2**63 - 4}, "first_id: must be a whole number from 0 to"),
    ],
)
@pytest.mark.parametrize("function", [generate, stream])
def test_bad_arguments_are_refused_at_once(function, arguments, message):
    given_arguments = {"num_tasks": 10, "seed": 0} | arguments
    with pytest.raises(InvalidInputError) as error:
        function(scenario_named("mixed"), **given_arguments)
    assert message in str(error.value)


def test_a_bad_chunk_is_refused():
    with pytest.raises(InvalidInputError, match=r"chunk: must be a whole number >= 1, got 0"):
        stream(scenario_named("mixed"), 10, 0, chunk=0)


def test_an_unknown_scenario_names_the_nearest():
    with pytest.raises(UnknownNameError) as error:
        scenario_named("burst")
    assert error.value.field == "scenario"
    assert error.value.nearest == "bursty"
    assert "one of bursty, default, diurnal" in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"intensity": (0.5, 1.5)}, "scenario.intensity: must be a pair low <= high of finite numbers in [0, 1]"),
        ({"intensity": (0.9, 0.1)}, "scenario.intensity"),
        ({"memory": (5, float("inf"))}, "scenario.memory: must be a pair low <= high of finite numbers in [0, inf"),
        ({"memory": "ab"}, "scenario.memory"),
        ({"memory": (1, 2, 3)}, "scenario.memory"),
        ({"size": Uniform(0.0, 5.0)}, "scenario.size: must be a distribution of values > 0"),
        ({"utilisation": -0.1}, "scenario.utilisation: must be finite and > 0, got -0.1"),
        ({"arrivals": "poison"}, "scenario.arrivals: must be one of bursty, diurnal, poisson, waves, got 'poison'"),
        ({"physics": "serail"}, "scenario.physics: must be one of"),
        ({"then_tasks": 0}, "scenario.then_tasks: must be a whole number >= 1, got 0"),
        ({"episode_length": 0}, "scenario.episode_length: must be a whole number >= 1, got 0"),
    ],
)
def test_impossible_scenarios_are_refused(change, message):
    with pytest.raises(InvalidInputError) as error:
        replace(scenario_named("mixed"), **change)
    assert message in str(error.value)


def test_kinds_are_drawn_in_equal_parts_and_kept_in_json():
    scenario = replace(scenario_named("mixed"), kinds=("matmul", "sort"))
    workload = generate(scenario, 2000, 1, batch=True)
    assert sorted(workload.kinds) == ["matmul", "sort"]
    assert 900 < (workload.kind == 0).sum() < 1100
    plain = generate(scenario_named("mixed"), 2000, 1, batch=True)
    assert (workload.size == plain.size).all()  # a column of its own: nothing else changes
    assert scenario_from_json(scenario_to_json(scenario)) == scenario
    assert "kinds" not in scenario_to_json(scenario_named("mixed"))
    source = EndlessSource(scenario, 1, workstation(), AnalyticPhysics())
    live = source.next_tasks(0, 2000)
    assert [task.kind for task in live] == [task.kind for task in workload]
    source.take(700)
    again = EndlessSource(scenario, 1, workstation(), AnalyticPhysics())
    again.restore(source.state())
    assert [task.kind for task in again.next_tasks(700, 1300)] == [task.kind for task in workload][700:]
