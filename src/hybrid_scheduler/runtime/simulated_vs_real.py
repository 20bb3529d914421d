"""Comparison of real executions with their simulation: of kernel streams, and of a program's task graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..cluster import Cluster, RunResult
from ..core import Device, Floats, HybridSchedulerError, Outcomes, Plan, Platform, Static, TimeTable, Workload, cpu
from ..physics import TablePhysics
from ..profiling.calibration import Calibration
from ..profiling.machine_info import THREAD_POOL
from .contention_profile import ContentionCalibration, ContentionMeasurement, QueuedPart, finish_times
from .data_handle import COPY_START_SECONDS
from .executor_scheduler import executor_scheduler
from .kernel_stream import as_workload
from .kernel_stream_execution import Progress, StreamExecution, no_progress, run_stream
from .kernel_tasks import KernelTasks
from .submission import ExecutionRecord, KernelCall
from .task_execution import CallRecord

#: Decisions after which all functions of a scheduler have been compiled.
_COMPILING_DECISIONS = 9
#: Virtual seconds between kernels that learners run before a batch: each is alone on the machine.
_SPACING = 1000.0


def simulate(
    executor: KernelTasks,
    calibration: Calibration,
    expected: ContentionCalibration,
    calls: Sequence[KernelCall],
    records: Sequence[ExecutionRecord],
    spec: str,
    learning: Sequence[KernelCall] = (),
) -> dict[str, Any]:
    """Simulate a real batch: the same scheduler, tasks, arrivals and machine, with calibrated durations.

    Tasks keep their ids, by which some schedulers decide. Learners start from nothing, as on the real machine.

    Parameters
    ----------
    executor : KernelTasks
        Its platform is simulated.
    calibration : Calibration
        Durations that the scheduler knows, as on the real machine.
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
    policy = executor_scheduler(spec)
    ids = [record.task_id for record in records]
    before = list(learning) if policy.learns else []
    begin = _SPACING * len(before)
    moments = [_SPACING * row for row in range(len(before))]
    workload = as_workload(
        [*before, *calls],
        [*moments, *(begin + (arrival - min(arrivals)) for arrival in arrivals)],
        [*range(max(ids) + 1, max(ids) + 1 + len(before)), *ids],
        executor.can_divide,
    )
    outcomes = Cluster(platform, calibration.physics).run(workload, policy).outcomes
    isolated, contended = (
        calibration.physics.times(workload, platform) for calibration in (expected.isolated, expected.contended)
    )
    parts = _queued_parts(executor, outcomes, isolated, contended)[_parts_before(outcomes, len(before)) :]
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
    executor: KernelTasks, outcomes: Outcomes, isolated: TimeTable, contended: TimeTable
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
                durations = (
                    share * table[row, column, 0] + table[row, column, 1] for table in (isolated, contended)
                )
                arrival = float(outcomes.workload.arrival_time[row])
                parts.append(QueuedPart(where, arrival, *map(float, durations)))
    return parts


def compare_real(
    executor: KernelTasks,
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
        As for `kernel_stream_execution.measure_reference_times`.
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
    contention = ContentionMeasurement(executor, sample if sample is not None else calls, seed=seed)
    runs: dict[str, list[StreamExecution]] = {spec: [] for spec in specs}
    for _ in range(rounds):
        if given is None:
            contention.measure(progress)
        calibration = (given or contention.calibrated()).contended
        for spec in specs:
            executor.set_scheduler(spec, calibration=calibration)
            compile_rules(executor, calls)
            executor.set_scheduler(spec)
            first = learning if executor.policy.learns else ()
            runs[spec].append(
                run_stream(executor, calls, mode="batch", name=spec, progress=progress, learning=first)
            )
    calibration = (given or contention.calibrated()).contended
    expected = given or contention.expected()
    return SimulatedVsReal(
        {
            spec: _compared(executor, calibration, expected, calls, spec, executions, learning)
            for spec, executions in runs.items()
        },
        runs,
        contention,
    )


@dataclass(frozen=True)
class SimulatedVsReal:
    """Makespans of each scheduler, real and simulated, with the runs and the calibration behind them."""

    schedulers: dict[str, dict[str, Any]]
    runs: dict[str, list[StreamExecution]]
    contention: ContentionMeasurement


def _compared(
    executor: KernelTasks,
    calibration: Calibration,
    expected: ContentionCalibration,
    calls: Sequence[KernelCall],
    spec: str,
    executions: Sequence[StreamExecution],
    learning: Sequence[KernelCall],
) -> dict[str, Any]:
    real = []
    simulated = []
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


def compile_rules(executor: KernelTasks, calls: Sequence[KernelCall]) -> None:
    """Let the scheduler compile what it needs, so that decision times do not include it."""
    smallest = min(calls, key=lambda call: call.size)
    for _ in range(_COMPILING_DECISIONS):
        executor.submit_kernel(smallest).exception()
    executor.records.clear()


# ------------------------------------------------------------------------------------------ twin of a program


class TwinRow(NamedTuple):
    """One call, measured and simulated; points in time are seconds since the first submission.

    Attributes
    ----------
    number : int
        Number of the task.
    function, device : str
        What ran, and where in both cases. Cores of the CPU have names of their own.
    started, finished : float
        Measured.
    simulated_start, simulated_finish : float
        Simulated.
    """

    number: int
    function: str
    device: str
    started: float
    finished: float
    simulated_start: float
    simulated_finish: float


@dataclass(frozen=True)
class SimulatedTwin:
    """A program's calls in the simulator: the same graph, devices and order, with learned durations.

    Attributes
    ----------
    rows : list of TwinRow
        Every call, in the order of submission: the measured Gantt chart beside the simulated one.
    measured, simulated : float
        Makespans in seconds, from the first submission to the last end.
    workload, physics, result
        The task graph, its durations and transfers, and what the simulator made of them.
    """

    rows: list[TwinRow]
    measured: float
    simulated: float
    workload: Workload
    physics: TablePhysics
    result: RunResult

    @property
    def ratio(self) -> float:
        """Simulated by measured makespan."""
        return self.simulated / self.measured


class _MeasuredPlan(Static):
    """Plan with the devices and the order that were measured."""

    def __init__(self, device: Sequence[int], start: Sequence[float]) -> None:
        self._device = np.array(device)
        self._start = np.array(start)

    def plan(self, workload: Workload, platform: Platform) -> Plan:
        return Plan(self._device, (self._device > 0).astype(float), self._start)


def twin_of(
    records: Sequence[CallRecord], cores: int, accelerators: Sequence[str], bandwidth: Sequence[float]
) -> SimulatedTwin:
    """Simulate calls as they were placed; see `HybridExecutor.twin`.

    A call takes the median of what its function took on that device with as many bytes. Results go from device to
    device over edges, and arrays of the program are copied as part of the first call that needs them there.

    Parameters
    ----------
    records : sequence of CallRecord
        The calls.
    cores : int
        Cores of the CPU.
    accelerators : sequence of str
        Names of the other devices.
    bandwidth : sequence of float
        Bytes per second to each of them.
    """
    if not records:
        raise HybridSchedulerError("no call of an auto or task function has ended: there is nothing to simulate")
    records = sorted(records, key=lambda one: (one.submitted, one.number))
    origin = records[0].submitted
    device = _devices_of(records, cores, accelerators)
    rows = {record.number: row for row, record in enumerate(records)}
    typical = _typical_seconds(records)
    seconds = np.array([typical[record.function, record.device, record.nbytes] for record in records])
    for row, (record, nbytes) in enumerate(zip(records, _program_bytes(records, rows), strict=True)):
        if nbytes:
            seconds[row] += COPY_START_SECONDS + nbytes / bandwidth[accelerators.index(record.device)]
    others = [Device(f"core_{i}", THREAD_POOL, memory=np.inf) for i in range(1, cores)]
    others += [Device(name, "gpu", memory=np.inf) for name in accelerators]
    platform = Platform("twin", (cpu(), *others))
    communication, startup = _links(cores, bandwidth)
    table = np.repeat(seconds[:, None], len(platform), axis=1)
    physics = TablePhysics(table, communication=communication, startup=startup)
    edges = [{rows[number]: nbytes for number, nbytes in record.inputs if number in rows} for record in records]
    workload = Workload(
        task_id=range(len(records)),
        size=np.maximum([record.nbytes / 1e6 for record in records], 1.0),
        compute_intensity=np.full(len(records), 0.5),
        memory_required=np.zeros(len(records)),
        arrival_time=[record.submitted - origin for record in records],
        dependencies=[list(edge) for edge in edges],
        dependency_data=[[nbytes / 1e6 for nbytes in edge.values()] for edge in edges],
    )
    result = Cluster(platform, physics).run(workload, _MeasuredPlan(device, [record.started for record in records]))
    out = result.outcomes
    start = np.where(out.device > 0, out.accelerator_start, out.cpu_start)
    finish = start + np.where(out.device > 0, out.accelerator_time, out.cpu_time)
    names = [device.name for device in platform.devices]
    twin = [
        TwinRow(
            record.number,
            record.function,
            names[where],
            record.started - origin,
            record.finished - origin,
            begin,
            end,
        )
        for record, where, begin, end in zip(records, device, start.tolist(), finish.tolist(), strict=True)
    ]
    measured = max(record.finished for record in records) - origin
    return SimulatedTwin(twin, measured, float(finish.max()), workload, physics, result)


def _devices_of(records: Sequence[CallRecord], cores: int, accelerators: Sequence[str]) -> list[int]:
    """Return the device of each call; on the CPU the first core that was free when it began."""
    device = [0] * len(records)
    free_at = [0.0] * cores
    for row in sorted(range(len(records)), key=lambda row: records[row].started):
        one = records[row]
        if one.device != "cpu":
            device[row] = cores + accelerators.index(one.device)
            continue
        free = [core for core in range(cores) if free_at[core] <= one.started]
        device[row] = free[0] if free else min(range(cores), key=free_at.__getitem__)
        free_at[device[row]] = one.finished
    return device


def _typical_seconds(records: Sequence[CallRecord]) -> dict[tuple[str, str, int], float]:
    """Return the median seconds of every function, by device and bytes."""
    found: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for record in records:
        found[record.function, record.device, record.nbytes].append(record.seconds)
    return {key: float(np.median(values)) for key, values in found.items()}


def _program_bytes(records: Sequence[CallRecord], rows: dict[int, int]) -> list[int]:
    """Return the bytes of the program's own arrays that were copied for each call.

    They are what was copied less results of other tasks that were not on the device yet.
    """
    left = [0] * len(records)
    arrived: set[tuple[int, str]] = set()
    for row in sorted(range(len(records)), key=lambda row: records[row].started):
        one = records[row]
        moved = 0
        for number, nbytes in dict(one.inputs).items():
            source = rows.get(number)
            made_here = source is not None and records[source].device == one.device
            if not made_here and (number, one.device) not in arrived:
                moved += nbytes
                arrived.add((number, one.device))
        left[row] = max(0, one.copied - moved)
    return left


def _links(cores: int, bandwidth: Sequence[float]) -> tuple[Floats, Floats]:
    """Return seconds per MB and per copy between devices: none between cores, both ways between accelerators."""
    one_way = np.array([0.0] * cores + [1e6 / rate for rate in bandwidth])
    copies = np.array([0.0] * cores + [1.0] * len(bandwidth))
    per_megabyte = one_way[:, None] + one_way[None, :]
    per_copy = copies[:, None] + copies[None, :]
    np.fill_diagonal(per_megabyte, 0.0)
    np.fill_diagonal(per_copy, 0.0)
    return per_megabyte, COPY_START_SECONDS * per_copy
