"""`--out`: all files or none."""

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from hybrid_scheduler import HybridSchedulerError, WorkloadGenerator, compare
from hybrid_scheduler.cli import result_files
from hybrid_scheduler.engine import Comparison

Run = Callable[..., Any]

COLUMNS = [
    "task_id", "device", "gpu_fraction", "arrival", "start", "finish", "time", "latency", "wait", "energy", "cost",
    "status",
]  # fmt: skip


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare(WorkloadGenerator(1).generate_workload(20, arrival_rate=1.0), ["greedy"])


def document(comparison: Comparison) -> dict[str, Any]:
    return comparison.as_dict()


def everything() -> set[str]:
    return {str(path) for path in Path().rglob("*") if "logs" not in path.parts}


def test_out_writes_summary_and_tasks(run: Run) -> None:
    specs = "greedy,round_robin(variant=half)"
    result = run("simulate", "--json", "--tasks", "30", "--schedulers", specs, "--out", "a/b")
    assert result.exit_code == 0, result.output
    folder = Path("a/b")
    assert {path.name for path in folder.iterdir()} == {
        "summary.json",
        "summary.csv",
        "run.json",
        "events.jsonl",
        "tasks-greedy.parquet",
        "tasks-round_robin-variant=half.parquet",
    }
    assert (folder / "summary.json").read_text(encoding="utf-8") == result.stdout
    summaries = json.loads(result.stdout)["schedulers"]
    with (folder / "summary.csv").open(encoding="utf-8") as file:
        rows = {row["scheduler"]: row for row in csv.DictReader(file)}
    assert list(rows) == list(summaries)
    assert float(rows["greedy"]["mean_latency"]) == summaries["greedy"]["mean_latency"]
    tasks = parquet.read_table(folder / "tasks-greedy.parquet").to_pydict()
    assert list(tasks) == COLUMNS
    assert tasks["task_id"] == list(range(30))
    assert set(tasks["device"]) <= {"cpu", "gpu_0", "gpu_1", "gpu_2", "gpu_3"}
    assert set(tasks["status"]) == {"ran"}
    assert sum(tasks["latency"]) / 30 == pytest.approx(summaries["greedy"]["mean_latency"])


def test_failed_task_has_empty_times(run: Run) -> None:
    run(
        "simulate",
        "--tasks",
        "30",
        "--scenario",
        "oom",
        "--memory-policy",
        "fail",
        "--schedulers",
        "greedy",
        "--out",
        "r",
    )
    tasks = parquet.read_table("r/tasks-greedy.parquet").to_pydict()
    failed = [row for row, status in enumerate(tasks["status"]) if status == "failed"]
    assert failed
    assert all(tasks["finish"][row] is None for row in failed)


def test_folder_is_replaced_only_with_force(run: Run) -> None:
    arguments = ("simulate", "--tasks", "10", "--schedulers", "greedy", "--out", "r")
    assert run(*arguments).exit_code == 0
    again = run(*arguments)
    assert again.exit_code == 2
    assert again.stderr.splitlines() == [
        "error: --out: must be a new or empty folder, got 'r'",
        "hint: --force replaces its results",
    ]
    forced = run("simulate", "--tasks", "10", "--schedulers", "random", "--out", "r", "--force")
    assert forced.exit_code == 0
    names = {"summary.json", "summary.csv", "tasks-random.parquet", "run.json", "events.jsonl"}
    assert everything() == {"r", *(f"r/{name}" for name in names)}


@pytest.mark.parametrize("extra", [(), ("--force",)])
def test_folder_with_other_files_is_refused(extra: tuple[str, ...], run: Run) -> None:
    Path("mine").mkdir()
    Path("mine/summary.json").touch()
    Path("mine/thesis.txt").touch()
    result = run("simulate", "--out", "mine", *extra)
    assert result.exit_code == 2
    assert "must be a folder that is new, empty or written by this command" in result.stderr
    assert everything() == {"mine", "mine/summary.json", "mine/thesis.txt"}


def test_empty_folder_is_used(run: Run) -> None:
    Path("r").mkdir()
    assert run("simulate", "--tasks", "10", "--schedulers", "greedy", "--out", "r").exit_code == 0


@pytest.mark.parametrize(
    ("out", "reason"),
    [("file", "must be a folder, got"), ("file/below", "must be a folder that can be written")],
)
def test_unwritable_folder_is_refused_before_the_run(
    out: str, reason: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_late(*_: object, **__: object) -> None:
        raise AssertionError("the simulation has started")

    monkeypatch.setattr("hybrid_scheduler.cli.inputs.read_experiment", too_late)
    Path("file").touch()
    result = run("simulate", "--out", out)
    assert result.exit_code == 2
    assert reason in result.stderr


@pytest.mark.parametrize("end", [KeyboardInterrupt, RuntimeError])
def test_error_before_commit_leaves_no_files(end: type[BaseException], comparison: Comparison) -> None:
    seen: set[str] = set()

    def write_and_fail() -> None:
        with result_files.staged(Path("new/folder"), comparison, document(comparison)):
            seen.update(everything())
            raise end

    with pytest.raises(end):
        write_and_fail()
    assert len(seen) == 5  # two folders, three files
    assert everything() == set()


def test_disk_error_leaves_no_files(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(result_files, "write_tasks", full)
    with (
        pytest.raises(HybridSchedulerError, match="cannot write r: No space left on device") as caught,
        result_files.staged(Path("r"), comparison, document(comparison)),
    ):
        pass
    assert caught.value.exit_code == 1
    assert everything() == set()


def test_failed_replacement_keeps_the_old_folder(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("r").mkdir()
    Path("r/summary.json").write_text("old", encoding="utf-8")
    rename = os.rename

    def no_new(source: Path, target: Path) -> None:
        if Path(target).name == "r" and not (Path(source) / "summary.json").read_text(encoding="utf-8") == "old":
            raise OSError(5, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", no_new)
    with (
        pytest.raises(HybridSchedulerError, match="cannot write r"),
        result_files.staged(Path("r"), comparison, document(comparison)) as commit,
    ):
        commit()
    assert everything() == {"r", "r/summary.json"}
    assert Path("r/summary.json").read_text(encoding="utf-8") == "old"


def test_summary_has_no_cell_that_a_spreadsheet_would_run(tmp_path: Path, comparison: Comparison) -> None:
    content = document(comparison)
    row = content["schedulers"]["greedy"]
    content["schedulers"] = {"=1+1": row, "greedy": row}
    with result_files.staged(tmp_path / "out", comparison, content) as commit:
        commit()
    with (tmp_path / "out" / "summary.csv").open(encoding="utf-8") as file:
        assert [line["scheduler"] for line in csv.DictReader(file)] == ["'=1+1", "greedy"]
