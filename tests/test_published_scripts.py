"""The six scripts of the published guide, whole: only the import line is this package's own."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from hybrid_scheduler import OfflineTrainer, OnlineScheduler, RandomForestPredictor, WorkloadGenerator
from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.learning.agent.model_file import AgentModel
from hybrid_scheduler.learning.model_files import ModelFileError, save_safetensors
from hybrid_scheduler.profiling import load_profile, profiler
from hybrid_scheduler.profiling.timing import RepetitionLimits

SCRIPTS = Path(__file__).parent / "published_scripts"
TRACE, MODEL = Path("data/workload_traces/training_workload.csv"), Path("models/scheduler_model.pkl")
#: The published rate of 100 tasks per second is more than the machine can run.
OVERLOADED = pytest.mark.filterwarnings("ignore:.*tasks/s arrive but")


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty project with the folders of the guide's first step."""
    monkeypatch.chdir(tmp_path)
    for folder in ("data/workload_traces", "data/profiles", "data/results", "models"):
        Path(folder).mkdir(parents=True)


@pytest.fixture
def trace() -> Any:
    generator = WorkloadGenerator(seed=42)
    workload = generator.generate_workload(num_tasks=300, utilisation=0.5)
    generator.save_workload(TRACE)
    return workload


def run(script: str) -> dict[str, Any]:
    return runpy.run_path(str(SCRIPTS / f"{script}.py"))


def test_profiling_script(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    short = RepetitionLimits(precision=0.5, seconds=0.01, warmup_runs=1, warmup_seconds=0.0)
    monkeypatch.setattr(profiler, "RepetitionLimits", lambda: short)
    monkeypatch.setattr(profiler, "COPY_BYTES", 2**20)
    monkeypatch.setattr(profiler, "find_gpu", _no_gpu)
    with pytest.warns(UserWarning, match="this machine has no mps device"):
        run("profiling")
    assert load_profile("data/profiles/hardware_profile.json").points
    shown = capsys.readouterr().out.splitlines()
    assert shown == ["time on the CPU over time on the GPU: nan", "share of the GPU: 0.0%"]


def _no_gpu(kind: str) -> None:
    raise InvalidInputError("device_type", "an accelerator of this machine", kind)


@OVERLOADED
def test_workload_script(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("workload")
    assert len(names["tasks"]) == len(WorkloadGenerator.load(TRACE)) == 10_000
    assert "tasks: 10000" in capsys.readouterr().out


def test_model_script(trace: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(UserWarning, match=r"scheduler_model.pkl is a skops archive, no pickle"):
        names = run("model")
    assert set(names["importances"]) == {"task_size", "compute_intensity", "memory_required"}
    assert max(names["importances"], key=names["importances"].get) == "task_size"
    assert RandomForestPredictor.load(MODEL).feature_importance() == names["importances"]
    assert names["results"]["test_r2"] > 0.8


def test_trainer_script(trace: Any) -> None:
    with pytest.warns(UserWarning, match="is a skops archive"):
        names = run("trainer")
    assert sum(names["results"]["feature_importances"].values()) == pytest.approx(1)
    assert MODEL.exists()


@OVERLOADED
@pytest.mark.parametrize("writer", ["model", "trainer"])
@pytest.mark.filterwarnings("ignore:.*skops archive")
def test_scheduling_script_runs_with_the_model_of_either_script(
    writer: str, trace: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run(writer)
    names = run("scheduling")
    assert len(names["decisions"]) == 1000
    shown = capsys.readouterr().out
    assert "decisions: 1000" in shown
    assert shown.count("  gpu_") == 4


@OVERLOADED
def test_baselines_script(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("baselines")
    assert {"round_robin", "random", "greedy"} <= set(names["baselines"])
    assert all(row["max_time"] >= row["avg_time"] > 0 for row in names["baselines"].values())


@pytest.mark.filterwarnings("ignore:.*skops archive")
def test_path_of_a_model_drives_the_online_scheduler_whatever_its_suffix(trace: Any) -> None:
    OfflineTrainer("random_forest", n_estimators=10).run_full_pipeline(trace, MODEL)
    queue = OnlineScheduler(str(MODEL), num_gpus=2)
    for task in trace:
        queue.submit_task(task)
    assert len(queue.process_queue()) == len(trace)
    with pytest.raises(ModelFileError, match=r"missing\.pkl"):
        OnlineScheduler("missing.pkl")


def test_model_that_predicts_no_durations_is_refused(trace: Any) -> None:
    frame = trace.to_dataframe()
    model = RandomForestPredictor(n_estimators=10)
    model.fit(frame[["task_size", "compute_intensity"]], frame["duration_estimate"])
    with pytest.raises(ModelFileError, match="does not predict durations"):
        OnlineScheduler(model=model)


def test_agent_in_a_file_named_after_torch_gets_a_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"a.pth is a safetensors file, no file of torch"):
        save_safetensors(Path("a.pth"), {}, {})
    assert AgentModel.save_model.__doc__
