"""Results of executed tasks: one `Outcome` per task, or `Outcomes` as columns of a whole run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .workload import Floats, Ints, Workload

#: Status of a task: how the cluster treated a share that does not fit into the accelerator's memory.
RAN = 0
CLIPPED = 1
MOVED_TO_CPU = 2
FAILED = 3
PAGED = 4
STATUS_NAMES = ("ran", "clipped", "moved_to_cpu", "failed", "paged")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one task. A part that did not run has a start of NaN and a time of 0.

    Parameters
    ----------
    task_id
        Id of the task.
    device, fraction
        Placement as executed; see `Decision`.
    arrival
        Arrival time in seconds.
    cpu_start, cpu_time
        Start and duration of the CPU part in seconds.
    accelerator_start, accelerator_time
        Start and duration of the accelerator part in seconds.
    status
        0 ran, 1 share clipped to fit into memory, 2 moved to the CPU, 3 failed, 4 paged over the link.
    labels
        Realised (whole, fixed) seconds per class of device, for schedulers that ask for them
        (`Scheduler.wants_labels`). Simulation only.

    Examples
    --------
    >>> from hybrid_scheduler import Outcome
    >>> cpu, accelerator = (1.0, 2.0), (0.5, 3.0)  # start and duration
    >>> outcome = Outcome(7, 1, 0.5, 0.0, *cpu, *accelerator)
    >>> outcome.start, outcome.finish, outcome.time, outcome.latency, outcome.wait
    (0.5, 3.5, 3.0, 3.5, 0.5)
    """

    task_id: int
    device: int
    fraction: float
    arrival: float
    cpu_start: float
    cpu_time: float
    accelerator_start: float
    accelerator_time: float
    status: int = RAN
    labels: Floats | None = None

    @property
    def start(self) -> float:
        """Start of the first part, in seconds."""
        if self.accelerator_time == 0:
            return self.cpu_start
        return self.accelerator_start if self.cpu_time == 0 else min(self.cpu_start, self.accelerator_start)

    @property
    def finish(self) -> float:
        """End of the later part, in seconds."""
        ends = [
            start + time
            for start, time in ((self.cpu_start, self.cpu_time), (self.accelerator_start, self.accelerator_time))
            if start == start
        ]
        return max(ends) if ends else float("nan")

    @property
    def time(self) -> float:
        """Seconds of execution: the longer of the two parts (stored as `actual_time`)."""
        return max(self.cpu_time, self.accelerator_time)

    @property
    def latency(self) -> float:
        """Seconds from arrival to finish."""
        return self.finish - self.arrival

    @property
    def wait(self) -> float:
        """Seconds of latency beyond the execution time."""
        return self.latency - self.time

    @property
    def earlier_part(self) -> Outcome | None:
        """The part of a split task that ends before the other, as an outcome; None if no part ends earlier."""
        cpu_end = self.cpu_start + self.cpu_time
        accelerator_end = self.accelerator_start + self.accelerator_time
        if cpu_end < accelerator_end:
            ended = self.cpu_start, self.cpu_time, math.nan, 0.0
        elif accelerator_end < cpu_end:
            ended = math.nan, 0.0, self.accelerator_start, self.accelerator_time
        else:
            return None
        return Outcome(self.task_id, self.device, self.fraction, self.arrival, *ended, self.status, self.labels)


#: Columns of `Outcomes`, in the order of its constructor.
OUTCOME_FIELDS = (
    "device", "fraction", "cpu_start", "cpu_time", "accelerator_start", "accelerator_time", "status",
)  # fmt: skip


@dataclass(frozen=True)
class Outcomes:
    """Results of a run as columns, aligned with the workload's rows. Fields as in `Outcome`."""

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
        """Return columns for every task of the workload, to be filled by a run."""
        n = len(workload)
        device = np.full(n, -1, np.int32)
        status = np.zeros(n, np.uint8)
        # One block: the allocator keeps it for the next run, where five would each be mapped page by page again.
        fraction, cpu_start, cpu_time, accelerator_start, accelerator_time = np.empty((5, n))
        return cls(workload, device, fraction, cpu_start, cpu_time, accelerator_start, accelerator_time, status)

    def __len__(self) -> int:
        return len(self.device)

    def __getitem__(self, row: int) -> Outcome:
        return Outcome(
            self.workload.task_id[row].item(), self.device[row].item(), self.fraction[row].item(),
            self.workload.arrival_time[row].item(), self.cpu_start[row].item(), self.cpu_time[row].item(),
            self.accelerator_start[row].item(), self.accelerator_time[row].item(), self.status[row].item(),
        )  # fmt: skip

    def rows(self, start: int, stop: int) -> Outcomes:
        """Return consecutive rows, which share their memory with these."""
        columns = (getattr(self, name)[start:stop] for name in OUTCOME_FIELDS)
        return Outcomes(self.workload.rows(start, stop), *columns)

    @property
    def start(self) -> Floats:
        """Start of each task's first part."""
        return np.fmin(self.cpu_start, self.accelerator_start)

    @cached_property
    def finish(self) -> Floats:
        """End of each task's later part."""
        return np.fmax(self.cpu_start + self.cpu_time, self.accelerator_start + self.accelerator_time)

    @cached_property
    def time(self) -> Floats:
        """Seconds of execution: the longer part."""
        return np.maximum(self.cpu_time, self.accelerator_time)

    @cached_property
    def latency(self) -> Floats:
        """Seconds from arrival to finish."""
        return self.finish - self.workload.arrival_time

    @property
    def wait(self) -> Floats:
        """Seconds of latency beyond the execution time."""
        return self.latency - self.time

    @cached_property
    def completed(self) -> NDArray[np.bool_]:
        """False for tasks that failed because they did not fit into memory."""
        return np.not_equal(self.status, FAILED)

    def count(self, status: int) -> int:
        """Return the number of tasks with this status."""
        return int(np.count_nonzero(self.status == status))

    def intervals(self, cpu_of: Ints) -> tuple[Ints, Ints, Floats, Floats]:
        """Return every executed part as columns (row, device, start, end): the bars of a Gantt chart.

        Parameters
        ----------
        cpu_of
            For each device, the index of its node's CPU (`Platform.cpu_of`).
        """
        rows = np.arange(len(self))
        on_cpu = ~np.isnan(self.cpu_start)
        on_accelerator = ~np.isnan(self.accelerator_start)
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
