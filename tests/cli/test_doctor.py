"""`doctor`: what is necessary can fail, what is optional is only mentioned."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybrid_scheduler.cli import doctor

Run = Callable[..., Any]


def statuses(text: str) -> dict[str, str]:
    return {check["name"]: check["status"] for check in json.loads(text)["checks"]}


def test_complete_installation_passes(run: Run) -> None:
    result = run("doctor", "--json")
    assert result.exit_code == 0, result.output
    found = statuses(result.stdout)
    assert json.loads(result.stdout)["ok"] is True
    for name in ("Python", "packages", "compiler", "compile cache", "settings", "log file"):
        assert found[name] == "ok", name
    for name in ("machine", "GPU", "torch", "ray", "ortools"):
        assert found[name] == "info", name
    assert not Path("logs").exists()


def test_lines_fit_the_terminal(run: Run, terminal: Callable[[int], None]) -> None:
    plain = run("doctor").stdout
    assert plain.startswith("✓  Python ")
    assert plain.endswith("\nready\n")
    terminal(80)
    assert max(map(len, run("doctor").stdout.splitlines())) <= 80


def test_bad_settings_fail_the_doctor(run: Run) -> None:
    Path("config.yaml").write_text("simulation: {sede: 1, tasks: 0}", encoding="utf-8")
    result = run("doctor")
    assert result.exit_code == 1
    assert "✗  settings       config.yaml:1: key: must be a known one of section simulation" in result.stdout
    assert "hint: did you mean 'simulation.seed'?" in result.stdout
    assert "simulation.tasks: must be" in result.stdout
    assert result.stdout.endswith("not ready: settings\n")


def test_missing_package_fails_the_doctor(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "REQUIRED_PACKAGES", ("numpy", "no-such-package"))
    result = run("doctor")
    assert result.exit_code == 1
    assert "missing: no-such-package" in result.stdout
    assert "hint: pip install no-such-package" in result.stdout


def test_folders_that_cannot_be_written_are_warnings(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "why_not_writable", lambda folder: "Read-only file system")
    result = run("doctor")
    assert result.exit_code == 0
    assert "!  compile cache" in result.stdout
    assert "hint: set NUMBA_CACHE_DIR to a folder that can be written" in result.stdout
    assert "!  log file       logs: Read-only file system; runs go on without a log" in result.stdout


def test_unwritable_folder_has_a_reason(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file").touch()
    monkeypatch.setenv("LOG_FILE", "file/below/run.log")
    assert "!  log file       file/below: Not a directory; runs go on without a log" in run("doctor").stdout


def test_folder_that_does_not_exist_yet_is_not_created(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_FILE", "new/below/run.log")
    assert "✓  log file       new/below/run.log" in run("doctor").stdout
    assert not Path("new").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
@pytest.mark.parametrize(
    ("answer", "detail"), [("echo 'H200, 141 GB'", "H200, 141 GB"), ("exit 9", "nvidia-smi does not answer")]
)
def test_gpu_check_reports_nvidia_smi(answer: str, detail: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Path("nvidia-smi").absolute()
    program.write_text(f"#!/bin/sh\n{answer}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(program) if name == "nvidia-smi" else None)
    [line] = [line for line in run("doctor").stdout.splitlines() if "GPU " in line]
    assert line.strip().startswith("·")
    assert detail in line


def test_command_for_a_missing_extra_is_printed_whole(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    version = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda package: None if package == "ray" else version(package))
    assert "pip install 'hybrid-scheduler[ray]'" in run("doctor").stdout
