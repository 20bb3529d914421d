"""What happened to the tasks: one `Outcome` for a person, `Outcomes` columns for a million of them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .workload import Floats, Ints, Workload

#: How the cluster treated a share that does not fit into the accelerator's memory.
RAN, CLIPPED, MOVED_TO_CPU, FAILED = 0, 1, 2, 3
STATUS_NAMES = ("ran", "clipped", "moved_to_cpu", "failed")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One task's fate. Parts that did not run have a start of NaN and a time of 0."""

    task_id: int
    device: int
    fraction: float
    arrival: float
    cpu_start: float
    cpu_time: float
    accelerator_start: float
    accelerator_time: float
    status: int = RAN
    #: Realised (whole, fixed) seconds per class of devices: what the task would have taken elsewhere.
    #: Simulation only, and only for schedulers that ask for it (`Scheduler.wants_labels`).
    labels: Floats | None = None

    @property
    def start(self) -> float:
        """When the first part began."""
        if self.accelerator_time == 0:
            return self.cpu_start
        return self.accelerator_start if self.cpu_time == 0 else min(self.cpu_start, self.accelerator_start)

    @property
    def finish(self) -> float:
        """When the later part ended."""
        ends = [
            start + time
            for start, time in ((self.cpu_start, self.cpu_time), (self.accelerator_start, self.accelerator_time))
            if start == start
        ]
        return max(ends) if ends else float("nan")

    @property
    def time(self) -> float:
        """Seconds of execution: the longer of the two parts (also called actual_time)."""
        return max(self.cpu_time, self.accelerator_time)

    @property
    def latency(self) -> float:
        return self.finish - self.arrival

    @property
    def wait(self) -> float:
        return self.latency - self.time


@dataclass(frozen=True)
class Outcomes:
    """Columns aligned with the workload's rows."""

    workload: Workload
    device: NDArray[np.int32]
    fraction: Floats
    cpu_start: Floats
    cpu_time: Floats
    accelerator_start: Floats
    accelerator_time: Floats
    status: NDArray[np.uint8]

    @classmethod
    def empty(cls, workload: Workload) -> Outcomes:
        """Room for every task of the workload, to be filled by a run."""
        n = len(workload)
        device, status = np.full(n, -1, np.int32), np.zeros(n, np.uint8)
        fraction, cpu_start, cpu_time, accelerator_start, accelerator_time = (np.empty(n) for _ in range(5))
        return cls(workload, device, fraction, cpu_start, cpu_time, accelerator_start, accelerator_time, status)

    def __len__(self) -> int:
        return len(self.device)

    def __getitem__(self, row: int) -> Outcome:
        values = (getattr(self, field.name)[row].item() for field in fields(Outcome)[4:9])
        return Outcome(
            int(self.workload.task_id[row]),
            int(self.device[row]),
            float(self.fraction[row]),
            float(self.workload.arrival_time[row]),
            *values,
        )

    @property
    def start(self) -> Floats:
        return np.fmin(self.cpu_start, self.accelerator_start)

    @cached_property
    def finish(self) -> Floats:
        return np.fmax(self.cpu_start + self.cpu_time, self.accelerator_start + self.accelerator_time)

    @cached_property
    def time(self) -> Floats:
        return np.maximum(self.cpu_time, self.accelerator_time)

    @cached_property
    def latency(self) -> Floats:
        return self.finish - self.workload.arrival_time

    @property
    def wait(self) -> Floats:
        return self.latency - self.time

    @cached_property
    def completed(self) -> NDArray[np.bool_]:
        """False for tasks that failed for want of memory."""
        return np.not_equal(self.status, FAILED)

    def count(self, status: int) -> int:
        return int(np.count_nonzero(self.status == status))

    def intervals(self, cpu_of: Ints) -> tuple[Ints, Ints, Floats, Floats]:
        """Every executed part as (row, device, start, end): the blocks of a Gantt chart."""
        rows = np.arange(len(self))
        on_cpu, on_accelerator = ~np.isnan(self.cpu_start), ~np.isnan(self.accelerator_start)
        device = self.device.astype(np.int64)
        return (
            np.concatenate([rows[on_cpu], rows[on_accelerator]]),
            np.concatenate([cpu_of[device[on_cpu]], device[on_accelerator]]),
            np.concatenate([self.cpu_start[on_cpu], self.accelerator_start[on_accelerator]]),
            np.concatenate(
                [
                    (self.cpu_start + self.cpu_time)[on_cpu],
                    (self.accelerator_start + self.accelerator_time)[on_accelerator],
                ]
            ),
        )
