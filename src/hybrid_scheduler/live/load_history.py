"""Load of the devices in the last virtual minute, and the verdict on the schedulers that it explains."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..core import Floats, Platform
from ..engine.comparison import label_of
from ..metrics.running_statistics import busy_share
from ..metrics.summary import DeviceLoad
from ..metrics.verdict import Verdict, judge
from .lane_statistics import LOAD_WINDOW_S
from .scheduler_lane import SchedulerLane

if TYPE_CHECKING:
    from .live_run import LiveRun

#: Virtual seconds for which a drift counts as a reason.
_DRIFT_S = 300.0


@dataclass(frozen=True, slots=True)
class _LoadMark:
    """Busy seconds so far and queued seconds of every lane's devices at one time."""

    at: float
    busy: list[Floats]
    backlog: list[Floats]


class LoadHistory:
    """Busy and queued seconds of every lane's devices, marked at each update.

    Parameters
    ----------
    lanes
        The lanes.
    platform
        Their devices.
    """

    def __init__(self, lanes: Sequence[SchedulerLane], platform: Platform) -> None:
        self._lanes = lanes
        self._devices = platform.devices
        self.reset(0.0)

    def reset(self, now: float) -> None:
        """Drop all marks but that of now."""
        self._marks = deque([self._mark(now)])

    def _mark(self, now: float) -> _LoadMark:
        clusters = [lane.cluster for lane in self._lanes]
        return _LoadMark(now, [c.busy_by(now) for c in clusters], [c.backlog(now) for c in clusters])

    def _by_device(self, values: Floats) -> dict[str, float]:
        return {device.name: value for device, value in zip(self._devices, values.tolist(), strict=True)}

    def utilisations(self, now: float) -> dict[str, dict[str, float]]:
        """Return the busy share of every device since the last call, by scheduler."""
        before = self._marks[-1]
        after = self._mark(now)
        if after.at > before.at:
            self._marks.append(after)
        _drop_old(self._marks, now)
        shares = [busy_share(*pair, after.at - before.at) for pair in zip(before.busy, after.busy, strict=True)]
        named = zip(self._lanes, shares, strict=True)
        return {lane.name: self._by_device(share) for lane, share in named if lane.failure is None}

    def backlogs(self, now: float) -> dict[str, dict[str, float]]:
        """Return the seconds of queued work of every device, by scheduler."""
        active = [lane for lane in self._lanes if lane.failure is None]
        return {lane.name: self._by_device(lane.cluster.backlog(now)) for lane in active}

    def last_minute(self, now: float) -> tuple[tuple[float, float], list[tuple[DeviceLoad, ...]]]:
        """Return begin and end of the last minute, and the loads of each lane's devices in it."""
        marks = deque([*self._marks, self._mark(now)])
        _drop_old(marks, now)
        first = marks[0]
        last = marks[-1]
        end = max(last.at, first.at)
        loads = []
        for lane in range(len(self._lanes)):
            busy = busy_share(first.busy[lane], last.busy[lane], end - first.at)
            peak = np.max([mark.backlog[lane] for mark in marks], axis=0)
            values = np.transpose([busy, np.zeros(len(busy)), last.backlog[lane], first.backlog[lane], peak])
            named = zip(self._devices, values.tolist(), strict=True)
            loads.append(tuple(DeviceLoad(device.name, device.kind, *numbers) for device, numbers in named))
        return (first.at, end), loads


def _drop_old(marks: deque[_LoadMark], now: float) -> None:
    while len(marks) > 2 and marks[1].at <= now - LOAD_WINDOW_S:
        marks.popleft()


def live_verdict(run: LiveRun) -> Verdict:
    """Return the leader and why the others are slower; device loads are those of the last virtual minute."""
    window, loads = run.load.last_minute(run.now)
    evidence = []
    for lane, row, load in zip(run.lanes, run.statistics(), loads, strict=True):
        numbers = lane.statistics.evidence(row, label_of(lane.name), load, window)
        if lane.drift_at is not None and run.now - lane.drift_at <= _DRIFT_S:
            numbers = replace(numbers, drift_at=lane.drift_at, retrained_at=lane.retrained_at)
        evidence.append(numbers)
    return judge(evidence, run.latency_bound.mean)
