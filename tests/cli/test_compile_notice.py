"""The notice about compiling comes once, and only for compiling that takes long."""

import pytest
from numba import njit
from numba.core.event import trigger_event

from hybrid_scheduler.cli.command_context import CommandContext
from hybrid_scheduler.compiled import jit_cache


@pytest.mark.parametrize(("notice_after", "notices"), [(0.0, [jit_cache.NOTICE]), (60.0, [])])
def test_notice_appears_once_after_the_limit(
    notice_after: float, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit_cache, "NOTICE_AFTER_S", notice_after)
    notices_given: list[str] = []
    with jit_cache.compile_notice(notices_given.append):
        njit(lambda x: x + 1)(1)
        njit(lambda x: x + 2)(1)
    assert notices_given == notices


def test_no_notice_without_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_cache, "NOTICE_AFTER_S", 0.0)
    function = njit(lambda x: x + 1)
    function(1)
    notices_given: list[str] = []
    with jit_cache.compile_notice(notices_given.append):
        function(2)
    assert notices_given == []


def test_compiled_functions_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    context = CommandContext()
    words: list[str] = []
    monkeypatch.setattr(context.printer, "doing", words.append)

    def twice(x: int) -> int:
        return 2 * x

    context.name_compiled_functions()
    njit(twice)(1)
    with trigger_event("numba:compile"):  # a process of the server compiles, and does not say what
        pass
    context.close()
    njit(twice)(1)
    assert words == ["compiling twice", "compiling all that the run calls"]
