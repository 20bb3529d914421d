"""Overhead that the executor measures of its own work, and how often it measures a function on the CPU."""

import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid_scheduler as hs
from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.runtime import cpu_cores
from hybrid_scheduler.runtime.function_durations import MeasuredOverhead
from hybrid_scheduler.testing import FakeAccelerator
from hybrid_scheduler.testing.fakes import OutOfMemoryError

SOME = np.ones((20, 20))


class _Counted:
    """Function of one array that counts its calls on each device."""

    def __init__(self, **options: Any) -> None:
        self.on_cpu: list[float] = []
        self.on_gpu: list[float] = []
        self.function = hs.task(gpu=self._gpu, **options)(self._cpu)

    def _cpu(self, x: Any) -> Any:
        self.on_cpu.append(float(x.sum()))
        return x + 1

    def _gpu(self, x: Any) -> Any:
        self.on_gpu.append(float(x.sum()))
        return x + 1


def _executor(**options: Any) -> hs.HybridExecutor:
    made = hs.HybridExecutor(**{"accelerators": [FakeAccelerator()], "history": False, "cores": 2, **options})
    made.graph.wait_ready()
    return made


def _learn(
    executor: hs.HybridExecutor, function: Any, device_class: str, seconds: float, array: Any = SOME
) -> None:
    sizes = function.sizes_of([executor.put(array)], (), {})
    for _ in range(3):
        executor.graph.durations.learn(function.key, device_class, sizes, seconds)


# ------------------------------------------------------------------------------------------ overhead


def test_overhead_follows_what_is_measured() -> None:
    overhead = MeasuredOverhead(30e-6)
    for _ in range(100):
        overhead.note(100e-6)
    assert overhead.seconds == pytest.approx(100e-6, rel=0.01)


def test_a_disturbed_measurement_changes_an_overhead_little() -> None:
    overhead = MeasuredOverhead(30e-6)
    overhead.note(10.0)
    assert overhead.seconds < 40e-6
    overhead.note(-1.0)
    assert overhead.seconds > 20e-6


@pytest.mark.parametrize("sample", [0.0, 1.0])
def test_overhead_stays_within_limits(sample: float) -> None:
    overhead = MeasuredOverhead(30e-6)
    for _ in range(1_000):
        overhead.note(sample)
    assert 3e-6 <= overhead.seconds <= 300e-6


def test_every_kind_of_overhead_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: set[int] = set()
    note = MeasuredOverhead.note

    def noting(self: MeasuredOverhead, seconds: float) -> None:
        noted.add(id(self))
        note(self, seconds)

    monkeypatch.setattr(MeasuredOverhead, "note", noting)
    counted = _Counted()
    with _executor() as executor:
        placement = executor.graph.placement
        for columns, on_fake, on_cpu in ((20, 1e-5, 0.5), (40, 0.5, 1e-5), (80, 0.5, 0.2)):
            array = np.ones((20, columns))
            _learn(executor, counted.function, "fake", on_fake, array)
            _learn(executor, counted.function, "cpu", on_cpu, array)
            executor.submit(counted.function, array).result(timeout=60)
        kinds = (placement.choosing, placement.in_place, placement.hand_over, placement.starting[1])
        assert {id(one) for one in kinds} <= noted


@pytest.mark.parametrize(("overhead", "space"), [(1e-6, 1), (1e-2, 0)])
def test_the_measured_overhead_of_a_device_is_part_of_its_end(overhead: float, space: int) -> None:
    counted = _Counted()
    with _executor() as executor:
        _learn(executor, counted.function, "fake", 1e-4)
        _learn(executor, counted.function, "cpu", 1e-3)
        executor.graph.placement.starting[1].seconds = overhead
        future = executor.submit(counted.function, executor.put(SOME))
        future.result(timeout=60)
        assert future.decision is not None
        assert future.decision.space == space
        assert "overhead" in executor.explain(future)


def test_a_call_too_short_to_choose_says_so_with_the_measured_time() -> None:
    counted = _Counted()
    with _executor() as executor:
        _learn(executor, counted.function, "fake", 1e-3)
        _learn(executor, counted.function, "cpu", 1e-6)
        executor.graph.placement.choosing.seconds = 200e-6
        future = executor.submit(counted.function, SOME)
        future.result(timeout=60)
        assert "longer than it could gain: the better fixed device" in executor.explain(future)
        assert "on cpu" in executor.explain(future)


def test_a_queue_does_not_make_the_executor_choose_again_where_only_one_device_can_be_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = _Counted()
    fake = FakeAccelerator()
    with _executor(accelerators=[fake]) as executor:
        placement = executor.graph.placement
        placement.facts_of(counted.function.key).runs_on_cpu = False
        _learn(executor, counted.function, "fake", 1e-3)
        considered: list[int] = []
        consider = placement.consider

        def counting(call: Any) -> Any:
            considered.append(1)
            return consider(call)

        monkeypatch.setattr(placement, "consider", counting)
        fake.pause()
        placed = executor.put(SOME)
        executor.submit(counted.function, placed)  # copies the array
        futures = [executor.submit(counted.function, placed) for _ in range(12)]
        fake.resume()
        for future in futures:
            future.result(timeout=60)
        assert len(considered) == 2


def test_the_search_for_blas_libraries_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import threadpoolctl  # type: ignore[import-untyped]

    searches: list[int] = []

    class Controller(threadpoolctl.ThreadpoolController):  # type: ignore[misc]
        def __init__(self) -> None:
            searches.append(1)
            super().__init__()

    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", Controller)
    cpu_cores.blas_libraries.cache_clear()
    for _ in range(2):
        with _executor() as executor:
            executor.submit(hs.auto(threads=1)(lambda x: x @ x), SOME).result(timeout=60)
    assert len(searches) == 1


# ------------------------------------------------------------------------------------------ measurements


def test_a_size_that_one_core_has_measured_is_not_measured_again() -> None:
    """A nearer measurement with one core counts for more than a distant one with all cores."""
    counted = _Counted()
    large = np.ones((400, 400))
    with _executor() as executor:
        for array, seconds in ((SOME, 1e-4), (large, 2e-4)):
            _learn(executor, counted.function, "fake", seconds, array)
        _learn(executor, counted.function, "cpu (all cores)", 1e-4)
        _learn(executor, counted.function, "cpu", 1e-2, large)
        future = executor.submit(counted.function, large)
        future.result(timeout=60)
        assert (future.space, future.beside) == (1, False)
    assert counted.on_cpu == []


def test_a_function_of_the_accelerator_is_measured_on_the_cpu_beside_it() -> None:
    counted = _Counted()
    with _executor() as executor:
        _learn(executor, counted.function, "fake", 1e-4)
        executor.submit(counted.function, SOME).result(timeout=60)
        executor.graph.wait_learned()
        assert set(counted.on_cpu) == {400.0}
        assert {row[1] for row in executor.graph.durations.rows()} == {"fake", "cpu"}


def test_the_second_start_measures_nothing_on_the_cpu(tmp_path: Path) -> None:
    counted = _Counted()
    for start in range(2):
        before = len(counted.on_cpu)
        with _executor(history=tmp_path) as executor:
            executor.graph.placement.starting[1].seconds = 1e-6
            if not start:  # which of both devices ran is a matter of the machine's load
                _learn(executor, counted.function, "fake", 1e-4)
                _learn(executor, counted.function, "cpu", 1e-3)
            for _ in range(8):
                executor.submit(counted.function, SOME).result(timeout=60)
            executor.graph.wait_learned()
            on_cpu = sum(one.device == "cpu" for one in executor.records)
        if start:
            assert len(counted.on_cpu) == before + on_cpu


@pytest.mark.parametrize("options", [{"cancel_futures": True}, {"wait": False}])
def test_shutdown_with_options_ends_during_measurements(options: dict[str, bool]) -> None:
    counted = _Counted()
    executor = _executor()
    _learn(executor, counted.function, "fake", 1e-3)
    executor.submit(counted.function, SOME).result(timeout=60)
    executor.shutdown(**options)
    executor.shutdown()
    if "cancel_futures" in options:
        assert counted.on_cpu == []


def test_large_results_on_an_accelerator_are_not_fetched_for_a_measurement() -> None:
    counted = _Counted()
    with _executor() as executor:
        first = executor.submit(counted.function, executor.put(np.ones((600, 600))))
        executor.submit(counted.function, first).handle(timeout=60)
        del first
        executor.graph.wait_learned()
        gc.collect()
        assert executor.graph.directory.bytes_in(1) == 0
    assert counted.on_cpu == []


def test_measurements_take_a_share_of_a_functions_seconds() -> None:
    counted = _Counted()
    with _executor() as executor:
        placement = executor.graph.placement
        _learn(executor, counted.function, "fake", 2e-3)
        facts = placement.facts_of(counted.function.key)
        for seconds, expected in ((0.0, False), (1.0, True)):
            facts.seconds = seconds
            facts.kept.clear()
            future = executor.submit(counted.function, SOME)
            future.result(timeout=60)
            assert future.beside is expected
            executor.graph.wait_learned()
            facts = placement.facts_of(counted.function.key)


def test_a_first_run_that_loads_kernels_does_not_keep_a_size_from_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run of a size may take a hundred times as long as the next ones."""
    monkeypatch.setattr(MeasuredOverhead, "note", lambda *_: None)
    counted = _Counted()
    large = np.ones((200, 20))
    fake = FakeAccelerator()
    seconds = iter([0.1, *[1e-3] * 50])
    with _executor(accelerators=[fake]) as executor:
        executor.graph.placement.bandwidth[:] = [1e12]
        monkeypatch.setattr(fake, "seconds", lambda *_: next(seconds))
        executor.graph.placement.facts_of(counted.function.key).runs["fake"] = 5
        _learn(executor, counted.function, "fake", 5e-4)
        for array, known in ((SOME, 2e-3), (large, 2e-2)):
            _learn(executor, counted.function, "cpu", known, array)
        for _ in range(3):
            future = executor.submit(counted.function, large)
            future.result(timeout=60)
            executor.graph.wait_learned()
        assert future.space == 1
        estimate = executor.graph.durations.predict(counted.function.key, "fake", future.sizes)
        assert estimate is not None
        assert estimate.warm
        assert estimate.seconds == pytest.approx(1e-3)


# ------------------------------------------------------------------------------------------ repeatable


def test_a_function_that_is_not_repeatable_runs_once_per_call() -> None:
    counted = _Counted(repeatable=False)
    with _executor() as executor:
        executor.graph.placement.facts_of(counted.function.key).seconds = 100.0
        for _ in range(20):
            executor.submit(counted.function, SOME).result(timeout=60)
            executor.graph.wait_learned()
    assert len(counted.on_cpu) + len(counted.on_gpu) == 20


@pytest.mark.parametrize("error", [OutOfMemoryError("full"), ValueError("not here")])
def test_a_call_that_is_not_repeatable_ends_with_its_error_on_the_gpu(error: Exception) -> None:
    calls: list[str] = []

    def fails(x: Any) -> Any:
        calls.append("gpu")
        raise error

    function = hs.task(gpu=fails, repeatable=False)(lambda x: calls.append("cpu"))
    with _executor() as executor:
        future = executor.submit(function, SOME)
        assert future.exception(timeout=60) is error
        assert executor.graph.unfinished == 0
    assert calls == ["gpu"]


def test_arrays_that_do_not_fit_send_a_call_to_the_cpu_even_if_it_is_not_repeatable() -> None:
    counted = _Counted(repeatable=False)
    with _executor(accelerators=[FakeAccelerator(memory=100, capacity=1e9)]) as executor:
        np.testing.assert_array_equal(executor.submit(counted.function, SOME).result(timeout=60), SOME + 1)
    assert (len(counted.on_cpu), counted.on_gpu) == (1, [])


def test_repeatable_is_a_truth_value() -> None:
    with pytest.raises(InvalidInputError, match="repeatable"):
        hs.auto(repeatable="no")(threading.Event)
