"""Scheduler protocols: online, central and static, the data that they receive, and their decisions.

Call order, for every kind of scheduler:

    start(setting)            once, before the first task; resets everything the scheduler remembers
    decide | pick | plan      see the three protocols below
    observe_part(part)        when a part of a split task ends before the other
    observe(outcome)          at the task's virtual finish, never earlier

A scheduler declares which durations it knows. With `Knowledge.NOTHING` it gets no time model; with `TOLD` it gets
a model of durations (by default the noise-free physics); with `REALISED`, as the oracle, the realised ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .objective import Objective, Scales
from .outcome import Outcome
from .platform import Links, Platform
from .workload import Floats, Ints, Task, Workload

#: ``times[row, column] = (seconds for the whole task, fixed seconds to start a part)``
TimeTable = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Decision:
    """Placement of one task: a share on an accelerator, the rest on that node's CPU.

    Parameters
    ----------
    device
        Index into `Platform.devices`.
    fraction
        Share of the task that runs on `device`, in [0, 1]. With 0 the whole task runs on the CPU; the cluster
        then records the node's CPU as the device.

    Examples
    --------
    >>> from hybrid_scheduler import Decision
    >>> Decision(device=1, fraction=0.75)
    Decision(device=1, fraction=0.75)
    """

    device: int
    fraction: float


class Knowledge(StrEnum):
    """Durations that a scheduler knows.

    `NOTHING`: none. `TOLD`: expected durations from a time model. `REALISED`: the durations as they will be,
    noise included.

    Examples
    --------
    >>> from hybrid_scheduler import Knowledge
    >>> Knowledge("nothing") is Knowledge.NOTHING
    True
    """

    NOTHING = "nothing"
    TOLD = "told"
    REALISED = "realised"


class TimeModel(Protocol):
    """Model of durations: a share f of a task takes ``fixed + f * whole`` seconds.

    Any object with these four members is a time model; `hybrid_scheduler.cluster.PhysicsTimes` is the default.

    Examples
    --------
    >>> from hybrid_scheduler import AnalyticPhysics, Task, workstation
    >>> from hybrid_scheduler.cluster import PhysicsTimes
    >>> times = PhysicsTimes(AnalyticPhysics(), workstation(1))
    >>> times.row(Task(0, size=2500, compute_intensity=0.5, memory_required=0)).tolist()
    [[0.5, 0.0], [0.2, 0.0]]
    """

    @property
    def columns(self) -> Ints:
        """Column of each device of the platform in the tables."""

    @property
    def links(self) -> Links:
        """Transfer costs of data that moves between devices."""

    def table(self, workload: Workload) -> TimeTable:
        """Return (whole, fixed) seconds, shape (tasks, columns, 2), in the workload's order."""

    def row(self, task: Task) -> Floats:
        """Return the table's row for one task, shape (columns, 2)."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Information that a scheduler gets when a run starts.

    Parameters
    ----------
    platform
        Devices of the run.
    seed
        Seed of the scheduler's own random numbers.
    objective
        Weights on latency, energy and cost.
    dollars
        Dollars per busy second of each device.
    scales
        Units of the objective, computed from durations; None for schedulers that know none.
    times
        Time model; None for schedulers that know no durations.

    Examples
    --------
    >>> from hybrid_scheduler import Setting, workstation
    >>> Setting(workstation(1)).prices()
    (1.0, array([0., 0.]))
    """

    platform: Platform
    seed: int = 0
    objective: Objective = field(default_factory=Objective)
    dollars: Floats = field(default_factory=lambda: np.zeros(0))
    scales: Scales | None = None
    times: TimeModel | None = None

    def prices(self) -> tuple[float, Floats]:
        """Return the objective as weights on latency and on busy seconds per device (see `Objective.prices`)."""
        if self.objective.is_latency_only:
            return 1.0, np.zeros(len(self.platform))
        return self.objective.prices(self.platform.column("watts"), self.dollars, self.scales or Scales())


@dataclass(frozen=True, slots=True)
class View:
    """State of the cluster that a scheduler sees when a task is released.

    Parameters
    ----------
    now
        Current time in seconds.
    free_at
        Time at which each device will have finished all work given to it so far. It is exact, which is a stated
        assumption of the simulation.
    platform
        Devices of the cluster.
    ready_at
        Time at which the data of the task's parents would be on each device if the whole task ran there: now, or
        the end of the transfers of what is not there. None if the task waits for no data.

    Examples
    --------
    >>> import numpy as np
    >>> from hybrid_scheduler import View, workstation
    >>> View(2.0, np.array([5.0, 1.0]), workstation(1)).backlog.tolist()
    [3.0, 0.0]
    >>> View(2.0, np.array([5.0, 1.0]), workstation(1), ready_at=np.array([2.0, 4.0])).earliest_start.tolist()
    [5.0, 4.0]
    """

    now: float
    free_at: Floats
    platform: Platform
    ready_at: Floats | None = None

    @property
    def backlog(self) -> Floats:
        """Remaining seconds of work per device."""
        return np.maximum(self.free_at - self.now, 0.0)

    @property
    def earliest_start(self) -> Floats:
        """Time at which each device could start the task: it is free, and the task's data is there."""
        free = np.maximum(self.free_at, self.now)
        return free if self.ready_at is None else np.maximum(free, self.ready_at)

    @property
    def placement_times(self) -> Floats:
        """Times by which rules place a task: `earliest_start`, or without data to wait for `free_at`.

        In `free_at` idle devices differ by how long they have been idle.
        """
        return self.free_at if self.ready_at is None else self.earliest_start


class Queue(Protocol):
    """Released tasks that wait for a device, oldest first, as columns. See `Workload` for the columns."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: int) -> Task: ...
    @property
    def size(self) -> Floats:
        """Size of each waiting task."""

    @property
    def compute_intensity(self) -> Floats:
        """Compute intensity of each waiting task."""

    @property
    def memory_required(self) -> Floats:
        """MB of each waiting task."""

    @property
    def arrival_time(self) -> Floats:
        """Arrival of each waiting task in seconds."""

    @property
    def times(self) -> TimeTable:
        """Rows of the time model for the waiting tasks; only for schedulers that know durations."""

    @property
    def ready_at(self) -> Floats | None:
        """Time at which each task's data would be on each device (tasks x devices); None without data of parents.

        See `View.ready_at`, which is None for central schedulers.
        """
        return None

    @property
    def upward_rank(self) -> Floats | None:
        """Mean seconds from each task's start to the end of the graph, by the time model, transfers included.

        None for tasks without dependencies and for schedulers that know no durations.
        """
        return None


@dataclass(frozen=True, slots=True)
class Plan:
    """Static schedule: a decision and a planned start for every row of the workload.

    Parameters
    ----------
    device, fraction
        Placement of each task; see `Decision`.
    start
        Planned start in seconds. Each device works in the order of these times.
    finish
        Planned end in seconds. Of equal starts the earlier end comes first, so that a task of zero seconds does
        not wait for the one planned behind it.

    Examples
    --------
    >>> import numpy as np
    >>> from hybrid_scheduler import Plan
    >>> Plan(device=np.array([0, 1]), fraction=np.array([0.0, 1.0]), start=np.array([0.0, 0.0])).device.tolist()
    [0, 1]
    """

    device: Ints
    fraction: Floats
    start: Floats
    finish: Floats | None = None


@dataclass(frozen=True, slots=True)
class PlanProgress:
    """State of a run that follows a static plan, from which the rest can be planned again.

    Parameters
    ----------
    now
        Current time in seconds.
    rows
        Rows of the workload that have not started, increasing.
    ready
        For each of them the time at which its started parents are expected to have ended.
    free_at
        For each device the time at which it is expected to have finished the started tasks.
    """

    now: float
    rows: Ints
    ready: Floats
    free_at: Floats


class Prediction(NamedTuple):
    """Durations of one task that a scheduler has learned to predict, by class of device.

    Parameters
    ----------
    times
        (whole, fixed) seconds, as in a row of a `TimeModel`.
    deviation
        Standard deviation of the log seconds.
    """

    times: Floats
    deviation: Floats

    def of(self, decision: Decision, platform: Platform) -> tuple[float, float]:
        """Return the seconds of a placement, and its confidence.

        Confidence is the standard deviation of the log seconds on the chosen device: 0.1 means about ten per cent.
        Of a split task it is the accelerator's.

        Parameters
        ----------
        decision
            The placement.
        platform
            Its devices.
        """
        device = decision.device
        share = decision.fraction
        column = platform.class_of[device]
        host = platform.class_of[platform.cpu_of[device]]
        rest = self.times[host, 1] + (1.0 - share) * self.times[host, 0] if share < 1.0 else 0.0
        part = self.times[column, 1] + share * self.times[column, 0] if share > 0.0 else 0.0
        return float(max(rest, part)), float(self.deviation[column if share > 0.0 else host])


class Explanation(NamedTuple):
    """Values by which a learned scheduler made its last decision.

    Parameters
    ----------
    prediction
        Predicted durations, with their spread.
    policy
        Policy that decided; ``"trial"`` if a device of unknown speed was tried.
    policy_costs
        Name and running mean cost of each policy that may decide, in seconds of latency; the lowest decides.
    queued
        Seconds that the task waited in a common queue before it was placed; None if it was placed at its release.
    """

    prediction: Prediction
    policy: str
    policy_costs: tuple[tuple[str, float], ...] = ()
    queued: float | None = None

    def as_dict(self, platform: Platform) -> dict[str, Any]:
        """Return the values by names of devices, ready for JSON."""
        names = [device.name for device in platform.devices]
        return {
            "policy": self.policy,
            "predictions": [
                {
                    "devices": [name for name, own in zip(names, platform.class_of, strict=True) if own == column],
                    "seconds": float(times.sum()),
                    "spread": float(self.prediction.deviation[column]),
                }
                for column, times in enumerate(self.prediction.times)
            ],
            "records": dict(self.policy_costs),
            "options": [],  # of schedulers whose network values placements
            "queued": self.queued,
        }


class CompiledLoop(Protocol):
    """Compiled loop over whole workloads, of a scheduler that learns at finish times or keeps a central queue.

    It must keep the order of `cluster.event_loop`, so that both give the same numbers.
    """

    def run_rows(self, workload: Workload, begin: int, end: int, run: Any) -> None:
        """Decide, place and learn from the rows begin..end; after the last row, learn from all that still run.

        `run` are the `LoopArrays` of the cluster.
        """


class Scheduler(ABC):
    """Base class of all schedulers; derive from `Online`, `Central` or `Static`.

    Constructors only store parameters; the state of a run is created in `start`.

    Examples
    --------
    >>> from hybrid_scheduler import Scheduler, create
    >>> scheduler = create("greedy")
    >>> isinstance(scheduler, Scheduler), scheduler.knows.value, scheduler.learns
    (True, 'nothing', False)
    """

    knows: ClassVar[Knowledge] = Knowledge.NOTHING
    setting: Setting

    def start(self, setting: Setting) -> None:
        """Prepare for a run and reset all state.

        Parameters
        ----------
        setting
            Platform, seed, objective and, if the scheduler knows durations, the time model.
        """
        self.setting = setting

    def observe(self, outcome: Outcome) -> None:  # noqa: B027  most schedulers do not learn
        """Learn from a finished task. The default does nothing."""

    def observe_part(self, part: Outcome) -> None:  # noqa: B027  as above
        """Learn from a part of a split task that ended before the other. The default does nothing.

        Parameters
        ----------
        part
            Outcome without the part that still runs. `observe` follows with both parts when the task has finished.
        """

    def forget(self, task_id: int) -> None:  # noqa: B027  as above
        """Drop a task that will not be observed: it was cancelled or failed. The default does nothing."""

    @property
    def compiled_loop(self) -> CompiledLoop | None:
        """Compiled loop for whole workloads without dependencies; None if tasks must be decided one by one."""
        return None

    @property
    def wants_labels(self) -> bool:
        """Whether outcomes must carry the durations on every class of device (`Outcome.labels`)."""
        return False

    @property
    def learns(self) -> bool:
        """Whether outcomes must be passed to `observe`."""
        return type(self).observe is not Scheduler.observe

    @property
    def learns_from_parts(self) -> bool:
        """Whether parts that end before their task must be passed to `observe_part`."""
        return type(self).observe_part is not Scheduler.observe_part

    def prediction(self) -> Prediction | None:
        """Return the predicted durations of the task that was decided last; None if there are none."""
        return None

    def explanation(self) -> Explanation | None:
        """Return the values by which the last decision was made; None if the scheduler does not learn."""
        return None

    def decision_counts(self) -> dict[str, int]:
        """Return how many tasks each policy has decided since the start; empty if there is only one policy."""
        return {}


class Online(Scheduler):
    """Scheduler that decides once for each task, at its release.

    Examples
    --------
    >>> from hybrid_scheduler import Cluster, Decision, Online, WorkloadGenerator
    >>> class FirstGpu(Online):
    ...     def decide(self, task, view):
    ...         return Decision(device=1, fraction=1.0)
    >>> workload = WorkloadGenerator(seed=1).generate_workload(10, utilisation=0.2)
    >>> Cluster().run(workload, FirstGpu()).outcomes.device.tolist()
    [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    """

    @abstractmethod
    def decide(self, task: Task, view: View) -> Decision:
        """Return the placement of a task.

        Parameters
        ----------
        task
            Task that was just released.
        view
            State of the cluster.

        Returns
        -------
        Decision
            Device and share.
        """


class Central(Scheduler):
    """Scheduler with one central queue, which it is asked about at every release and when a device becomes free.

    Subclasses override `pick` to give an idle device one waiting task to run whole, or `starts` to split tasks and
    to plan for the whole queue.

    Examples
    --------
    >>> from hybrid_scheduler import Central, Cluster, WorkloadGenerator
    >>> class Oldest(Central):
    ...     def pick(self, queue, idle_device, view):
    ...         return 0
    >>> workload = WorkloadGenerator(seed=1).generate_workload(10, utilisation=0.2)
    >>> bool(Cluster().run(workload, Oldest()).outcomes.completed.all())
    True
    """

    def pick(self, queue: Queue, idle_device: int, view: View) -> int | None:
        """Return the position in `queue` of the task to run on `idle_device`, or None.

        Parameters
        ----------
        queue
            Waiting tasks, oldest first.
        idle_device
            Index of the device.
        view
            State of the cluster.
        """
        raise NotImplementedError(f"{type(self).__name__} must override pick or starts")

    def starts(self, queue: Queue, view: View) -> Iterator[tuple[int, Decision]]:
        """Yield the position in `queue` and the placement of each task to start now.

        After each of them `queue` and ``view.free_at`` are up to date. By default accelerators pick first, the
        longest idle first; the CPU takes the remaining tasks. If tasks wait for data, devices that picked nothing
        are asked again after others have picked.

        Parameters
        ----------
        queue
            Waiting tasks, oldest first.
        view
            State of the cluster.
        """
        is_cpu = view.platform.is_cpu
        free_at = view.free_at
        idle = np.flatnonzero(free_at <= view.now).tolist()
        ask = bool(idle)
        has_data = queue.ready_at is not None
        while ask:
            ask = False
            for device in sorted(idle, key=lambda d: (is_cpu[d], free_at[d], d)):
                while len(queue) and free_at[device] <= view.now:
                    position = self.pick(queue, device, view)
                    if position is None:
                        break
                    ask = has_data
                    yield position, Decision(device, 0.0 if is_cpu[device] else 1.0)

    def queue_state(self) -> dict[str, Floats]:
        """Return what the scheduler remembers of the waiting tasks, for a run that is continued later."""
        return {}

    def restore_queue(self, state: dict[str, Floats], queue: Queue) -> None:
        """Continue with waiting tasks of an earlier process.

        Parameters
        ----------
        state
            What `queue_state` returned.
        queue
            The waiting tasks.
        """


class Static(Scheduler):
    """Scheduler that plans the whole workload before it starts, for task graphs.

    Examples
    --------
    >>> import numpy as np
    >>> from hybrid_scheduler import Cluster, Plan, Static, WorkloadGenerator
    >>> class AllOnCpu(Static):
    ...     def plan(self, workload, platform):
    ...         return Plan(np.zeros(len(workload), int), np.zeros(len(workload)), workload.arrival_time)
    >>> workload = WorkloadGenerator(seed=1).generate_workload(3, utilisation=0.2)
    >>> Cluster().run(workload, AllOnCpu()).outcomes.device.tolist()
    [0, 0, 0]
    """

    #: Factor between measured and planned seconds of a task above which the rest is planned again; None for never.
    replan_above: float | None = None

    @abstractmethod
    def plan(self, workload: Workload, platform: Platform) -> Plan:
        """Return the schedule of the whole workload.

        Parameters
        ----------
        workload
            All tasks, with their dependencies.
        platform
            Devices.
        """

    def replan(self, workload: Workload, platform: Platform, progress: PlanProgress) -> Plan:
        """Return another schedule for the tasks that have not started, aligned with `progress.rows`."""
        raise NotImplementedError(f"{type(self).__name__} must override replan")
