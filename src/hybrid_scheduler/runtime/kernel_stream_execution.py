"""Execution of a kernel stream under a scheduler, and the quality of the scheduler's choices.

The reference is measured: every kernel of the stream runs on every device, and the fastest device is its best
choice. Ratios are given twice: of sums, where large kernels dominate, and as a geometric mean over tasks, where
every kernel has the same weight.
"""

from __future__ import annotations

import math
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ..core import Floats, HybridSchedulerError, InvalidInputError
from ..learning.shadow_guard import TRIAL_NAME
from ..profiling.energy_meters import Meter, cpu_meter, gpu_meter
from ..profiling.machine_info import find_gpu, need_torch
from .kernel_tasks import KernelTasks
from .submission import DONE, MOVED, RETRIED, ExecutionRecord, KernelCall

Progress = Callable[[str, int], None]
_Item = TypeVar("_Item")
_MODES = ("sequential", "batch")
#: Statuses of tasks that have a result.
_SUCCEEDED = (DONE, RETRIED, MOVED)


def no_progress(_: str, __: int) -> None:
    """Ignore progress."""


def warm_up(executor: KernelTasks, calls: Sequence[KernelCall]) -> None:
    """Run every kind on every device at three sizes: loads libraries, makes buffers, raises clocks."""
    by_kind: dict[str, list[KernelCall]] = {}
    for call in calls:
        by_kind.setdefault(call.kind, []).append(call)
    for same in by_kind.values():
        ordered = sorted(same, key=lambda call: call.size)
        for call in (ordered[0], ordered[len(ordered) // 2], ordered[-1]):
            for pool in executor.pools:
                # A kernel that fails here will fail again when it is measured, and be reported then.
                executor.submit_kernel(call, device=pool.name).exception()
    executor.records.clear()


def prepare(executor: KernelTasks, calls: Sequence[KernelCall]) -> None:
    """Make the input data now, so that making it is not measured."""
    for call in calls:
        executor.inputs.of(call)


# ------------------------------------------------------------------------------------------ reference


@dataclass(frozen=True)
class ReferenceTimes:
    """Measured runtimes of a stream on every device.

    Attributes
    ----------
    devices : tuple of str
        Device names, one per column.
    seconds : array
        Median seconds of each call (row) on each device; NaN where nothing could be measured.
    """

    devices: tuple[str, ...]
    seconds: Floats

    @property
    def best(self) -> Floats:
        """Seconds of each call on its fastest device."""
        best: Floats = np.nanmin(self.seconds, axis=1)
        return best

    def always(self, device: str) -> Floats:
        """Return seconds if everything ran on one device; the best other choice where that is impossible."""
        column = self.seconds[:, self.devices.index(device)]
        return np.where(np.isnan(column), self.best, column)


def measure_reference_times(
    executor: KernelTasks, calls: Sequence[KernelCall], *, repeats: int = 3, progress: Progress = no_progress
) -> ReferenceTimes:
    """Run every kernel of the stream on every device and return the median runtimes.

    Pairs of kernel and device alternate in random order, as in a real run. Data is then in no cache, because
    another kernel ran before, and threads sleep, because another device worked meanwhile. Both make small kernels
    up to twice as slow as when they are repeated.

    Parameters
    ----------
    executor : KernelTasks
        Runs everything.
    calls : sequence of KernelCall
        The stream.
    repeats : int, optional
        Runs of each pair.
    progress : callable, optional
        Called with a text and a count.

    Raises
    ------
    HybridSchedulerError
        If a kernel failed on every device.
    """
    found: dict[tuple[str, int, int], list[float]] = {}
    devices = [pool.name for pool in executor.pools]
    pairs = [(call, column) for call in calls for column in range(len(devices))]
    for turn in range(repeats):
        for done, (call, column) in enumerate(shuffled(pairs, turn)):
            progress(f"{call.kind} {call.size} on {devices[column]}", turn * len(pairs) + done)
            took = _measured(executor, call, devices[column])
            if took is not None:
                found.setdefault((call.kind, call.size, column), []).append(took)
    seconds = np.full((len(calls), len(devices)), np.nan)
    for row, call in enumerate(calls):
        for column in range(len(devices)):
            if times := found.get((call.kind, call.size, column)):
                seconds[row, column] = np.median(times)
        if np.isnan(seconds[row]).all():
            raise HybridSchedulerError(
                f"{call.kind} of size {call.size} failed on every device: {_last_error(executor, call.kind)}",
                hint="leave it out, or choose a smaller size",
            )
    executor.records.clear()
    return ReferenceTimes(tuple(devices), seconds)


def _last_error(executor: KernelTasks, kind: str) -> str | None:
    return next(
        (record.error for record in reversed(executor.records) if record.kind == kind and record.error), None
    )


def _measured(executor: KernelTasks, call: KernelCall, device: str) -> float | None:
    if executor.submit_kernel(call, device=device).exception() is not None:
        return None
    record = executor.records[-1]
    return record.measured if record.status == DONE else None


# ------------------------------------------------------------------------------------------ execution


@dataclass
class StreamExecution:
    """Run of a stream under one scheduler."""

    scheduler: str
    mode: str
    records: list[ExecutionRecord]
    makespan: float
    decision_seconds: float
    learning_seconds: float
    joules: dict[str, float] = field(default_factory=dict)
    explored: int = 0
    learned_from: int = 0

    @property
    def succeeded(self) -> list[ExecutionRecord]:
        """Records of tasks that have a result."""
        return [record for record in self.records if _has_succeeded(record)]

    @property
    def total(self) -> float:
        """Sum of measured runtimes in seconds."""
        return float(sum(record.measured or 0.0 for record in self.succeeded))

    def as_dict(self, reference: ReferenceTimes | None = None) -> dict[str, Any]:
        """Return the run as a JSON document, with ratios to the fastest devices if reference times are given."""
        count = max(len(self.records), 1)
        waits = [record.wait or 0.0 for record in self.succeeded]
        return {
            "scheduler": self.scheduler,
            "mode": self.mode,
            "tasks": len(self.records),
            "statuses": Counter(record.status for record in self.records),
            "total_seconds": self.total,
            "makespan_seconds": self.makespan,
            "mean_wait_seconds": float(np.mean(waits)) if waits else None,
            "decision_seconds_per_task": self.decision_seconds / count,
            "learning_seconds_per_task": self.learning_seconds / count,
            "joules": self.joules,
            "joules_per_task": {name: joules / count for name, joules in self.joules.items()},
            "explored": self.explored,
            "learned_from": self.learned_from,
            "on": _devices(self.records),
            **(ratios(self, reference) if reference is not None else {}),
        }


def _has_succeeded(record: ExecutionRecord) -> bool:
    return record.status in _SUCCEEDED and record.measured is not None


def _devices(records: Sequence[ExecutionRecord]) -> dict[str, int]:
    return Counter(record.device if record.fraction in (0.0, 1.0) else "split" for record in records)


def ratios(execution: StreamExecution, reference: ReferenceTimes) -> dict[str, Any]:
    """Return ratios to the measured times on the fastest devices.

    Parameters
    ----------
    execution : StreamExecution
        The run to judge.
    reference : ReferenceTimes
        Runtimes of the same stream on every device.

    Returns
    -------
    dict
        ``ratio`` of measured times; ``choice_ratio`` of the reference times of the chosen devices, which other load
        on the machine does not change; both also as geometric means; and the share of ``right_choices``.
    """
    rows = [i for i, record in enumerate(execution.records) if _has_succeeded(record)]
    if not rows:
        return {"ratio": None, "ratio_geometric": None, "choice_ratio": None, "choice_ratio_geometric": None}
    records = [execution.records[i] for i in rows]
    best = reference.best[rows]
    measured = np.array([record.measured for record in records])
    columns = [reference.devices.index(record.device) for record in records]
    chosen = reference.seconds[rows, columns]
    # A split has no reference time: its measured time is taken.
    chosen = np.array(
        [
            seconds if record.fraction in (0.0, 1.0) and not math.isnan(seconds) else took
            for seconds, record, took in zip(chosen, records, measured, strict=True)
        ]
    )
    return {
        "ratio": float(measured.sum() / best.sum()),
        "ratio_geometric": float(np.exp(np.log(measured / best).mean())),
        "choice_ratio": float(chosen.sum() / best.sum()),
        "choice_ratio_geometric": float(np.exp(np.log(chosen / best).mean())),
        "right_choices": float(np.mean(chosen <= best * (1 + 1e-9))),
    }


def run_stream(
    executor: KernelTasks,
    calls: Sequence[KernelCall],
    *,
    mode: str = "sequential",
    learning: Sequence[KernelCall] = (),
    name: str | None = None,
    progress: Progress = no_progress,
) -> StreamExecution:
    """Run a stream under the executor's scheduler.

    Parameters
    ----------
    executor, calls, progress
        As for `measure_reference_times`.
    mode : {"sequential", "batch"}, optional
        One task after the other, or all at once.
    learning : sequence of KernelCall, optional
        Kernels that run before the stream and are not counted.
    name : str, optional
        Name of the scheduler in the result.
    """
    if mode not in _MODES:
        raise InvalidInputError("mode", " or ".join(_MODES), mode)
    most = executor.records.maxlen
    if most is not None and len(calls) > most:
        raise InvalidInputError(
            "tasks", f"at most {most} (the executor keeps the records of the newest {most} tasks)", len(calls)
        )
    for done, call in enumerate(learning):
        progress(f"learning {call.kind} {call.size}", done)
        executor.submit_kernel(call).exception()
    executor.learn()
    before = executor.decision_seconds, executor.learning_seconds
    executor.records.clear()
    meters = Meters()
    began = executor.clock()
    with StreamSubmitter(executor) as stream:
        for done, call in enumerate(calls):
            progress(f"{call.kind} {call.size}", len(learning) + done)
            stream.submit(call)
            if mode == "sequential":
                stream.wait()
    makespan = executor.clock() - began
    joules = meters.close()
    executor.learn()
    records = sorted(executor.records, key=lambda record: record.task_id)
    share_energy(records, joules.get("gpu"))
    return StreamExecution(
        name or type(executor.policy).__name__,
        mode,
        records,
        makespan,
        executor.decision_seconds - before[0],
        executor.learning_seconds - before[1],
        joules,
        executor.policy.decision_counts().get(TRIAL_NAME, 0),
        len(learning),
    )


class StreamSubmitter:
    """Context that submits kernels and drops their results.

    Kept results keep their page-locked memory, and new page-locked memory costs more than most kernels.
    """

    def __init__(self, executor: KernelTasks) -> None:
        self._executor = executor
        self._done = threading.Semaphore(0)
        self._open = 0

    def __enter__(self) -> StreamSubmitter:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def submit(self, call: KernelCall, device: str | None = None) -> None:
        """Submit a kernel, to a device if one is given."""
        future = self._executor.submit_kernel(call, device=device)
        self._open += 1
        future.add_done_callback(lambda _: self._done.release())

    def wait(self) -> None:
        """Wait until everything submitted so far has ended."""
        while self._open:
            self._done.acquire()
            self._open -= 1


class Meters:
    """Energy used by the CPU and the first GPU from creation to `close`, where counters can be read."""

    def __init__(self) -> None:
        self._meters: dict[str, Meter] = {}
        host = cpu_meter()
        if host is not None:
            self._meters["cpu"] = host
        torch = need_torch()
        if torch.cuda.is_available() and (gpu := find_gpu("cuda")) is not None:
            uuid = getattr(torch.cuda.get_device_properties(0), "uuid", None)
            device = gpu_meter(gpu.kind, None if uuid is None else str(uuid))
            if device is not None:
                self._meters["gpu"] = device
        self._before = {name: meter.joules() for name, meter in self._meters.items()}

    def close(self) -> dict[str, float]:
        """Return joules by device and release the counters."""
        used = {name: meter.joules() - self._before[name] for name, meter in self._meters.items()}
        for meter in self._meters.values():
            meter.close()
        return used


def share_energy(records: Sequence[ExecutionRecord], joules: float | None) -> None:
    """Share energy among tasks by their seconds on the accelerator: counters tick more slowly than tasks run."""
    total = sum(record.accelerator_seconds for record in records)
    if joules is None or total <= 0:
        return
    for record in records:
        record.joules = joules * record.accelerator_seconds / total


def shuffled(items: Sequence[_Item], seed: int) -> list[_Item]:
    """Return the items in random order."""
    order = list(items)
    random.Random(seed).shuffle(order)
    return order
