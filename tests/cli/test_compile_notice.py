"""The notice about compiling comes once, and only for compiling that takes long."""

import pytest
from numba import njit

from hybrid_scheduler.cli import compile_notice


@pytest.mark.parametrize(("patience", "notices"), [(0.0, [compile_notice.NOTICE]), (60.0, [])])
def test_the_notice(patience: float, notices: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_notice, "_PATIENCE", patience)
    told: list[str] = []
    with compile_notice.announced(told.append):
        njit(lambda x: x + 1)(1)
        njit(lambda x: x + 2)(1)
    assert told == notices


def test_nothing_is_told_when_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_notice, "_PATIENCE", 0.0)
    function = njit(lambda x: x + 1)
    function(1)
    told: list[str] = []
    with compile_notice.announced(told.append):
        function(2)
    assert told == []
