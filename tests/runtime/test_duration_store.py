"""Learned run times on disk: shared between programs, and ignored where they cannot be right."""

import json
import logging
import math
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid_scheduler as hs
from hybrid_scheduler.core.atomic_files import exclusive_lock
from hybrid_scheduler.runtime import duration_store
from hybrid_scheduler.runtime.duration_store import (
    DurationStore,
    delete_durations,
    duration_folder,
    duration_paths,
    read_duration_file,
)
from hybrid_scheduler.runtime.function_durations import FunctionDurations
from hybrid_scheduler.runtime.task_function import CallSizes
from hybrid_scheduler.testing import FakeAccelerator

SQUARE = np.ones((300, 300))
CALL = CallSizes(((2, "float64"),), (1.5, 2.5), 1_000)
ROW = ["f:1", "cpu", '[[2, "float64"]]', [1.5, 2.5], 1_000, 0.25, 3]


@hs.auto
def product(x: Any, y: Any) -> Any:
    return x @ y


def _program(folder: Path, *, calls: int, speedup: float) -> tuple[FakeAccelerator, list[str]]:
    """Run a program from its start to its end; return the accelerator and the reasons of its choices."""
    fake = FakeAccelerator(speedup=speedup)
    reasons = []
    with hs.HybridExecutor(cores=2, accelerators=[fake], history=folder) as executor:
        executor.graph.wait_ready()
        executor.graph.placement.bandwidth[:] = [1e12]  # as measured on a machine that is not busy
        for _ in range(calls):
            executor.graph.placement.starting[1].seconds = 1e-6
            future = executor.submit(product, SQUARE, SQUARE)
            future.result()
            executor.graph.wait_learned()
            assert future.decision is not None
            reasons.append(future.decision.reason)
    return fake, reasons


@pytest.fixture
def store(tmp_path: Path) -> DurationStore:
    return DurationStore(tmp_path, ["gpu"])


# ---------------------------------------------------------------- what is kept


def test_measurements_return_as_they_were(store: DurationStore) -> None:
    durations = FunctionDurations()
    for seconds in (0.5, 0.25, 0.25):
        durations.learn("f:1", "cpu", CALL, seconds)
    durations.learn("f:1", "gpu", CALL, 9.0, first=True)
    store.save(durations.state())
    loaded = FunctionDurations()
    loaded.restore(store.load())
    assert list(loaded.rows()) == [row for row in durations.rows() if row[1] == "cpu"]
    assert loaded.predict("f:1", "cpu", CALL) == durations.predict("f:1", "cpu", CALL)


def test_second_start_of_a_program_chooses_without_trials(tmp_path: Path) -> None:
    _, reasons = _program(tmp_path, calls=6, speedup=1e6)
    assert "it has not been measured here yet" in reasons
    fake, reasons = _program(tmp_path, calls=3, speedup=1e6)
    assert "it has not been measured here yet" not in reasons
    assert fake.counts["run"] == 3


def test_second_start_does_not_try_a_slow_device_again(tmp_path: Path) -> None:
    with hs.HybridExecutor(cores=2, accelerators=[FakeAccelerator()], history=tmp_path) as executor:
        call = product.sizes_of([SQUARE, SQUARE], (), {})
        for device_class, seconds in (("fake", 1.0), ("cpu", 1e-4), ("fake", 1.0), ("cpu", 1e-4)):
            executor.graph.durations.learn(product.key, device_class, call, seconds)
    fake, reasons = _program(tmp_path, calls=3, speedup=1e-6)
    assert fake.counts["run"] == 0
    assert "it has not been measured here yet" not in reasons


def test_function_with_changed_code_starts_anew(tmp_path: Path) -> None:
    def version(body: str) -> Any:
        names: dict[str, Any] = {"__name__": "example"}
        exec(f"def product(x, y):\n    return {body}", names)
        return hs.auto(names["product"])

    assert version("x @ y").key == version("x @ y").key
    assert version("x @ y").key != version("y @ x").key
    assert version("x * 2").key != version("x * 3").key
    for body in ("x @ y", "x @ y", "y @ x"):
        with hs.HybridExecutor(device_type="cpu", history=tmp_path) as executor:
            executor.submit(version(body), SQUARE, SQUARE).result()
    (path,) = duration_paths(tmp_path)
    found = {row.function for row in read_duration_file(path).rows}
    assert found == {version("x @ y").key, version("y @ x").key}


def test_identity_of_a_function_is_the_same_at_every_start() -> None:
    code = (
        "import hybrid_scheduler as hs\n"
        "def f(x): return x in {'a', 'b', 'c', 'd'}, [one for one in x if one in {'e', 'f', 'g'}]\n"
        "print(hs.auto(f).key)"
    )
    keys = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(keys) == 1


def test_program_that_only_reads_changes_nothing(store: DurationStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_000.0)
    store.save([ROW])
    monkeypatch.setattr(time, "time", lambda: 2_000.0)
    reader = FunctionDurations()
    reader.restore(store.load())
    store.save([[*ROW[:5], 0.5, 4]])  # another program measures meanwhile
    reader.learn("g:1", "cpu", CALL, 1.0)
    store.save(reader.state())
    rows = {row.function: row for row in read_duration_file(store.path).rows}
    assert (rows["f:1"].seconds, rows["f:1"].runs, rows["f:1"].measured_at) == (0.5, 4, 2_000)
    assert set(rows) == {"f:1", "g:1"}


def test_most_recent_rows_are_kept(store: DurationStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duration_store, "MAX_ROWS", 3)
    for number in range(5):
        monkeypatch.setattr(time, "time", lambda number=number: 1_000.0 + number)
        store.save([[f"f:{number}", *ROW[1:]]])
    assert [row.function for row in read_duration_file(store.path).rows] == ["f:2", "f:3", "f:4"]


def test_machines_have_files_of_their_own(tmp_path: Path) -> None:
    stores = [DurationStore(tmp_path, device_classes) for device_classes in (["a"], ["b"], [])]
    stores.append(DurationStore(tmp_path, [], 1_000))
    for number, one in enumerate(stores):
        one.save([[f"f:{number}", *ROW[1:]]])
    assert [one.load()[0][0] for one in stores] == ["f:0", "f:1", "f:2", "f:3"]
    assert len(duration_paths(tmp_path)) == 4
    assert "1000 cores" in read_duration_file(stores[3].path).description


def test_functions_are_forgotten_one_by_one_or_all(store: DurationStore) -> None:
    store.save([ROW, ["g:1", *ROW[1:]]])
    delete_durations(store.path, {"f:1"})
    assert [row.function for row in read_duration_file(store.path).rows] == ["g:1"]
    delete_durations(store.path, {"g:1"})
    assert not store.path.exists()
    store.save([ROW])
    delete_durations(store.path)
    assert store.load() == []


def test_folder_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert duration_folder("there") == Path("there")
    monkeypatch.setenv("HYBRID_SCHEDULER_CACHE", str(tmp_path))
    assert duration_folder() == tmp_path
    monkeypatch.delenv("HYBRID_SCHEDULER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert duration_folder() == tmp_path / "cache" / "hybrid-scheduler" / "run-times"


def test_executor_without_history_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_SCHEDULER_CACHE", str(tmp_path / "cache"))
    with hs.HybridExecutor(device_type="cpu", history=False) as executor:
        executor.submit(product, SQUARE, SQUARE).result()
    assert not (tmp_path / "cache").exists()


# ---------------------------------------------------------------- files that cannot be right


def _document(store: DurationStore, rows: Any, **changes: Any) -> str:
    document = {"format": "hybrid-scheduler run times", "version": 1, "machine": store.machine, "rows": rows}
    return json.dumps({**document, **changes})


GOOD = [*ROW, 1_000]
BAD_ROWS = {
    "nan_seconds": [[*GOOD[:5], float("nan"), 1, 1]],
    "infinite_seconds": [[*GOOD[:5], float("inf"), 1, 1]],
    "negative_seconds": [[*GOOD[:5], -1.0, 1, 1]],
    "zero_seconds": [[*GOOD[:5], 0, 1, 1]],
    "huge_seconds": [[*GOOD[:5], 10**4000, 1, 1]],
    "huge_runs": [[*GOOD[:6], 10**4000, 1]],
    "huge_size": [[*GOOD[:3], [1e200, 1.0], *GOOD[4:]]],
    "nan_size": [[*GOOD[:3], [float("nan"), 1.0], *GOOD[4:]]],
    "negative_bytes": [[*GOOD[:4], -5, *GOOD[5:]]],
    "true_as_a_number": [[*GOOD[:5], True, 1, 1]],
    "text_as_a_number": [[*GOOD[:5], "1", 1, 1]],
    "text_as_sizes": [[*GOOD[:3], "12", *GOOD[4:]]],
    "number_as_a_name": [[7, *GOOD[1:]]],
    "short_row": [GOOD[:5]],
    "long_row": [[*GOOD, 1]],
    "no_row": [None],
    "other_dimensions": [GOOD, [*GOOD[:3], [1.0], *GOOD[4:]]],
    "signature_of_another_type": [[*GOOD[:2], '{"a": 1}', *GOOD[3:]]],
    "signature_with_an_object": [[*GOOD[:2], '[{"a": 1}]', *GOOD[3:]]],
    "deep_signature": [[*GOOD[:2], "[" * 500 + "]" * 500, *GOOD[3:]]],
    "very_deep_signature": [[*GOOD[:2], "[" * 100_000 + "]" * 100_000, *GOOD[3:]]],
    "broken_signature": [[*GOOD[:2], "[", *GOOD[3:]]],
    "rows_as_a_number": 5,
    "rows_as_an_object": {"a": 1},
}


def _damaged(store: DurationStore) -> dict[str, bytes]:
    whole = _document(store, [GOOD])
    texts = {
        "empty": "",
        "half": whole[: len(whole) // 2],
        "list": "[]",
        "null": "null",
        "number": "1" * 10_000,
        "brackets": "[" * 100_000,
        "objects": '{"rows":' * 100_000,
        "other_version": _document(store, [GOOD], version=2),
        "other_format": _document(store, [GOOD], format="something else"),
        "other_machine": _document(store, [GOOD], machine="0" * 12),
        **{name: _document(store, rows) for name, rows in BAD_ROWS.items()},
    }
    return {"binary": b"\x00\xff\xfe" * 1_000, **{name: text.encode() for name, text in texts.items()}}


NAMES = [
    "binary",
    "empty",
    "half",
    "list",
    "null",
    "number",
    "brackets",
    "objects",
    "other_version",
    "other_format",
    "other_machine",
]


@pytest.mark.parametrize("name", [*NAMES, *BAD_ROWS])
def test_damaged_file_is_ignored_and_reported_once(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = DurationStore(tmp_path, [], 2)
    store.path.write_bytes(_damaged(store)[name])
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with hs.HybridExecutor(cores=2, accelerators=[], history=tmp_path) as executor:
                assert executor.submit(product, SQUARE, SQUARE).result()[0, 0] == 300
                executor.save_history()
    assert [one.message for one in caplog.records if "run times" in one.message] == [
        one.message for one in caplog.records
    ]
    assert len(caplog.records) == 1
    assert str(store.path) in caplog.text
    assert len(caplog.text) < 1_000
    assert [row.function for row in read_duration_file(store.path).rows] == [product.key]


def test_good_file_is_read_without_a_report(store: DurationStore, caplog: pytest.LogCaptureFixture) -> None:
    store.path.write_text(_document(store, [GOOD]))
    assert store.load() == [ROW]
    assert not caplog.records


def test_file_of_another_version_stays(store: DurationStore) -> None:
    other = store.path.with_name(store.path.name.replace("-v1", "-v2"))
    other.write_text(_document(store, [GOOD], version=2))
    store.save([ROW])
    assert json.loads(other.read_text())["version"] == 2


# ---------------------------------------------------------------- folders that cannot be used


@pytest.mark.parametrize("problem", ["file_in_the_way", "disk_full", "read_only"])
def test_folder_that_cannot_be_written_is_reported_once_and_work_goes_on(
    problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "cache"
    if problem == "file_in_the_way":
        folder.write_text("")
    elif problem == "disk_full":

        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(duration_store, "write_atomically", fail)
    else:
        folder.mkdir()
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
        if os.access(folder, os.W_OK):
            pytest.skip("permissions do not hold for this user")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            with hs.HybridExecutor(device_type="cpu", history=folder) as executor:
                assert executor.submit(product, SQUARE, SQUARE).result()[0, 0] == 300
    assert len(caplog.records) == 1
    assert str(folder) in caplog.text


def test_program_that_holds_the_lock_is_not_waited_for_without_end(
    store: DurationStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(duration_store, "LOCK_TIMEOUT_S", 0.02)
    with exclusive_lock(store.folder / ".lock") as mine:
        assert mine
        store.save([ROW])
    assert "another program holds the lock" in caplog.text
    store.save([ROW])
    assert store.load() == [ROW]


# ---------------------------------------------------------------- several programs

WRITER = """
import sys
from pathlib import Path
from hybrid_scheduler.runtime import duration_store
duration_store._LOCK_TIMEOUT = 60.0
store = duration_store.DurationStore(Path(sys.argv[1]), [])
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    store.save([[f"{sys.argv[2]}:{number}", "cpu", "[]", [], 0, 1.0, 1]])
    if number == 5:
        print("writing", flush=True)
"""


def _writer(folder: Path, name: str, rows: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), name, str(rows)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _read_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _start(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def test_programs_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    writers = [_writer(tmp_path, name, 40) for name in "abc"]
    for one in writers:
        assert _read_line(one) == "ready"
    for one in writers:
        _start(one)
    for one in writers:
        one.communicate(timeout=120)
        assert one.returncode == 0
    (path,) = duration_paths(tmp_path)
    found = {row.function for row in read_duration_file(path).rows}
    assert found == {f"{name}:{number}" for name in "abc" for number in range(40)}


def test_killed_program_leaves_a_whole_file(tmp_path: Path) -> None:
    for name in "abc":
        writer = _writer(tmp_path, name, 1_000_000)
        assert _read_line(writer) == "ready"
        _start(writer)
        assert _read_line(writer) == "writing"
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        (path,) = duration_paths(tmp_path)
        assert {f"{name}:{number}" for number in range(6)} <= {
            row.function for row in read_duration_file(path).rows
        }


def test_write_that_is_cut_off_leaves_the_old_file(store: DurationStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save([ROW])
    before = store.path.read_bytes()
    leftover = store.path.with_name(f".{store.path.name}.0123abcd.tmp")
    leftover.write_text("half a fi")

    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", cut)
        with pytest.raises(KeyboardInterrupt):
            store.save([["g:1", *ROW[1:]]])
    assert store.path.read_bytes() == before
    store.save([["g:1", *ROW[1:]]])
    assert len(store.load()) == 2
    assert not list(store.folder.glob("*.tmp"))
    assert not leftover.exists()


def test_time_grows_at_most_with_the_cube_of_a_size() -> None:
    durations = FunctionDurations()

    def call(n: int) -> CallSizes:
        return CallSizes(("array",), (math.log1p(n), math.log1p(n)), 8 * n * n)

    for n, seconds in ((16, 1e-4), (64, 0.05)):  # the second one was slow for another reason
        durations.learn("f", "gpu", call(n), seconds)
    found = durations.predict("f", "gpu", call(2048))
    assert found is not None
    assert 0.05 < found.seconds < 0.05 * 32**3
