"""Bodies of the events of the stream, as plain values ready for JSON."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

from ..core import Platform
from ..core.outcome import FAILED
from .batch_records import VersionRecord
from .live_run import LaneEvent, LiveChunk, LiveRun
from .status import LiveStatus

_MAX_DECISIONS, _MAX_LOGS = 200, 10

_LEVELS = {
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
    if event.model is None or event.version is None:
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
    )


class UpdateBuilder:
    """Builder of updates from the newest decisions since the last one."""

    def __init__(self) -> None:
        self._chunks: list[LiveChunk] = []
        self._decisions = 0
        self._turn = 0

    def add(self, chunk: LiveChunk) -> None:
        """Add decided tasks; old ones that do not fit into an update are dropped."""
        self._chunks.append(chunk)
        self._decisions += len(chunk) * len(chunk.results)
        while len(self._chunks) > 1 and sum(len(c) * len(c.results) for c in self._chunks[1:]) >= _MAX_DECISIONS:
            del self._chunks[0]

    def clear(self) -> None:
        """Drop the tasks after an update."""
        self._chunks.clear()
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
            "id": int(tasks.task_id[row]),
            "size": float(tasks.size[row]),
            "intensity": float(tasks.compute_intensity[row]),
            "memory": float(tasks.memory_required[row]),
            "arrival": float(tasks.arrival_time[row]),
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
            for name, r in chunk.results.items()
        }
        return task, latest

    def _newest_decisions(self, platform: Platform) -> list[dict[str, Any]]:
        """Return the decisions of all schedulers about the newest tasks, newest last."""
        parts: list[list[dict[str, Any]]] = []
        left = _MAX_DECISIONS
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
    lanes = run.live or run.lanes
    return next((lane.name for lane in lanes if lane.learner is not None), lanes[0].name)


def _decisions(chunk: LiveChunk, begin: int, platform: Platform) -> list[dict[str, Any]]:
    tasks = chunk.tasks
    descriptions = list(
        zip(
            tasks.task_id[begin:].tolist(),
            tasks.size[begin:].tolist(),
            tasks.compute_intensity[begin:].tolist(),
            tasks.memory_required[begin:].tolist(),
            strict=True,
        )
    )
    columns = {
        name: list(
            zip(
                r.device[begin:].tolist(), r.fraction[begin:].tolist(), r.start[begin:].tolist(),
                r.finish[begin:].tolist(), r.time[begin:].tolist(), r.latency[begin:].tolist(),
                r.energy[begin:].tolist(), r.cost[begin:].tolist(), r.regret[begin:].tolist(),
                r.cpu_start[begin:].tolist(), r.cpu_time[begin:].tolist(), r.accelerator_start[begin:].tolist(),
                r.accelerator_time[begin:].tolist(),
                strict=True,
            )
        )
        for name, r in chunk.results.items()
    }  # fmt: skip
    return [
        {
            "task_id": task_id,
            "scheduler": name,
            "device": platform.devices[values[0]].name,
            **{field: _finite(value) for field, value in zip(_FIELDS, values[1:], strict=True)},
            "size": size,
            "intensity": intensity,
            "memory": memory,
        }
        for row, (task_id, size, intensity, memory) in enumerate(descriptions)
        for name, values in ((name, rows[row]) for name, rows in columns.items())
    ]


_FIELDS = (
    "fraction", "start", "finish", "time", "latency", "energy", "cost", "regret",
    "cpu_start", "cpu_time", "gpu_start", "gpu_time",
)  # fmt: skip


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
