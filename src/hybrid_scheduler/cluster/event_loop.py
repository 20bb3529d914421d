"""Event loops for dependencies, central queues, revised plans, and schedulers that learn when tasks finish.

Events are ordered by (time, priority, counter). At the same time, finishes come before releases, so that outcomes
are known before the next decision. Releases come in the workload's order. A task whose parents ran on other devices
waits for the transfer of their data. A central queue is looked at once per time, when a task is released or a
device has become free.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..core import (
    Central,
    Decision,
    Floats,
    Ints,
    InvalidInputError,
    Links,
    Online,
    Outcomes,
    Plan,
    PlanProgress,
    Static,
    Task,
    TimeTable,
    View,
    Workload,
)
from ..core.outcome import FAILED

if TYPE_CHECKING:
    from .cluster import Cluster

#: Kinds of events by priority; `PART` is the end of the part of a split task that ends before the other.
FINISH, PART, RELEASE = 0, 1, 2
Progress = Callable[[int], None]


class _WaitingTasks:
    """Queue of a central scheduler: released rows, oldest first. Implements `core.Queue`."""

    def __init__(self, workload: Workload, times: TimeTable | None) -> None:
        self._workload, self._times = workload, times
        self.rows: Ints = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, position: int) -> Task:
        return self._workload[int(self.rows[position])]

    @property
    def size(self) -> Floats:
        """Size of each waiting task."""
        return self._workload.size[self.rows]

    @property
    def compute_intensity(self) -> Floats:
        """Compute intensity of each waiting task."""
        return self._workload.compute_intensity[self.rows]

    @property
    def memory_required(self) -> Floats:
        """MB of each waiting task."""
        return self._workload.memory_required[self.rows]

    @property
    def arrival_time(self) -> Floats:
        """Arrival of each waiting task in seconds."""
        return self._workload.arrival_time[self.rows]

    @property
    def times(self) -> TimeTable:
        """Rows of the time model for the waiting tasks."""
        if self._times is None:
            raise LookupError("this scheduler declared Knowledge.NOTHING: it has no time model")
        return self._times[self.rows]


class EventRun:
    """Run of a workload under an online or central scheduler."""

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        scheduler: Online | Central,
        outcomes: Outcomes,
        known_times: TimeTable | None,
        progress: Progress,
    ) -> None:
        self.cluster, self.workload, self.scheduler = cluster, workload, scheduler
        self.outcomes, self.progress = outcomes, progress
        self.table = cluster.physics.times(workload, cluster.platform)
        self.links = cluster.physics.links(cluster.platform)
        self.waiting = _WaitingTasks(workload, known_times)
        self.events: list[tuple[float, int, int]] = []  # (time, priority, row): the row is the counter
        self.missing = np.diff(workload.parent_start)
        self.children = _children(workload)
        self.decided = 0

    def run(self) -> None:
        """Process all events until every task has finished."""
        for row in np.flatnonzero(self.missing == 0).tolist():
            self.events.append((float(self.workload.arrival_time[row]), RELEASE, row))
        heapq.heapify(self.events)
        looked_at = -np.inf
        for now, finished, parts, released in self._events_by_time():
            for row in finished:
                self._finish(row, now)
            for row in parts:
                self._end_part(row)
            for row in released:
                if isinstance(self.scheduler, Online):
                    self._decide(row, now)
                else:
                    self.waiting.rows = np.append(self.waiting.rows, row)
            became_free = now > looked_at and (self.cluster.free_at_view == now).any()
            if isinstance(self.scheduler, Central) and (released or became_free):
                self._bind(self.scheduler, now)
                looked_at = now
        if len(self.waiting):
            # All devices are idle and no event is left that could change the scheduler's mind.
            raise InvalidInputError(
                "pick", "a task whenever all devices are idle",
                f"None with {len(self.waiting)} waiting, the first with id {self.waiting[0].task_id}",
                where=f"scheduler {type(self.scheduler).__name__}",
            )  # fmt: skip

    def _events_by_time(self) -> Iterator[tuple[float, list[int], list[int], list[int]]]:
        """Yield all events of one time together; handling them may add events at the same time."""
        while self.events:
            now = self.events[0][0]
            batch: tuple[list[int], list[int], list[int]] = ([], [], [])
            while self.events and self.events[0][0] == now:
                _, priority, row = heapq.heappop(self.events)
                batch[priority].append(row)
            yield now, *batch

    def _finish(self, row: int, now: float) -> None:
        if self.outcomes.status[row] != FAILED:
            outcome = self.outcomes[row]
            if self.scheduler.wants_labels:
                outcome = replace(outcome, labels=self.cluster.labels(outcome.task_id, self.table[row]))
            self.scheduler.observe(outcome)
        for child in self.children[row]:
            self.missing[child] -= 1
            if self.missing[child] == 0:
                heapq.heappush(self.events, (max(now, float(self.workload.arrival_time[child])), RELEASE, child))

    def _end_part(self, row: int) -> None:
        part = self.outcomes[row].earlier_part
        if part is not None and self.scheduler.learns_from_parts:
            self.scheduler.observe_part(part)

    def _decide(self, row: int, now: float) -> None:
        assert isinstance(self.scheduler, Online)
        view = View(now, self.cluster.free_at_view, self.cluster.platform)
        decision = self.cluster.check_decision(self.scheduler.decide(self.workload[row], view), self.scheduler)
        self._place(row, decision.device, decision.fraction, now)

    def _bind(self, scheduler: Central, now: float) -> None:
        view = View(now, self.cluster.free_at_view, self.cluster.platform)
        for position, decision in scheduler.starts(self.waiting, view):
            if not 0 <= position < len(self.waiting):
                raise InvalidInputError(
                    "pick", f"a position from 0 to {len(self.waiting) - 1}, or None", position,
                    where=f"scheduler {type(scheduler).__name__}",
                )  # fmt: skip
            checked = self.cluster.check_decision(decision, scheduler)
            row = int(self.waiting.rows[position])
            self.waiting.rows = np.delete(self.waiting.rows, position)
            self._place(row, checked.device, checked.fraction, now)

    def _place(self, row: int, device: int, fraction: float, now: float) -> None:
        out = self.outcomes
        place_released(row, device, fraction, now, self.workload, self.table[row], out, self.cluster, self.links)
        placed = None if out.status[row] == FAILED else out[row]
        heapq.heappush(self.events, (now if placed is None else placed.finish, FINISH, row))
        part = None if placed is None else placed.earlier_part
        if part is not None and (self.scheduler.learns_from_parts or isinstance(self.scheduler, Central)):
            heapq.heappush(self.events, (part.finish, PART, row))
        self.decided += 1
        if self.decided % 1024 == 0:
            self.progress(1024)


def plan_order(plan: Plan, rank: Ints) -> Ints:
    """Return positions in the order of the planned starts; `rank` puts parents first among equals."""
    finish = plan.start if plan.finish is None else plan.finish
    return np.lexsort((rank, finish, plan.start))


class PlannedRun:
    """Run of a static plan whose rest is planned again when a task's seconds differ from the planned ones.

    Every device works in the order of the plan. The scheduler learns how long a task took when it has ended; of
    tasks that still run it only knows the planned seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        scheduler: Static,
        outcomes: Outcomes,
        table: TimeTable,
        rank: Ints,
    ) -> None:
        self.cluster, self.workload, self.scheduler, self.outcomes = cluster, workload, scheduler, outcomes
        self.table, self.rank, self.links = table, rank, cluster.physics.links(cluster.platform)
        times = scheduler.setting.times
        self.known = (
            table[:, cluster.physics.columns(cluster.platform)]
            if times is None
            else times.table(workload)[:, times.columns]
        )
        self.device, self.fraction = np.zeros(len(workload), np.int64), np.zeros(len(workload))
        self.started = np.zeros(len(workload), np.bool_)
        #: Planned ends of the parts of tasks that have not ended: row, device, end.
        self.running: list[tuple[int, int, float]] = []

    def run(self, plan: Plan) -> None:
        """Place all tasks, each at the time of its start."""
        everything: Ints = np.arange(len(self.workload))
        order = self._follow(everything, plan)
        while order:
            start, row = self._next(order)
            if self._surprised(start) and len(order) > 1:
                rest: Ints = np.sort(np.array(order))
                order = self._follow(
                    rest, self.scheduler.replan(self.workload, self.cluster.platform, self._progress(start, rest))
                )
                continue
            order.remove(row)
            self._place(row)

    def _follow(self, rows: Ints, plan: Plan) -> list[int]:
        """Take over the placements of a plan and return its order."""
        for row, device, fraction in zip(rows.tolist(), plan.device.tolist(), plan.fraction.tolist(), strict=True):
            checked = self.cluster.check_decision(Decision(int(device), float(fraction)), self.scheduler)
            self.device[row], self.fraction[row] = checked.device, checked.fraction
        found: list[int] = rows[plan_order(plan, self.rank[rows])].tolist()
        return found

    def _devices(self, row: int) -> list[int]:
        """Return the devices that run a part of a task."""
        device, fraction = self.cluster.executed(
            row, int(self.device[row]), float(self.fraction[row]), self.workload
        )
        return list(_device_shares(device, fraction, self.cluster.platform.cpu_of))

    def _next(self, order: list[int]) -> tuple[float, int]:
        """Return the start and the row of the task that starts first: the next one of all its devices."""
        best, taken = (np.inf, -1), set[int]()
        free_at = self.cluster.free_at_view
        for row in order:
            devices = self._devices(row)
            parents = self.workload.parents(row)
            if taken.isdisjoint(devices) and self.started[parents].all():
                ready = float(self.workload.arrival_time[row])
                if len(parents) and not (self.outcomes.status[parents] == FAILED).any():
                    ready = max(
                        ready,
                        _data_ready(
                            self.workload, row, int(self.device[row]), float(self.fraction[row]), self.outcomes,
                            self.cluster, self.links,
                        ),
                    )  # fmt: skip
                best = min(best, (max(ready, float(min(free_at[devices]))), row))
            taken.update(devices)
            if len(taken) == len(free_at):
                break
        return best

    def _place(self, row: int) -> None:
        released, out = float(self.workload.arrival_time[row]), self.outcomes
        place_released(
            row, int(self.device[row]), float(self.fraction[row]), released, self.workload, self.table[row], out,
            self.cluster, self.links,
        )  # fmt: skip
        self.started[row] = True
        if out.status[row] == FAILED:
            return
        device, fraction = int(out.device[row]), float(out.fraction[row])
        host = int(self.cluster.platform.cpu_of[device])
        if fraction < 1.0:
            seconds = self.known[row, host, 1] + (1.0 - fraction) * self.known[row, host, 0]
            self.running.append((row, host, float(out.cpu_start[row] + seconds)))
        if fraction > 0.0:
            seconds = self.known[row, device, 1] + fraction * self.known[row, device, 0]
            self.running.append((row, device, float(out.accelerator_start[row] + seconds)))

    def _surprised(self, now: float) -> bool:
        """Drop the tasks that have ended, and return whether one of their parts took much longer or shorter."""
        assert self.scheduler.replan_above is not None
        out, surprised, still = self.outcomes, False, []
        for row, device, planned_end in self.running:
            own = device == out.device[row] and out.fraction[row] > 0.0
            start = float(out.accelerator_start[row] if own else out.cpu_start[row])
            seconds = float(out.accelerator_time[row] if own else out.cpu_time[row])
            if start + seconds > now:
                still.append((row, device, planned_end))
            elif seconds > 0.0 and planned_end > start:
                ratio = seconds / (planned_end - start)
                surprised |= max(ratio, 1.0 / ratio) > self.scheduler.replan_above
        self.running = still
        return surprised

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


def place_released(
    row: int, device: int, fraction: float, now: float,
    workload: Workload, times: Floats, outcomes: Outcomes, cluster: Cluster, links: Links,
) -> None:  # fmt: skip
    """Place a task as soon as its parents' data is there; a task with a failed parent fails."""
    parents = workload.parents(row)
    if len(parents) and (outcomes.status[parents] == FAILED).any():
        outcomes.device[row], outcomes.fraction[row], outcomes.status[row] = device, fraction, FAILED
        outcomes.cpu_start[row] = outcomes.accelerator_start[row] = np.nan
        outcomes.cpu_time[row] = outcomes.accelerator_time[row] = 0.0
        return
    ready = (
        max(now, _data_ready(workload, row, device, fraction, outcomes, cluster, links)) if len(parents) else now
    )
    cluster.place_row(row, device, fraction, ready, workload, times, outcomes)


def _data_ready(
    workload: Workload, row: int, device: int, fraction: float, outcomes: Outcomes, cluster: Cluster, links: Links
) -> float:
    """Return the time at which every parent has finished and its data has reached the devices of a decision.

    The devices are those on which the memory policy lets the task run.
    """
    platform = cluster.platform
    executed = cluster.executed(row, device, fraction, workload)
    child_shares = _device_shares(*executed, platform.cpu_of)
    first = workload.parent_start[row]
    latest = -np.inf
    for offset, parent in enumerate(workload.parents(row).tolist()):
        parent_shares = _device_shares(
            int(outcomes.device[parent]), float(outcomes.fraction[parent]), platform.cpu_of
        )
        megabytes = float(workload.parent_data[first + offset])
        moved = _transfer_seconds(megabytes, parent_shares, child_shares, platform.node, links)
        latest = max(latest, outcomes[parent].finish + moved)
    return float(latest)


def _children(workload: Workload) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in range(len(workload))]
    if workload.has_dependencies:
        for row in range(len(workload)):
            for parent in workload.parents(row).tolist():
                children[parent].append(row)
    return children


def _device_shares(device: int, fraction: float, cpu_of: Ints) -> dict[int, float]:
    """Return the share of a task on each device that runs a part of it."""
    if fraction <= 0:
        return {int(cpu_of[device]): 1.0}
    if fraction >= 1:
        return {device: 1.0}
    return {device: fraction, int(cpu_of[device]): 1.0 - fraction}


def _transfer_seconds(
    megabytes: float, parent: dict[int, float], child: dict[int, float], node: Ints, links: Links
) -> float:
    """Return the seconds to move a parent's output to its child.

    The output lies on the parent's devices, in the same shares. The share that is missing on a child's device
    leaves over the links of the devices that have too much and enters over its own.

    Parameters
    ----------
    megabytes
        Size of the output.
    parent, child
        Share per device.
    node
        Node of each device.
    links
        Transfer costs.
    """
    if megabytes == 0:
        return 0.0
    missing = {d: share - parent.get(d, 0.0) for d, share in child.items() if share > parent.get(d, 0.0)}
    if not missing:
        return 0.0
    spare = {d: share - child.get(d, 0.0) for d, share in parent.items() if share > child.get(d, 0.0)}
    if links.pairs is not None:
        return _pair_seconds(megabytes, missing, spare, links.pairs, links.startup)
    seconds = sum(share * megabytes * float(links.device[d]) for d, share in (*missing.items(), *spare.items()))
    needed_at = {int(node[d]) for d in missing}
    if len(needed_at | {int(node[d]) for d in spare}) > 1:
        seconds += links.latency + sum(missing.values()) * megabytes * links.network
    return seconds


def _pair_seconds(
    megabytes: float, missing: dict[int, float], spare: dict[int, float], pairs: Floats, startup: Floats | None
) -> float:
    """Return the seconds with a cost per pair: each device gets from all that have too much, in proportion."""
    total = sum(spare.values())
    moves = {(d, e): out * share / total for d, out in spare.items() for e, share in missing.items()}
    seconds = sum(share * megabytes * float(pairs[move]) for move, share in moves.items())
    return seconds if startup is None else seconds + max(float(startup[move]) for move in moves)
