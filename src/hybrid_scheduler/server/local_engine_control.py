"""The engine in this process. Its calls are safe from any thread; those that wait do so in a worker thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from ..live import (
    ContinuousSimulation,
    IdempotencyKey,
    JournalUnavailable,
    LiveConfig,
    LiveStatus,
    MeasuredRun,
    SubmittedTask,
)
from ..workload.scenarios import Scenario
from .engine_control import NewTask, StartOptions

_T = TypeVar("_T")
#: A task that is not stored after so many seconds is not acknowledged.
_PATIENCE = 15.0


class LocalEngineControl:
    """`home` is the course of the configuration; `scenario` finds scenarios by name, with the configured ranges."""

    def __init__(self, engine: ContinuousSimulation, home: LiveConfig, scenario: Callable[[str], Scenario]) -> None:
        self._engine, self._home, self._scenario = engine, home, scenario
        self._one_at_a_time = asyncio.Lock()

    async def beat_age(self) -> float | None:
        return None

    async def status(self) -> dict[str, Any]:
        return self._engine.status().as_dict()

    async def start(self, wishes: StartOptions) -> dict[str, Any]:
        async with self._one_at_a_time:
            return (await asyncio.to_thread(self._start, wishes)).as_dict()

    def _start(self, wishes: StartOptions) -> LiveStatus:
        now = self._engine.status()
        changes = {
            name: value
            for name in ("scenario", "utilisation", "seed", "speed", "schedulers")
            if (value := getattr(wishes, name)) is not None and value != getattr(now, name)
        }
        if now.is_running or not changes:
            return self._engine.start()
        if now.is_paused and set(changes) == {"speed"}:
            self._engine.set_speed(changes["speed"])
            return self._engine.start()
        return self._engine.restart(self._course(wishes))

    def _course(self, wishes: StartOptions) -> LiveConfig:
        home = self._home
        scenario = home.scenario if wishes.scenario is None else self._scenario(wishes.scenario)
        # Another scenario has a load of its own.
        load = home.utilisation if wishes.scenario is None else None
        return replace(
            home,
            scenario=scenario,
            utilisation=load if wishes.utilisation is None else wishes.utilisation,
            seed=home.seed if wishes.seed is None else wishes.seed,
            speed=home.speed if wishes.speed is None else wishes.speed,
            schedulers=home.schedulers if wishes.schedulers is None else wishes.schedulers,
        )

    async def stop(self) -> dict[str, Any]:
        return await self._order(self._engine.stop)

    async def pause(self) -> dict[str, Any]:
        return await self._order(self._engine.pause)

    async def resume(self) -> dict[str, Any]:
        return await self._order(self._engine.resume)

    async def set_speed(self, speed: float) -> dict[str, Any]:
        return await self._order(lambda: self._engine.set_speed(speed))

    async def set_scenario(self, scenario: str, utilisation: float | None) -> dict[str, Any]:
        chosen = self._scenario(scenario)
        return await self._order(lambda: self._engine.set_scenario(chosen, utilisation))

    async def retrain(self, scheduler: str) -> dict[str, Any]:
        return await self._order(lambda: self._engine.retrain(scheduler))

    async def submit(self, task: NewTask) -> int:
        new = SubmittedTask(task.size, task.compute_intensity, task.memory_required, task.kind, task.external_id)
        key = None if task.key is None else IdempotencyKey(task.key, task.fingerprint, 0)
        return await _in_time(self._engine.submit(new, key))

    async def store_measured(self, run: MeasuredRun) -> str:
        return await _in_time(self._engine.store_measured(run))

    async def forget(self) -> int:
        return await _in_time(await asyncio.to_thread(self._engine.forget))

    async def learners(self) -> dict[str, dict[str, Any]]:
        cards = await asyncio.to_thread(self._engine.models)
        return {card.scheduler_name: card.as_dict() for card in cards}

    async def _order(self, command: Callable[[], LiveStatus]) -> dict[str, Any]:
        return (await asyncio.to_thread(command)).as_dict()


async def _in_time(future: Future[_T]) -> _T:
    try:
        # Shielded: an answer that nobody waits for any more must not cancel what the writer is about to do.
        async with asyncio.timeout(_PATIENCE):
            return await asyncio.shield(asyncio.wrap_future(future))
    except TimeoutError:
        raise JournalUnavailable(
            "the database did not take it in time", hint="try again with the same key"
        ) from None
