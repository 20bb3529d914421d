"""Sweeps: the same table after a kill -9 and after an extension; on Ray see `runtime/test_ray_executor.py`."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from sweep_examples import lines_of, plan, table

import hybrid_scheduler
from hybrid_scheduler import HybridSchedulerError, InvalidInputError
from hybrid_scheduler.cluster import Machine
from hybrid_scheduler.experiments import sweep
from hybrid_scheduler.experiments.run_record import configuration_hash
from hybrid_scheduler.experiments.spec import ExperimentSpec, TraceSource
from hybrid_scheduler.experiments.sweep import (
    CELLS,
    TABLE,
    LocalBackend,
    RaySweepBackend,
    cells_of,
    run_sweep,
)
from hybrid_scheduler.runtime.ray_executor import RUN_WITHOUT_RAY
from hybrid_scheduler.workload.scenarios import generate, scenario_named


def test_rows_follow_the_order_of_the_plan(tmp_path):
    cells = plan()
    rows = run_sweep(cells, tmp_path, LocalBackend(1))
    assert [row["key"] for row in rows] == [cell.key for cell in cells]
    frame = pd.read_parquet(tmp_path / TABLE)
    assert len(frame) == len(cells) == 12
    assert set(frame["load"].dropna()) == {0.5, 0.9}
    assert frame["batch"].sum() == 4
    assert (frame["makespan_over_bound"] > 0.99).all()
    # A cell is what the comparison of the same seed says.
    expected = cells[0].spec.run(3000).summaries["greedy"].latency.mean
    assert rows[0]["mean_latency"] == expected


def test_processes_and_order_do_not_change_the_table(tmp_path):
    cells = plan(tasks=30, seeds=1)
    run_sweep(cells, tmp_path / "one", LocalBackend(1))
    run_sweep(cells, tmp_path / "two", LocalBackend(2))

    class Backwards:
        def run(self, cells):
            return ((cell, sweep.run_cell(cell)) for cell in reversed(cells))

    run_sweep(cells, tmp_path / "backwards", Backwards())
    assert table(tmp_path / "one") == table(tmp_path / "two") == table(tmp_path / "backwards")


def test_extended_plan_runs_only_new_cells(tmp_path):
    class Counting(LocalBackend):
        ran: list[str] = []  # noqa: RUF012

        def run(self, cells):
            self.ran.extend(cell.key for cell in cells)
            return super().run(cells)

    run_sweep(plan(seeds=1), tmp_path, Counting(1))
    first = len(Counting.ran)
    run_sweep(plan(seeds=2), tmp_path, Counting(1))
    assert (first, len(Counting.ran)) == (6, 12)
    assert len(set(Counting.ran)) == 12
    run_sweep(plan(seeds=2), tmp_path / "fresh", LocalBackend(1))
    assert table(tmp_path) == table(tmp_path / "fresh")


def test_retrained_model_is_another_cell(tmp_path):
    model = tmp_path / "model.skops"
    spec = ExperimentSpec(scenario_named("mixed"), 10, (f"hybrid_ml(model={model})",))
    keys: list[str] = []
    hashes: list[str] = []
    for content in (b"one", b"two"):
        model.write_bytes(content)
        os.utime(model, ns=(0, len(keys)))
        keys.append(cells_of([spec], [1])[0].key)
        hashes.append(configuration_hash("compare", spec, [1]))
    assert len(set(keys)) == len(set(hashes)) == 2


@pytest.mark.parametrize("rest", [b'{"key":"abc","sched', b"{}", b'"x"\n'])
def test_truncated_last_line_is_dropped(rest, tmp_path):
    cells = plan(seeds=1)
    run_sweep(cells, tmp_path / "whole", LocalBackend(1))
    lines = (tmp_path / "whole" / CELLS).read_bytes().splitlines(keepends=True)
    cut = tmp_path / "cut"
    cut.mkdir()
    (cut / CELLS).write_bytes(b"".join(lines[:3]) + rest)
    run_sweep(cells, cut, LocalBackend(1))
    assert table(cut) == table(tmp_path / "whole")
    assert (cut / CELLS).read_bytes().splitlines(keepends=True)[:3] == lines[:3]


def test_damaged_line_in_the_middle_is_refused(tmp_path):
    (tmp_path / CELLS).write_bytes(b"not json\n" + b'{"key":"a"}\n')
    with pytest.raises(HybridSchedulerError, match="line 1 is damaged"):
        run_sweep(plan(), tmp_path, LocalBackend(1))


def test_failed_cell_keeps_the_others(tmp_path):
    bad = ExperimentSpec(scenario_named("shift"), 20, ("greedy",), machine=_serial())
    with pytest.raises(HybridSchedulerError, match="1 of 7 cells failed") as caught:
        run_sweep([*plan(seeds=1), *cells_of([bad], [1])], tmp_path, LocalBackend(1))
    assert "6 are kept" in (caught.value.hint or "")
    assert len((tmp_path / CELLS).read_bytes().splitlines()) == 6
    assert not (tmp_path / TABLE).exists()


def _serial():
    from hybrid_scheduler import SerialPhysics
    from hybrid_scheduler.cluster import Machine

    return Machine(hybrid_scheduler.workstation(), SerialPhysics())


PROGRAM = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from sweep_examples import plan
from hybrid_scheduler.cluster import Machine
from hybrid_scheduler.experiments import sweep
from hybrid_scheduler.experiments.sweep import LocalBackend
original = sweep.run_cell
def slowly(cell):
    time.sleep(0.15)
    return original(cell)
sweep.run_cell = slowly
sweep.run_sweep(plan(seeds=3), Path(sys.argv[1]), LocalBackend(1))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
def test_sweep_killed_with_sigkill_resumes_to_the_same_table(tmp_path):
    folder, source = tmp_path / "killed", str(Path(hybrid_scheduler.__file__).parents[1])
    arguments = [sys.executable, "-c", PROGRAM, str(folder), str(Path(__file__).parents[1])]
    environ = {**os.environ, "PYTHONPATH": source}
    running = subprocess.Popen(arguments, env=environ)
    try:
        deadline = time.monotonic() + 120
        while lines_of(folder) < 4:
            assert running.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    before = (folder / CELLS).read_bytes()
    assert not (folder / TABLE).exists()
    cells = plan(seeds=3)
    run_sweep(cells, folder, LocalBackend(1))
    run_sweep(cells, tmp_path / "undisturbed", LocalBackend(1))
    assert table(folder) == table(tmp_path / "undisturbed")
    after = (folder / CELLS).read_bytes()
    kept = before[: before.rfind(b"\n") + 1]
    assert after.startswith(kept)  # what was finished was not done again
    keys = [json.loads(line)["key"] for line in after.splitlines()]
    assert len(keys) == len(set(keys)) == len(cells)


def test_second_sweep_in_the_same_folder_is_refused(tmp_path):
    class Nested:
        def run(self, cells):
            run_sweep(plan(seeds=1), tmp_path, LocalBackend(1))
            yield from ()

    with pytest.raises(InvalidInputError, match="no other run is writing to"):
        run_sweep(plan(seeds=1), tmp_path, Nested())


# ------------------------------------------------------------------------------------------ Ray


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_unreachable_ray_address_is_refused(address, tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(InvalidInputError, match="nothing answers there") as caught:
        run_sweep(plan(seeds=1), tmp_path, RaySweepBackend(address))
    assert caught.value.hint == RUN_WITHOUT_RAY


def test_address_of_another_program_is_refused(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(sweep, "RAY_TIMEOUT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(InvalidInputError, match="what answers there is not Ray") as caught:
            run_sweep(plan(seeds=1), tmp_path, RaySweepBackend(address))
    assert caught.value.hint == RUN_WITHOUT_RAY


def test_malformed_ray_address_is_refused(tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(InvalidInputError, match="HOST:PORT or auto"):
        run_sweep(plan(seeds=1), tmp_path, RaySweepBackend("somewhere"))


@pytest.mark.parametrize("without_interval_first", [True, False])
def test_cells_without_an_interval_keep_those_of_the_others(tmp_path, without_interval_first):
    class Prepared:
        def run(self, cells):
            for number, cell in enumerate(cells):
                lacks = (number == 0) == without_interval_first
                yield cell, {"key": cell.key, "mean": 1.0, **({} if lacks else {"mean_half_width": 0.5})}

    run_sweep(plan(seeds=1)[:2], tmp_path, Prepared())
    found = pd.read_parquet(tmp_path / TABLE)["mean_half_width"]
    assert (found.isna().sum(), found.sum()) == (1, 0.5)


def test_trace_crosses_to_other_processes(tmp_path):
    tasks = generate(scenario_named("mixed"), 40, 1)
    trace = TraceSource.of("week", tasks)
    cells = cells_of([ExperimentSpec.for_trace(trace, ("greedy", "oracle"), Machine())], [1])
    rows = run_sweep(cells, tmp_path, LocalBackend(2))
    assert [row["tasks"] for row in rows] == [40, 40]
