"""Start of a server whose code is not compiled: another process compiles it, so that this one stays small."""

from concurrent.futures import BrokenExecutor, Future
from pathlib import Path

import pytest
from numba.core.event import trigger_event

from hybrid_scheduler.compiled import jit_cache
from hybrid_scheduler.config import Settings, load_settings
from hybrid_scheduler.core import HybridSchedulerError
from hybrid_scheduler.server import compiling


class FakeProcess:
    """Stands in for the worker process; its only call ends as the test says."""

    def __init__(self, end: BaseException | None) -> None:
        self.end, self.submitted, self.stopped = end, 0, 0

    def __call__(self, name: str) -> "FakeProcess":
        return self

    def submit(self, function: object, *arguments: object) -> Future[None]:
        self.submitted += 1
        done: Future[None] = Future()
        if self.end is None:
            done.set_result(None)
        else:
            done.set_exception(self.end)
        return done

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "config.yaml").write_text("")
    return load_settings(tmp_path / "config.yaml", environ={})


def started(monkeypatch: pytest.MonkeyPatch, settings: Settings, process: FakeProcess, *, compiled: bool) -> int:
    """Begin a server with such a process, and return how often code was loaded."""
    calls = 0

    def load(*_: object) -> None:
        nonlocal calls
        calls += 1
        if not compiled and not process.submitted:
            with trigger_event("numba:compile"):
                raise AssertionError("compiled in this process")

    monkeypatch.setattr(compiling, "WorkerProcess", process)
    monkeypatch.setattr(compiling, "compile_run_code", load)
    compiling.compile_before_serving(settings, Path())
    return calls


def test_compiled_code_is_loaded_without_another_process(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    process = FakeProcess(None)
    assert started(monkeypatch, settings, process, compiled=True) == 1
    assert process.submitted == 0


def test_code_is_compiled_in_another_process_with_the_notice(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setattr(jit_cache, "NOTICE_AFTER_S", 0.0)
    process = FakeProcess(None)
    notices: list[str] = []
    with jit_cache.compile_notice(notices.append):
        assert started(monkeypatch, settings, process, compiled=False) == 2
    assert (process.submitted, process.stopped) == (1, 1)
    assert notices == [jit_cache.NOTICE]


def test_process_that_dies_while_it_compiles_is_one_error(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    process = FakeProcess(BrokenExecutor("killed"))
    with pytest.raises(HybridSchedulerError, match="the compiler process ended early: killed"):
        started(monkeypatch, settings, process, compiled=False)
    assert process.stopped == 1


def test_interrupt_ends_the_process_that_compiles(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    process = FakeProcess(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        started(monkeypatch, settings, process, compiled=False)
    assert process.stopped == 1
