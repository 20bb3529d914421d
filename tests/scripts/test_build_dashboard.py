"""When the launcher builds the dashboard, and what it says when it cannot; a record of calls stands in for npm."""

import os
import shutil
import sys
from pathlib import Path

import pytest

import build_dashboard
from bootstrap import NODE, RUN_TIME, SetupError
from build_dashboard import NoDashboardError, dashboard_or_note, ensure_dashboard

needs_shell = pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands in for node")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "dashboard"
    (folder / "src").mkdir(parents=True)
    (folder / "node_modules").mkdir()
    (folder / "package.json").write_text("{}")
    (folder / "package-lock.json").write_text("{}")
    (folder / "src" / "main.tsx").write_text("1")
    return tmp_path


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []

    def run(folder: Path, *command: str) -> None:
        calls.append(command[1])
        (folder / "dist").mkdir(exist_ok=True)

    monkeypatch.setattr(build_dashboard, "run_step", run)
    monkeypatch.setattr(build_dashboard, "provide_npm", lambda root: "npm")
    return calls


def test_build_runs_once_and_after_a_change(root: Path, calls: list[str]) -> None:
    ensure_dashboard(root)
    assert calls == ["install", "run"]
    ensure_dashboard(root)
    assert calls == ["install", "run"]
    (root / "dashboard" / "src" / "main.tsx").write_text("2")
    ensure_dashboard(root)
    assert calls == ["install", "run", "run"]  # the packages are the same
    (root / "dashboard" / "package-lock.json").write_text('{"a": 1}')
    ensure_dashboard(root)
    assert calls == ["install", "run", "run", "install", "run"]


def test_new_file_triggers_a_build(root: Path, calls: list[str]) -> None:
    ensure_dashboard(root)
    (root / "dashboard" / "src" / "more.ts").write_text("")
    ensure_dashboard(root)
    assert calls[2:] == ["run"]


def test_failed_build_is_repeated(root: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    record = build_dashboard.run_step

    def fails(folder: Path, *command: str) -> None:
        record(folder, *command)
        raise NoDashboardError("no", "none")

    monkeypatch.setattr(build_dashboard, "run_step", fails)
    with pytest.raises(NoDashboardError):
        ensure_dashboard(root)
    monkeypatch.setattr(build_dashboard, "run_step", record)
    ensure_dashboard(root)
    assert calls == ["install", "install", "run"]


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Path:
        raise SetupError("no network", "none")

    monkeypatch.setattr(build_dashboard, "ensure_environment", fails)


@pytest.mark.usefixtures("no_network")
def test_launcher_continues_without_node(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    dashboard_or_note(root)
    said = capsys.readouterr().err
    assert "warning: Node is not installed, and Node could not be installed: no network" in said
    assert "hint: install Node 20.19 or newer" in said
    assert "the API runs without it" in said


@needs_shell
@pytest.mark.usefixtures("no_network")
def test_old_node_is_reported(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(programs(tmp_path / "old", "v18.20.4")))
    with pytest.raises(NoDashboardError, match=r"Node v18\.20\.4 is too old"):
        ensure_dashboard(root)


@needs_shell
@pytest.mark.parametrize("version", [None, "v18.20.4"])
def test_missing_or_old_node_comes_from_the_python_package(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    asked: list[str] = []
    bundled = programs(tmp_path / "bundled", "v24.1.0")

    def environment(_: Path, *locks: str) -> Path:
        asked.extend(locks)
        return Path(sys.executable)

    monkeypatch.setattr(build_dashboard, "ensure_environment", environment)
    monkeypatch.setattr(build_dashboard, "node_programs", lambda _: bundled)
    monkeypatch.setenv("PATH", str(programs(tmp_path / "own", version)) if version else str(tmp_path / "none"))
    assert build_dashboard.provide_npm(root) == str(bundled / "npm")
    assert asked == [RUN_TIME, NODE]
    assert os.environ["PATH"].split(os.pathsep)[0] == str(bundled)


@needs_shell
def test_recent_node_of_the_machine_is_used(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_dashboard, "ensure_environment", None)  # must not be called
    monkeypatch.setenv("PATH", str(programs(tmp_path / "own", "v20.19.0")))
    assert build_dashboard.provide_npm(root) == str(tmp_path / "own" / "npm")


def programs(folder: Path, version: str) -> Path:
    """Return a folder with scripts that stand in for node and npm."""
    folder.mkdir()
    for name in ("node", "npm"):
        (folder / name).write_text(f"#!/bin/sh\necho {version}\n")
        (folder / name).chmod(0o755)
    return folder
