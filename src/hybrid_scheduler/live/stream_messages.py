"""Bodies of the events of the stream, as plain values ready for JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from ..core import Platform, Workload
from ..core.outcome import FAILED
from .journal import ResultColumns, SchedulerResults, VersionRecord
from .live_run import LaneEvent, LiveChunk, LiveRun
from .status import LiveStatus

_Part = TypeVar("_Part", LiveChunk, SchedulerResults)
_MAX_DECISIONS = 200
_MAX_LOGS = 10
#: Fields of the status that an update has.
_OF_STATUS = (
    "latency_bound", "makespan_bound", "first_arrival", "tasks_processed", "tasks_per_second",
    "virtual_time", "state",
)  # fmt: skip

_LEVELS = {
    **dict.fromkeys(("slowdown", "queue_full", "drift", "fallback", "model_refused", "retrain_failed"), "warning"),
    **dict.fromkeys(("scheduler_failed", "engine_failed"), "error"),
}


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def notification(
    kind: str,
    message: str,
    *,
    level: str | None = None,
    about: LaneEvent | None = None,
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
    about
        What happened to a lane, with its scheduler, model version and task.
    """
    return {
        "level": level or _LEVELS.get(kind, "info"),
        "kind": kind,
        "message": message,
        **{name: getattr(about, name, None) for name in ("scheduler", "version", "at_task")},
    }


def version_record(event: LaneEvent, run_id: str, now: float) -> VersionRecord | None:
    """Return the record of the model version that a lane's event brings; None if it brings none."""
    if event.model is None or event.version is None or event.scheduler is None:
        return None
    model = event.model
    about = (run_id, event.scheduler, event.version, model.samples, model.r2, model.trigger, event.at_task)
    return VersionRecord(*about, now, event.seconds, model.error, event.loss)


class UpdateBuilder:
    """Builder of updates from the newest decisions since the last one."""

    def __init__(self) -> None:
        self._chunks: list[LiveChunk] = []
        self._started: list[SchedulerResults] = []
        self._decisions = 0
        self._turn = 0

    def add(self, chunk: LiveChunk) -> None:
        """Add decided tasks; old ones that do not fit into an update are dropped."""
        self._decisions += len(chunk) * len(chunk.results)
        self._chunks = _newest([*self._chunks, chunk])

    def add_started(self, started: Sequence[SchedulerResults]) -> None:
        """Add tasks that left a common queue; old ones that do not fit into an update are dropped."""
        self._decisions += sum(map(len, started))
        self._started = _newest([*self._started, *started])

    def clear(self) -> None:
        """Drop the tasks after an update."""
        self._chunks.clear()
        self._started.clear()
        self._decisions = 0

    def update(self, run: LiveRun, status: LiveStatus) -> dict[str, Any]:
        """Return the body of a `simulation_update`."""
        utilisations = run.load.utilisations(run.now)
        chosen = _utilization_scheduler(run)
        devices = utilisations.get(chosen, {})
        decisions = self._newest_decisions(run.config.platform)
        task, latest = self._newest(run.config.platform)
        mean = sum(devices.values()) / len(devices) if devices else 0.0
        return {
            "task": task,
            "latest_results": latest,
            "comparison": [asdict(row) for row in status.comparison],
            "verdict": None if status.verdict is None else status.verdict.as_dict(),
            **{name: getattr(status, name) for name in _OF_STATUS},
            "utilization": {
                "average_utilization": mean,
                **{name: {"utilization": share} for name, share in devices.items()},
            },
            "utilization_of": chosen,
            "utilizations": utilisations,
            "backlogs": run.load.backlogs(run.now),
            "decisions": decisions,
            "omitted": self._decisions - len(decisions),
        }

    def _newest(self, platform: Platform) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """Return the newest task and its results by scheduler; a central one may not have started it."""
        if not self._chunks:
            return None, {}
        chunk = self._chunks[-1]
        row = len(chunk) - 1
        tasks = chunk.tasks
        task_id = int(tasks.task_id[row])
        numbers = {name: float(getattr(tasks, name)[row]) for name in (*_TASK_FIELDS, "arrival_time")}
        decisions = _decisions(chunk, slice(row, None), platform)
        for started in self._started:
            for found in np.flatnonzero(started.tasks.task_id == task_id).tolist():
                decisions += _decisions(started, slice(found, found + 1), platform)
        latest = {decision["scheduler"]: {name: decision[name] for name in _LATEST} for decision in decisions}
        return {"task_id": task_id, **numbers}, latest

    def _newest_decisions(self, platform: Platform) -> list[dict[str, Any]]:
        """Return the decisions of all schedulers about the newest tasks, newest last."""
        groups: list[LiveChunk | SchedulerResults] = [*self._chunks, *self._started]
        names = {name for group in groups for name in group.results}
        # Each central scheduler gets as much of an update as one that decides at arrival.
        left = dict.fromkeys(names, _MAX_DECISIONS // max(1, len(names)))
        parts = []
        for group in reversed(groups):
            rows = min(len(group), *(left[name] for name in group.results)) if group.results else 0
            if rows:
                parts.append(_decisions(group, slice(len(group) - rows, None), platform))
            for name in group.results:
                left[name] -= rows
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


def _newest(parts: list[_Part]) -> list[_Part]:
    """Return the newest parts that an update needs."""
    needed = 0
    for first in reversed(range(len(parts))):
        needed += len(parts[first]) * len(parts[first].results)
        if needed >= _MAX_DECISIONS:
            return parts[first:]
    return parts


def _utilization_scheduler(run: LiveRun) -> str:
    """Return the scheduler whose utilization an update shows first: a learned one if there is one."""
    lanes = run.lanes.active or run.lanes
    return next((lane.name for lane in lanes if lane.learner is not None), lanes[0].name)


def _decisions(chunk: LiveChunk | SchedulerResults, rows: slice, platform: Platform) -> list[dict[str, Any]]:
    """Return the decisions for these tasks, task by task."""
    ids = chunk.tasks.task_id[rows].tolist()
    about = _values(chunk.tasks, _TASK_FIELDS, rows)
    devices = [device.name for device in platform.devices]
    by_scheduler = {
        name: (columns.device[rows].tolist(), _values(columns, _FIELDS, rows))
        for name, columns in chunk.results.items()
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


def _values(columns: Workload | ResultColumns, names: Sequence[str], rows: slice) -> list[tuple[float, ...]]:
    """Return the values of the named columns, row by row."""
    return list(zip(*(getattr(columns, name)[rows].tolist() for name in names), strict=True))


#: Fields of a decision in the names of `Outcome`, and those of its task.
_FIELDS = (
    "fraction", "start", "finish", "time", "latency", "wait", "energy", "cost", "regret",
    "cpu_start", "cpu_time", "accelerator_start", "accelerator_time", "confidence",
)  # fmt: skip
_TASK_FIELDS = ("size", "compute_intensity", "memory_required")
_LATEST = ("time", "latency", "energy", "cost", "device", "fraction", "regret")


def _log_of(chunk: LiveChunk, row: int, name: str, platform: Platform) -> dict[str, Any]:
    task_id = int(chunk.tasks.task_id[row])
    results = chunk.results[name]
    device = int(results.device[row])
    fraction = float(results.fraction[row])
    where = platform.devices[device].name.replace("_", " ").upper()
    level = "info"
    if results.status[row] == FAILED:
        level = "warning"
        message = f"task {task_id} failed: it does not fit into the memory of {where}"
    elif 0.0 < fraction < 1.0:
        host = platform.devices[int(platform.cpu_of[device])].name.replace("_", " ").upper()
        message = f"task {task_id} split: {100.0 * fraction:.0f} % on {where}, rest on {host}"
    else:
        message = f"task {task_id} to {where}"
    return {"level": level, "scheduler": name, "message": message, "task_id": task_id}
