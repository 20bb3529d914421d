"""Device study: its tables, and a tiny run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from studies.device_study_report import main, report

ROOT = Path(__file__).parent.parent.parent


def test_empty_summary_gives_an_empty_report() -> None:
    assert report({}) == ""
    assert report({"executions": {"x": {"error": "it broke"}}}) == ""


def test_missing_folder_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "summary.json" in capsys.readouterr().err


@pytest.mark.slow
def test_tiny_study_runs_without_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--tiny", "--budget", "600", "--parts", "check,execute,compare"]
    command = [sys.executable, "-m", "studies.device_study", str(tmp_path), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert summary["errors"] == {}
    assert len(list(tmp_path.iterdir())) <= 7
    assert main([str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for word in ("hybrid_ml", "rl_agent split", "min_completion"):
        assert word in out
