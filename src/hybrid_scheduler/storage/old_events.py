"""Translation of stored stream events from the field names that were used until 0.1."""

from __future__ import annotations

from typing import Any

import orjson

#: Field of every comparison row that only old events have: most events are recognised without parsing them.
_OLD_FIELD = b'"avg_latency":'
_ROW = {
    f"avg_{name}": f"mean_{name}"
    for name in ("time", "latency", "wait", "energy", "cost", "gpu_fraction", "regret")
}
_TASK = {
    "id": "task_id",
    "intensity": "compute_intensity",
    "memory": "memory_required",
    "arrival": "arrival_time",
}
_DECISION = {
    "gpu_start": "accelerator_start",
    "gpu_time": "accelerator_time",
    "intensity": "compute_intensity",
    "memory": "memory_required",
}


def current_event(payload: bytes) -> bytes:
    """Return a stored event with the field names of today.

    Parameters
    ----------
    payload : bytes
        JSON of one event, as the table `events` holds it.

    Returns
    -------
    bytes
        The same bytes, unless the event is an update with old names.
    """
    if _OLD_FIELD not in payload:
        return payload
    event: dict[str, Any] = orjson.loads(payload)
    if event.get("type") != "simulation_update":
        return payload
    event["comparison"] = [_renamed(row, _ROW) for row in event["comparison"]]
    event["decisions"] = [_decision(row) for row in event["decisions"]]
    if event["task"] is not None:
        event["task"] = _renamed(event["task"], _TASK)
    return orjson.dumps(event)


def _renamed(row: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in row.items()}


def _decision(row: dict[str, Any]) -> dict[str, Any]:
    latency, time = row["latency"], row["time"]
    wait = None if latency is None or time is None else latency - time
    return {**_renamed(row, _DECISION), "wait": wait}
