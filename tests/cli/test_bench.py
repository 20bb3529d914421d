"""`hybrid-scheduler bench` knows its benchmarks, and says so when there are none."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from hybrid_scheduler.cli import bench

Run = Callable[..., Result]


def test_every_benchmark_has_a_file() -> None:
    assert [name for name, file in bench._FILES.items() if not (bench.BENCHMARKS_FOLDER / file).is_file()] == []


def test_unknown_name_and_missing_folder_are_errors(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result = run("bench", "nonsense")
    assert result.exit_code == 2
    assert "benchmark: must be one of" in result.stderr
    monkeypatch.setattr(bench, "BENCHMARKS_FOLDER", tmp_path / "none")
    result = run("bench", "storage")
    assert result.exit_code == 1
    assert "run this in a checkout" in result.stderr


def test_exit_code_of_a_benchmark_decides(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench, "BENCHMARKS_FOLDER", tmp_path)
    (tmp_path / "storage_bench.py").write_text("open('ran', 'w')\n")
    (tmp_path / "stream_bench.py").write_text("raise SystemExit(3)\n")
    assert run("bench", "storage").exit_code == 0
    assert Path("ran").exists()
    result = run("bench", "stream")
    assert result.exit_code == 1
    assert "the benchmark stream failed (exit 3)" in result.stderr
