"""Streams of real kernels, the yardstick they are judged by, and their twins in the simulator."""

import json
import math
from collections.abc import Iterator

import numpy as np
import pytest

from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.hardware.calibration import calibrate
from hybrid_scheduler.hardware.contest import Contest
from hybrid_scheduler.hardware.execution import (
    Choices,
    Execution,
    measure_choices,
    ratios,
    run_stream,
    share_energy,
)
from hybrid_scheduler.hardware.executor import HybridExecutor
from hybrid_scheduler.hardware.inputs import Inputs
from hybrid_scheduler.hardware.jobs import KernelCall, Record
from hybrid_scheduler.hardware.pools import Pool
from hybrid_scheduler.hardware.profile import load_profile, save_profile
from hybrid_scheduler.hardware.real_compare import compare_real, executor_profile
from hybrid_scheduler.hardware.settings import POOL
from hybrid_scheduler.hardware.stream import as_workload, make_stream, size_grid

POOLS = (Pool("cpu_wide", "cpu", threads=1), Pool("cpu_narrow", POOL, threads=1))
CALLS = [KernelCall(kind, size) for size in (16, 32, 48) for kind in ("sort", "matmul")]


@pytest.fixture
def executor() -> Iterator[HybridExecutor]:
    with HybridExecutor("round_robin", pools=POOLS) as made:
        yield made


# ------------------------------------------------------------------------------------------ streams


def test_the_same_seed_gives_the_same_stream() -> None:
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


def test_grids() -> None:
    assert size_grid(64, 128) == [64, 80, 96, 112, 128]
    assert size_grid(64, 64, 1) == [64]
    for smallest, largest in ((8, 64), (128, 64)):
        with pytest.raises(InvalidInputError):
            size_grid(smallest, largest)


@pytest.mark.parametrize("options", [{"tasks": 0}, {"seed": -1}, {"kinds": ["nothing"]}, {"kinds": []}])
def test_bad_streams(options: dict[str, object]) -> None:
    values: dict[str, object] = {"kinds": ["sort"], "tasks": 3, **options}
    with pytest.raises(InvalidInputError):
        make_stream(**values)  # type: ignore[arg-type]


def test_as_a_workload() -> None:
    workload = as_workload(CALLS, [0.1 * i for i in range(len(CALLS))])
    assert workload[1].kind == "matmul"
    assert workload[1].size == 16.0
    assert 0.0 < workload[0].compute_intensity < workload[5].compute_intensity < 1.0


def test_inputs_are_kept_up_to_a_limit() -> None:
    kept = Inputs(most_bytes=3 * 4 * 32**2)
    first = kept.of(KernelCall("sort", 32))
    assert kept.of(KernelCall("sort", 32)) is first
    for size in (31, 30, 29):
        kept.of(KernelCall("sort", size))
    assert kept.of(KernelCall("sort", 32)) is not first
    large = kept.of(KernelCall("sort", 512))
    assert kept.of(KernelCall("sort", 512)) is not large  # more than all that may be kept


# ------------------------------------------------------------------------------------------ judging


def _record(task_id: int, device: str, seconds: float, fraction: float = 0.0, status: str = "done") -> Record:
    return Record(task_id, "sort", 16.0, device, fraction, status, 0.0, None, 0.0, seconds, seconds)


def test_ratios_by_hand() -> None:
    choices = Choices(("cpu", "gpu_0"), np.array([[1.0, 2.0], [9.0, 3.0], [4.0, math.nan], [5.0, 5.0]]))
    assert choices.best.tolist() == [1.0, 3.0, 4.0, 5.0]
    assert choices.always("gpu_0").tolist() == [2.0, 3.0, 4.0, 5.0]
    records = [
        _record(0, "gpu_0", 2.2, 1.0),
        _record(1, "gpu_0", 3.0, 1.0),
        _record(2, "cpu", 4.0, status="failed"),
        _record(3, "gpu_0", 2.5, 0.5),
    ]
    found = ratios(Execution("x", "sequential", records, 1.0, 0.0, 0.0), choices)
    assert found["ratio"] == pytest.approx((2.2 + 3.0 + 2.5) / 9.0)
    assert found["choice_ratio"] == pytest.approx((2.0 + 3.0 + 2.5) / 9.0)
    assert found["ratio_geometric"] == pytest.approx((2.2 * 1.0 * 0.5) ** (1 / 3))
    nothing = ratios(Execution("x", "sequential", [records[2]], 1.0, 0.0, 0.0), Choices(("cpu",), np.ones((1, 1))))
    assert nothing["ratio"] is None


def test_energy_goes_by_seconds_on_the_accelerator() -> None:
    records = [_record(i, "gpu_0", 1.0) for i in range(2)]
    records[0].accelerator_seconds, records[1].accelerator_seconds = 1.0, 3.0
    share_energy(records, None)
    assert records[0].joules is None
    share_energy(records, 8.0)
    assert [record.joules for record in records] == [2.0, 6.0]


def test_every_kernel_on_every_device(executor: HybridExecutor) -> None:
    choices = measure_choices(executor, [*CALLS, CALLS[0]], repeats=2)
    assert choices.devices == ("cpu_wide", "cpu_narrow")
    assert choices.seconds.shape == (7, 2)
    assert (choices.seconds > 0).all()
    assert choices.seconds[0].tolist() == choices.seconds[-1].tolist()
    assert executor.records == []


@pytest.mark.parametrize("mode", ["sequential", "batch"])
def test_a_run(mode: str, executor: HybridExecutor) -> None:
    found = run_stream(executor, CALLS, mode=mode, learning=CALLS[:2])
    assert [record.kind for record in found.records] == [call.kind for call in CALLS]
    assert found.learned_from == 2
    assert found.total > 0
    document = found.as_dict()
    assert document["statuses"] == {"done": 6}
    assert sum(document["on"].values()) == 6
    json.dumps(document, allow_nan=False)


def test_bad_mode(executor: HybridExecutor) -> None:
    with pytest.raises(InvalidInputError, match="sequential or batch"):
        run_stream(executor, CALLS, mode="parallel")


# ------------------------------------------------------------------------------------------ simulated and real


@pytest.mark.parametrize("busy", [False, True])
def test_a_profile_made_with_the_executor(busy: bool, executor: HybridExecutor, tmp_path: object) -> None:
    profile = executor_profile(executor, CALLS, repeats=2, busy=busy)
    assert profile.kernels == ["sort", "matmul"]
    assert all(point.cpu_seconds and point.cpu_one_thread_seconds for point in profile.points)
    assert ("busy" in profile.notes[0]) is busy
    save_profile(profile, f"{tmp_path}/p.json")
    assert load_profile(f"{tmp_path}/p.json") == profile


def test_side_by_side(executor: HybridExecutor) -> None:
    calibration = calibrate(executor_profile(executor, CALLS, repeats=2))
    executor.adopt("earliest_finish", calibration=calibration)
    document, real = compare_real(executor, {"isolated": calibration}, CALLS, "earliest_finish")
    assert document["real"]["makespan_seconds"] > 0
    twin = document["simulated_isolated"]
    assert twin["makespan_seconds"] > 0
    assert twin["error"] == pytest.approx(twin["makespan_seconds"] / document["real"]["makespan_seconds"] - 1)
    assert len(real.records) == len(CALLS)


def test_a_contest(executor: HybridExecutor) -> None:
    contest = Contest(executor, CALLS, ["hybrid_ml", "min_completion"], learning=CALLS[:4], compare=True, repeats=1)
    assert contest.needs_calibration()
    document = contest.run()
    assert document["source"] == "measured"
    assert set(document["schedulers"]) == {"hybrid_ml", "min_completion"}
    assert set(document["always"]) == {"cpu_wide", "cpu_narrow"}
    assert document["schedulers"]["hybrid_ml"]["learned_from"] == 4
    assert document["schedulers"]["min_completion"]["learned_from"] == 0
    assert set(document["compare"]) == {"hybrid_ml", "min_completion"}
    json.dumps(document, allow_nan=False)
    rows = contest.rows()
    assert len(rows) == 12
    assert {row["source"] for row in rows} == {"measured"}


def test_a_contest_of_those_who_need_no_times(executor: HybridExecutor) -> None:
    assert not Contest(executor, CALLS, ["greedy", "hybrid_ml"]).needs_calibration()
