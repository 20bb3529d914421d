"""Comparison of a stream on the real machine with its simulation from a calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cluster import Cluster
from ..core import HybridSchedulerError, Outcomes, TimeTable
from ..profiling.calibration import Calibration
from .contention_profile import ContentionCalibration, ContentionSurvey, QueuedPart, finish_times
from .kernel_executor import KernelExecutor
from .kernel_policy import KernelPolicy
from .kernel_stream import as_workload
from .kernel_stream_execution import Progress, StreamExecution, no_progress, run_stream
from .submission import ExecutionRecord, KernelCall

#: Decisions after which all functions of a scheduler have been compiled.
_COMPILING_DECISIONS = 9
#: Virtual seconds between kernels that learners run before a batch: each is alone on the machine.
_SPACING = 1000.0


def simulate(
    executor: KernelExecutor,
    calibration: Calibration,
    expected: ContentionCalibration,
    calls: Sequence[KernelCall],
    records: Sequence[ExecutionRecord],
    spec: str,
    learning: Sequence[KernelCall] = (),
) -> dict[str, Any]:
    """Simulate a real batch: the same policy, tasks, arrivals and machine, with calibrated durations.

    Tasks keep their ids, by which some schedulers decide. Learners start from nothing, as on the real machine.

    Parameters
    ----------
    executor : KernelExecutor
        Its platform is simulated.
    calibration : Calibration
        Durations that the policy knows, as on the real machine.
    expected : ContentionCalibration
        Durations that kernels take, depending on whether other devices work at the moment.
    calls, records : sequences
        The real batch.
    spec : str
        Scheduler.
    learning : sequence of KernelCall, optional
        Kernels that a scheduler that learns has run before the batch, one after the other.

    Returns
    -------
    dict
        ``makespan_seconds`` and ``on_accelerator``, the share of tasks there.
    """
    arrivals = [record.submitted for record in records]
    platform = executor.platform
    policy = KernelPolicy(spec, splits=executor.splits)
    ids = [record.task_id for record in records]
    before = list(learning) if policy.learns else []
    begin = _SPACING * len(before)
    moments = [_SPACING * row for row in range(len(before))]
    workload = as_workload(
        [*before, *calls],
        [*moments, *(begin + (arrival - min(arrivals)) for arrival in arrivals)],
        [*range(max(ids) + 1, max(ids) + 1 + len(before)), *ids],
    )
    outcomes = Cluster(platform, calibration.physics).run(workload, policy).outcomes
    alone, together = (one.physics.times(workload, platform) for one in (expected.alone, expected.together))
    parts = _queued_parts(executor, outcomes, alone, together)[_parts_before(outcomes, len(before)) :]
    finish = finish_times(parts, len(platform.devices))
    return {
        "makespan_seconds": max(finish) - begin,
        "on_accelerator": float(np.mean(outcomes.fraction[len(before) :] > 0)),
    }


def _parts_before(outcomes: Outcomes, row: int) -> int:
    """Return the number of parts of the rows before one: a split task has two."""
    share = outcomes.fraction[:row]
    return row + int(np.sum((share > 0) & (share < 1)))


def _queued_parts(
    executor: KernelExecutor, outcomes: Outcomes, alone: TimeTable, together: TimeTable
) -> list[QueuedPart]:
    platform = executor.platform
    parts = []
    for row, (device, fraction) in enumerate(
        zip(outcomes.device.tolist(), outcomes.fraction.tolist(), strict=True)
    ):
        host = int(platform.cpu_of[device])
        for where, share in ((device, fraction), (host, 1.0 - fraction)):
            if share > 0:
                column = int(platform.class_of[where])
                durations = (share * table[row, column, 0] + table[row, column, 1] for table in (alone, together))
                arrival = float(outcomes.workload.arrival_time[row])
                parts.append(QueuedPart(where, arrival, *map(float, durations)))
    return parts


def compare_real(
    executor: KernelExecutor,
    calls: Sequence[KernelCall],
    specs: Sequence[str],
    *,
    sample: Sequence[KernelCall] | None = None,
    given: ContentionCalibration | None = None,
    rounds: int = 3,
    seed: int = 0,
    learning: Sequence[KernelCall] = (),
    progress: Progress = no_progress,
) -> SimulatedVsReal:
    """Run the stream as a batch under every scheduler, and simulate it from a calibration.

    Calibration and runs are interleaved, so that both see the same machine load. Mean makespans are compared,
    because the calibration predicts means.

    Parameters
    ----------
    executor, calls, progress
        As for `kernel_stream_execution.measure_choices`.
    specs : sequence of str
        Schedulers.
    sample : sequence of KernelCall, optional
        Kernels to calibrate on; those of the stream if left out.
    given : ContentionCalibration, optional
        Calibration to use instead of measuring one.
    rounds : int, optional
        Number of runs under each scheduler.
    seed : int, optional
        Seed of the calibration's order.
    learning : sequence of KernelCall, optional
        Kernels that schedulers that learn run before each batch, on both machines.
    """
    survey = ContentionSurvey(executor, sample if sample is not None else calls, seed=seed)
    runs: dict[str, list[StreamExecution]] = {spec: [] for spec in specs}
    for _ in range(rounds):
        if given is None:
            survey.measure(progress)
        calibration = (given or survey.calibrated()).together
        for spec in specs:
            executor.set_scheduler(spec, calibration=calibration)
            compile_rules(executor, calls)
            executor.set_scheduler(spec)
            first = learning if executor.policy.learns else ()
            runs[spec].append(
                run_stream(executor, calls, mode="batch", name=spec, progress=progress, learning=first)
            )
    calibration, expected = (given or survey.calibrated()).together, given or survey.expected()
    return SimulatedVsReal(
        {
            spec: _compared(executor, calibration, expected, calls, spec, executions, learning)
            for spec, executions in runs.items()
        },
        runs,
        survey,
    )


@dataclass(frozen=True)
class SimulatedVsReal:
    """Makespans of each scheduler, real and simulated, with the runs and the calibration behind them."""

    schedulers: dict[str, dict[str, Any]]
    runs: dict[str, list[StreamExecution]]
    survey: ContentionSurvey


def _compared(
    executor: KernelExecutor,
    calibration: Calibration,
    expected: ContentionCalibration,
    calls: Sequence[KernelCall],
    spec: str,
    executions: Sequence[StreamExecution],
    learning: Sequence[KernelCall],
) -> dict[str, Any]:
    real, simulated = [], []
    for execution in executions:
        arrivals = [record.submitted for record in execution.records]
        ends = [record.finished for record in execution.records if record.finished is not None]
        if not ends:
            raise HybridSchedulerError(f"every task under {spec} failed: {execution.records[-1].error}")
        real.append(
            {
                "makespan_seconds": max(ends) - min(arrivals),
                "on_accelerator": float(np.mean([record.fraction > 0 for record in execution.records])),
            }
        )
        simulated.append(simulate(executor, calibration, expected, calls, execution.records, spec, learning))
    real_mean, simulated_mean = (
        float(np.mean([run["makespan_seconds"] for run in which])) for which in (real, simulated)
    )
    makespans = [run["makespan_seconds"] for run in real]
    return {
        "tasks": len(calls),
        "real_makespan_seconds": real_mean,
        "simulated_makespan_seconds": simulated_mean,
        "error": simulated_mean / real_mean - 1.0,
        "spread_of_real": [min(makespans) / real_mean - 1.0, max(makespans) / real_mean - 1.0],
        "real": real,
        "simulated": simulated,
    }


def compile_rules(executor: KernelExecutor, calls: Sequence[KernelCall]) -> None:
    """Let the scheduler compile what it needs, so that decision times do not include it."""
    smallest = min(calls, key=lambda call: call.size)
    for _ in range(_COMPILING_DECISIONS):
        executor.submit_kernel(smallest).exception()
    executor.records.clear()
