"""`pipeline` as a program: interrupted, resumed, repeated; and what it refuses before it writes anything."""

import contextlib
import csv
import json
import signal
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Program = Callable[..., Any]

ARTEFACTS = {
    "data/profiles/hardware_profile.json",
    "data/workload_traces/workload_train.csv",
    "data/workload_traces/workload_test.csv",
    "models/scheduler_model.skops",
    "models/scheduler_model.json",
    "models/random_forest.skops",
    "models/random_forest.json",
    "models/feature_importances.json",
    "models/training_report.json",
    "models/rl_agent.safetensors",
    "data/results/scheduling_results.csv",
    "data/results/scheduling_metrics.json",
    "data/results/performance_analysis.png",
    "data/results/performance_summary.csv",
}
COLUMNS = ["task_id", "scheduler", "device", "gpu_fraction", "predicted_time", "actual_time", "energy", "cost"]
SCHEDULERS = {
    "cpu_only", "gpu_only", "round_robin", "random", "greedy", "earliest_finish", "oracle", "hybrid_ml", "rl_agent",
}  # fmt: skip
TRACE = """\
task_id,size,compute_intensity,memory_required,arrival_time
0,2500,0.5,160,0.0
1,2500,0.5,160,0.0
2,900,0.1,1600,0.1
"""


def refuse(word: str) -> Any:
    raise AssertionError(f"{word} is not JSON")


def files(folder: Path) -> set[str]:
    """All files but those of the log and the hidden folder."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in found if path.parts[0] not in ("logs", ".pipeline")}


def states(talk: str) -> list[bool]:
    """Of each phase's line whether the phase was skipped."""
    lines = [line for line in talk.splitlines() if line[1:3] == "/5"]
    return ["nothing it depends on has changed" in line for line in lines]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for a single child there")
def test_interrupted_pipeline_resumes(program: Program, run: Run, tmp_path: Path) -> None:
    """Interrupted as a program, then resumed in this process, which has loaded the libraries already."""
    arguments = ("pipeline", "--quick", "--seed", "7", "--out", "here")
    here = tmp_path / "here"

    process = program(*arguments)
    lines = [process.stderr.readline() for _ in range(2)]
    assert lines[1].startswith("2/5 generate")
    process.send_signal(signal.SIGINT)
    output, talk = process.communicate(timeout=120)
    assert (process.returncode, output) == (130, "")
    assert "2/5 generate" in Path("logs/app.log").read_text(encoding="utf-8")
    assert talk == "interrupted: finished phases are kept; run the command again to continue\n"
    # Only whole files of finished phases are there.
    assert files(here) == {name for name in ARTEFACTS if "profiles" in name or "workload_traces" in name}

    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    assert states(done.stderr) == [True, True, False, False, False]
    assert files(here) == ARTEFACTS
    document = json.loads(done.stdout, parse_constant=refuse)
    assert (document["seed"], document["quick"], document["trace"]) == (7, True, None)
    assert [phase["name"] for phase in document["phases"]] == [
        "profile",
        "generate",
        "train",
        "schedule",
        "evaluate",
    ]
    assert set(document["schedulers"]) == SCHEDULERS
    check_artefacts(here, document)

    done = run(*arguments)
    assert done.exit_code == 0, done.stderr
    assert states(done.stderr) == [True] * 5
    assert "● Hybrid ML" in done.stdout
    assert "figure: here/data/results/performance_analysis.png" in done.stdout

    # Other tasks: the profile stays, and so does nothing of what follows from the tasks.
    (tmp_path / "three.csv").write_text(TRACE, encoding="utf-8")
    done = run(*arguments, "--trace", "three.csv", "--json")
    assert done.exit_code == 0, done.stderr
    assert states(done.stderr) == [True, False, False, False, False]
    assert json.loads(done.stdout, parse_constant=refuse)["trace"] == "three.csv"
    with (here / "data/results/scheduling_results.csv").open(encoding="utf-8") as file:
        assert {row["task_id"] for row in csv.DictReader(file)} == {"0", "1", "2"}


def check_artefacts(folder: Path, document: dict[str, Any]) -> None:
    with (folder / "data/results/scheduling_results.csv").open(encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
        assert reader.fieldnames == COLUMNS
    assert len(rows) == 500 * len(SCHEDULERS)
    assert {row["scheduler"] for row in rows} == SCHEDULERS
    assert all(0 <= float(row["gpu_fraction"]) <= 1 and float(row["actual_time"]) > 0 for row in rows)
    assert all(row["predicted_time"] for row in rows if row["scheduler"] == "hybrid_ml")

    with (folder / "data/results/performance_summary.csv").open(encoding="utf-8") as file:
        summary = {row["scheduler"]: row for row in csv.DictReader(file)}
    assert float(summary["cpu_only"]["speed_up_over_cpu_only"]) == 1
    for name, row in summary.items():
        assert float(row["makespan"]) == document["schedulers"][name]["makespan"]
        assert float(row["makespan"]) >= document["lower_bound"]["makespan"]
    assert float(summary["hybrid_ml"]["makespan"]) < float(summary["greedy"]["makespan"])

    importances = json.loads((folder / "models/feature_importances.json").read_text(encoding="utf-8"))
    assert sum(importances.values()) == pytest.approx(1)
    assert document["training"]["random_forest"]["test_r2"] > 0.9
    picture = (folder / "data/results/performance_analysis.png").read_bytes()
    assert struct.unpack(">II", picture[16:24]) == (3240, 2550)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("--seed x", "error: --seed: must be a whole number"),
        ("--trace no.csv", "error: --trace: must be a file, or the name of a trace"),
        ("--trace bad.csv", "error: bad.csv, line 2: compute_intensity"),
        ("--trace empty.csv", "error: empty.csv"),
        ("--out file", "error: --out: must be a folder, got 'file'"),
        ("--out file/below", "error: --out: must be a folder that can be written"),
        ("--sede 3", "error: no such option: --sede"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(arguments: str, line: str, run: Run, tmp_path: Path) -> None:
    header = "task_id,size,compute_intensity,memory_required,arrival_time\n"
    Path("bad.csv").write_text(header + "0,100,1.5,9,0\n", encoding="utf-8")
    Path("empty.csv").write_text(header, encoding="utf-8")
    Path("file").touch()
    result = run("pipeline", "--quick", *arguments.split())
    assert result.exit_code == 2
    assert result.stdout == ""
    said = result.stderr.splitlines()
    assert said[0].startswith(line), said
    assert all(other.startswith("hint:") for other in said[1:])
    assert files(tmp_path) == {"bad.csv", "empty.csv", "file"}
    assert not (tmp_path / ".pipeline").exists()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [("simulation: {num_gpus: 0}", "one with a GPU"), ("physics: {name: serial}", "run at once on a cluster")],
)
def test_unusable_machine_is_refused(settings: str, reason: str, run: Run, tmp_path: Path) -> None:
    Path("config.yaml").write_text(settings, encoding="utf-8")
    result = run("pipeline", "--quick")
    assert result.exit_code == 2
    assert reason in result.stderr
    assert files(tmp_path) == {"config.yaml"}


def test_train_refuses_bad_options(run: Run, tmp_path: Path) -> None:
    for arguments, line in {
        "--seed 1000": "error: --seed: must be a whole number from 0 to 999, got '1000'",
        "--minutes 0": "error: --minutes: must be a finite number > 0, got 0.0",
        "--release --out m": "error: --out: must be left out with --release, got 'm'",
    }.items():
        result = run("train", *arguments.split())
        assert result.exit_code == 2
        assert result.stderr.splitlines()[0] == line
    assert files(tmp_path) == set()


def test_train_writes_both_models(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from hybrid_scheduler.learning import offline_trainer
    from hybrid_scheduler.learning.agent.model_file import load_model
    from hybrid_scheduler.learning.predictors import load_durations

    whole = offline_trainer.train_default_duration_model
    monkeypatch.setattr(
        offline_trainer, "train_default_duration_model", lambda path, seed: whole(path, seed, num_tasks=300)
    )
    result = run("train", "--out", "m", "--seed", "3", "--minutes", "1e-9", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout, parse_constant=refuse)
    assert document["seed"] == 3
    assert document["forest"]["test_r2"] > 0.9
    load_durations(Path("m/scheduler_model.skops"))
    assert load_model(Path("m/rl_agent.safetensors")).notes == {"seed": 3, "cells": 4}


def history_database(path: Path, tasks: int) -> None:
    """Write a database with finished tasks of a run on the workstation."""
    from hybrid_scheduler import AnalyticPhysics, workstation
    from hybrid_scheduler.storage import DatabaseAddress
    from hybrid_scheduler.storage.schema_version import upgrade
    from hybrid_scheduler.workload.scenarios import generate, scenario_named

    upgrade(DatabaseAddress.sqlite(path))
    work = generate(scenario_named("mixed"), max(tasks, 1), 3)
    cpu, gpu = AnalyticPhysics().times(work, workstation())[:, :, 0].T
    best = cpu / (cpu + gpu)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(
            "INSERT INTO runs VALUES ('r', 0, 1, 'stopped', 'simulated', 'mixed', 0.5, 1, 'workstation', '[]', "
            "'{}', 'h', ?, NULL, '[]', '{}')",
            (tasks,),
        )
        for row in range(tasks):
            about = (float(work.size[row]), float(work.compute_intensity[row]), float(work.memory_required[row]))
            database.execute(
                "INSERT INTO tasks VALUES (?, 'r', ?, NULL, ?, ?, ?, 0, '[]', 'generic', 0, 1)",
                (row + 1, row, *about),
            )
            if row % 2:
                share = float(best[row])
                database.execute(
                    "INSERT INTO training_data VALUES (?, ?, ?, ?, ?, ?)",
                    (row + 1, *about, share, share * float(gpu[row])),
                )
            on_gpu = row % 3 > 0
            database.execute(
                "INSERT INTO scheduler_results (id, task_id, run_id, scheduler_name, device, gpu_fraction, "
                "actual_time, cpu_time, gpu_time, status) VALUES (?, ?, 'r', 'greedy', ?, ?, ?, ?, ?, 'ran')",
                (row + 1, row + 1, "gpu_0" if on_gpu else "cpu", float(on_gpu), 1.0,
                 0.0 if on_gpu else float(cpu[row]), float(gpu[row]) if on_gpu else 0.0),
            )  # fmt: skip
        database.commit()


def test_train_from_history_makes_a_model_that_drives_hybrid_ml(run: Run) -> None:
    from hybrid_scheduler import Cluster, create, workstation
    from hybrid_scheduler.workload.scenarios import generate, scenario_named

    history_database(Path("x.db"), 300)
    result = run("train", "--from-history", "sqlite:///x.db", "--out", "m")
    assert result.exit_code == 0, result.output
    assert "150 rows of training_data" in result.output
    assert "300 rows of scheduler_results" in result.output
    assert "rms log error cpu 0." in result.output
    assert (
        'use it: hybrid-scheduler simulate --schedulers "hybrid_ml(model=m/scheduler_model.skops)' in result.output
    )
    work = generate(scenario_named("mixed"), 300, 2000, platform=workstation(), utilisation=0.6)
    known = Cluster().run(work, create("price_index")).outcomes.latency.mean()
    own = Cluster().run(work, create("hybrid_ml(model=m/scheduler_model.skops)")).outcomes.latency.mean()
    assert own < 1.15 * known


def test_train_from_history_without_finished_tasks_is_refused(run: Run) -> None:
    history_database(Path("x.db"), 0)
    for arguments, line in (
        (
            ("--from-history", "sqlite:///x.db"),
            "error: history: must be a database with finished tasks, got 'none'",
        ),
        (("sqlite:///x.db",), "error: DATABASE_URL: must be left out without --from-history, got 'sqlite:///x.db'"),
        (
            ("--from-history", "--release"),
            "error: --release: must be left out with --from-history, got '--release'",
        ),
    ):
        result = run("train", *arguments)
        assert result.exit_code == 2
        assert result.stderr.splitlines()[0] == line
    assert not Path("models").exists()


WITHOUT_TORCH = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(name + " is blocked", name=name)

sys.meta_path.insert(0, Blocker())
from hybrid_scheduler.cli.app import app
from hybrid_scheduler.experiments import pipeline
pipeline.QUICK = pipeline.PipelineSize((16, 32), 60.0, 100, 60, pipeline.TrainingBudget(1, 4, 2))
app(["pipeline", "--quick", "--out", "here"])
"""


@pytest.mark.slow
def test_pipeline_runs_without_torch_and_says_what_is_missing(tmp_path: Path) -> None:
    code = [sys.executable, "-c", WITHOUT_TORCH]
    done = subprocess.run(code, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "the CPU alone is measured, with NumPy" in done.stderr
    assert "pip install 'hybrid-scheduler[gpu]'" in done.stderr
    assert files(tmp_path / "here") == ARTEFACTS
    profile = json.loads((tmp_path / "here/data/profiles/hardware_profile.json").read_text(encoding="utf-8"))
    assert profile["machine"]["torch"].startswith("not installed")
    assert {point["size"] for point in profile["points"]} == {16, 32}
