"""Statistics of a lane's results, loads of devices in the last minute, and a lower bound on the mean latency."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..cluster import Machine, isolated_optimum, mean_latency_bound
from ..core import Floats, Ints, Platform, Workload
from ..core.outcome import FAILED, RAN
from ..metrics import jain_index
from ..metrics.running_statistics import RunningMean, busy_share
from ..metrics.summary import DeviceLoad, Evidence, shares_of
from ..workload.random_columns import joined_tasks
from .journal import ResultColumns
from .status import SchedulerState, SchedulerStatistics

if TYPE_CHECKING:
    from .scheduler_lane import SchedulerLane

#: Number of newest tasks that quantiles are taken over.
WINDOW = 1000
#: Virtual seconds that the loads of the verdict are about.
_LOAD_WINDOW_S = 60.0
#: Fields that evidence and a row of the comparison share.
_EVIDENCE = (
    "name", "tasks", "mean_latency", "mean_time", "mean_wait", "p99_latency", "mean_energy", "mean_cost", "state",
    "decided_by",
)  # fmt: skip
_SUMS = ("time", "wait", "energy", "cost", "fraction", "split", "memory", "copying")
#: Columns whose sum is unknown if one value is; the others count from the checkpoint that first has them.
_SINCE_FIRST = frozenset(_SUMS[:5])
#: Tasks of a block that is bounded together, and most tasks that are bounded so: the bound of a block takes 50 ms.
_BLOCK = 250
_MAX_BOUNDED = 20_000


class LaneStatistics:
    """Sums over all tasks, a window of the newest latencies, and busy seconds per device.

    A sum is NaN if the value of some task is unknown, such as the energy of a measured run without a meter.

    Parameters
    ----------
    cpu_of
        For each device the CPU of its node.
    bandwidth
        MB/s to each device; without it no copying is counted.
    """

    def __init__(self, cpu_of: Ints, bandwidth: Floats | None = None) -> None:
        self._cpu_of = cpu_of
        self._bandwidth = np.full(len(cpu_of), np.inf) if bandwidth is None else bandwidth
        self.reset()

    def reset(self) -> None:
        """Remove all tasks."""
        self.tasks = self.failed = 0
        #: Tasks that each policy of a learned scheduler decided.
        self.decisions = Counter[str]()
        self._sums = dict.fromkeys(_SUMS, 0.0)
        self._latency = RunningMean()
        self._regret = RunningMean()
        self._busy, self._work = np.zeros((2, len(self._cpu_of)))
        #: Arrival, wait and id of the task of each chunk that waited longest.
        self._waits: deque[tuple[float, float, int]] = deque()
        self._first_arrival = math.inf
        self._last_finish = -math.inf
        self._newest = np.empty(0)

    def add(self, tasks: Workload, results: ResultColumns) -> None:
        """Add results. Failed tasks are counted and otherwise left out."""
        done = results.status != FAILED
        all_done = bool(done.all())

        def of(column: Floats) -> Floats:
            return column if all_done else column[done]

        self.tasks += len(tasks)
        self.failed += len(tasks) - int(np.count_nonzero(done))
        latency = of(results.latency)
        time = of(results.time)
        self._latency.add(latency)
        regret = results.regret[~np.isnan(results.regret)]
        self._regret.add(regret)
        for name, column in (
            ("time", time),
            ("wait", of(results.wait)),
            ("energy", of(results.energy)),
            ("cost", of(results.cost)),
            ("fraction", of(results.fraction)),
            ("split", of(((results.fraction > 0) & (results.fraction < 1)).astype(np.float64))),
            ("memory", (results.status != RAN).astype(np.float64)),
            ("copying", self._copying(tasks, results)),
        ):
            self._sums[name] += float(column.sum())
        devices = len(self._busy)
        self._busy += np.bincount(self._cpu_of[results.device], results.cpu_time, devices)
        self._busy += np.bincount(results.device, results.accelerator_time, devices)
        share = np.where(done, results.fraction, 0.0)
        self._work += np.bincount(self._cpu_of[results.device], np.where(done, 1.0 - share, 0.0), devices)
        self._work += np.bincount(results.device, share, devices)
        self._note_longest_wait(tasks, results)
        self._first_arrival = min(self._first_arrival, float(tasks.arrival_time[0]))
        if len(latency):
            self._last_finish = max(self._last_finish, float(of(results.finish).max()))
        self.fill_window(latency)

    def _copying(self, tasks: Workload, results: ResultColumns) -> Floats:
        """Return the seconds that the accelerator part of each task copies data."""
        share = np.nan_to_num(results.fraction) * tasks.host_data / self._bandwidth[results.device]
        return np.minimum(share, np.nan_to_num(results.accelerator_time))

    def _note_longest_wait(self, tasks: Workload, results: ResultColumns) -> None:
        wait = np.nan_to_num(results.wait, nan=-1.0)
        row = int(np.argmax(wait))
        now = float(tasks.arrival_time[-1])
        self._waits.append((now, float(wait[row]), int(tasks.task_id[row])))
        while self._waits[0][0] < now - _LOAD_WINDOW_S:
            self._waits.popleft()

    def fill_window(self, latency: Floats) -> None:
        """Add latencies to the window of quantiles alone, as after a restart."""
        known = latency[~np.isnan(latency)][-WINDOW:]
        self._newest = np.concatenate([self._newest, known])[-WINDOW:]

    def evidence(
        self, row: SchedulerStatistics, label: str, loads: tuple[DeviceLoad, ...], window: tuple[float, float]
    ) -> Evidence:
        """Return the numbers that the verdict reads.

        Parameters
        ----------
        row
            The scheduler's row of the comparison.
        label
            The scheduler's name for people.
        loads, window
            Recent load of the devices without their work, and the stretch of time that it is about.
        """
        done = max(1, self.tasks - self.failed)
        total = float(self._work.sum())
        shares = self._work / total if total > 0 else self._work
        copying = self._sums["copying"]
        batches = self._latency.batch_means
        devices = tuple(replace(d, work=float(shares[i])) for i, d in enumerate(loads))
        accelerators = float(self._busy[self._cpu_of != np.arange(len(self._cpu_of))].sum())
        return Evidence(
            **{name: getattr(row, name) for name in _EVIDENCE},
            label=label,
            # Paired with the oracle where it runs: that is narrower, because all have the same tasks.
            half_width=row.latency_ci95 if row.regret_ci95 is None else row.regret_ci95,
            devices=devices,
            window=window,
            device_seconds=float(self._busy.sum()) / done,
            split_share=self._sums["split"] / done,
            memory_share=self._sums["memory"] / max(1, self.tasks),
            transfer_seconds=copying / done,
            transfer_share=copying / accelerators if accelerators > 0 else 0.0,
            growing=_grows(batches),
            swing=float(batches.max() / np.median(batches)) if len(batches) >= 8 else None,
            worst_task=max(self._waits, key=lambda each: each[1])[2] if self._waits else None,
        )

    def row(
        self, name: str, state: SchedulerState, version: int | None, latency_bound: float | None, waiting: int
    ) -> SchedulerStatistics:
        """Return the scheduler's row of the comparison; `latency_bound` is the lower bound on the mean latency."""
        done = self.tasks - self.failed
        sums = {key: total if total == total else None for key, total in self._sums.items()}
        average = {key: total / done if done and total is not None else None for key, total in sums.items()}
        quantiles: list[float | None] = [None] * 3
        if len(self._newest):
            quantiles = [float(q) for q in np.quantile(self._newest, (0.5, 0.95, 0.99))]
        return SchedulerStatistics(
            name=name,
            tasks=self.tasks,
            failed=self.failed,
            **{f"mean_{key}": average[key] for key in ("time", "wait", "energy", "cost")},
            mean_latency=self._latency.mean,
            latency_ci95=self._latency.half_width,
            latency_over_bound=self._latency.mean / latency_bound
            if latency_bound and self._latency.mean is not None
            else None,
            total_energy=sums["energy"] or 0.0,
            total_cost=sums["cost"] or 0.0,
            mean_gpu_fraction=average["fraction"],
            mean_regret=self._regret.mean,
            regret_ci95=self._regret.half_width,
            p50_latency=quantiles[0],
            p95_latency=quantiles[1],
            p99_latency=quantiles[2],
            window=len(self._newest),
            makespan=self._last_finish - self._first_arrival if done else 0.0,
            load_balance=jain_index(self._busy),
            state=state,
            model_version=version,
            waiting=waiting,
            decided_by=shares_of(self.decisions),
        )

    # ---------------------------------------------------------------- checkpoints

    def state(self) -> dict[str, Any]:
        """Return the statistics without the window, ready for JSON."""
        return {
            "tasks": self.tasks,
            "failed": self.failed,
            "sums": {name: total if total == total else None for name, total in self._sums.items()},
            "latency": self._latency.state(),
            "regret": self._regret.state(),
            "busy": self._busy.tolist(),
            "work": self._work.tolist(),
            "decisions": dict(self.decisions),
            "span": [self._first_arrival, self._last_finish] if self.tasks > self.failed else None,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.reset()
        self.tasks = int(state["tasks"])
        self.failed = int(state["failed"])
        self._sums = {name: _restored(name, state["sums"]) for name in _SUMS}
        self._latency = RunningMean.from_state(state["latency"])
        self._regret = RunningMean.from_state(state["regret"])
        self._busy = np.array(state["busy"], dtype=np.float64)
        self._work = np.array(state.get("work", self._busy), dtype=np.float64)
        self.decisions = Counter(state.get("decisions", {}))
        if state["span"] is not None:
            self._first_arrival, self._last_finish = map(float, state["span"])


def _restored(name: str, sums: dict[str, float | None]) -> float:
    total = sums.get(name, None if name in _SINCE_FIRST else 0.0)
    return math.nan if total is None else float(total)


def _grows(batches: Floats) -> bool:
    """Return whether the last quarter of the batches is more than three times as slow as the first."""
    quarter = len(batches) // 4
    return quarter >= 2 and float(batches[-quarter:].mean()) > 3.0 * float(batches[:quarter].mean())


class LatencyBound:
    """Lower bound on the mean latency of a run's tasks under any scheduler.

    Bounds of consecutive blocks add up, because leaving out tasks never makes the others slower. A block is bounded
    by a thread of its own while the next one fills; tasks without such a bound count with their isolated optimum.

    Parameters
    ----------
    machine
        The machine and its rules. There is no bound where tasks can fail.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._exists = machine.memory_policy in ("clip", "to_cpu")
        self._pool: ThreadPoolExecutor | None = None
        self.reset()

    def reset(self) -> None:
        """Remove all tasks."""
        self._tasks = 0
        self._total = 0.0
        #: Arrival of the first task, and the earliest end of the last one.
        self.first_arrival: float | None = None
        self._last_end = -math.inf
        self._open: list[Workload] = []
        self._filled = 0
        #: The bound of the block before, and the isolated optima that it replaces.
        self._pending: tuple[Future[float], float] | None = None

    @property
    def mean(self) -> float | None:
        """The lower bound in seconds; None without tasks."""
        return self._total / self._tasks if self._exists and self._tasks else None

    @property
    def makespan(self) -> float | None:
        """Lower bound on the makespan in seconds: no task ends before its arrival plus its isolated optimum."""
        return self._last_end - self.first_arrival if self.first_arrival is not None and self._exists else None

    def add(self, tasks: Workload, optimal: Floats) -> None:
        """Add tasks with their isolated optima, in the order of their arrivals."""
        if self.first_arrival is None:
            self.first_arrival = float(tasks.arrival_time[0])
        if not self._exists:
            return
        machine = self._machine
        if machine.noise.sigma:
            optimal = isolated_optimum(tasks, machine.platform, machine.physics, machine.noise)
        self._total += float(optimal.sum())
        self._last_end = max(self._last_end, float((tasks.arrival_time + optimal).max()))
        bounded = min(len(tasks), max(0, _MAX_BOUNDED - self._tasks))
        self._tasks += len(tasks)
        start = 0
        while start < bounded:
            stop = min(bounded, start + _BLOCK - self._filled)
            self._open.append(tasks.rows(start, stop))
            self._filled += stop - start
            start = stop
            if self._filled == _BLOCK:
                self._bound(joined_tasks(self._open))
                self._open = []
                self._filled = 0

    def _bound(self, block: Workload) -> None:
        # Waiting for the block before makes the bound the same in every run of the same tasks.
        self._collect()
        self._pool = self._pool or ThreadPoolExecutor(1, "latency_bound")
        machine = self._machine
        parts = (block, machine.platform, machine.physics, machine.noise)
        alone = float(isolated_optimum(*parts).sum())
        self._pending = self._pool.submit(mean_latency_bound, *parts), alone

    def _collect(self) -> None:
        if self._pending is not None:
            found, alone = self._pending
            self._pending = None
            self._total += max(0.0, _BLOCK * found.result() - alone)

    def state(self) -> list[float]:
        """Return tasks and seconds of the bound; an open block counts with its isolated optima."""
        if not self._exists or self.first_arrival is None:
            return [0.0, 0.0]
        return [float(self._tasks), self._total, self.first_arrival, self._last_end]

    def restore(self, state: list[float]) -> None:
        """Continue from what `state` returned."""
        self.reset()
        self._tasks = int(state[0])
        self._total = float(state[1])
        if len(state) > 2:
            self.first_arrival = float(state[2])
            self._last_end = float(state[3])


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
    while len(marks) > 2 and marks[1].at <= now - _LOAD_WINDOW_S:
        marks.popleft()
