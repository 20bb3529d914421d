"""Data that tasks of a graph hand over to their children, and the transfers that it takes.

A task whose parents ran on other devices waits for the transfer of their data. In a plan the devices are known
beforehand, so a transfer begins when the parent ends. Otherwise it begins when the task is placed, and the copy
stays: later tasks on that device need no transfer. Transfers do not delay each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core import Floats, Ints, Links, Outcomes, Workload
from ..core.outcome import FAILED

if TYPE_CHECKING:
    from .cluster import Cluster


class ParentData:
    """Data that tasks hand over to their children in a plan: transfers begin when the parent ends.

    Parameters
    ----------
    cluster, workload, outcomes
        The run; outcomes of parents are read when a child is placed.
    """

    def __init__(self, cluster: Cluster, workload: Workload, outcomes: Outcomes) -> None:
        self.cluster = cluster
        self.workload = workload
        self.outcomes = outcomes
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
        first = self.workload.parent_start[row]
        last = self.workload.parent_start[row + 1]
        return list(
            zip(self.workload.parents(row).tolist(), self.workload.parent_data[first:last].tolist(), strict=True)
        )

    def _shares(self, device: int, fraction: float) -> dict[int, float]:
        return device_shares(device, fraction, self.cluster.platform.cpu_of)

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
        #: Number of parents of each row that have not ended.
        self._missing = np.diff(workload.parent_start)

    def freed_by(self, row: int) -> list[int]:
        """Note the end of a task, and return its children whose last parent it was."""
        freed = []
        for child in self.workload.children[row]:
            self._missing[child] -= 1
            if self._missing[child] == 0:
                freed.append(child)
        return freed

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
        made = self._made(parent)
        latest = -np.inf
        for device, share in child.items():
            if made.get(device, 0.0) < share:
                held = [at for part, mb, at in copies.get(device, ()) if part >= share and mb >= megabytes]
                if not held:
                    return None
                latest = max(latest, min(held))
        return float(latest)

    def keep(self, row: int, now: float) -> list[int]:
        """Add the copies that are made for a task that has just been placed; return its parents with new ones."""
        child = self._made(row)
        copied = []
        for parent, megabytes in self._inputs(row) if self.any else ():
            if self._moved(parent, megabytes, child) == 0.0 or self._held_at(parent, megabytes, child) is not None:
                continue
            arrival = self._arrival(parent, megabytes, child, now)
            made = self._made(parent)
            copies = self._copies.setdefault(parent, {})
            for device, share in child.items():
                if made.get(device, 0.0) < share:
                    copies.setdefault(device, []).append((share, megabytes, arrival))
            copied.append(parent)
        return copied

    def transfers(self, row: int) -> tuple[Floats, Floats]:
        """Return, for each device as the only one of a task, the seconds of transfers and the arrival of copies."""
        devices = len(self.cluster.platform)
        to_move = np.zeros(devices)
        held = np.full(devices, -np.inf)
        for parent, megabytes in self._inputs(row):
            seconds = _whole_transfers(megabytes, self._made(parent), self.cluster.platform.node, self.links)
            for device in self._copies.get(parent, ()):
                at = self._held_at(parent, megabytes, {device: 1.0})
                if at is not None and seconds[device] > 0.0:
                    seconds[device] = 0.0
                    held[device] = max(held[device], at)
            np.maximum(to_move, seconds, out=to_move)
        return to_move, held

    def ready_at(self, row: int, now: float) -> Floats | None:
        """Return the time at which a task's data would be on each device; None if its parents hand over none."""
        first = self.workload.parent_start[row]
        last = self.workload.parent_start[row + 1]
        if not self.any or not self.workload.parent_data[first:last].any():
            return None
        to_move, held = self.transfers(row)
        ready: Floats = np.maximum(now + to_move, held)
        return ready


def place_released(row: int, device: int, fraction: float, now: float, times: Floats, data: ParentData) -> None:
    """Place a task as soon as its parents' data is there; a task with a failed parent fails."""
    workload = data.workload
    outcomes = data.outcomes
    if (outcomes.status[workload.parents(row)] == FAILED).any():
        outcomes.device[row] = device
        outcomes.fraction[row] = fraction
        outcomes.status[row] = FAILED
        outcomes.cpu_start[row] = outcomes.accelerator_start[row] = np.nan
        outcomes.cpu_time[row] = outcomes.accelerator_time[row] = 0.0
        return
    ready = data.ready(row, device, fraction, now)
    data.cluster.place_row(row, device, fraction, ready, workload, times, outcomes)


def device_shares(device: int, fraction: float, cpu_of: Ints) -> dict[int, float]:
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
    missing = np.ones(len(node))
    seconds = np.zeros(len(node))
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
