"""Run a stream of real kernels under a scheduler, and say how good its choices were.

The yardstick is measured, too: every kernel of the stream is run on every device, and the faster one is its best
choice. Ratios are given twice: of sums, where large kernels decide, and as a geometric mean over tasks, where every
kernel counts alike.
"""

from __future__ import annotations

import math
import random
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ..core import Floats, HybridSchedulerError, InvalidInputError
from ..profiling.energy_meters import Meter, cpu_meter, gpu_meter
from ..profiling.machine_info import find_gpu, need_torch
from .executor import HybridExecutor
from .submission import DONE, MOVED, RETRIED, ExecutionRecord, KernelCall

Progress = Callable[[str, int], None]
Item = TypeVar("Item")
MODES = ("sequential", "batch")
#: A result kept by nobody: only what was measured is of interest here.
_FINE = (DONE, RETRIED, MOVED)
#: Seconds between looks at other threads while a stream is submitted.
_SWITCH = 2e-4


def nothing(_: str, __: int) -> None:
    """For those who do not want to hear about progress."""


def warm_up(executor: HybridExecutor, calls: Sequence[KernelCall]) -> None:
    """Every kind on every device at its smallest and largest size: loads libraries, makes buffers, wakes clocks."""
    by_kind: dict[str, list[KernelCall]] = {}
    for call in calls:
        by_kind.setdefault(call.kind, []).append(call)
    for same in by_kind.values():
        ordered = sorted(same, key=lambda call: call.size)
        for call in (ordered[0], ordered[len(ordered) // 2], ordered[-1]):
            for pool in executor.pools:
                # A kernel that fails will do so again when it is asked for, and be reported then.
                executor.submit_kernel(call, device=pool.name).exception()
    executor.records.clear()


def prepare(executor: HybridExecutor, calls: Sequence[KernelCall]) -> None:
    """Make the data now, so that making it is not part of what is measured."""
    for call in calls:
        executor.inputs.of(call)


# ------------------------------------------------------------------------------------------ the yardstick


@dataclass(frozen=True)
class Choices:
    """Median seconds of each call (row) on each device (column), and where nothing could be measured NaN."""

    devices: tuple[str, ...]
    seconds: Floats

    @property
    def best(self) -> Floats:
        best: Floats = np.nanmin(self.seconds, axis=1)
        return best

    def always(self, device: str) -> Floats:
        """Seconds if everything ran there; the best other choice where it could not."""
        column = self.seconds[:, self.devices.index(device)]
        return np.where(np.isnan(column), self.best, column)


def measure_choices(
    executor: HybridExecutor, calls: Sequence[KernelCall], *, repeats: int = 3, progress: Progress = nothing
) -> Choices:
    """Run every kernel of the stream on every device, `repeats` times.

    All pairs of kernel and device in a mixed order, so that each finds what it will find in a run: data that is in
    no cache, because another kernel came before it, and threads that have fallen asleep, because another device
    worked meanwhile. Both make small kernels up to twice as slow as they are by themselves.
    """
    found: dict[tuple[str, int, int], list[float]] = {}
    devices = [pool.name for pool in executor.pools]
    pairs = [(call, column) for call in calls for column in range(len(devices))]
    for turn in range(repeats):
        for done, (call, column) in enumerate(shuffled(pairs, turn)):
            progress(f"{call.kind} {call.size} on {devices[column]}", turn * len(pairs) + done)
            took = _on(executor, call, devices[column])
            if took is not None:
                found.setdefault((call.kind, call.size, column), []).append(took)
    seconds = np.full((len(calls), len(devices)), np.nan)
    for row, call in enumerate(calls):
        for column in range(len(devices)):
            if times := found.get((call.kind, call.size, column)):
                seconds[row, column] = np.median(times)
        if np.isnan(seconds[row]).all():
            raise HybridSchedulerError(
                f"{call.kind} of size {call.size} failed on every device: {executor.last_error(call.kind)}",
                hint="leave it out, or choose a smaller size",
            )
    executor.records.clear()
    return Choices(tuple(devices), seconds)


def _on(executor: HybridExecutor, call: KernelCall, device: str) -> float | None:
    if executor.submit_kernel(call, device=device).exception() is not None:
        return None
    record = executor.records[-1]
    return record.measured if record.status == DONE else None


# ------------------------------------------------------------------------------------------ a run


@dataclass
class StreamExecution:
    """One scheduler's run of a stream."""

    scheduler: str
    mode: str
    records: list[ExecutionRecord]
    makespan: float
    decision_seconds: float
    learning_seconds: float
    joules: dict[str, float] = field(default_factory=dict)
    explored: int = 0
    learned_from: int = 0
    overruled: int = 0

    @property
    def fine(self) -> list[ExecutionRecord]:
        return [record for record in self.records if _is_fine(record)]

    @property
    def total(self) -> float:
        """Sum of measured times."""
        return float(sum(record.measured or 0.0 for record in self.fine))

    def as_dict(self, choices: Choices | None = None) -> dict[str, Any]:
        count = max(len(self.records), 1)
        return {
            "scheduler": self.scheduler,
            "mode": self.mode,
            "tasks": len(self.records),
            "statuses": {s: n for s in _statuses(self.records) if (n := _statuses(self.records)[s])},
            "total_seconds": self.total,
            "makespan_seconds": self.makespan,
            "mean_wait_seconds": float(np.mean([record.wait or 0.0 for record in self.fine]))
            if self.fine
            else None,
            "decision_seconds_per_task": self.decision_seconds / count,
            "learning_seconds_per_task": self.learning_seconds / count,
            "joules": self.joules,
            "joules_per_task": {name: joules / count for name, joules in self.joules.items()},
            "explored": self.explored,
            "overruled": self.overruled,
            "learned_from": self.learned_from,
            "on": _devices(self.records),
            **(ratios(self, choices) if choices is not None else {}),
        }


def _is_fine(record: ExecutionRecord) -> bool:
    return record.status in _FINE and record.measured is not None


def _statuses(records: Sequence[ExecutionRecord]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for record in records:
        counts[record.status] = counts.get(record.status, 0) + 1
    return counts


def _devices(records: Sequence[ExecutionRecord]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for record in records:
        name = record.device if record.fraction in (0.0, 1.0) else "split"
        counts[name] = counts.get(name, 0) + 1
    return counts


def ratios(execution: StreamExecution, choices: Choices) -> dict[str, Any]:
    """How far from the best measured choice: as measured, and by the yardstick's own times of what was chosen."""
    rows = [i for i, record in enumerate(execution.records) if _is_fine(record)]
    if not rows:
        return {"ratio": None, "ratio_geometric": None, "choice_ratio": None, "choice_ratio_geometric": None}
    records = [execution.records[i] for i in rows]
    best = choices.best[rows]
    measured = np.array([record.measured for record in records])
    columns = [choices.devices.index(record.device) for record in records]
    chosen = choices.seconds[rows, columns]
    # A split has no entry in the table: what it took stands for itself.
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
    executor: HybridExecutor,
    calls: Sequence[KernelCall],
    *,
    mode: str = "sequential",
    learning: Sequence[KernelCall] = (),
    name: str | None = None,
    progress: Progress = nothing,
) -> StreamExecution:
    """`learning` goes first and is not counted. Sequential: each task alone on the machine; batch: all at once."""
    if mode not in MODES:
        raise InvalidInputError("mode", " or ".join(MODES), mode)
    most = executor.records.maxlen
    if most is not None and len(calls) > most:
        raise InvalidInputError("tasks", f"at most {most}, of which the executor keeps records", len(calls))
    for done, call in enumerate(learning):
        progress(f"learning {call.kind} {call.size}", done)
        executor.submit_kernel(call).exception()
    executor.learn()
    before = executor.decision_seconds, executor.learning_seconds
    executor.records.clear()
    meters = Meters()
    began = executor.clock()
    with UnpinnedResults(executor) as stream:
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
        name or str(getattr(executor.policy, "spec", type(executor.policy).__name__)),
        mode,
        records,
        makespan,
        executor.decision_seconds - before[0],
        executor.learning_seconds - before[1],
        joules,
        getattr(executor.policy, "explored", 0),
        len(learning),
        getattr(executor.policy, "overruled", 0),
    )


class UnpinnedResults:
    """Submits kernels and lets go of their results, as somebody does who passes them on.

    Kept results keep their page-locked memory, and new memory of that kind costs more than most kernels. Meanwhile
    the interpreter changes threads more often than usual: a worker should not wait for the thread that submits.
    """

    def __init__(self, executor: HybridExecutor) -> None:
        self._executor = executor
        self._done = threading.Semaphore(0)
        self._open = 0

    def __enter__(self) -> UnpinnedResults:
        self._before = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.wait()
        finally:
            sys.setswitchinterval(self._before)

    def submit(self, call: KernelCall, device: str | None = None) -> None:
        future = self._executor.submit_kernel(call, device=device)
        self._open += 1
        future.add_done_callback(lambda _: self._done.release())

    def wait(self) -> None:
        """Until everything submitted so far has ended, well or not."""
        while self._open:
            self._done.acquire()
            self._open -= 1


class Meters:
    """The machine's energy counters over a stretch of time; of those that can be read."""

    def __init__(self) -> None:
        self._meters: dict[str, Meter] = {}
        host = cpu_meter()
        if host is not None:
            self._meters["cpu"] = host
        torch = need_torch()
        if torch.cuda.is_available() and (gpu := find_gpu("cuda")) is not None:
            uuid = getattr(torch.cuda.get_device_properties(0), "uuid", None)
            there = gpu_meter(gpu.kind, None if uuid is None else str(uuid))
            if there is not None:
                self._meters["gpu"] = there
        self._before = {name: meter.joules() for name, meter in self._meters.items()}

    def close(self) -> dict[str, float]:
        used = {name: meter.joules() - self._before[name] for name, meter in self._meters.items()}
        for meter in self._meters.values():
            meter.close()
        return used


def share_energy(records: Sequence[ExecutionRecord], joules: float | None) -> None:
    """Counters tick more slowly than tasks run: what was used is divided by the seconds on the accelerator."""
    total = sum(record.accelerator_seconds for record in records)
    if joules is None or total <= 0:
        return
    for record in records:
        record.joules = joules * record.accelerator_seconds / total


def shuffled(items: Sequence[Item], seed: int) -> list[Item]:
    order = list(items)
    random.Random(seed).shuffle(order)
    return order
