"""Bodies of the events of the stream, as plain values ready for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..core import Floats, Platform
from ..core.outcome import FAILED
from .journal import ResultColumns, StartedTasks, VersionRecord
from .live_run import LaneEvent, LiveChunk, LiveRun
from .status import LiveStatus

_MAX_DECISIONS, _MAX_LOGS = 200, 10

_LEVELS = {
    "slowdown": "warning",
    "drift": "warning",
    "fallback": "warning",
    "model_refused": "warning",
    "retrain_failed": "warning",
    "scheduler_failed": "error",
    "engine_failed": "error",
}


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def notification(
    kind: str,
    message: str,
    *,
    level: str | None = None,
    scheduler: str | None = None,
    version: int | None = None,
    at_task: int | None = None,
) -> dict[str, Any]:
    """Return the body of a `notification`.

    Parameters
    ----------
    kind
        What happened, such as "paused".
    message
        One sentence.
    level
        info, warning or error; by default that of the kind.
    scheduler, version, at_task
        The scheduler, its model version and the task it is about.
    """
    return {
        "level": level or _LEVELS.get(kind, "info"),
        "kind": kind,
        "message": message,
        "scheduler": scheduler,
        "version": version,
        "at_task": at_task,
    }


def lane_notification(event: LaneEvent) -> dict[str, Any]:
    """Return the body of the `notification` about something that happened to a lane."""
    return notification(
        event.kind, event.message, scheduler=event.scheduler, version=event.version, at_task=event.at_task
    )


def version_record(event: LaneEvent, run_id: str, now: float) -> VersionRecord | None:
    """Return the record of the model version that a lane's event brings; None if it brings none."""
    if event.model is None or event.version is None or event.scheduler is None:
        return None
    model = event.model
    return VersionRecord(
        run_id,
        event.scheduler,
        event.version,
        model.samples,
        model.r2,
        model.trigger,
        event.at_task,
        now,
        event.seconds,
        model.error,
        event.loss,
    )


class UpdateBuilder:
    """Builder of updates from the newest decisions since the last one."""

    def __init__(self) -> None:
        self._chunks: list[LiveChunk] = []
        self._started: list[StartedTasks] = []
        self._decisions = 0
        self._turn = 0

    def add(self, chunk: LiveChunk) -> None:
        """Add decided tasks; old ones that do not fit into an update are dropped."""
        self._chunks.append(chunk)
        self._decisions += len(chunk) * len(chunk.results)
        while len(self._chunks) > 1 and sum(len(c) * len(c.results) for c in self._chunks[1:]) >= _MAX_DECISIONS:
            del self._chunks[0]

    def add_started(self, started: Sequence[StartedTasks]) -> None:
        """Add tasks that left a common queue; old ones that do not fit into an update are dropped."""
        self._started += started
        self._decisions += sum(map(len, started))
        while len(self._started) > 1 and sum(map(len, self._started[1:])) >= _MAX_DECISIONS:
            del self._started[0]

    def clear(self) -> None:
        """Drop the tasks after an update."""
        self._chunks.clear()
        self._started.clear()
        self._decisions = 0

    def update(self, run: LiveRun, status: LiveStatus) -> dict[str, Any]:
        """Return the body of a `simulation_update`."""
        utilisations = run.utilisations()
        chosen = _utilization_scheduler(run)
        devices = utilisations.get(chosen, {})
        decisions = self._newest_decisions(run.config.platform)
        task, latest = self._newest(run.config.platform)
        mean = sum(devices.values()) / len(devices) if devices else 0.0
        return {
            "task": task,
            "latest_results": latest,
            "comparison": [row.as_dict() for row in status.comparison],
            "latency_bound": status.latency_bound,
            "makespan_bound": status.makespan_bound,
            "first_arrival": status.first_arrival,
            "verdict": status.verdict,
            "utilization": {
                "average_utilization": mean,
                **{name: {"utilization": share} for name, share in devices.items()},
            },
            "utilization_of": chosen,
            "utilizations": utilisations,
            "backlogs": run.backlogs(),
            "decisions": decisions,
            "omitted": self._decisions - len(decisions),
            "tasks_processed": run.ordinal,
            "tasks_per_second": status.tasks_per_second,
            "virtual_time": run.now,
            "state": status.state,
        }

    def _newest(self, platform: Platform) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        if not self._chunks:
            return None, {}
        chunk = self._chunks[-1]
        row, tasks = len(chunk) - 1, chunk.tasks
        task = {
            "task_id": int(tasks.task_id[row]),
            **{name: float(getattr(tasks, name)[row]) for name in (*_TASK_FIELDS, "arrival_time")},
        }
        latest = {
            name: {
                "time": _finite(r.time[row]),
                "latency": _finite(r.latency[row]),
                "energy": _finite(r.energy[row]),
                "cost": _finite(r.cost[row]),
                "device": platform.devices[int(r.device[row])].name,
                "fraction": _finite(r.fraction[row]),
                "regret": _finite(r.regret[row]),
            }
            for name, r, row in self._results_of(chunk, row)
        }
        return task, latest

    def _results_of(self, chunk: LiveChunk, row: int) -> Iterator[tuple[str, ResultColumns, int]]:
        """Yield the results of one task, by scheduler and row; a central one may not have started it."""
        for name, results in chunk.results.items():
            yield name, results, row
        for started in self._started:
            for found in np.flatnonzero(started.tasks.task_id == chunk.tasks.task_id[row]).tolist():
                yield started.scheduler, started.columns, found

    def _newest_decisions(self, platform: Platform) -> list[dict[str, Any]]:
        """Return the decisions of all schedulers about the newest tasks, newest last."""
        parts: list[list[dict[str, Any]]] = []
        left = _MAX_DECISIONS
        # Each central scheduler gets as much of an update as one that decides at arrival.
        names = {started.scheduler for started in self._started}
        lanes = len(names) + (len(self._chunks[-1].results) if self._chunks else 0)
        budget = dict.fromkeys(names, left // max(1, lanes))
        for started in reversed(self._started):
            rows = min(len(started), budget[started.scheduler])
            budget[started.scheduler] -= rows
            left -= rows
            if rows:
                parts.append(_decisions(started, len(started) - rows, platform))
        for chunk in reversed(self._chunks):
            lanes = len(chunk.results)
            if lanes == 0:
                continue
            rows = min(len(chunk), left // lanes)
            parts.append(_decisions(chunk, len(chunk) - rows, platform))
            left -= rows * lanes
            if rows < len(chunk):
                break
        return [decision for part in reversed(parts) for decision in part]

    def logs(self, platform: Platform) -> list[dict[str, Any]]:
        """Return the bodies of a few `log` events about the newest tasks; the schedulers take turns."""
        newest = (
            (chunk, row) for chunk in reversed(self._chunks) if chunk.results for row in reversed(range(len(chunk)))
        )
        logs = []
        for chunk, row in reversed(list(islice(newest, _MAX_LOGS))):
            names = list(chunk.results)
            self._turn += 1
            logs.append(_log_of(chunk, row, names[self._turn % len(names)], platform))
        return logs


def _utilization_scheduler(run: LiveRun) -> str:
    """Return the scheduler whose utilization an update shows first: a learned one if there is one."""
    lanes = run.active_lanes or run.lanes
    return next((lane.name for lane in lanes if lane.learner is not None), lanes[0].name)


def _decisions(chunk: LiveChunk | StartedTasks, begin: int, platform: Platform) -> list[dict[str, Any]]:
    """Return the decisions for the tasks from `begin` on, task by task."""
    ids = chunk.tasks.task_id[begin:].tolist()
    about = _rows({name: getattr(chunk.tasks, name)[begin:] for name in _TASK_FIELDS})
    devices = [device.name for device in platform.devices]
    by_scheduler = {
        name: (r.device[begin:].tolist(), _rows({field: getattr(r, field)[begin:] for field in _FIELDS}))
        for name, r in chunk.results.items()
    }
    return [
        {
            "task_id": task_id,
            "scheduler": name,
            "device": devices[device[row]],
            **{field: _finite(value) for field, value in zip(_FIELDS, values[row], strict=True)},
            **dict(zip(_TASK_FIELDS, about[row], strict=True)),
        }
        for row, task_id in enumerate(ids)
        for name, (device, values) in by_scheduler.items()
    ]


def _rows(columns: dict[str, Floats]) -> list[tuple[float, ...]]:
    return list(zip(*(column.tolist() for column in columns.values()), strict=True))


#: Fields of a decision in the names of `Outcome`, and those of its task.
_FIELDS = (
    "fraction", "start", "finish", "time", "latency", "wait", "energy", "cost", "regret",
    "cpu_start", "cpu_time", "accelerator_start", "accelerator_time", "confidence",
)  # fmt: skip
_TASK_FIELDS = ("size", "compute_intensity", "memory_required")


def _log_of(chunk: LiveChunk, row: int, name: str, platform: Platform) -> dict[str, Any]:
    task_id, results = int(chunk.tasks.task_id[row]), chunk.results[name]
    device = int(results.device[row])
    fraction = float(results.fraction[row])
    where = platform.devices[device].name.replace("_", " ").upper()
    level = "info"
    if results.status[row] == FAILED:
        level, message = "warning", f"task {task_id} failed: it does not fit into the memory of {where}"
    elif 0.0 < fraction < 1.0:
        host = platform.devices[int(platform.cpu_of[device])].name.replace("_", " ").upper()
        message = f"task {task_id} split: {100.0 * fraction:.0f} % on {where}, rest on {host}"
    else:
        message = f"task {task_id} to {where}"
    return {"level": level, "scheduler": name, "message": message, "task_id": task_id}
