"""Run of a static plan: every device works in the order of the planned starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core import Decision, Ints, Outcomes, Plan, PlanProgress, Static, Workload
from ..core.outcome import FAILED
from .parent_data import ParentData, device_shares, place_released

if TYPE_CHECKING:
    from .cluster import Cluster


class PlannedRun:
    """Run of a static plan: every device works in its order.

    The scheduler may plan the rest again when a task's seconds differ from the planned ones. It learns how long a
    task took when it has ended; of tasks that still run it only knows the planned seconds.
    """

    def __init__(self, cluster: Cluster, workload: Workload, scheduler: Static, outcomes: Outcomes) -> None:
        self.cluster = cluster
        self.workload = workload
        self.scheduler = scheduler
        self.outcomes = outcomes
        self.table = cluster.physics.times(workload, cluster.platform)
        self.data = ParentData(cluster, workload, outcomes)
        self.rank = np.empty(len(workload), np.int64)
        self.rank[workload.topological_order] = np.arange(len(workload))
        times = scheduler.setting.times
        self.known = (
            self.table[:, cluster.physics.columns(cluster.platform)]
            if times is None
            else times.table(workload)[:, times.columns]
        )
        self.device = np.zeros(len(workload), np.int64)
        self.fraction = np.zeros(len(workload))
        self.started = np.zeros(len(workload), np.bool_)
        #: Parts under way: row, device and planned end.
        self.running: list[tuple[int, int, float]] = []

    def run(self, plan: Plan) -> None:
        """Place all tasks in the order of the plan; with `replan_above`, as they start."""
        everything: Ints = np.arange(len(self.workload))
        order = self._follow(everything, plan)
        if self.scheduler.replan_above is None:
            for row in order:
                self._place(row)
            return
        while order:
            start, row = self._next(order)
            if self._duration_deviates(start) and len(order) > 1:
                rest: Ints = np.sort(np.array(order))
                order = self._follow(
                    rest, self.scheduler.replan(self.workload, self.cluster.platform, self._progress(start, rest))
                )
                continue
            order.remove(row)
            self._place(row)
            self._expect_end(row)

    def _follow(self, rows: Ints, plan: Plan) -> list[int]:
        """Take over the placements of a plan and return its order."""
        for row, device, fraction in zip(rows.tolist(), plan.device.tolist(), plan.fraction.tolist(), strict=True):
            checked = self.cluster.check_decision(Decision(int(device), float(fraction)), self.scheduler)
            self.device[row] = checked.device
            self.fraction[row] = checked.fraction
        finish = plan.start if plan.finish is None else plan.finish
        # In the order of the planned starts; parents first among equals.
        order: list[int] = rows[np.lexsort((self.rank[rows], finish, plan.start))].tolist()
        return order

    def _devices(self, row: int) -> list[int]:
        """Return the devices that run a part of a task."""
        device, fraction = self.cluster.executed(
            row, int(self.device[row]), float(self.fraction[row]), self.workload
        )
        return list(device_shares(device, fraction, self.cluster.platform.cpu_of))

    def _next(self, order: list[int]) -> tuple[float, int]:
        """Return the start and the row of the task that starts first: the next one of all its devices."""
        best = (np.inf, -1)
        taken = set[int]()
        free_at = self.cluster.free_at_view
        for row in order:
            devices = self._devices(row)
            parents = self.workload.parents(row)
            if taken.isdisjoint(devices) and self.started[parents].all():
                ready = float(self.workload.arrival_time[row])
                if not (self.outcomes.status[parents] == FAILED).any():
                    ready = self.data.ready(row, int(self.device[row]), float(self.fraction[row]), ready)
                best = min(best, (max(ready, float(min(free_at[devices]))), row))
            taken.update(devices)
            if len(taken) == len(free_at):
                break
        return best

    def _place(self, row: int) -> None:
        released = float(self.workload.arrival_time[row])
        place_released(row, int(self.device[row]), float(self.fraction[row]), released, self.table[row], self.data)

    def _expect_end(self, row: int) -> None:
        """Note the planned ends of a task's parts."""
        self.started[row] = True
        out = self.outcomes
        if out.status[row] == FAILED:
            return
        device = int(out.device[row])
        fraction = float(out.fraction[row])
        host = int(self.cluster.platform.cpu_of[device])
        if fraction < 1.0:
            seconds = self.known[row, host, 1] + (1.0 - fraction) * self.known[row, host, 0]
            self.running.append((row, host, float(out.cpu_start[row] + seconds)))
        if fraction > 0.0:
            seconds = self.known[row, device, 1] + fraction * self.known[row, device, 0]
            self.running.append((row, device, float(out.accelerator_start[row] + seconds)))

    def _duration_deviates(self, now: float) -> bool:
        """Drop the tasks that have ended, and return whether one of their parts took much longer or shorter."""
        assert self.scheduler.replan_above is not None
        out = self.outcomes
        deviates = False
        still = []
        for row, device, planned_end in self.running:
            own = device == out.device[row] and out.fraction[row] > 0.0
            start = float(out.accelerator_start[row] if own else out.cpu_start[row])
            seconds = float(out.accelerator_time[row] if own else out.cpu_time[row])
            if start + seconds > now:
                still.append((row, device, planned_end))
            elif seconds > 0.0 and planned_end > start:
                ratio = seconds / (planned_end - start)
                deviates |= max(ratio, 1.0 / ratio) > self.scheduler.replan_above
        self.running = still
        return deviates

    def _progress(self, now: float, rest: Ints) -> PlanProgress:
        free_at = np.minimum(self.cluster.free_at_view, now)
        ends: dict[int, float] = {}
        for row, device, planned_end in self.running:
            free_at[device] = max(free_at[device], planned_end, now)
            ends[row] = max(ends.get(row, now), planned_end)
        ready = [
            max((ends.get(parent, now) for parent in self.workload.parents(row).tolist() if self.started[parent]),
                default=now)
            for row in rest.tolist()
        ]  # fmt: skip
        return PlanProgress(now, rest, np.array(ready), free_at)
