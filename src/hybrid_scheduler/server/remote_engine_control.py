"""Control of a live engine in another process, through the database.

Commands go through a table of commands; the status comes with the engine's heartbeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from ..core import HybridSchedulerError
from ..live import (
    EngineBusy,
    EngineClosed,
    IdempotencyKey,
    JournalFull,
    JournalUnavailable,
    MeasuredRun,
    RunLabels,
    measured_from_json,
    measured_to_json,
)
from ..storage import DatabaseUnavailable, Repository
from ..storage.engine_commands import EngineCommandTable
from .engine_control import MAX_HEARTBEAT_AGE_S, EngineControl, NewTask, StartOptions
from .errors import ApiError

#: Names of errors, as the reply carries them, after which the client may try again.
_UNAVAILABLE = {
    error.__name__ for error in (DatabaseUnavailable, EngineBusy, EngineClosed, JournalFull, JournalUnavailable)
}
#: Long enough to load models, which a start may need.
_REPLY_TIMEOUT_S = 30.0
#: For what only reads from the engine's memory. A reader should hear soon that the engine does not answer.
_READ_TIMEOUT_S = 2.0
_HEARTBEAT_INTERVAL_S = 1.0


class RemoteEngineControl:
    """Implementation of `EngineControl` in a process that has no engine.

    Parameters
    ----------
    commands
        The table that carries commands to the engine.
    repository
        Reads the engine's heartbeat.
    """

    def __init__(self, commands: EngineCommandTable, repository: Repository) -> None:
        self._commands, self._repository = commands, repository

    async def heartbeat_age(self) -> float | None:
        """Return the seconds since the last heartbeat; infinity if there was none."""
        heartbeat = await self._repository.engine_heartbeat()
        return float("inf") if heartbeat is None else float(heartbeat["age"])

    async def status(self) -> dict[str, Any]:
        """Return the body of the status in the last heartbeat."""
        heartbeat = await self._repository.engine_heartbeat()
        if heartbeat is None:
            raise ApiError(503, "no engine has been seen yet", hint="start one with --role engine")
        status: dict[str, Any] = heartbeat["status"]
        age = float(heartbeat["age"])
        if age >= MAX_HEARTBEAT_AGE_S:
            note = f"the engine is not running: its last heartbeat came {age:,.0f} s ago"
            idle = {"state": "held", "is_running": False, "tasks_per_second": 0.0}
            return {**status, **idle, "notes": [note, *status["notes"]]}
        return status

    async def start(self, options: StartOptions) -> dict[str, Any]:
        """Start or resume the run; begin a new one where the options differ from a run that does not run."""
        return await self._send("start", asdict(options))

    async def begin(self, options: StartOptions) -> dict[str, Any]:
        """Begin a new run with these options; the run before ends."""
        return await self._send("begin", asdict(options))

    async def preview(self, options: StartOptions) -> dict[str, Any]:
        """Return the tasks, load and limits of the run that `begin` would begin, without beginning it."""
        return await self._send("preview", asdict(options))

    async def stop(self) -> dict[str, Any]:
        """End the run."""
        return await self._send("stop")

    async def pause(self) -> dict[str, Any]:
        """Pause the run."""
        return await self._send("pause")

    async def resume(self) -> dict[str, Any]:
        """Resume a paused run."""
        return await self._send("resume")

    async def set_speed(self, speed: float) -> dict[str, Any]:
        """Change the speed, in virtual seconds per wall second."""
        return await self._send("speed", {"speed": speed})

    async def set_scenario(self, scenario: str, utilisation: float | None) -> dict[str, Any]:
        """Change the scenario; None as utilisation means the scenario's own."""
        return await self._send("scenario", {"scenario": scenario, "utilisation": utilisation})

    async def retrain(self, scheduler: str) -> dict[str, Any]:
        """Train the model of a learned scheduler again."""
        return await self._send("retrain", {"scheduler": scheduler})

    async def submit(self, task: NewTask) -> int:
        """Return the task's id, once the task and its results are durable."""
        return int((await self._send("submit", asdict(task)))["task_id"])

    async def store_measured(self, run: MeasuredRun, key: IdempotencyKey | None = None) -> str:
        """Return the id of the run, once the run is durable."""
        return str((await self._send("measured", measured_to_json(run) | {"key": key and asdict(key)}))["run_id"])

    async def delete_tasks(self) -> int | None:
        """Delete all tasks and return their number; None if that is going on and sure to be completed."""
        deleted: int | None = (await self._send("forget"))["deleted_tasks"]
        return deleted

    async def delete_run(self, run_id: str) -> int | None:
        """Delete a run that has ended and return the number of its tasks; None if that is going on."""
        deleted: int | None = (await self._send("delete_run", {"run_id": run_id}))["deleted_tasks"]
        return deleted

    async def describe_run(self, run_id: str, labels: RunLabels) -> None:
        """Replace name, tags and note of a run; returns once they are durable."""
        await self._send("describe_run", {"run_id": run_id, "labels": asdict(labels)})

    async def learners(self) -> dict[str, dict[str, Any]]:
        """Return feature_importance, agent and accuracy of each learned scheduler of the run."""
        return await self._send("learners", timeout=_READ_TIMEOUT_S)

    async def explanations(self, task_id: int) -> dict[str, dict[str, Any]]:
        """Return the values by which each learned scheduler placed a task, if it is one of the newest."""
        return await self._send("explanations", {"task_id": task_id}, timeout=_READ_TIMEOUT_S)

    async def _send(
        self, kind: str, payload: dict[str, Any] | None = None, *, timeout: float = _REPLY_TIMEOUT_S
    ) -> dict[str, Any]:
        age = await self.heartbeat_age()
        if age is not None and age >= MAX_HEARTBEAT_AGE_S:  # a command would wait for its timeout
            raise ApiError(503, "the engine is not running", hint="start one with --role engine")
        reply = await self._commands.send_command(kind, payload, timeout=timeout)
        if reply.ok:
            return reply.body
        error, message = reply.body, str(reply.body.get("message", "the engine refused"))
        if error.get("error") in _UNAVAILABLE:
            raise ApiError(503, "the database or the engine is unavailable")
        if "field" in error:
            fields = [(error["field"], error["allowed"], error["got"])]
            raise ApiError(422, message, fields=fields, hint=error.get("hint"))
        raise HybridSchedulerError(message)


async def execute_command(control: EngineControl, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Execute a command from the table in the engine's process, and return the body of the reply."""
    if kind in ("start", "begin", "preview"):
        given = payload.get("schedulers")
        options = StartOptions(**{**payload, "schedulers": tuple(given) if given else None})
        commands = {"start": control.start, "begin": control.begin, "preview": control.preview}
        return await commands[kind](options)
    if kind == "describe_run":
        labels = payload["labels"]
        await control.describe_run(payload["run_id"], RunLabels(**{**labels, "tags": tuple(labels["tags"])}))
        return {}
    if kind == "speed":
        return await control.set_speed(payload["speed"])
    if kind == "scenario":
        return await control.set_scenario(payload["scenario"], payload["utilisation"])
    if kind == "retrain":
        return await control.retrain(payload["scheduler"])
    if kind == "explanations":
        return await control.explanations(payload["task_id"])
    if kind == "submit":
        return {"task_id": await control.submit(NewTask(**payload))}
    if kind == "measured":
        given = payload.pop("key", None)
        key = None if given is None else IdempotencyKey(**given)
        return {"run_id": await control.store_measured(measured_from_json(payload), key)}
    if kind == "forget":
        return {"deleted_tasks": await control.delete_tasks()}
    if kind == "delete_run":
        return {"deleted_tasks": await control.delete_run(payload["run_id"])}
    plain = {"stop": control.stop, "pause": control.pause, "resume": control.resume, "learners": control.learners}
    if kind not in plain:
        raise HybridSchedulerError(f"unknown command '{kind}'")
    return await plain[kind]()


async def send_heartbeats(
    control: EngineControl, send: Callable[[dict[str, Any]], None], stop: asyncio.Event
) -> None:
    """Send the status about once a second, until `stop` is set."""
    while not stop.is_set():
        send(await control.status())
        try:
            async with asyncio.timeout(_HEARTBEAT_INTERVAL_S):
                await stop.wait()
        except TimeoutError:
            continue
