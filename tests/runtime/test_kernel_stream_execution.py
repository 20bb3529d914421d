"""Streams of real kernels, reference times, and simulations of the same streams."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hybrid_scheduler.core import HybridSchedulerError, InvalidInputError
from hybrid_scheduler.experiments.kernel_benchmark import KernelBenchmark
from hybrid_scheduler.physics import Curve, ProfiledPhysics
from hybrid_scheduler.profiling.calibration import Calibration
from hybrid_scheduler.profiling.hardware_profile import load_profile, save_profile
from hybrid_scheduler.profiling.machine_info import THREAD_POOL
from hybrid_scheduler.runtime.contention_profile import (
    ContentionCalibration,
    ContentionMeasurement,
    _enough,
    calibrate_executor,
    fastest_kernels,
    scaled_to_totals,
)
from hybrid_scheduler.runtime.device_discovery import DevicePool
from hybrid_scheduler.runtime.kernel_executor import KernelExecutor
from hybrid_scheduler.runtime.kernel_stream import KernelInputs, as_workload, make_stream, size_grid
from hybrid_scheduler.runtime.kernel_stream_execution import (
    ReferenceTimes,
    StreamExecution,
    measure_reference_times,
    ratios,
    run_stream,
    share_energy,
)
from hybrid_scheduler.runtime.simulated_vs_real import compare_real, simulate
from hybrid_scheduler.runtime.submission import ExecutionRecord, KernelCall

POOLS = (DevicePool("cpu_wide", "cpu", threads=1), DevicePool("cpu_narrow", THREAD_POOL, threads=1))
CALLS = [KernelCall(kind, size) for size in (16, 32, 48) for kind in ("sort", "matmul")]


@pytest.fixture
def executor() -> Iterator[KernelExecutor]:
    with KernelExecutor("round_robin", pools=POOLS) as made:
        yield made


# ------------------------------------------------------------------------------------------ streams


def test_same_seed_gives_the_same_stream() -> None:
    first, again, other = (make_stream(["sort", "fft"], 40, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert {call.kind for call in first} == {"sort", "fft"}
    assert sum(call.kind == "sort" for call in first) == 20


def test_halves_share_no_size() -> None:
    learned, later = (make_stream(["sort"], 100, half=half, largest=4096) for half in (0, 1))
    assert not {call.size for call in learned} & {call.size for call in later}
    assert max(call.size for call in later) <= 4096
    limited = make_stream(["sort", "fft"], 100, largest=4096, limits={"sort": 256})
    assert max(call.size for call in limited if call.kind == "sort") <= 256


def test_size_grid_has_quarter_octaves() -> None:
    assert size_grid(64, 128) == [64, 80, 96, 112, 128]
    assert size_grid(64, 64, 1) == [64]
    for smallest, largest in ((8, 64), (128, 64)):
        with pytest.raises(InvalidInputError):
            size_grid(smallest, largest)


@pytest.mark.parametrize("options", [{"tasks": 0}, {"seed": -1}, {"kinds": ["nothing"]}, {"kinds": []}])
def test_bad_stream_options_are_refused(options: dict[str, object]) -> None:
    values: dict[str, object] = {"kinds": ["sort"], "tasks": 3, **options}
    with pytest.raises(InvalidInputError):
        make_stream(**values)  # type: ignore[arg-type]


def test_stream_becomes_a_workload() -> None:
    workload = as_workload(CALLS, [0.1 * i for i in range(len(CALLS))])
    assert workload[1].kind == "matmul"
    assert workload[1].size == 16.0
    assert 0.0 < workload[0].compute_intensity < workload[5].compute_intensity < 1.0


def test_inputs_are_kept_up_to_a_limit() -> None:
    kept = KernelInputs(most_bytes=3 * 4 * 32**2)
    first = kept.of(KernelCall("sort", 32))
    assert kept.of(KernelCall("sort", 32)) is first
    for size in (31, 30, 29):
        kept.of(KernelCall("sort", size))
    assert kept.of(KernelCall("sort", 32)) is not first
    large = kept.of(KernelCall("sort", 512))
    assert kept.of(KernelCall("sort", 512)) is not large  # more than all that may be kept


# ------------------------------------------------------------------------------------------ judging


def _record(
    task_id: int, device: str, seconds: float, fraction: float = 0.0, status: str = "done"
) -> ExecutionRecord:
    return ExecutionRecord(task_id, "sort", 16.0, device, fraction, status, 0.0, None, 0.0, seconds, seconds)


def test_ratios_equal_those_computed_by_hand() -> None:
    reference = ReferenceTimes(("cpu", "gpu_0"), np.array([[1.0, 2.0], [9.0, 3.0], [4.0, math.nan], [5.0, 5.0]]))
    assert reference.best.tolist() == [1.0, 3.0, 4.0, 5.0]
    assert reference.always("gpu_0").tolist() == [2.0, 3.0, 4.0, 5.0]
    records = [
        _record(0, "gpu_0", 2.2, 1.0),
        _record(1, "gpu_0", 3.0, 1.0),
        _record(2, "cpu", 4.0, status="failed"),
        _record(3, "gpu_0", 2.5, 0.5),
    ]
    found = ratios(StreamExecution("x", "sequential", records, 1.0, 0.0, 0.0), reference)
    assert found["ratio"] == pytest.approx((2.2 + 3.0 + 2.5) / 9.0)
    assert found["choice_ratio"] == pytest.approx((2.0 + 3.0 + 2.5) / 9.0)
    assert found["ratio_geometric"] == pytest.approx((2.2 * 1.0 * 0.5) ** (1 / 3))
    nothing = ratios(
        StreamExecution("x", "sequential", [records[2]], 1.0, 0.0, 0.0), ReferenceTimes(("cpu",), np.ones((1, 1)))
    )
    assert nothing["ratio"] is None


def test_energy_is_shared_by_seconds_on_the_accelerator() -> None:
    records = [_record(i, "gpu_0", 1.0) for i in range(2)]
    records[0].accelerator_seconds, records[1].accelerator_seconds = 1.0, 3.0
    share_energy(records, None)
    assert records[0].joules is None
    share_energy(records, 8.0)
    assert [record.joules for record in records] == [2.0, 6.0]


def test_choices_measure_every_kernel_on_every_device(executor: KernelExecutor) -> None:
    reference = measure_reference_times(executor, [*CALLS, CALLS[0]], repeats=2)
    assert reference.devices == ("cpu_wide", "cpu_narrow")
    assert reference.seconds.shape == (7, 2)
    assert (reference.seconds > 0).all()
    assert reference.seconds[0].tolist() == reference.seconds[-1].tolist()
    assert not executor.records


def test_kernel_that_runs_nowhere_is_named(executor: KernelExecutor) -> None:
    broken = KernelCall("sort", 17, inputs=("no tensor",))
    with pytest.raises(HybridSchedulerError, match=r"sort of size 17 failed on every device: \w+Error"):
        measure_reference_times(executor, [CALLS[0], broken], repeats=1)
    given = calibrate_executor(executor, CALLS, repeats=1)
    with pytest.raises(HybridSchedulerError, match="every task under gpu_only failed"):
        compare_real(executor, [broken], ["gpu_only"], given=given, rounds=1)


@pytest.mark.parametrize("mode", ["sequential", "batch"])
def test_run_has_a_record_for_every_call(mode: str, executor: KernelExecutor) -> None:
    found = run_stream(executor, CALLS, mode=mode, learning=CALLS[:2])
    assert [record.kind for record in found.records] == [call.kind for call in CALLS]
    assert found.learned_from == 2
    assert found.total > 0
    document = found.as_dict()
    assert document["statuses"] == {"done": 6}
    assert sum(document["on"].values()) == 6
    json.dumps(document, allow_nan=False)


def test_bad_mode_is_refused(executor: KernelExecutor) -> None:
    with pytest.raises(InvalidInputError, match="sequential or batch"):
        run_stream(executor, CALLS, mode="parallel")


# ------------------------------------------------------------------------------------------ simulated and real


def test_survey_calibrates_alone_and_under_contention(executor: KernelExecutor, tmp_path: Path) -> None:
    contention = ContentionMeasurement(executor, CALLS)
    for _ in range(2):
        contention.measure()
    assert all(len(runs) == 2 for by_class in contention.isolated.values() for runs in by_class.values())
    calibrated = contention.calibrated()
    assert calibrated.isolated.physics.kinds == calibrated.contended.physics.kinds == ("sort", "matmul")
    for name, profile in contention.profiles().items():
        assert all(point.cpu_seconds and point.cpu_one_thread_seconds for point in profile.points)
        save_profile(profile, tmp_path / f"{name}.json")
        assert load_profile(tmp_path / f"{name}.json") == profile
    assert "busy" in contention.profiles()["contended"].notes[0]
    assert not executor.records


def test_background_devices_run_the_kernels_they_run_fastest(executor: KernelExecutor) -> None:
    services = {
        ("sort", 16): {"cpu": [1.0, 9.0, 1.0], THREAD_POOL: [2.0, 2.0, 2.0]},
        ("matmul", 16): {"cpu": [3.0], THREAD_POOL: [2.0]},
        ("fft", 16): {},
    }
    found = fastest_kernels(executor, services)
    assert found == {"cpu_wide": [KernelCall("sort", 16)], "cpu_narrow": [KernelCall("matmul", 16)]}
    never_best = fastest_kernels(executor, {("sort", 16): {"cpu": [1.0], THREAD_POOL: [2.0]}})
    assert never_best["cpu_narrow"] == [KernelCall("sort", 16)]


def test_scaled_curve_sums_up_to_the_measured_total() -> None:
    curve = Curve("sort", "cpu", (16.0, 64.0), (1.0, 4.0))
    calibration = Calibration(ProfiledPhysics((curve,)), (), {}, "pageable")
    # Six runs, one of them disturbed: the median is 1 and 4, the sum half as much again.
    services = {("sort", 16): {"cpu": [1.0, 1.0, 1.0]}, ("sort", 64): {"cpu": [4.0, 4.0, 11.5]}}
    (higher,) = scaled_to_totals(calibration, services).physics.curves
    assert higher.seconds == pytest.approx((1.5, 6.0))


def test_real_and_simulated_makespans_are_compared(executor: KernelExecutor) -> None:
    found = compare_real(executor, CALLS, ["earliest_finish", "cpu_only"], rounds=2)
    for spec, one in found.schedulers.items():
        assert len(one["real"]) == len(one["simulated"]) == 2
        assert one["error"] == pytest.approx(one["simulated_makespan_seconds"] / one["real_makespan_seconds"] - 1)
        assert all(len(run.records) == len(CALLS) for run in found.runs[spec])
    # One device alone: its work one after the other, so the simulated makespan is at least the sum of the curves.
    curves = found.contention.expected().isolated.physics
    alone = sum(float(curves.row(call.kind, call.size, executor.platform)[0].sum()) for call in CALLS)
    assert found.schedulers["cpu_only"]["simulated_makespan_seconds"] >= 0.999 * alone


def test_learners_are_simulated_with_what_they_learned_before(executor: KernelExecutor) -> None:
    found = compare_real(executor, CALLS, ["hybrid_ml", "rl_agent"], rounds=1, learning=CALLS)
    for spec, one in found.schedulers.items():
        assert all(len(run.records) == len(CALLS) for run in found.runs[spec])
        assert 0.0 < one["simulated_makespan_seconds"] < 900.0  # of the batch alone, without the pauses before
        assert 0.0 <= one["simulated"][0]["on_accelerator"] <= 1.0


def test_simulation_keeps_task_ids(executor: KernelExecutor) -> None:
    """Round robin sends even ids to one device and odd ids to the other, whatever the first id is."""
    curves = tuple(Curve("sort", device, (16.0, 64.0), (1.0, 10.0)) for device in ("cpu", THREAD_POOL))
    calibration = Calibration(ProfiledPhysics(curves), (), {}, "pageable")
    calls = [KernelCall("sort", 64), KernelCall("sort", 16), KernelCall("sort", 16)]
    both = ContentionCalibration(calibration, calibration)
    for first, makespan in ((0, 11.0), (1, 11.0)):
        records = [_record(first + i, "cpu_wide", 0.0) for i in range(3)]
        simulated = simulate(executor, calibration, both, calls, records, "round_robin(variant=gpu-cpu)")
        assert simulated["makespan_seconds"] == pytest.approx(makespan)
        assert simulated["on_accelerator"] == pytest.approx((2 - first) / 3)


def test_background_work_is_long_enough_and_limited() -> None:
    calls = [KernelCall("sort", 16), KernelCall("sort", 32)]
    assert len(_enough(calls, [0.1, 0.3], 2.0)) == 10
    assert len(_enough(calls, [], 2.0)) <= 20_000
    assert _enough(calls, [5.0, 5.0], 2.0) == calls


def test_comparison_uses_a_given_calibration(executor: KernelExecutor) -> None:
    given = calibrate_executor(executor, CALLS, repeats=1)
    found = compare_real(executor, CALLS, ["cpu_only"], given=given, rounds=1)
    assert found.schedulers["cpu_only"]["tasks"] == len(CALLS)
    assert all(not runs for runs in found.contention.isolated.values())


def test_benchmark_judges_every_scheduler(executor: KernelExecutor) -> None:
    benchmark = KernelBenchmark(
        executor, CALLS, ["hybrid_ml", "min_completion"], learning=CALLS[:4], compare=True, repeats=1
    )
    assert benchmark.needs_calibration()
    document = benchmark.run()
    assert document["source"] == "measured"
    assert set(document["schedulers"]) == {"hybrid_ml", "min_completion"}
    assert set(document["always"]) == {"cpu_wide", "cpu_narrow"}
    assert document["schedulers"]["hybrid_ml"]["learned_from"] == 4
    assert document["schedulers"]["min_completion"]["learned_from"] == 0
    assert set(document["compare"]) == {"hybrid_ml", "min_completion"}
    json.dumps(document, allow_nan=False)
    rows = benchmark.rows()
    assert len(rows) == 12
    assert {row["source"] for row in rows} == {"measured"}


def test_benchmark_needs_no_calibration_for_other_schedulers(executor: KernelExecutor) -> None:
    assert not KernelBenchmark(executor, CALLS, ["greedy", "hybrid_ml"]).needs_calibration()
