"""Conversion of a kernel benchmark, as `execute` measures it, into a run of the stored history."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import Floats, Platform, Workload
from ..core.outcome import FAILED, MOVED_TO_CPU, RAN
from ..live import MeasuredRun, ResultColumns
from ..runtime.kernel_benchmark import KernelBenchmark
from ..runtime.kernel_stream import as_workload
from ..runtime.kernel_stream_execution import Choices, StreamExecution
from ..runtime.submission import DONE, MOVED, RETRIED, ExecutionRecord

_STATUS = {DONE: RAN, RETRIED: MOVED_TO_CPU, MOVED: MOVED_TO_CPU}
_NAN = float("nan")


def measured_run(
    benchmark: KernelBenchmark, *, machine: str, seed: int, began: float, ended: float, config: dict[str, Any]
) -> MeasuredRun:
    """Return the runs of all schedulers side by side.

    Parameters
    ----------
    benchmark
        The finished benchmark.
    machine
        Name of the machine.
    seed
        Seed of the kernel stream.
    began, ended
        Unix seconds.
    config
        Further entries of the run's configuration.
    """
    executor, executions = benchmark.executor, benchmark.executions
    assert benchmark.choices is not None
    platform = Platform(machine, executor.platform.devices)
    fraction, seconds = _best(benchmark.choices, platform)
    kinds = dict.fromkeys(call.kind for call in benchmark.calls)
    return MeasuredRun(
        created_at=began,
        ended_at=ended,
        seed=seed,
        scenario=f"kernels: {', '.join(kinds)}",
        platform=platform,
        config={"mode": benchmark.mode, "learning_tasks": len(benchmark.learning), **config},
        tasks=_tasks(benchmark),
        results={spec: _columns(execution, platform) for spec, execution in executions.items()},
        optimal_fraction=fraction,
        optimal_time=seconds,
    )


def _tasks(benchmark: KernelBenchmark) -> Workload:
    """Return the tasks; each arrives when the first scheduler submitted it.

    One after the other, submissions depend on the scheduler.
    """
    submitted = [[record.submitted for record in one.records] for one in benchmark.executions.values()]
    arrivals: Floats = np.min([np.array(each) - each[0] for each in submitted], axis=0)
    return as_workload(benchmark.calls, arrivals.tolist())


def _columns(execution: StreamExecution, platform: Platform) -> ResultColumns:
    origin = execution.records[0].submitted
    rows = [_row(record, origin) for record in execution.records]
    numbers: dict[str, Any] = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return ResultColumns(
        device=np.array([_device(record, platform) for record in execution.records], dtype=np.int32),
        **numbers,
        cost=np.full(len(rows), _NAN),
        regret=np.full(len(rows), _NAN),
        confidence=np.full(len(rows), _NAN),
        status=np.array([_status(record) for record in execution.records], dtype=np.uint8),
    )


def _row(record: ExecutionRecord, origin: float) -> dict[str, float]:
    def since(moment: float | None) -> float:
        return _NAN if moment is None else moment - origin

    failed = _status(record) == FAILED
    there = record.accelerator_started is not None
    return {
        # A share that was retried on the CPU ran there after all.
        "fraction": record.fraction if there or failed else 0.0,
        "time": _NAN if failed else _known(record.measured),
        "latency": _NAN if failed else _known(record.finished) - record.submitted,
        "start": _NAN if failed else since(record.started),
        "finish": _NAN if failed else since(record.finished),
        "cpu_start": since(record.cpu_started),
        "cpu_time": record.cpu_seconds,
        "accelerator_start": since(record.accelerator_started),
        "accelerator_time": record.accelerator_seconds,
        "energy": _known(record.joules),
        "predicted_time": _known(record.predicted),
    }


def _known(value: float | None) -> float:
    return _NAN if value is None else value


def _status(record: ExecutionRecord) -> int:
    return _STATUS.get(record.status, FAILED) if record.measured is not None else FAILED


def _device(record: ExecutionRecord, platform: Platform) -> int:
    index = platform.index(record.device)
    on_host = record.measured is not None and record.accelerator_started is None
    return int(platform.cpu_of[index]) if on_host else index


def _best(choices: Choices, platform: Platform) -> tuple[Floats, Floats]:
    """Return the share and the seconds of the faster device of every task."""
    on_cpu = np.array([platform.is_cpu[platform.index(name)] for name in choices.devices])
    measured = np.where(np.isnan(choices.seconds), np.inf, choices.seconds)
    column = measured.argmin(axis=1)
    seconds = measured[np.arange(len(measured)), column]
    known = np.isfinite(seconds)
    return np.where(known, (~on_cpu)[column].astype(np.float64), _NAN), np.where(known, seconds, _NAN)
