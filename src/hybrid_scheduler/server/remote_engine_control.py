"""The engine in another process: orders go through a table of the database, its state comes with its beat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from ..core import HybridSchedulerError
from ..live import (
    EngineBusy,
    EngineClosed,
    JournalFull,
    JournalUnavailable,
    MeasuredRun,
    measured_from_json,
    measured_to_json,
)
from ..storage import DatabaseUnavailable, Repository
from ..storage.engine_commands import EngineCommandTable
from .engine_control import EngineControl, NewTask, StartOptions
from .errors import Refused

#: Names of errors, as the reply carries them, after which the client may try again.
_UNAVAILABLE = {
    error.__name__ for error in (DatabaseUnavailable, EngineBusy, EngineClosed, JournalFull, JournalUnavailable)
}
#: Starting a run may load models.
_PATIENCE = 30.0


class RemoteEngineControl:
    """What an API process has in place of an engine."""

    def __init__(self, queue: EngineCommandTable, repository: Repository, clock: Callable[[], float]) -> None:
        self._queue, self._repository, self._clock = queue, repository, clock

    async def beat_age(self) -> float | None:
        beat = await self._repository.engine_beat()
        return float("inf") if beat is None else max(0.0, self._clock() - float(beat["beat_at"]))

    async def status(self) -> dict[str, Any]:
        beat = await self._repository.engine_beat()
        if beat is None:
            raise Refused(503, "no engine has been seen yet", hint="start one with --role engine")
        status: dict[str, Any] = beat["status"]
        return status

    async def start(self, wishes: StartOptions) -> dict[str, Any]:
        return await self._ask("start", asdict(wishes))

    async def stop(self) -> dict[str, Any]:
        return await self._ask("stop")

    async def pause(self) -> dict[str, Any]:
        return await self._ask("pause")

    async def resume(self) -> dict[str, Any]:
        return await self._ask("resume")

    async def set_speed(self, speed: float) -> dict[str, Any]:
        return await self._ask("speed", {"speed": speed})

    async def set_scenario(self, scenario: str, utilisation: float | None) -> dict[str, Any]:
        return await self._ask("scenario", {"scenario": scenario, "utilisation": utilisation})

    async def retrain(self, scheduler: str) -> dict[str, Any]:
        return await self._ask("retrain", {"scheduler": scheduler})

    async def submit(self, task: NewTask) -> int:
        return int((await self._ask("submit", asdict(task)))["task_id"])

    async def store_measured(self, run: MeasuredRun) -> str:
        return str((await self._ask("measured", measured_to_json(run)))["run_id"])

    async def forget(self) -> int:
        return int((await self._ask("forget"))["deleted_tasks"])

    async def learners(self) -> dict[str, dict[str, Any]]:
        return await self._ask("learners")

    async def _ask(self, kind: str, payload: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = await self._queue.ask(kind, payload, timeout=_PATIENCE)
        if answer.ok:
            return answer.body
        told, message = answer.body, str(answer.body.get("message", "the engine refused"))
        if told.get("error") in _UNAVAILABLE:
            raise Refused(503, "the database or the engine is away")
        if "field" in told:
            fields = [(told["field"], told["allowed"], told["got"])]
            raise Refused(422, message, fields=fields, hint=told.get("hint"))
        raise HybridSchedulerError(message)


async def carry_out(control: EngineControl, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """The engine's side: one command for its own control."""
    if kind == "start":
        given = payload.get("schedulers")
        return await control.start(StartOptions(**{**payload, "schedulers": tuple(given) if given else None}))
    if kind == "speed":
        return await control.set_speed(payload["speed"])
    if kind == "scenario":
        return await control.set_scenario(payload["scenario"], payload["utilisation"])
    if kind == "retrain":
        return await control.retrain(payload["scheduler"])
    if kind == "submit":
        return {"task_id": await control.submit(NewTask(**payload))}
    if kind == "measured":
        return {"run_id": await control.store_measured(measured_from_json(payload))}
    if kind == "forget":
        return {"deleted_tasks": await control.forget()}
    plain = {"stop": control.stop, "pause": control.pause, "resume": control.resume, "learners": control.learners}
    if kind not in plain:
        raise HybridSchedulerError(f"unknown command '{kind}'")
    return await plain[kind]()


async def beat(control: EngineControl, tell: Callable[[dict[str, Any]], None], stop: asyncio.Event) -> None:
    """A sign of life about once a second, with the status in it."""
    while not stop.is_set():
        tell(await control.status())
        try:
            async with asyncio.timeout(1.0):
                await stop.wait()
        except TimeoutError:
            continue
