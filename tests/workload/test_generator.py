"""The generator: ranges by hand, statistics, tables and files of the last workload."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from hybrid_scheduler.core import InvalidInputError, UnknownNameError, platform_named, workstation
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.workload import (
    OverloadWarning,
    Scenario,
    Uniform,
    WorkloadGenerator,
    capacity_of,
    generate,
    layered,
    save_workload,
    scenario_named,
)

COLUMNS = ("task_id", "size", "compute_intensity", "memory_required", "arrival_time")


def capacity_of_the_defaults() -> float:
    ranges = Scenario("", "", Uniform(100.0, 5000.0), (0.1, 1.0), (10.0, 500.0))
    return capacity_of(ranges, workstation(), AnalyticPhysics())


def test_default_ranges_and_ids():
    tasks = WorkloadGenerator(1).generate_workload(20_000, arrival_rate=5.0)
    assert np.array_equal(tasks.task_id, np.arange(20_000))
    for column, low, high in (
        (tasks.size, 100, 5000),
        (tasks.compute_intensity, 0.1, 1.0),
        (tasks.memory_required, 10, 500),
    ):
        assert low <= column.min() <= column.max() <= high
        assert column.mean() == pytest.approx((low + high) / 2, rel=0.02)


def test_arrivals_are_poisson_at_the_rate_given():
    tasks = WorkloadGenerator(2).generate_workload(50_000, arrival_rate=8.0)
    gaps = np.diff(tasks.arrival_time, prepend=0.0)
    assert gaps[0] > 0
    assert gaps.mean() == pytest.approx(1 / 8.0, rel=0.02)
    assert gaps.std() == pytest.approx(1 / 8.0, rel=0.03)


def test_same_seed_gives_the_same_workload_every_time():
    generator = WorkloadGenerator(3)
    first, again = (generator.generate_workload(500, utilisation=0.5) for _ in range(2))
    fresh = WorkloadGenerator(3).generate_workload(500, utilisation=0.5)
    other = WorkloadGenerator(4).generate_workload(500, utilisation=0.5)
    for name in COLUMNS:
        assert getattr(first, name).tobytes() == getattr(again, name).tobytes()
        assert getattr(first, name).tobytes() == getattr(fresh, name).tobytes()
    assert not np.array_equal(first.size, other.size)


def test_the_ranges_of_a_scenario_give_the_tasks_of_that_scenario():
    by_hand = WorkloadGenerator(5).generate_workload(300, (100, 5000), (0, 1), (10, 500), utilisation=0.7)
    by_name = generate(scenario_named("mixed"), 300, 5)
    for name in COLUMNS:
        assert getattr(by_hand, name).tobytes() == getattr(by_name, name).tobytes()


def test_utilisation_is_a_share_of_the_capacity():
    tasks = WorkloadGenerator(6).generate_workload(100_000, utilisation=0.4)
    assert 100_000 / tasks.arrival_time[-1] == pytest.approx(0.4 * capacity_of_the_defaults(), rel=0.02)


def test_utilisation_follows_the_platform():
    here = WorkloadGenerator(6).generate_workload(100, utilisation=0.4)
    there = WorkloadGenerator(6).generate_workload(100, utilisation=0.4, platform=platform_named("cluster-16"))
    assert np.allclose(here.arrival_time, 16 * there.arrival_time, rtol=1e-6)


@pytest.mark.parametrize("distribution", ["lognormal", "pareto"])
def test_skewed_sizes_stay_in_their_range(distribution):
    tasks = WorkloadGenerator(7).generate_workload(20_000, (200, 8000), utilisation=0.5, distribution=distribution)
    assert 200 <= tasks.size.min() <= tasks.size.max() <= 8000
    assert tasks.size.mean() > 1.1 * np.median(tasks.size)


@pytest.mark.parametrize("arguments", [{"arrival_rate": 100.0}, {"utilisation": 1.01}])
def test_too_much_load_warns_and_still_generates(arguments):
    with pytest.warns(OverloadWarning, match=r"tasks/s arrive but the platform can do 1\d\.\d+ tasks/s") as caught:
        tasks = WorkloadGenerator(8).generate_workload(50, **arguments)
    assert len(tasks) == 50
    assert caught[0].filename == __file__, "the warning points at the caller"


def test_bearable_load_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        WorkloadGenerator(8).generate_workload(50, utilisation=1.0)
        WorkloadGenerator(8).generate_workload(50, arrival_rate=0.99 * capacity_of_the_defaults())


def test_statistics_describe_the_last_workload():
    generator = WorkloadGenerator(9)
    generator.generate_workload(10, utilisation=0.5)
    tasks = generator.generate_workload(1000, utilisation=0.5)
    statistics = generator.get_statistics()
    assert statistics["num_tasks"] == 1000
    assert statistics["avg_size"] == tasks.size.mean()
    assert statistics["min_size"] == tasks.size.min()
    assert statistics["max_size"] == tasks.size.max()
    assert statistics["avg_intensity"] == tasks.compute_intensity.mean()
    assert statistics["min_memory"] == tasks.memory_required.min()
    assert statistics["avg_memory"] == tasks.memory_required.mean()
    assert statistics["total_duration_estimate"] == tasks.duration_estimate.sum()
    assert statistics["avg_duration_estimate"] == pytest.approx(tasks.duration_estimate.mean())
    assert statistics["arrival_rate"] == pytest.approx(1000 / tasks.arrival_time[-1])


def test_the_table_has_a_row_per_task():
    generator = WorkloadGenerator(10)
    tasks = generator.generate_workload(20, utilisation=0.5)
    table = generator.to_dataframe()
    assert list(table.columns) == [*COLUMNS, "kind", "duration_estimate", "task_size"]
    assert np.array_equal(table["size"], tasks.size)
    assert set(table["kind"]) == {"generic"}
    assert np.array_equal(table["duration_estimate"], tasks.duration_estimate)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_saving_and_loading_remembers_the_loaded_workload(tmp_path, suffix):
    generator = WorkloadGenerator(11)
    tasks = generator.generate_workload(50, utilisation=0.5)
    generator.save_workload(tmp_path / f"trace{suffix}")
    reader = WorkloadGenerator()
    loaded = reader.load(tmp_path / f"trace{suffix}")
    for name in COLUMNS:
        assert getattr(loaded, name).tobytes() == getattr(tasks, name).tobytes()
    assert reader.get_statistics() == generator.get_statistics()


def test_the_table_of_a_loaded_graph_shows_its_dependencies(tmp_path):
    graph = layered(30, 5, 1)
    save_workload(graph, tmp_path / "graph.csv")
    generator = WorkloadGenerator()
    generator.load(tmp_path / "graph.csv")
    table = generator.to_dataframe()
    assert table["dependencies"].tolist() == [list(task.dependencies) for task in graph]
    assert np.isnan(generator.get_statistics()["arrival_rate"]), "a batch has no rate"


@pytest.mark.parametrize("method", ["get_statistics", "to_dataframe"])
def test_there_must_be_a_workload_first(method):
    with pytest.raises(InvalidInputError, match="workload: must be generated or loaded first") as error:
        getattr(WorkloadGenerator(), method)()
    assert "generate_workload" in error.value.hint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_tasks": 0}, "num_tasks: must be a whole number >= 1, got 0"),
        ({"num_tasks": -3}, "num_tasks: must be a whole number >= 1, got -3"),
        ({"num_tasks": 1.0}, "num_tasks: must be a whole number >= 1, got 1.0"),
        (
            {"task_size_range": (500, 100)},
            "task_size_range: must be a pair low <= high of finite numbers in (0, inf",
        ),
        ({"task_size_range": (0, 100)}, "task_size_range"),
        ({"task_size_range": (1, float("inf"))}, "task_size_range"),
        ({"task_size_range": (float("nan"), 5)}, "task_size_range"),
        ({"task_size_range": 5}, "task_size_range"),
        ({"task_size_range": ("1", "5")}, "task_size_range"),
        ({"compute_intensity_range": (0.1, 1.1)}, "compute_intensity_range: must be a pair low <= high"),
        ({"compute_intensity_range": (-0.1, 1.0)}, "numbers in [0, 1], got (-0.1, 1.0)"),
        ({"memory_range": (-1, 5)}, "memory_range: must be a pair low <= high of finite numbers in [0, infinity)"),
        ({"memory_range": (9, 5)}, "got (9, 5)"),
        ({"arrival_rate": 0}, "arrival_rate: must be finite and > 0, got 0"),
        ({"arrival_rate": -5}, "arrival_rate: must be finite and > 0, got -5"),
        ({"arrival_rate": float("inf")}, "arrival_rate: must be finite and > 0, got inf"),
        ({"utilisation": 0.0}, "utilisation: must be finite and > 0, got 0.0"),
        ({"utilisation": "high"}, "utilisation: must be finite and > 0, got 'high'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(InvalidInputError) as error:
        WorkloadGenerator().generate_workload(**({"num_tasks": 10, "arrival_rate": 1.0} | arguments))
    assert message in str(error.value)


def test_an_unknown_distribution_names_the_nearest():
    with pytest.raises(UnknownNameError, match="distribution: must be one of lognormal, pareto, uniform") as error:
        WorkloadGenerator().generate_workload(10, arrival_rate=1.0, distribution="log-normal")
    assert error.value.hint == "did you mean 'lognormal'?"


def test_a_bad_seed_is_refused():
    with pytest.raises(InvalidInputError, match="seed: must be a whole number >= 0, got -1"):
        WorkloadGenerator(-1)
