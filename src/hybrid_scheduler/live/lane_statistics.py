"""Statistics of a lane's results since the run began."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import Floats, Ints, Workload
from ..core.outcome import FAILED
from ..metrics import jain_index
from ..metrics.running_statistics import RunningMean
from .batch_records import ResultColumns
from .status import SchedulerStatistics

#: Number of newest tasks that quantiles are taken over.
WINDOW = 1000
_SUMS = ("time", "wait", "energy", "cost", "fraction")


class LaneStatistics:
    """Sums over all tasks, a window of the newest latencies, and busy seconds per device.

    A sum is NaN if the value of some task is unknown, such as the energy of a measured run without a meter.

    Parameters
    ----------
    cpu_of
        For each device the CPU of its node.
    """

    def __init__(self, cpu_of: Ints) -> None:
        self._cpu_of = cpu_of
        self.forget()

    def forget(self) -> None:
        """Start anew."""
        self.tasks = self.failed = 0
        self._sums = dict.fromkeys(_SUMS, 0.0)
        self._latency, self._regret = RunningMean(), RunningMean()
        self._busy = np.zeros(len(self._cpu_of))
        self._first_arrival, self._last_finish = math.inf, -math.inf
        self._newest = np.empty(0)

    def add(self, tasks: Workload, results: ResultColumns) -> None:
        """Add results. Failed tasks are counted and otherwise left out."""
        done = results.status != FAILED
        all_done = bool(done.all())

        def of(column: Floats) -> Floats:
            return column if all_done else column[done]

        self.tasks += len(tasks)
        self.failed += len(tasks) - int(np.count_nonzero(done))
        latency, time = of(results.latency), of(results.time)
        self._latency.add(latency)
        regret = results.regret[~np.isnan(results.regret)]
        self._regret.add(regret)
        for name, column in (
            ("time", time),
            ("wait", of(results.wait)),
            ("energy", of(results.energy)),
            ("cost", of(results.cost)),
            ("fraction", of(results.fraction)),
        ):
            self._sums[name] += float(column.sum())
        devices = len(self._busy)
        self._busy += np.bincount(self._cpu_of[results.device], results.cpu_time, devices)
        self._busy += np.bincount(results.device, results.accelerator_time, devices)
        self._first_arrival = min(self._first_arrival, float(tasks.arrival_time[0]))
        if len(latency):
            self._last_finish = max(self._last_finish, float(of(results.finish).max()))
        self.fill_window(latency)

    def fill_window(self, latency: Floats) -> None:
        """Add latencies to the window of quantiles alone, as after a restart."""
        known = latency[~np.isnan(latency)][-WINDOW:]
        self._newest = np.concatenate([self._newest, known])[-WINDOW:]

    def row(self, name: str, state: str, version: int | None) -> SchedulerStatistics:
        """Return the scheduler's row of the comparison."""
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
            mean_time=average["time"],
            mean_latency=self._latency.mean,
            latency_ci95=self._latency.half_width,
            mean_wait=average["wait"],
            mean_energy=average["energy"],
            mean_cost=average["cost"],
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
            "span": [self._first_arrival, self._last_finish] if self.tasks > self.failed else None,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.forget()
        self.tasks, self.failed = int(state["tasks"]), int(state["failed"])
        self._sums = {name: math.nan if (total := state["sums"][name]) is None else float(total) for name in _SUMS}
        self._latency = RunningMean.from_state(state["latency"])
        self._regret = RunningMean.from_state(state["regret"])
        self._busy = np.array(state["busy"], dtype=np.float64)
        if state["span"] is not None:
            self._first_arrival, self._last_finish = map(float, state["span"])
