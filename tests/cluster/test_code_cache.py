"""Machine code on disk: copies of the same sources share it, others compile anew, and no folder is needed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba import float64
from numba.core.event import install_recorder

import hybrid_scheduler
from hybrid_scheduler.compiled import code_cache
from hybrid_scheduler.compiled.jit_cache import compiled, entry

PACKAGE = Path(hybrid_scheduler.__file__).parent
ENTRY = """
from .jit_cache import entry, helper

@helper
def twice(number):
    return 2.0 * number

@entry
def double(number):
    return twice(number)
"""
#: Prints the result, and how often a function was compiled.
PROGRAM = """
from numba import float64
from numba.core.event import install_recorder
from hybrid_scheduler.compiled.jit_cache import compiled
from hybrid_scheduler.compiled.probe import double
with install_recorder("numba:compile") as recorder:
    print(compiled(double, (float64,))(4.0), len(recorder.buffer) // 2)  # each begins and ends
"""


def clone(folder: Path) -> Path:
    """Return the folder of a copy of the package, with one more compiled function."""
    shutil.copytree(PACKAGE, folder / "hybrid_scheduler", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "hybrid_scheduler" / "compiled" / "probe.py").write_text(ENTRY, encoding="utf-8")
    return folder


def run(source: Path, **environment: str) -> str:
    variables = {
        key: value for key, value in os.environ.items() if key not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**variables, "PYTHONPATH": str(source), **environment},
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_copies_of_the_same_sources_share_machine_code(tmp_path: Path) -> None:
    first, second = clone(tmp_path / "first"), clone(tmp_path / "second")
    os.utime(second / "hybrid_scheduler" / "compiled" / "probe.py", (1e9, 1e9))
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert run(first, **cache) == "8.0 1"
    assert run(second, **cache) == "8.0 0"
    probe = second / "hybrid_scheduler" / "compiled" / "probe.py"
    probe.write_text(ENTRY.replace("2.0 *", "3.0 *"), encoding="utf-8")
    assert run(second, **cache) == "12.0 1"
    assert run(first, **cache) == "8.0 0"


def test_code_is_compiled_without_any_folder_for_it(tmp_path: Path) -> None:
    copy = clone(tmp_path / "copy")
    (copy / "hybrid_scheduler" / "compiled" / "__pycache__").touch()  # numba's next choice
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "below")
    assert run(copy, NUMBA_CACHE_DIR=nowhere, XDG_CACHE_HOME=nowhere, HOME=nowhere) == "8.0 1"


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that marks a new function as an entry, and counts how often it is compiled."""
    monkeypatch.setattr(code_cache, "_PACKAGE", Path(__file__).parent)
    monkeypatch.setattr(code_cache, "_folder_in_use", lambda: tmp_path / "state")

    def compilations() -> int:
        @entry
        def triple(number):
            return 3.0 * number

        with install_recorder("numba:compile") as recorder:
            assert compiled(triple, (float64,))(2.0) == 6.0
        return len(recorder.buffer) // 2

    return compilations


def test_machine_code_is_loaded_by_the_next_process(probe, tmp_path: Path) -> None:
    assert [probe(), probe()] == [1, 0]
    assert list((tmp_path / "state").glob("*.nbc"))


def test_truncated_file_is_compiled_anew(probe, tmp_path: Path) -> None:
    probe()
    [file] = (tmp_path / "state").glob("*.nbc")
    file.write_bytes(file.read_bytes()[:100])
    assert [probe(), probe()] == [1, 0]


def test_folder_that_can_only_be_read_is_no_error(probe, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(code_cache._SharedLocator, "ensure_cache_path", refuse)
    assert [probe(), probe()] == [1, 1]


def test_states_not_used_for_long_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(code_cache, "_MAX_STATES", 3)
    (tmp_path / "compiled_0123").mkdir()  # of another program that numba compiles
    for age in range(5):
        state = tmp_path / f"{age:032x}"
        (state / "cluster").mkdir(parents=True)
        os.utime(state, (1e9 - age, 1e9 - age))
    current = code_cache._folder_in_use.__wrapped__()
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {current.name, f"{0:032x}", f"{1:032x}", "compiled_0123"}


def test_file_outside_of_the_package_keeps_the_folder_of_numba() -> None:
    @entry
    def half(number):
        return 0.5 * number

    assert not Path(half.stats.cache_path).is_relative_to(code_cache.code_folder())
