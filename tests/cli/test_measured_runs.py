"""Conversion of executor records to columns of the history."""

from types import SimpleNamespace

import numpy as np
import pytest

from hybrid_scheduler.cli.measured_upload import measured_run
from hybrid_scheduler.core.outcome import FAILED, MOVED_TO_CPU, RAN
from hybrid_scheduler.runtime.device_discovery import DevicePool, as_platform
from hybrid_scheduler.runtime.kernel_executor import KernelExecutor
from hybrid_scheduler.runtime.kernel_stream_execution import ReferenceTimes, StreamExecution, run_stream
from hybrid_scheduler.runtime.submission import (
    CANCELLED,
    DONE,
    MOVED,
    RETRIED,
    TIMED_OUT,
    ExecutionRecord,
    KernelCall,
)

PLATFORM = as_platform([DevicePool("cpu", "cpu"), DevicePool("gpu_0", "gpu", "cuda:0", memory=1000.0)])
CALLS = [KernelCall("sort", 64)] * 6


def record(row, at, device="cpu", fraction=0.0, status=DONE, **values):
    times = {"started": at + 0.01, "finished": at + 0.05, "measured": 0.04, "wait": 0.01}
    if status in (TIMED_OUT, CANCELLED):
        times = {}
    return ExecutionRecord(row, "sort", 64.0, device, fraction, status, at, None, **times | values)


RECORDS = [
    record(0, 10.0, cpu_seconds=0.04, cpu_started=10.01),
    record(1, 10.1, "gpu_0", 1.0, accelerator_seconds=0.04, accelerator_started=10.11, joules=3.0),
    record(
        2, 10.2, "gpu_0", 0.4, cpu_seconds=0.03, cpu_started=10.21, accelerator_seconds=0.04,
        accelerator_started=10.21,
    ),
    record(3, 10.3, "gpu_0", 0.4, RETRIED, cpu_seconds=0.04, cpu_started=10.31),  # the share came back to the CPU
    record(4, 10.4, "cpu", 0.0, MOVED, cpu_seconds=0.04, cpu_started=10.41),
    record(5, 10.5, "gpu_0", 1.0, TIMED_OUT),
]  # fmt: skip
SECONDS = np.array([[0.04, 0.01], [0.02, 0.03], [np.nan, 0.5], [np.nan, np.nan], [0.1, np.nan], [1.0, 2.0]])


def benchmark(**records):
    return SimpleNamespace(
        executor=SimpleNamespace(platform=PLATFORM),
        calls=CALLS,
        learning=(),
        mode="sequential",
        reference=ReferenceTimes(("cpu", "gpu_0"), SECONDS),
        executions={
            name: StreamExecution(name, "sequential", rows, 1.0, 0.0, 0.0) for name, rows in records.items()
        },
    )


def measured(**records):
    return measured_run(
        benchmark(**records), machine="bench", seed=3, began=100.0, ended=101.0, config={"sizes": [64, 64]}
    )


def test_every_record_becomes_a_result_row():
    columns = measured(greedy=RECORDS).results["greedy"]
    assert columns.status.tolist() == [RAN, RAN, RAN, MOVED_TO_CPU, MOVED_TO_CPU, FAILED]
    assert columns.device.tolist() == [0, 1, 1, 0, 0, 1]
    assert columns.fraction.tolist() == [0.0, 1.0, 0.4, 0.0, 0.0, 1.0]
    nan = np.nan
    np.testing.assert_allclose(columns.latency, [0.05] * 5 + [nan])
    np.testing.assert_allclose(columns.time, [0.04] * 5 + [nan])
    np.testing.assert_allclose(columns.start, [0.01, 0.11, 0.21, 0.31, 0.41, nan])
    np.testing.assert_allclose(columns.cpu_start, [0.01, nan, 0.21, 0.31, 0.41, nan])
    np.testing.assert_allclose(columns.accelerator_start, [nan, 0.11, 0.21, nan, nan, nan])
    np.testing.assert_allclose(columns.energy, [nan, 3.0, nan, nan, nan, nan])
    assert np.isnan(columns.cost).all()


def test_optimum_is_the_best_measured_choice():
    run = measured(greedy=RECORDS)
    np.testing.assert_array_equal(run.optimal_time, [0.01, 0.02, 0.5, np.nan, 0.1, 1.0])
    np.testing.assert_array_equal(run.optimal_fraction, [1.0, 0.0, 1.0, np.nan, 0.0, 0.0])


def test_task_arrives_at_its_first_submission():
    slow = [record(row, 50.0 + 0.3 * row, cpu_seconds=0.04, cpu_started=50.01 + 0.3 * row) for row in range(6)]
    run = measured(greedy=RECORDS, cpu_only=slow)
    np.testing.assert_allclose(run.tasks.arrival_time, [0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    np.testing.assert_allclose(run.results["cpu_only"].start, 0.01 + 0.3 * np.arange(6))
    assert (run.platform.name, run.scenario, run.seed) == ("bench", "kernels: sort", 3)
    assert run.config == {"mode": "sequential", "learning_tasks": 0, "sizes": [64, 64]}


@pytest.mark.parametrize("mode", ["sequential", "batch"])
def test_real_kernels_give_a_complete_run(mode):
    calls = [KernelCall(kind, size) for kind in ("sort", "matmul") for size in (16, 32, 48)]
    with KernelExecutor("greedy", device_type="cpu") as executor:
        execution = run_stream(executor, calls, mode=mode, name="greedy")
        real = benchmark()
        real.executor, real.calls, real.executions = executor, calls, {"greedy": execution}
        real.reference = ReferenceTimes(tuple(pool.name for pool in executor.pools), np.full((6, 2), 0.1))
        run = measured_run(real, machine="bench", seed=0, began=0.0, ended=1.0, config={})
    columns = run.results["greedy"]
    assert np.all(columns.status == RAN)
    assert columns.time.tolist() == [one.measured for one in execution.records]
    assert np.all(columns.start >= run.tasks.arrival_time)
    started = np.fmin(columns.cpu_start, columns.accelerator_start)
    np.testing.assert_allclose(started, columns.start)
