"""Help of the scripts: --help prints and does nothing else."""

import runpy
import shutil
import sys
from pathlib import Path

import pytest

import bootstrap

SCRIPTS = Path(bootstrap.__file__).parent


@pytest.mark.parametrize("option", ["--help", "-h"])
@pytest.mark.parametrize("script", sorted(path.name for path in SCRIPTS.glob("*.py")))
def test_help_prints_and_changes_nothing(
    script: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "project"
    copy = root / "scripts" / script
    copy.parent.mkdir(parents=True)
    shutil.copy(SCRIPTS / script, copy)
    monkeypatch.setattr(bootstrap, "ROOT", root)
    monkeypatch.setattr(bootstrap, "run_step", lambda *_: pytest.fail("something is installed"))
    monkeypatch.setattr(sys, "argv", [str(copy), option])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(copy), run_name="__main__")
    assert not end.value.code
    assert len(capsys.readouterr().out) > 60
    assert [path for path in root.rglob("*") if path.is_file()] == [copy]


def test_help_of_the_server_needs_no_set_up(
    tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    with pytest.raises(SystemExit) as end:
        bootstrap.hand_over("serve", "--help")
    assert not end.value.code
    assert "hybrid-scheduler serve" in capsys.readouterr().out
