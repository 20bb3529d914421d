"""The same stream on the real machine and in the simulator that was calibrated to it, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cluster import Cluster
from ..core import HybridSchedulerError, Outcomes, TimeTable
from ..profiling.calibration import Calibration
from .contention_model import QueuedPart, finish_times
from .contention_profile import ContentionCalibration, ContentionSurvey
from .executor import HybridExecutor
from .kernel_policy import KernelPolicy
from .kernel_stream import as_workload
from .stream_execution import Progress, StreamExecution, nothing, run_stream
from .submission import ExecutionRecord, KernelCall

#: Decisions after which a scheduler's compiled functions are certainly there.
_FIRST = 9


def simulate(
    executor: HybridExecutor,
    told: Calibration,
    expected: ContentionCalibration,
    calls: Sequence[KernelCall],
    records: Sequence[ExecutionRecord],
    spec: str,
) -> dict[str, Any]:
    """The twin of a real batch: the same policy, tasks, arrivals and machine, durations as calibrated.

    Tasks keep their numbers, by which some schedulers decide. The policy decides on the times it is told, as on
    the real machine; how long kernels then take depends on whether other devices work at the moment.
    """
    arrivals = [record.submitted for record in records]
    workload = as_workload(calls, arrivals, [record.task_id for record in records])
    platform = executor.platform
    policy = KernelPolicy(spec, splits=executor.splits)
    outcomes = Cluster(platform, told.physics).run(workload, policy).outcomes
    alone, together = (
        calibration.physics.times(workload, platform) for calibration in (expected.alone, expected.together)
    )
    pieces = _pieces(executor, outcomes, alone, together)
    finish = finish_times(pieces, len(platform.devices))
    return {
        "makespan_seconds": max(finish) - min(arrivals),
        "on_accelerator": float(np.mean(outcomes.fraction > 0)),
    }


def _pieces(
    executor: HybridExecutor, outcomes: Outcomes, alone: TimeTable, together: TimeTable
) -> list[QueuedPart]:
    platform = executor.platform
    pieces = []
    for row, (device, fraction) in enumerate(
        zip(outcomes.device.tolist(), outcomes.fraction.tolist(), strict=True)
    ):
        host = int(platform.cpu_of[device])
        for where, share in ((device, fraction), (host, 1.0 - fraction)):
            if share > 0:
                column = int(platform.class_of[where])
                durations = (share * table[row, column, 0] + table[row, column, 1] for table in (alone, together))
                arrival = float(outcomes.workload.arrival_time[row])
                pieces.append(QueuedPart(where, arrival, *map(float, durations)))
    return pieces


def compare_real(
    executor: HybridExecutor,
    calls: Sequence[KernelCall],
    specs: Sequence[str],
    *,
    sample: Sequence[KernelCall] | None = None,
    given: ContentionCalibration | None = None,
    rounds: int = 3,
    seed: int = 0,
    progress: Progress = nothing,
) -> SimulatedVsReal:
    """Run the stream at once under every scheduler, `rounds` times, and simulate the same from a calibration.

    Calibration (on the kernels of `sample`, else of the stream) and runs take turns, so that both meet the machine
    in the same moods; with `given` there is nothing to calibrate. Mean makespans are compared: what the calibration
    predicts is means, too.
    """
    survey = ContentionSurvey(executor, sample if sample is not None else calls, seed=seed)
    runs: dict[str, list[StreamExecution]] = {spec: [] for spec in specs}
    for _ in range(rounds):
        if given is None:
            survey.measure(progress)
        told = (given or survey.calibrated()).together
        for spec in specs:
            executor.set_scheduler(spec, calibration=told)
            compile_rules(executor, calls)
            executor.set_scheduler(spec)
            runs[spec].append(run_stream(executor, calls, mode="batch", name=spec, progress=progress))
    told, expected = (given or survey.calibrated()).together, given or survey.expected()
    return SimulatedVsReal(
        {spec: _beside(executor, told, expected, calls, spec, executions) for spec, executions in runs.items()},
        runs,
        survey,
    )


@dataclass(frozen=True)
class SimulatedVsReal:
    """Of each scheduler the makespans and their distance, and what they come from."""

    schedulers: dict[str, dict[str, Any]]
    runs: dict[str, list[StreamExecution]]
    survey: ContentionSurvey


def _beside(
    executor: HybridExecutor,
    told: Calibration,
    expected: ContentionCalibration,
    calls: Sequence[KernelCall],
    spec: str,
    executions: Sequence[StreamExecution],
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
        simulated.append(simulate(executor, told, expected, calls, execution.records, spec))
    middle, twin = (float(np.mean([run["makespan_seconds"] for run in which])) for which in (real, simulated))
    makespans = [run["makespan_seconds"] for run in real]
    return {
        "tasks": len(calls),
        "real_makespan_seconds": middle,
        "simulated_makespan_seconds": twin,
        "error": twin / middle - 1.0,
        "spread_of_real": [min(makespans) / middle - 1.0, max(makespans) / middle - 1.0],
        "real": real,
        "simulated": simulated,
    }


def compile_rules(executor: HybridExecutor, calls: Sequence[KernelCall]) -> None:
    """The first decisions compile what they need: not part of any decision's time."""
    smallest = min(calls, key=lambda call: call.size)
    for _ in range(_FIRST):
        executor.submit_kernel(smallest).exception()
    executor.records.clear()
