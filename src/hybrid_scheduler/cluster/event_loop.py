"""Event loops for dependencies, central queues, revised plans, and schedulers that learn when tasks finish.

Events are ordered by (time, priority, counter). At the same time, finishes come before releases, so that outcomes
are known before the next decision. Releases come in the workload's order. A central queue is looked at once per
time, when a task is released or a device has become free.

A task whose parents ran on other devices waits for the transfer of their data. In a plan the devices are known
beforehand, so a transfer begins when the parent ends. Otherwise it begins when the task is placed, and the copy
stays: later tasks on that device need no transfer. Transfers do not delay each other.
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
    Queue,
    Static,
    Task,
    TimeTable,
    View,
    Workload,
)
from ..core.outcome import FAILED
from .graph_costs import GraphCosts
from .physics_times import PhysicsTimes

if TYPE_CHECKING:
    from .cluster import Cluster

#: Kinds of events by priority; `PART` is the end of the part of a split task that ends before the other.
FINISH, PART, RELEASE = 0, 1, 2
Progress = Callable[[int], None]


class _WaitingTasks(Queue):
    """Queue of a central scheduler: released rows, oldest first."""

    def __init__(self, workload: Workload, times: TimeTable | None, data: ResidentData) -> None:
        self._workload, self._times, self._data = workload, times, data
        self.rows: Ints = np.empty(0, np.int64)
        self.now = 0.0
        self.rank: Floats | None = None
        #: Transfers of waiting tasks by row (see `ResidentData.transfers`), and the rows to look at again.
        self._transfers: Floats | None = None
        self._stale: set[int] = set()

    def add(self, row: int) -> None:
        """Add a task that was released."""
        self.rows = np.append(self.rows, row)
        self._stale.add(row)

    def remove(self, position: int) -> int:
        """Remove a task and return its row."""
        row = int(self.rows[position])
        self.rows = np.delete(self.rows, position)
        self._stale.discard(row)
        return row

    def invalidate_transfers(self, rows: list[int]) -> None:
        """Compute the transfers of these tasks again, because copies of their inputs were made."""
        self._stale.update(np.intersect1d(self.rows, rows).tolist())

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
            raise InvalidInputError("knowledge", "TOLD or REALISED to read durations", "NOTHING")
        return self._times[self.rows]

    @property
    def ready_at(self) -> Floats | None:
        """Time at which each task's data would be on each device; None if no task of the workload has any."""
        if not self._data.any:
            return None
        if self._transfers is None:
            self._transfers = np.zeros((2, len(self._workload), len(self._data.cluster.platform)))
        for row in self._stale:
            self._transfers[:, row] = self._data.transfers(row)
        self._stale.clear()
        to_move, held = self._transfers[:, self.rows]
        return np.maximum(self.now + to_move, held)

    @property
    def upward_rank(self) -> Floats | None:
        """Mean seconds from each task's start to the end of the graph."""
        return None if self.rank is None else self.rank[self.rows]


class ParentData:
    """Data that tasks hand over to their children in a plan: transfers begin when the parent ends.

    Parameters
    ----------
    cluster, workload, outcomes
        The run; outcomes of parents are read when a child is placed.
    """

    def __init__(self, cluster: Cluster, workload: Workload, outcomes: Outcomes) -> None:
        self.cluster, self.workload, self.outcomes = cluster, workload, outcomes
        self.links = cluster.physics.links(cluster.platform)
        #: Whether any task hands over data.
        self.any = bool(workload.parent_data.any())

    def ready(self, row: int, device: int, fraction: float, now: float) -> float:
        """Return the time at which all parents have finished and their data is on the devices of a decision.

        The devices are those on which the memory policy lets the task run.
        """
        child = self._shares(*self.cluster.executed(row, device, fraction, self.workload))
        return max([now, *(self._arrival(parent, mb, child, now) for parent, mb in self._inputs(row))])

    def _arrival(self, parent: int, megabytes: float, child: dict[int, float], now: float) -> float:
        """Return the time at which a parent's data is on a child's devices."""
        return self.outcomes[parent].finish + self._moved(parent, megabytes, child)

    def _inputs(self, row: int) -> list[tuple[int, float]]:
        """Return the parents of a task, and the MB that each hands over."""
        first, last = self.workload.parent_start[row], self.workload.parent_start[row + 1]
        return list(
            zip(self.workload.parents(row).tolist(), self.workload.parent_data[first:last].tolist(), strict=True)
        )

    def _shares(self, device: int, fraction: float) -> dict[int, float]:
        return _device_shares(device, fraction, self.cluster.platform.cpu_of)

    def _made(self, parent: int) -> dict[int, float]:
        """Return the share of a task's output on each device that made it."""
        return self._shares(int(self.outcomes.device[parent]), float(self.outcomes.fraction[parent]))

    def _moved(self, parent: int, megabytes: float, child: dict[int, float]) -> float:
        node = self.cluster.platform.node
        return _transfer_seconds(megabytes, self._made(parent), child, node, self.links)


class ResidentData(ParentData):
    """Data of tasks that are placed one by one: a transfer begins when a child is placed, and its copy stays.

    A copy serves every later child that needs no more of it there, once it has arrived. If one of the devices of a
    split child holds too little, all that the parent's devices lack is moved. So no child has its data earlier than
    the critical path of `bounds` allows.
    """

    def __init__(self, cluster: Cluster, workload: Workload, outcomes: Outcomes) -> None:
        super().__init__(cluster, workload, outcomes)
        #: Copies of a parent's output by device: share, MB, arrival.
        self._copies: dict[int, dict[int, list[tuple[float, float, float]]]] = {}

    def _arrival(self, parent: int, megabytes: float, child: dict[int, float], now: float) -> float:
        moved = self._moved(parent, megabytes, child)
        if moved == 0.0:
            return now
        held = self._held_at(parent, megabytes, child)
        return now + moved if held is None else held

    def _held_at(self, parent: int, megabytes: float, child: dict[int, float]) -> float | None:
        """Return when the last of the copies that a child needs has arrived; None if a device holds too little."""
        copies = self._copies.get(parent)
        if copies is None:
            return None
        made, latest = self._made(parent), -np.inf
        for device, share in child.items():
            if made.get(device, 0.0) < share:
                held = [at for part, mb, at in copies.get(device, ()) if part >= share and mb >= megabytes]
                if not held:
                    return None
                latest = max(latest, min(held))
        return float(latest)

    def keep(self, row: int, now: float) -> list[int]:
        """Add the copies that are made for a task that has just been placed; return its parents with new ones."""
        child, copied = self._made(row), []
        for parent, megabytes in self._inputs(row) if self.any else ():
            if self._moved(parent, megabytes, child) == 0.0 or self._held_at(parent, megabytes, child) is not None:
                continue
            arrival, made = self._arrival(parent, megabytes, child, now), self._made(parent)
            copies = self._copies.setdefault(parent, {})
            for device, share in child.items():
                if made.get(device, 0.0) < share:
                    copies.setdefault(device, []).append((share, megabytes, arrival))
            copied.append(parent)
        return copied

    def transfers(self, row: int) -> tuple[Floats, Floats]:
        """Return, for each device as the only one of a task, the seconds of transfers and the arrival of copies."""
        devices = len(self.cluster.platform)
        to_move, held = np.zeros(devices), np.full(devices, -np.inf)
        for parent, megabytes in self._inputs(row):
            seconds = _whole_transfers(megabytes, self._made(parent), self.cluster.platform.node, self.links)
            for device in self._copies.get(parent, ()):
                at = self._held_at(parent, megabytes, {device: 1.0})
                if at is not None and seconds[device] > 0.0:
                    seconds[device], held[device] = 0.0, max(held[device], at)
            np.maximum(to_move, seconds, out=to_move)
        return to_move, held

    def ready_at(self, row: int, now: float) -> Floats | None:
        """Return the time at which a task's data would be on each device; None if its parents hand over none."""
        first, last = self.workload.parent_start[row], self.workload.parent_start[row + 1]
        if not self.any or not self.workload.parent_data[first:last].any():
            return None
        to_move, held = self.transfers(row)
        ready: Floats = np.maximum(now + to_move, held)
        return ready


class EventRun:
    """Run of a workload under an online or central scheduler."""

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        scheduler: Online | Central,
        outcomes: Outcomes,
        times: PhysicsTimes | None,
        progress: Progress,
    ) -> None:
        self.cluster, self.workload, self.scheduler = cluster, workload, scheduler
        self.outcomes, self.progress = outcomes, progress
        self.table = cluster.physics.times(workload, cluster.platform)
        self.events: list[tuple[float, int, int]] = []  # (time, priority, row): the row is the counter
        self.missing = np.diff(workload.parent_start)
        self.children = _children(workload)
        self.data = ResidentData(cluster, workload, outcomes)
        self.waiting = _WaitingTasks(workload, None if times is None else times.remember(workload), self.data)
        if times is not None and isinstance(scheduler, Central) and workload.has_dependencies:
            self.waiting.rank = GraphCosts(workload, cluster.platform, times).upward_rank()
        self.decided = 0

    def run(self) -> None:
        """Process all events until every task has finished."""
        for row in np.flatnonzero(self.missing == 0).tolist():
            self.events.append((float(self.workload.arrival_time[row]), RELEASE, row))
        heapq.heapify(self.events)
        planned_at = -np.inf
        for now, finished, parts, released in self._events_by_time():
            for row in finished:
                self._finish(row, now)
            for row in parts:
                self._end_part(row)
            for row in released:
                if isinstance(self.scheduler, Online):
                    self._decide(row, now)
                else:
                    self.waiting.add(row)
            became_free = now > planned_at and (self.cluster.free_at_view == now).any()
            if isinstance(self.scheduler, Central) and (released or became_free):
                self._bind(self.scheduler, now)
                planned_at = now
        if len(self.waiting):
            # All devices are idle, and no later event can start a task.
            raise InvalidInputError(
                _starting_method(self.scheduler), "a task whenever all devices are idle",
                f"none with {len(self.waiting)} waiting, the first with id {self.waiting[0].task_id}",
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
        view = View(now, self.cluster.free_at_view, self.cluster.platform, self.data.ready_at(row, now))
        decision = self.cluster.check_decision(self.scheduler.decide(self.workload[row], view), self.scheduler)
        self._place(row, decision.device, decision.fraction, now)

    def _bind(self, scheduler: Central, now: float) -> None:
        self.waiting.now = now
        view = View(now, self.cluster.free_at_view, self.cluster.platform)
        for position, decision in scheduler.starts(self.waiting, view):
            if not 0 <= position < len(self.waiting):
                raise InvalidInputError(
                    _starting_method(scheduler), f"a position from 0 to {len(self.waiting) - 1}", position,
                    where=f"scheduler {type(scheduler).__name__}",
                )  # fmt: skip
            checked = self.cluster.check_decision(decision, scheduler)
            row = self.waiting.remove(position)
            self._place(row, checked.device, checked.fraction, now)

    def _place(self, row: int, device: int, fraction: float, now: float) -> None:
        out = self.outcomes
        place_released(row, device, fraction, now, self.table[row], self.data)
        placed = None if out.status[row] == FAILED else out[row]
        for parent in () if placed is None else self.data.keep(row, now):
            self.waiting.invalidate_transfers(self.children[parent])
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
        self.table, self.rank, self.data = table, rank, ParentData(cluster, workload, outcomes)
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
            if self._duration_deviates(start) and len(order) > 1:
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
                if not (self.outcomes.status[parents] == FAILED).any():
                    ready = self.data.ready(row, int(self.device[row]), float(self.fraction[row]), ready)
                best = min(best, (max(ready, float(min(free_at[devices]))), row))
            taken.update(devices)
            if len(taken) == len(free_at):
                break
        return best

    def _place(self, row: int) -> None:
        released, out = float(self.workload.arrival_time[row]), self.outcomes
        place_released(row, int(self.device[row]), float(self.fraction[row]), released, self.table[row], self.data)
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

    def _duration_deviates(self, now: float) -> bool:
        """Drop the tasks that have ended, and return whether one of their parts took much longer or shorter."""
        assert self.scheduler.replan_above is not None
        out, deviates, still = self.outcomes, False, []
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


def place_released(row: int, device: int, fraction: float, now: float, times: Floats, data: ParentData) -> None:
    """Place a task as soon as its parents' data is there; a task with a failed parent fails."""
    workload, outcomes = data.workload, data.outcomes
    if (outcomes.status[workload.parents(row)] == FAILED).any():
        outcomes.device[row], outcomes.fraction[row], outcomes.status[row] = device, fraction, FAILED
        outcomes.cpu_start[row] = outcomes.accelerator_start[row] = np.nan
        outcomes.cpu_time[row] = outcomes.accelerator_time[row] = 0.0
        return
    ready = data.ready(row, device, fraction, now)
    data.cluster.place_row(row, device, fraction, ready, workload, times, outcomes)


def _starting_method(scheduler: Online | Central) -> str:
    """Return the name of the method by which a central scheduler starts tasks."""
    own = isinstance(scheduler, Central) and type(scheduler).starts is not Central.starts
    return "starts" if own else "pick"


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


def _whole_transfers(megabytes: float, parent: dict[int, float], node: Ints, links: Links) -> Floats:
    """Return the seconds to move a parent's output to each device as a whole; see `_transfer_seconds`."""
    missing, seconds = np.ones(len(node)), np.zeros(len(node))
    for device, share in parent.items():
        missing[device] -= share
    if links.pairs is not None:
        startup = np.zeros(len(node))
        for source, share in parent.items():
            seconds += share * megabytes * links.pairs[source]
            if links.startup is not None:
                startup = np.maximum(startup, links.startup[source])
        seconds += startup
    else:
        seconds += missing * megabytes * links.device
        for source, share in parent.items():
            seconds += np.where(np.arange(len(node)) == source, 0.0, share * megabytes * links.device[source])
        crosses = np.logical_or.reduce([node != node[source] for source in parent])
        seconds += np.where(crosses, links.latency + missing * megabytes * links.network, 0.0)
    return np.where(missing > 0.0, seconds, 0.0)
