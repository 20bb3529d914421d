"""Simulated cluster: devices as first-in, first-out queues, for any scheduler and any concurrent physics.

A run returns a `RunResult`: outcomes, busy seconds, energy and cost.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np

from ..compiled import TASK, FastRule, compiled, device_table
from ..core import (
    Central,
    CompiledLoop,
    Decision,
    Floats,
    Ints,
    InvalidInputError,
    Knowledge,
    Objective,
    Online,
    Outcome,
    Outcomes,
    Platform,
    Scales,
    Scheduler,
    Setting,
    Static,
    Task,
    TimeTable,
    UnknownNameError,
    Workload,
    workstation,
)
from ..physics import AnalyticPhysics, EnergyAndCost, Physics, Tariff, dollars_per_second, objective_scales
from .arrival_loop import (
    EXECUTED_SIGNATURE,
    LOOP_SIGNATURE,
    MEMORY_POLICIES,
    OWN_LOOP_SIGNATURE,
    PLACE_SIGNATURE,
    ClusterArrays,
    LoopArrays,
    OutcomeColumns,
    RuleArrays,
    TaskColumns,
    arrival_loop,
    executed_one,
    place_one,
    whole_share,
)
from .event_loop import EventLoop
from .noise import Noise
from .physics_times import PhysicsTimes
from .planned_run import PlannedRun

#: Numbers per chunk of the compiled loop: tables stay in the processor's cache, and Ctrl-C acts promptly.
CHUNK_NUMBERS = 131_072
#: Rows per call of a learner's own compiled loop.
_LEARNER_ROWS = 1024
#: Number of tasks whose isolated optima define the units of the objective.
_SCALE_TASKS = 1000


@dataclass(frozen=True)
class RunResult:
    """Outcomes of a run, with energy, cost and the busy intervals of devices.

    Parameters
    ----------
    outcomes
        Results of all tasks, as columns.
    platform
        Devices.
    tariff
        Price of electricity and the parts of the cost that count.
    busy
        Busy seconds of each device.
    decision_counts
        Tasks that each policy of the scheduler has decided; empty if it has only one.

    Examples
    --------
    >>> from hybrid_scheduler import Cluster, WorkloadGenerator, create
    >>> workload = WorkloadGenerator(seed=1).generate_workload(20, utilisation=0.5)
    >>> result = Cluster().run(workload, create("earliest_finish"))
    >>> len(result.outcomes), len(result.busy), float(result.energy_and_cost.energy.sum()) > 0
    (20, 5, True)
    """

    outcomes: Outcomes
    platform: Platform
    tariff: Tariff
    busy: Floats
    decision_counts: dict[str, int] = field(default_factory=dict)

    @cached_property
    def energy_and_cost(self) -> EnergyAndCost:
        """Energy and cost of each task."""
        return EnergyAndCost(self.outcomes, self.platform, self.tariff)

    @property
    def bill(self) -> EnergyAndCost:
        """Former name of `energy_and_cost`."""
        warnings.warn("RunResult.bill is deprecated: use energy_and_cost", DeprecationWarning, stacklevel=2)
        return self.energy_and_cost

    def gantt(self) -> tuple[Ints, Ints, Floats, Floats]:
        """Return every executed part as columns (row, device, start, end)."""
        return self.outcomes.intervals(self.platform.cpu_of)


class Cluster:
    """Simulated platform with its queues. Each scheduler runs on a cluster of its own.

    Parameters
    ----------
    platform
        Devices; by default `workstation`.
    physics
        Durations; by default `AnalyticPhysics`.
    noise
        Random factors on the durations; by default none.
    memory_policy
        Treatment of a share that does not fit into an accelerator: ``"clip"``, ``"to_cpu"``, ``"fail"``, or
        ``"page"``: what does not fit moves over the device's link, in and out, which takes time.
    tariff
        Price of electricity and the parts of the cost that count.

    Raises
    ------
    InvalidInputError
        If the physics runs the parts of a split task one after the other, as `SerialPhysics` does.
    UnknownNameError
        If there is no such memory policy.

    Examples
    --------
    >>> from hybrid_scheduler import Cluster, Decision, Task
    >>> outcome = Cluster().simulate(Task(0, 2500, 0.5, memory_required=0), Decision(device=1, fraction=1.0))
    >>> outcome.latency
    0.2
    """

    def __init__(
        self,
        platform: Platform | None = None,
        physics: Physics | None = None,
        *,
        noise: Noise | None = None,
        memory_policy: str = "clip",
        tariff: Tariff | None = None,
    ) -> None:
        self.platform = platform or workstation()
        self.physics = physics or AnalyticPhysics()
        self.noise = noise or Noise()
        self.tariff = tariff or Tariff()
        if not self.physics.concurrent:
            raise InvalidInputError(
                "physics",
                "one whose two parts run at once on a cluster",
                self.physics.name,
                hint="serial physics is for isolated studies only",
            )
        if memory_policy not in MEMORY_POLICIES:
            raise UnknownNameError("memory_policy", memory_policy, MEMORY_POLICIES)
        self.memory_policy = memory_policy
        self._policy = MEMORY_POLICIES[memory_policy]
        self._devices = device_table(self.platform, self.physics.columns(self.platform))
        self._place = compiled(place_one, PLACE_SIGNATURE)
        self._executed = compiled(executed_one, EXECUTED_SIGNATURE)
        self.reset()

    def reset(self) -> None:
        """Empty all queues and set the clock back to 0."""
        self._free_at: Floats = np.zeros(len(self.platform))
        self._busy: Floats = np.zeros(len(self.platform))
        #: The fields of `ClusterArrays` before the memory policy.
        self._queues = (
            self._devices, self._free_at, self._busy, float(self.noise.sigma), int(self.noise.seed)
        )  # fmt: skip
        self.free_at_view = self._free_at.view()
        self.free_at_view.flags.writeable = False
        self._first_arrival = math.inf
        self._last_finish = 0.0

    # ---------------------------------------------------------------- one task

    def simulate(self, task: Task, decision: Decision) -> Outcome:
        """Place one task on the current queues and return its outcome.

        Parameters
        ----------
        task
            Task to place.
        decision
            Device and share.
        """
        workload = Workload.from_tasks([task])
        checked = self.check_decision(decision, None)
        outcomes = Outcomes.empty(workload)
        row = self.physics.times(workload, self.platform)[0]
        self.place_row(0, checked.device, checked.fraction, task.arrival_time, workload, row, outcomes)
        self.record_span(outcomes)
        return outcomes[0]

    def get_utilization(self) -> dict[str, Any]:
        """Return the busy share of every device since the first arrival, and their mean."""
        span = self._last_finish - self._first_arrival
        shares = self._busy / span if span > 0 else np.zeros(len(self.platform))
        report: dict[str, Any] = {
            device.name: {"utilization": float(share)}
            for device, share in zip(self.platform.devices, shares, strict=True)
        }
        report["average_utilization"] = float(shares.mean())
        return report

    def start_scheduler(
        self,
        scheduler: Scheduler,
        sample: Workload,
        *,
        seed: int = 0,
        objective: Objective | None = None,
    ) -> PhysicsTimes | None:
        """Start a scheduler on this cluster, as `run` does first; for callers that decide task by task.

        Parameters
        ----------
        scheduler
            Scheduler to start.
        sample
            Sample of the tasks to come. Their durations set the units of an objective with several goals.
        seed
            Seed of the scheduler's random numbers.
        objective
            Weights on latency, energy and cost.

        Returns
        -------
        PhysicsTimes or None
            Time model that the scheduler received, if it knows durations.
        """
        goal = objective or Objective()
        times = self._times_for(scheduler)
        scheduler.start(
            Setting(
                self.platform,
                seed=seed,
                objective=goal,
                dollars=dollars_per_second(self.platform, self.tariff),
                scales=self._scales(sample, goal) if times else None,
                times=times,
            )
        )
        return times

    # ---------------------------------------------------------------- whole workloads

    def run(
        self,
        workload: Workload,
        scheduler: Scheduler,
        *,
        seed: int = 0,
        objective: Objective | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> RunResult:
        """Run a workload from empty queues.

        Parameters
        ----------
        workload
            Tasks.
        scheduler
            Online, central or static scheduler.
        seed
            Seed of the scheduler's random numbers.
        objective
            Weights on latency, energy and cost; by default latency alone.
        progress
            Called with the number of tasks done since the last call.

        Returns
        -------
        RunResult
            Outcomes of every task and busy seconds of every device.

        Raises
        ------
        InvalidInputError
            If the scheduler returns an invalid decision.
        """
        self.reset()
        times = self.start_scheduler(scheduler, workload, seed=seed, objective=objective)
        outcomes = Outcomes.empty(workload)
        report = progress or (lambda _: None)
        own_loop = scheduler.compiled_loop
        if isinstance(scheduler, Static):
            PlannedRun(self, workload, scheduler, outcomes).run(scheduler.plan(workload, self.platform))
        elif isinstance(scheduler, FastRule) and not scheduler.learns and not workload.has_dependencies:
            self._run_compiled(workload, scheduler, outcomes, report)
        elif own_loop is not None and not workload.has_dependencies and workload.divisible.all():
            self._run_own_loop(workload, own_loop, outcomes, report)
        elif isinstance(scheduler, Online | Central):
            outcomes = self._run_events(workload, scheduler, times, report)
        else:
            raise InvalidInputError("scheduler", "an Online, Central or Static scheduler", type(scheduler).__name__)
        self.record_span(outcomes)
        return RunResult(outcomes, self.platform, self.tariff, self._busy.copy(), scheduler.decision_counts())

    def _run_compiled(
        self, workload: Workload, scheduler: FastRule, outcomes: Outcomes, progress: Callable[[int], None]
    ) -> None:
        model = scheduler.times
        knows_physics = isinstance(model, PhysicsTimes) and model.physics is self.physics and model.noise is None
        width = 2 * (len(self.platform) if model is not None and not knows_physics else len(self.platform.classes))
        chunk = max(64, CHUNK_NUMBERS // width)
        no_times = np.empty((chunk, 0, 2))
        rule = type(scheduler).rule
        own = type(scheduler).own_loop()
        loop = compiled(arrival_loop, LOOP_SIGNATURE) if own is None else compiled(own, OWN_LOOP_SIGNATURE)
        for begin in range(0, len(workload), chunk):
            end = min(begin + chunk, len(workload))
            part = workload.rows(begin, end)
            table = self.physics.times(part, self.platform)
            known_times = table if knows_physics else no_times if model is None else model.table(part)
            arrays = RuleArrays(
                np.empty(1, TASK), scheduler.devices, scheduler.params, scheduler.state, known_times,
                LoopArrays(
                    TaskColumns.of(part), table, ClusterArrays(*self._queues, self._policy),
                    OutcomeColumns(*(column[begin:end] for column in OutcomeColumns.of(outcomes))),
                ),
            )  # fmt: skip
            bad = loop(rule, arrays) if own is None else loop(arrays)
            if bad >= 0:
                row = begin + bad
                self.check_decision(Decision(int(outcomes.device[row]), float(outcomes.fraction[row])), scheduler)
            progress(end - begin)

    def _run_own_loop(
        self, workload: Workload, learner: CompiledLoop, outcomes: Outcomes, progress: Callable[[int], None]
    ) -> None:
        table = self.physics.times(workload, self.platform)
        run = LoopArrays.of(workload, table, ClusterArrays(*self._queues, self._policy), outcomes)
        for begin in range(0, len(workload), _LEARNER_ROWS):
            end = min(begin + _LEARNER_ROWS, len(workload))
            learner.run_rows(workload, begin, end, run)
            progress(end - begin)

    def _run_events(
        self,
        workload: Workload,
        scheduler: Online | Central,
        times: PhysicsTimes | None,
        progress: Callable[[int], None],
    ) -> Outcomes:
        placed = count(1)

        def report(row: int, decision: Decision) -> None:
            if next(placed) % _LEARNER_ROWS == 0:
                progress(_LEARNER_ROWS)

        loop = EventLoop(self, scheduler, times, placed=report)
        loop.release(workload)
        loop.advance(math.inf)
        loop.drain()
        loop.close()
        return loop.outcomes

    def run_more(self, workload: Workload, scheduler: FastRule) -> Outcomes:
        """Run further tasks on the current queues: `run` in chunks, without dependencies.

        The outcomes do not depend on how the tasks are cut into chunks.

        Parameters
        ----------
        workload
            Next tasks.
        scheduler
            Compiled rule, started before by `start_scheduler`.
        """
        outcomes = Outcomes.empty(workload)
        self._run_compiled(workload, scheduler, outcomes, lambda _: None)
        self.record_span(outcomes)
        return outcomes

    # ---------------------------------------------------------------- the queues

    def busy_by(self, now: float) -> Floats:
        """Return the seconds that each device has worked up to `now`, if no placed task arrived later.

        It is exact, because a device with a backlog works without a gap until it is free.
        """
        return self._busy - self.backlog(now)

    def backlog(self, now: float) -> Floats:
        """Return the remaining seconds of work per device."""
        waiting: Floats = np.maximum(self._free_at - now, 0.0)
        return waiting

    def state(self) -> dict[str, Any]:
        """Return the queues as plain values for JSON; `restore` sets them exactly."""
        first = self._first_arrival if math.isfinite(self._first_arrival) else None
        return {
            "free_at": self._free_at.tolist(),
            "busy": self._busy.tolist(),
            "first_arrival": first,
            "last_finish": self._last_finish,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Set the queues to a state that `state` returned."""
        free_at = np.array(state["free_at"], np.float64)
        busy = np.array(state["busy"], np.float64)
        if free_at.shape != self._free_at.shape or busy.shape != free_at.shape:
            raise InvalidInputError("cluster state", f"of {len(self.platform)} devices", free_at.shape)
        self._free_at[:] = free_at
        self._busy[:] = busy
        self._first_arrival = math.inf if state["first_arrival"] is None else float(state["first_arrival"])
        self._last_finish = float(state["last_finish"])

    # ---------------------------------------------------------------- shared by the loops

    def place_row(
        self,
        row: int,
        device: int,
        fraction: float,
        ready: float,
        workload: Workload,
        times: Floats,
        outcomes: Outcomes,
    ) -> None:
        """Place one task of a workload and write its outcome."""
        fraction, policy = self._share_and_policy(row, fraction, workload)
        (
            outcomes.device[row], outcomes.fraction[row], outcomes.cpu_start[row], outcomes.cpu_time[row],
            outcomes.accelerator_start[row], outcomes.accelerator_time[row], outcomes.status[row],
        ) = self._place(
            device, float(fraction), workload.task_id[row], workload.memory_required[row], ready, times,
            (*self._queues, policy),
        )  # fmt: skip

    def executed(self, row: int, device: int, fraction: float, workload: Workload) -> tuple[int, float]:
        """Return the device and share with which the memory policy lets a decision run."""
        share, policy = self._share_and_policy(row, fraction, workload)
        ran_on, ran, _ = self._executed(device, share, workload.memory_required[row], self._devices, policy)
        return int(ran_on), float(ran)

    def _share_and_policy(self, row: int, fraction: float, workload: Workload) -> tuple[float, int]:
        if workload.divisible[row]:
            return float(fraction), self._policy
        share, policy = whole_share(float(fraction), self._policy)
        return float(share), int(policy)

    def labels(self, task_id: int, times: Floats) -> Floats:
        """Return the realised (whole, fixed) seconds of a task on the first device of each class."""
        first, columns = self._first_of_class
        if self.noise.sigma == 0.0:
            return times[columns]
        factors = self.noise.factors(np.array([task_id]), len(self.platform))[0]
        realised: Floats = times[columns] * factors[first, None]
        return realised

    @cached_property
    def _first_of_class(self) -> tuple[Ints, Ints]:
        """First device of each class, and its column in tables of durations."""
        _, first = np.unique(self.platform.class_of, return_index=True)
        return first, self.physics.columns(self.platform)[first]

    def check_decision(self, decision: object, scheduler: Scheduler | None) -> Decision:
        """Return the decision if it is valid.

        Raises
        ------
        InvalidInputError
            If device or fraction are out of range; it names the scheduler.
        """
        where = f"decision of {type(scheduler).__name__}" if scheduler else None
        if not isinstance(decision, Decision):
            hint = "return Decision(device, fraction); Decision(1, 1.0) is all of the task on device 1"
            raise InvalidInputError("decision", "a Decision", decision, where=where, hint=hint)
        if not 0 <= decision.device < len(self.platform):
            raise InvalidInputError(
                "device", f"an index from 0 to {len(self.platform) - 1}", decision.device, where=where
            )
        if not 0.0 <= decision.fraction <= 1.0:
            raise InvalidInputError("fraction", "a number in [0, 1]", decision.fraction, where=where)
        return decision

    def _times_for(self, scheduler: Scheduler) -> PhysicsTimes | None:
        if scheduler.knows is Knowledge.NOTHING:
            return None
        return PhysicsTimes(
            self.physics, self.platform, self.noise if scheduler.knows is Knowledge.REALISED else None
        )

    def _scales(self, workload: Workload, objective: Objective) -> Scales:
        if objective.is_latency_only:
            return Scales()
        sample = workload.rows(0, min(len(workload), _SCALE_TASKS))
        table: TimeTable = self.physics.times(sample, self.platform)
        dollars = dollars_per_second(self.platform, self.tariff)
        return objective_scales(table, self.physics.columns(self.platform), self.platform, dollars)

    def record_span(self, outcomes: Outcomes) -> None:
        """Note the first arrival and the last finish, for `get_utilization`."""
        if outcomes.completed.any():
            self._first_arrival = min(self._first_arrival, float(outcomes.workload.arrival_time[0]))
            # Every queue is served in order, so its last part ends when the device is free.
            self._last_finish = max(self._last_finish, float(self._free_at.max()))
