"""When the launcher builds the dashboard, and what it says when it cannot; a record of calls stands in for npm."""

import sys
from pathlib import Path

import pytest

import build_dashboard
from build_dashboard import NoDashboardError, dashboard_or_note, ensure_dashboard


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

    monkeypatch.setattr(build_dashboard, "_run", run)
    monkeypatch.setattr(build_dashboard, "_npm", lambda: "npm")
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
    record = build_dashboard._run

    def fails(folder: Path, *command: str) -> None:
        record(folder, *command)
        raise NoDashboardError("no", "none")

    monkeypatch.setattr(build_dashboard, "_run", fails)
    with pytest.raises(NoDashboardError):
        ensure_dashboard(root)
    monkeypatch.setattr(build_dashboard, "_run", record)
    ensure_dashboard(root)
    assert calls == ["install", "install", "run"]


def test_launcher_continues_without_node(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build_dashboard.shutil, "which", lambda _: None)
    dashboard_or_note(root)
    said = capsys.readouterr().err
    assert "warning: Node is not installed" in said
    assert "hint: install Node 20.19 or newer" in said
    assert "the API runs without it" in said


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands in for node")
def test_old_node_is_reported(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = tmp_path / "node"
    node.write_text("#!/bin/sh\necho v18.20.4\n")
    node.chmod(0o755)
    monkeypatch.setattr(build_dashboard.shutil, "which", lambda _: str(node))
    with pytest.raises(NoDashboardError, match=r"Node v18\.20\.4 is too old"):
        ensure_dashboard(root)
