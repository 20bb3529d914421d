"""Simulated twin of a program: the same graph, devices and order, with learned durations."""

from concurrent.futures import wait
from typing import Any

import numpy as np
import pytest

import hybrid_scheduler as hs
from hybrid_scheduler.core import HybridSchedulerError
from hybrid_scheduler.runtime.simulated_vs_real import twin_of
from hybrid_scheduler.runtime.task_execution import CallRecord
from hybrid_scheduler.testing import FakeAccelerator

MB = 1_000_000


@hs.auto
def potrf(a: Any) -> Any:
    """Factorise a tile."""
    return np.linalg.cholesky(a)


@hs.auto
def trsm(a: Any, b: Any) -> Any:
    """Solve with a factor."""
    return np.linalg.solve(a, b.T).T


@hs.auto
def update(c: Any, a: Any, b: Any) -> Any:
    """Subtract a product."""
    return c - a @ b.T


def _call(number: int, device: str, start: float, seconds: float, **more: Any) -> CallRecord:
    return CallRecord(number, "f", device, 0.0, start, start + seconds, seconds, 0.0, 0.0, **more)


def test_tiled_cholesky_is_simulated_as_it_ran() -> None:
    tiles, edge = 4, 40
    size = tiles * edge
    values = np.random.default_rng(7).normal(size=(size, size))
    matrix = values @ values.T + size * np.eye(size)
    fakes = [FakeAccelerator(name=f"fake_{i}") for i in range(2)]
    with hs.HybridExecutor("round_robin", accelerators=fakes, history=False, cores=2) as executor:
        executor.graph.wait_ready()
        part: dict[tuple[int, int], Any] = {
            (i, j): matrix[i * edge : (i + 1) * edge, j * edge : (j + 1) * edge]
            for i in range(tiles)
            for j in range(i + 1)
        }
        futures: list[Any] = []

        def submit(function: Any, *tiles: Any) -> Any:
            futures.append(executor.submit(function, *tiles))
            return futures[-1]

        for k in range(tiles):
            part[k, k] = submit(potrf, part[k, k])
            for i in range(k + 1, tiles):
                part[i, k] = submit(trsm, part[k, k], part[i, k])
            for i in range(k + 1, tiles):
                for j in range(k + 1, i + 1):
                    part[i, j] = submit(update, part[i, j], part[i, k], part[j, k])
        lower = np.zeros_like(matrix)
        for (i, j), tile in part.items():
            lower[i * edge : (i + 1) * edge, j * edge : (j + 1) * edge] = tile.result(timeout=60)
        wait(futures, timeout=60)  # a result can be there before the end of a task that it needed was noticed
        records = executor.records
        twin = executor.twin()
    np.testing.assert_allclose(np.tril(lower) @ np.tril(lower).T, matrix)
    assert len(twin.rows) == len(records) == 20
    assert {row.device for row in twin.rows} >= {"fake_0", "fake_1"}
    device_of = {one.number: one.device for one in records}
    for row in twin.rows:
        assert row.device == device_of[row.number] or device_of[row.number] == "cpu"
        assert row.simulated_finish > row.simulated_start >= 0.0
    finish = {row.number: row.simulated_finish for row in twin.rows}
    start = {row.number: row.simulated_start for row in twin.rows}
    for one in records:
        assert all(start[one.number] >= finish[number] - 1e-12 for number, _ in one.inputs)
    # Every edge is there: the next step of a tile needs the last one, and the factors of its row and column.
    assert sum(len(one.inputs) for one in records) == 36
    assert twin.simulated == max(finish.values())
    assert twin.ratio == twin.simulated / twin.measured
    assert twin.ratio > 0.0


def test_transfers_and_queues_are_those_of_the_graph() -> None:
    records = [
        _call(0, "cpu", 0.0, 1.0, nbytes=MB),
        _call(1, "gpu", 1.2, 1.0, nbytes=MB, copied=3 * MB, inputs=((0, MB),)),
        _call(2, "gpu", 2.2, 1.0, nbytes=MB, inputs=((0, MB), (1, MB))),
        _call(3, "cpu", 3.3, 1.0, nbytes=MB, inputs=((2, MB),)),
    ]
    twin = twin_of(records, 1, ["gpu"], [1e7])  # a MB takes 0.1 s
    copy, start = 0.1, 20e-6
    # Task 1 waits for the result of task 0 and copies 2 MB of the program itself.
    expected_start = [0.0, 1.0 + copy + start]
    second = expected_start[1] + 1.0 + 2 * copy + start
    expected_start += [second, second + 1.0 + copy + start]
    assert [row.simulated_start for row in twin.rows] == pytest.approx(expected_start)
    assert twin.simulated == pytest.approx(expected_start[-1] + 1.0)
    assert twin.measured == pytest.approx(4.3)


def test_typical_durations_replace_disturbed_ones() -> None:
    records = [_call(i, "cpu", float(i), 1.0 if i else 9.0) for i in range(5)]
    twin = twin_of(records, 2, [], [])
    assert {round(row.simulated_finish - row.simulated_start, 9) for row in twin.rows} == {1.0}
    assert {row.device for row in twin.rows} == {"cpu", "core_1"}


def test_a_program_without_calls_has_no_twin() -> None:
    with (
        hs.HybridExecutor(accelerators=[], history=False, cores=1) as executor,
        pytest.raises(HybridSchedulerError, match="nothing to simulate"),
    ):
        executor.twin()
