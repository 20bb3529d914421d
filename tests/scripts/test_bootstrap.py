"""When the set-up creates, updates or leaves alone; pip and uv are replaced by a record of their calls."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import bootstrap

SCRIPTS = Path(bootstrap.__file__).parent
RUN_TIME, DEVELOPMENT, NODE, UV = bootstrap.RUN_TIME, bootstrap.DEVELOPMENT, bootstrap.NODE, bootstrap.UV
INSTALL = [UV, RUN_TIME, "-e"]
STEPS = ["venv", *INSTALL]


class Calls(list[str]):
    """Stands in for `run_step`: notes the step, and does of `python -m venv` what the set-up relies on."""

    fails_at: str | None = None

    def __init__(self) -> None:
        self.programs: list[str] = []

    def __call__(self, venv: Path, lock: Any, *command: str, log_name: str = "") -> None:
        known = {*STEPS, DEVELOPMENT, NODE, bootstrap.TORCH}
        step = next(name for word in command if (name := Path(word).name) in known)
        self.append(step)
        self.programs.append(Path(command[0]).name)
        if step == "venv":
            (venv / "pyvenv.cfg").write_text("version = 3.11.0\n")
            for folder in ("bin", "Scripts"):
                (venv / folder).mkdir()
            for name in ("bin/python", "Scripts/python.exe"):
                (venv / name).touch()
        if self.fails_at in (step, self.programs[-1]):
            raise bootstrap.SetupError("no", "none")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()
    monkeypatch.setattr(bootstrap, "run_step", calls)
    monkeypatch.setattr(bootstrap, "is_usable", Path.exists)
    monkeypatch.setattr(bootstrap, "index_options", lambda python: [])
    return calls


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    for lock in (RUN_TIME, DEVELOPMENT, NODE, UV):
        (root / lock).write_text("a==1\n")
    (root / "pyproject.toml").write_text("[project]\n")
    return root


def test_second_run_does_nothing(root: Path, calls: Calls) -> None:
    python = bootstrap.ensure_environment(root)
    assert calls == STEPS
    assert bootstrap.ensure_environment(root) == python
    assert len(calls) == len(STEPS)


@pytest.mark.parametrize("file", ["requirements.txt", "pyproject.toml"])
def test_change_is_installed_in_place(root: Path, calls: Calls, file: str) -> None:
    bootstrap.ensure_environment(root)
    (root / file).write_text("b==2\n")
    bootstrap.ensure_environment(root)
    assert calls[len(STEPS) :] == INSTALL


def test_tests_add_their_packages_and_the_launcher_keeps_them(root: Path, calls: Calls) -> None:
    bootstrap.ensure_environment(root)
    calls.clear()
    bootstrap.ensure_environment(root, DEVELOPMENT)
    # torch is installed while another process installs the rest.
    assert sorted(calls[:3]) == sorted([bootstrap.TORCH, UV, DEVELOPMENT])
    assert calls[3:] == [bootstrap.TORCH, "-e"]
    calls.clear()
    bootstrap.ensure_environment(root)
    bootstrap.ensure_environment(root, RUN_TIME, DEVELOPMENT)
    assert calls == []


def test_change_of_the_run_time_lock_renews_the_test_environment(root: Path, calls: Calls) -> None:
    bootstrap.ensure_environment(root, DEVELOPMENT)
    (root / RUN_TIME).write_text("b==2\n")
    bootstrap.ensure_environment(root)
    calls.clear()
    bootstrap.ensure_environment(root, DEVELOPMENT)
    assert DEVELOPMENT in calls


def test_node_is_installed_once_and_on_request(root: Path, calls: Calls) -> None:
    bootstrap.ensure_environment(root)
    calls.clear()
    bootstrap.ensure_environment(root, RUN_TIME, NODE)
    assert calls == [NODE]
    (root / "pyproject.toml").write_text("[project] # changed\n")
    bootstrap.ensure_environment(root, RUN_TIME, NODE)
    assert calls == [NODE, *INSTALL]


@pytest.mark.parametrize("fails_at", [UV, "uv"])
def test_pip_installs_where_uv_cannot(root: Path, calls: Calls, fails_at: str) -> None:
    calls.fails_at = fails_at
    bootstrap.ensure_environment(root)
    assert "uv" not in calls.programs[-2:]
    assert calls[-2:] == [RUN_TIME, "-e"]


def test_uv_gets_the_indexes_of_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "pip.conf"
    settings.write_text("[global]\nindex-url = http://a\nextra-index-url =\n  http://b\n  http://c\ntimeout = 3\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "http://d")
    found = bootstrap.index_options(Path(sys.executable))
    pairs = set(zip(found[::2], found[1::2], strict=True))
    assert {pair for pair in pairs if pair[0] in ("--default-index", "--index")} == {
        ("--default-index", "http://d"),
        ("--index", "http://b"),
        ("--index", "http://c"),
    }
    assert not any("timeout" in option for option, _ in pairs)


@pytest.mark.parametrize("step", ["venv", RUN_TIME, "-e"])
def test_interrupted_run_starts_over(root: Path, calls: Calls, step: str) -> None:
    calls.fails_at = step
    with pytest.raises(bootstrap.SetupError):
        bootstrap.ensure_environment(root)
    calls.clear()
    calls.fails_at = None
    bootstrap.ensure_environment(root)
    assert calls == STEPS


def test_interrupted_update_is_not_mistaken_for_the_old_state(root: Path, calls: Calls) -> None:
    bootstrap.ensure_environment(root)
    before = (root / "requirements.txt").read_text()
    (root / "requirements.txt").write_text("b==2\n")
    calls.fails_at = RUN_TIME
    with pytest.raises(bootstrap.SetupError):
        bootstrap.ensure_environment(root)
    (root / "requirements.txt").write_text(before)
    calls.clear()
    calls.fails_at = None
    bootstrap.ensure_environment(root)
    assert calls == STEPS


def test_moved_folder_is_recreated(root: Path, calls: Calls) -> None:
    bootstrap.ensure_environment(root)
    moved = root.rename(root.with_name("elsewhere"))
    bootstrap.ensure_environment(moved)
    assert calls[len(STEPS) :] == STEPS


def test_missing_python_is_recreated(root: Path, calls: Calls) -> None:
    bootstrap.ensure_environment(root).unlink()
    bootstrap.ensure_environment(root)
    assert calls[len(STEPS) :] == STEPS


def test_failure_shows_the_end_of_the_log_and_a_hint(tmp_path: Path) -> None:
    speak = "for i in range(30): print('line', i)\nraise SystemExit('No space left on device')"
    with (tmp_path / "lock").open("w") as lock, pytest.raises(bootstrap.SetupError) as caught:
        bootstrap.run_step(tmp_path, lock, sys.executable, "-c", speak)
    assert "line 29" in str(caught.value)
    assert "line 5\n" not in str(caught.value)
    assert "disk space" in caught.value.hint


def test_lock_admits_one_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with bootstrap.exclusive_lock(path), path.open("r+") as other:
        assert not bootstrap.try_lock(other)
    with path.open("r+") as other:
        assert bootstrap.try_lock(other)


@pytest.mark.skipif(os.name == "nt", reason="the shell scripts are for systems with bash")
def test_shell_scripts_skip_a_broken_python(tmp_path: Path) -> None:
    def find(wanted: str = "", **pythons: str) -> subprocess.CompletedProcess[str]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for name, body in pythons.items():
            (folder / name.replace("_", ".")).write_text(f"#!/bin/sh\n{body}\n")
            (folder / name.replace("_", ".")).chmod(0o755)
        command = [str(shutil.which("bash")), "-c", f'source "{SCRIPTS}/find_python.sh" && echo "$PYTHON"']
        variables = {"PATH": str(folder), **({"PYTHON": wanted} if wanted else {})}
        return subprocess.run(command, env=variables, capture_output=True, text=True)

    works = f'exec "{sys.executable}" "$@"'
    assert find(python3_13="exit 127", python3=works).stdout == "python3\n"
    assert find(wanted="mine", python3=works, mine=works).stdout == "mine\n"
    other = find(wanted="mine", python3=works, mine="exit 1")
    assert other.stdout == "python3\n"
    assert "PYTHON=mine" in other.stderr
    none = find(python3="exit 1")
    assert none.returncode == 1
    assert "hint:" in none.stderr
