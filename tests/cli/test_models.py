"""`models`: lists, shows and clears the run times that the executor keeps on disk."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hybrid_scheduler as hs
from hybrid_scheduler.runtime.duration_store import DurationStore, duration_paths

Run = Callable[..., Any]
MATRIX = '[[2, "float64"], [2, "float64"]]'


def _row(function: str, device: str, n: int, seconds: float, runs: int = 2) -> list[Any]:
    return [function, device, MATRIX, [math.log1p(n)] * 4, 16 * n * n, seconds, runs]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder with two versions of a function, the newer one faster on the GPU for large calls, and another one."""
    folder = tmp_path / "run-times"
    store = DurationStore(folder, ["H200"], 16)
    older = [_row("work.step:aaaaaaaaaaaa", "cpu", 100, 1.0)]
    sizes = [(100, 1e-4, 1e-3), (1_000, 1e-2, 1.6e-2), (10_000, 1e1, 1e-1)]
    newer = [_row("work.step:bbbbbbbbbbbb", "cpu", n, cpu) for n, cpu, _ in sizes]
    newer += [_row("work.step:bbbbbbbbbbbb", "H200", n, gpu) for n, _, gpu in sizes]
    other = [["work.count:cccccccccccc", "cpu", '["int"]', [math.log1p(7)], 0, 0.5, 1_234]]
    for number, rows in enumerate((older, [*newer, *other])):
        monkeypatch.setattr(time, "time", lambda number=number: 1_700_000_000.0 + number)
        store.save(rows)
    return folder


def test_measured_functions_are_listed(run: Run, folder: Path) -> None:
    lines = run("models", "--folder", str(folder)).stdout.splitlines()
    assert lines[0].split() == ["function", "code", "devices", "sizes", "runs", "last", "measured"]
    assert lines[1].split() == ["work.count", "cccccc", "cpu", "1", "1,234", "2023-11-14", "22:13"]
    assert lines[2].split() == ["work.step", "bbbbbb", "H200,", "cpu", "3", "12", "2023-11-14", "22:13"]
    assert lines[3].split()[:3] == ["work.step", "aaaaaa", "cpu"]
    assert lines[-1].endswith(", 16 cores, H200")


def test_list_fits_the_terminal(run: Run, folder: Path, terminal: Callable[[int], None]) -> None:
    terminal(60)
    for command in (("models",), ("models", "show", "step")):
        assert max(map(len, run(*command, "--folder", str(folder)).stdout.splitlines())) <= 60


def test_list_of_functions_is_printed_as_json(run: Run, folder: Path) -> None:
    document = json.loads(run("models", "--json", "--folder", str(folder)).stdout)
    assert document["folder"] == str(folder)
    assert [one["function"] for one in document["functions"]] == ["work.count", "work.step", "work.step"]
    step = document["functions"][1]
    assert (step["code"], step["devices"], step["sizes"], step["runs"]) == ("b" * 12, ["H200", "cpu"], 3, 12)


def test_folder_of_the_environment_is_read(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no run times are kept here" in run("models").stdout
    assert json.loads(run("models", "--json").stdout)["functions"] == []
    monkeypatch.setenv("HYBRID_SCHEDULER_CACHE", str(folder))
    assert "work.step" in run("models").stdout


@pytest.mark.parametrize("name", ["work.step", "step", "step:bbb"])
def test_function_is_shown_with_its_crossover(name: str, run: Run, folder: Path) -> None:
    result = run("models", "show", name, "--folder", str(folder))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("work.step · code bbbbbb · measured 2023-11-14 22:13\n")
    assert "1000×1000 float64, 1000×1000 float64 16.0 MB 16.0 10.0 cpu" in " ".join(result.stdout.split())
    (crossover,) = (line for line in result.stdout.splitlines() if line.startswith("from about"))
    assert crossover.endswith(" MB on, H200 is faster than cpu")
    assert 16.0 < float(crossover.split()[2]) < 100.0
    assert ("also kept: work.step:aaaaaa" in result.stderr) == (":" not in name)


def test_older_version_is_shown_by_its_code(run: Run, folder: Path) -> None:
    result = run("models", "show", "work.step:aaa", "--folder", str(folder))
    assert "code aaaaaa" in result.stdout
    assert "from about" not in result.stdout


def test_call_without_arrays_is_shown_by_its_numbers(run: Run, folder: Path) -> None:
    (line,) = (
        line
        for line in run("models", "show", "count", "--folder", str(folder)).stdout.splitlines()
        if line.startswith("7 ")
    )
    assert line.split() == ["7", "0", "B", "500", "cpu"]


def test_missing_measurement_is_estimated_and_marked(run: Run, folder: Path) -> None:
    DurationStore(folder, ["H200"], 16).save([_row("work.step:bbbbbbbbbbbb", "H200", 2_000, 3e-2)])
    result = run("models", "show", "step", "--folder", str(folder))
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("2000×2000"))
    assert line.count("~") == 1
    document = json.loads(run("models", "show", "step", "--json", "--folder", str(folder)).stdout)
    (call,) = (one for one in document["calls"] if one["bytes"] == 64_000_000)
    assert call["devices"]["cpu"]["runs"] == 0
    assert call["devices"]["H200"] == {"runs": 2, "seconds": pytest.approx(3e-2)}


def test_one_function_is_printed_as_json(run: Run, folder: Path) -> None:
    document = json.loads(run("models", "show", "step", "--json", "--folder", str(folder)).stdout)
    assert [one["fastest"] for one in document["calls"]] == ["cpu", "cpu", "H200"]
    (crossover,) = document["crossovers"]
    assert (crossover["before"], crossover["after"], crossover["signature"]) == ("cpu", "H200", MATRIX)


def test_plot_of_a_function_is_written(run: Run, folder: Path) -> None:
    for name in ("step", "count"):
        result = run("models", "show", name, "--plot", f"{name}.png", "--folder", str(folder))
        assert result.exit_code == 0, result.output
        assert Path(f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_run_times_of_a_function_are_cleared(run: Run, folder: Path) -> None:
    result = run("models", "clear", "step", "--yes", "--folder", str(folder))
    assert result.stdout == f"deleted the run times of 2 functions in {folder}\n"
    document = json.loads(run("models", "--json", "--folder", str(folder)).stdout)
    assert [one["function"] for one in document["functions"]] == ["work.count"]


def test_everything_is_cleared_with_damaged_files(run: Run, folder: Path) -> None:
    (folder / "0123456789ab-v1.json").write_text("{")
    document = json.loads(run("models", "clear", "--yes", "--json", "--folder", str(folder)).stdout)
    assert len(document["deleted"]) == 3
    assert duration_paths(folder) == []
    assert "no run times are kept here" in run("models", "clear", "--folder", str(folder)).stdout


def test_nothing_is_cleared_without_consent(run: Run, folder: Path) -> None:
    result = run("models", "clear", "--folder", str(folder))
    assert result.exit_code == 2
    assert "error: --yes: must be given, to delete the run times of 3 functions" in result.stderr
    assert "hint: add --yes" in result.stderr
    assert len(duration_paths(folder)) == 1


def test_damaged_file_is_a_warning(run: Run, folder: Path) -> None:
    (folder / "0123456789ab-v1.json").write_text("[" * 100_000)
    result = run("models", "--folder", str(folder))
    assert result.exit_code == 0
    assert "work.step" in result.stdout
    assert "document: must be JSON, got 'too many levels'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("models", "show", "stepp"), "FUNCTION: must be one of work.count, work.step, got 'stepp'", "work.step"),
        (("models", "clear", "other"), "FUNCTION: must be one of work.count, work.step, got 'other'", ""),
        (("models", "show", "step", "--plot", "step.pdf"), "--plot: must be a file name that ends in .png", ""),
    ],
)
def test_bad_input_gets_a_message(
    arguments: tuple[str, ...], message: str, hint: str, run: Run, folder: Path
) -> None:
    result = run(*arguments, "--folder", str(folder))
    assert result.exit_code == 2
    assert message in result.stderr
    assert hint in result.stderr


def test_bad_places_get_a_message(run: Run, folder: Path) -> None:
    result = run("models", "--folder", "nowhere")
    assert (result.exit_code, "--folder: must be a folder, got" in result.stderr) == (2, True)
    result = run("models", "show", "step")
    assert "FUNCTION: must be one whose run times are kept; there is none, got 'step'" in result.stderr
    result = run("models", "--folder", str(folder), "show", "step")
    assert (result.exit_code, "--folder: must be after show" in result.stderr) == (2, True)


def test_program_appears_in_the_list_after_it_has_run(run: Run) -> None:
    double = hs.auto(lambda values: values * 2)
    with hs.HybridExecutor(device_type="cpu") as executor:
        executor.submit(double, 2).result()
    (found,) = json.loads(run("models", "--json").stdout)["functions"]
    assert found["function"].endswith("<lambda>")
    assert found["runs"] == 1
    assert run("models", "show", found["function"]).exit_code == 0
