"""`python main.py` runs the pipeline with the same arguments."""

import runpy
import sys

import pytest

import bootstrap


def test_arguments_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(bootstrap, "hand_over", lambda *arguments: calls.append(arguments))
    monkeypatch.setattr(sys, "argv", ["main.py", "--quick", "--seed", "3"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    runpy.run_path(str(bootstrap.ROOT / "main.py"), run_name="__main__")
    assert calls == [("pipeline", "--quick", "--seed", "3")]
