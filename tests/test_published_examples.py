"""Python as the published descriptions write it: each line works, or a message says what to write instead."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybrid_scheduler import (
    Decision,
    InvalidInputError,
    OfflineTrainer,
    Online,
    Task,
    View,
    Workload,
    WorkloadGenerator,
    compare,
    workstation,
)
from hybrid_scheduler.cluster import Cluster
from hybrid_scheduler.profiling import profile_named
from hybrid_scheduler.reports.figures import draw


@pytest.fixture
def generator() -> WorkloadGenerator:
    generator = WorkloadGenerator(seed=42)
    generator.generate_workload(num_tasks=120, utilisation=0.5)
    return generator


def test_workload_is_loaded_on_the_class_and_on_an_instance(generator: WorkloadGenerator, tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv"
    generator.save_workload(path)
    assert list(WorkloadGenerator.load(path)) == list(generator.workload)
    other = WorkloadGenerator()
    other.load(path)
    assert other.get_statistics() == generator.get_statistics()


def test_trainer_takes_a_generator_or_a_workload(generator: WorkloadGenerator, tmp_path: Path) -> None:
    trainer = OfflineTrainer(model_type="random_forest")
    found = trainer.run_full_pipeline(generator)
    assert set(found) == {"feature_importances", "metrics"}
    assert trainer.run_full_pipeline(generator.workload, tmp_path / "model.skops")["metrics"] == found["metrics"]
    with pytest.raises(InvalidInputError, match="generated or loaded first"):
        OfflineTrainer().run_full_pipeline(WorkloadGenerator())


def test_profile_is_read_by_name() -> None:
    profile = profile_named("h200")
    ratio = profile["cpu_gpu_ratio"]
    assert ratio is not None
    assert profile["gpu_fraction"] == pytest.approx(ratio / (1 + ratio))
    with pytest.raises(InvalidInputError, match="profile: must be one of"):
        profile["cpu_gpu"]


def test_data_frame_has_the_published_column_and_becomes_a_workload(generator: WorkloadGenerator) -> None:
    frame = generator.to_dataframe()
    assert (frame["task_size"] == frame["size"]).all()
    assert list(Workload.from_pandas(frame)) == list(generator.workload)
    bare = frame[["task_size", "compute_intensity", "memory_required"]]
    assert Workload.from_pandas(bare).arrival_time.tolist() == [0.0] * len(frame)
    with pytest.raises(InvalidInputError, match="columns size, memory_required: must be present"):
        Workload.from_pandas(frame[["compute_intensity"]])
    by_frame, by_workload = (compare(one, ["greedy"]).summaries for one in (frame, generator.workload))
    assert by_frame["greedy"].latency == by_workload["greedy"].latency


class _Int(Online):
    def decide(self, task: Task, view: View) -> Any:
        return 1


def test_scheduler_that_returns_a_number_gets_a_message_with_the_right_type(generator: WorkloadGenerator) -> None:
    with pytest.raises(InvalidInputError, match="decision of _Int: decision: must be a Decision, got 1") as error:
        Cluster(workstation(1)).run(generator.workload, _Int())
    assert "Decision(1, 1.0)" in str(error.value.hint)
    assert Decision(1, 1.0).device == 1


def test_workload_and_comparison_introduce_themselves(generator: WorkloadGenerator) -> None:
    workload = generator.workload
    assert repr(workload).startswith("<Workload of 120 tasks, arrivals over ")
    assert "<th>compute intensity</th>" in workload._repr_html_()
    result = compare(workload, ["greedy", "oracle"])
    assert repr(result) == "<Comparison of greedy, oracle on 120 tasks, workstation>"
    assert "<th>oracle</th>" in result._repr_html_()


@pytest.mark.parametrize("name", ["race", "gantt", "cdf"])
def test_comparison_draws_its_figures(generator: WorkloadGenerator, name: str) -> None:
    result = compare(generator.workload, ["greedy", "oracle"])
    figure = getattr(result.plot, name)()
    assert figure.axes
    assert all(np.isfinite(axes.get_xlim()).all() for axes in figure.axes)


def test_draw_takes_a_comparison(generator: WorkloadGenerator) -> None:
    result = compare(generator.workload, ["greedy", "oracle"])
    assert draw("latency_cdf", result).axes
    assert draw("makespan", result).axes
