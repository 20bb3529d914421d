"""The contract between a scheduler and whoever runs it.

Call order, for every kind of scheduler:

    start(setting)            once, before the first task; resets everything the scheduler remembers
    decide | pick | plan      see the three protocols below
    observe(outcome)          at the task's virtual finish, never earlier

Who knows durations is explicit. A scheduler that declares `Knowledge.NOTHING` gets no time model; one that is
`TOLD` gets a model of durations (by default the noise-free physics); the oracle is given the `REALISED` ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from .decision import Decision
from .objective import Objective, Scales
from .outcome import Outcome
from .platform import Platform
from .task import Task
from .workload import Floats, Ints, Workload

#: ``times[row, column] = (seconds for the whole task, fixed seconds to start a part)``
TimeTable = NDArray[np.float64]


class Knowledge(StrEnum):
    """What a scheduler is allowed to know about durations."""

    NOTHING = "nothing"
    TOLD = "told"
    REALISED = "realised"


@dataclass(frozen=True, slots=True)
class Links:
    """Seconds per MB to cross each device's link and the network between nodes."""

    device: Floats
    network: float
    latency: float


class TimeModel(Protocol):
    """Durations as somebody believes them to be: a share f of a task takes ``fixed + f * whole`` seconds."""

    @property
    def columns(self) -> Ints:
        """For each device of the platform, its column in the tables."""

    @property
    def links(self) -> Links:
        """What data handed from task to task pays when it crosses devices."""

    def table(self, workload: Workload) -> TimeTable:
        """Shape (tasks, columns, 2), in the workload's order."""

    def row(self, task: Task) -> Floats:
        """Shape (columns, 2): the table's row for one task."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a scheduler may know when a run starts."""

    platform: Platform
    seed: int = 0
    objective: Objective = field(default_factory=Objective)
    #: Dollars per busy second of each device.
    dollars: Floats = field(default_factory=lambda: np.zeros(0))
    #: Units of the objective, from the durations; only for schedulers that know durations.
    scales: Scales | None = None
    times: TimeModel | None = None
    #: Whether the run has no end, as a live one. What will be needed in the long run may as well be taken at once.
    endless: bool = False

    def prices(self) -> tuple[float, Floats]:
        """The objective as weights on latency and on busy seconds per device (see `Objective.prices`)."""
        if self.objective.is_latency_only:
            return 1.0, np.zeros(len(self.platform))
        return self.objective.prices(self.platform.column("watts"), self.dollars, self.scales or Scales())


@dataclass(frozen=True, slots=True)
class View:
    """The cluster as a scheduler sees it when a task is released. It carries no durations of the task.

    `free_at` is exact: when each device will have finished all work given to it so far. That exactness is a
    stated assumption of the simulation.
    """

    now: float
    free_at: Floats
    platform: Platform

    @property
    def backlog(self) -> Floats:
        """Remaining seconds of work per device."""
        return np.maximum(self.free_at - self.now, 0.0)


class Queue(Protocol):
    """Released tasks that wait for a device, oldest first, as columns."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: int) -> Task: ...
    @property
    def size(self) -> Floats: ...
    @property
    def compute_intensity(self) -> Floats: ...
    @property
    def memory_required(self) -> Floats: ...
    @property
    def arrival_time(self) -> Floats: ...
    @property
    def times(self) -> TimeTable:
        """The time model's rows for the waiting tasks; only for schedulers that have a model."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A static schedule: for every row of the workload a decision and the planned start."""

    device: Ints
    fraction: Floats
    start: Floats


class Scheduler(ABC):
    """Common to all. Constructors only store parameters; what a run needs is made in `start`."""

    knows: ClassVar[Knowledge] = Knowledge.NOTHING
    setting: Setting

    def start(self, setting: Setting) -> None:
        self.setting = setting

    def observe(self, outcome: Outcome) -> None:  # noqa: B027  most schedulers have no use for it
        """A task has finished. The default learns nothing."""

    def forget(self, task_id: int) -> None:  # noqa: B027  as above
        """A task will never finish: it was cancelled, failed, or its times mean nothing."""

    @property
    def wants_labels(self) -> bool:
        """True to be told, with each outcome, what the task would have taken on every class of device."""
        return False

    @property
    def learns(self) -> bool:
        """True if outcomes must be reported back."""
        return type(self).observe is not Scheduler.observe


class Online(Scheduler):
    """Decides for each task once, at its release."""

    @abstractmethod
    def decide(self, task: Task, view: View) -> Decision: ...


class Central(Scheduler):
    """Binds late: when a device is idle, picks one of the waiting tasks to run there whole, or none."""

    @abstractmethod
    def pick(self, queue: Queue, idle_device: int, view: View) -> int | None: ...


class Static(Scheduler):
    """Plans the whole workload before it starts (task graphs)."""

    @abstractmethod
    def plan(self, workload: Workload, platform: Platform) -> Plan: ...
