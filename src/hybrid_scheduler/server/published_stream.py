"""Published form of stream messages: the field names of the original documents."""

from __future__ import annotations

from typing import Any

import orjson

_TASK = {"id": "task_id", "size": "size", "intensity": "compute_intensity", "memory": "memory_required"}


class PublishedFormat:
    """Converter of messages in the order of the stream.

    It remembers the newest task of the run for updates without one.
    """

    def __init__(self) -> None:
        self._run_id: str | None = None
        self._newest: dict[str, Any] | None = None

    def convert(self, payload: bytes) -> bytes | None:
        """Return a message as the original documents show it; None for an update before the first task."""
        if b"simulation_update" not in payload:
            return payload
        message: dict[str, Any] = orjson.loads(payload)
        if message["type"] != "simulation_update":  # a text with that word
            return payload
        if message["run_id"] != self._run_id:
            self._run_id = message["run_id"]
            self._newest = None
        task = message["task"]
        if task is not None:
            task = {name: task[own] for name, own in _TASK.items()}
            self._newest = {"task": task, "latest_results": message["latest_results"]}
        if self._newest is None:
            return None
        rows = [{_published(name): value for name, value in row.items()} for row in message["comparison"]]
        return orjson.dumps(message | self._newest | {"comparison": rows})


def _published(name: str) -> str:
    return f"avg_{name.removeprefix('mean_')}" if name.startswith("mean_") else name
