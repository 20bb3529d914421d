"""Control of a live engine in this process.

The engine's methods may be called from any thread. Those that wait are called in a worker thread, so that the event
loop goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from ..core import InvalidInputError
from ..live import (
    ContinuousSimulation,
    IdempotencyKey,
    JournalUnavailable,
    LiveConfig,
    LiveStatus,
    MeasuredRun,
    RunLabels,
    SubmittedTask,
)
from ..live.live_config import LiveTrace
from ..physics import Slowdown
from ..workload import trace_named
from ..workload.scenarios import Scenario
from .engine_control import NewTask, StartOptions, chosen_machine, machine_fields, preview_of

_T = TypeVar("_T")
#: A task or run that is not durable after so many seconds is not acknowledged.
COMMIT_TIMEOUT_S = 15.0
#: A deletion that takes longer goes on after the response.
DELETE_TIMEOUT_S = 5.0
#: Seconds between two looks whether a deletion was accepted.
_POLL_S = 0.05


class LocalEngineControl:
    """Implementation of `EngineControl` around an engine of this process.

    Parameters
    ----------
    engine
        The opened engine.
    config
        The configured run: options of `start` replace single fields of it.
    scenario
        Returns the scenario of that name, with the configured ranges.
    """

    def __init__(
        self, engine: ContinuousSimulation, config: LiveConfig, scenario: Callable[[str], Scenario]
    ) -> None:
        self._engine, self._config, self._scenario = engine, config, scenario
        self._start_lock = asyncio.Lock()

    async def heartbeat_age(self) -> float | None:
        """Return None: the engine runs in this process."""
        return None

    async def status(self) -> dict[str, Any]:
        """Return the body of the current status."""
        return self._engine.status().as_dict()

    async def start(self, options: StartOptions) -> dict[str, Any]:
        """Start or resume the run; begin a new one where the options differ from a run that does not run."""
        async with self._start_lock:
            return (await asyncio.to_thread(self._start, options)).as_dict()

    def _start(self, options: StartOptions) -> LiveStatus:
        now = self._engine.status()
        wanted = {
            "scenario": (options.scenario, now.scenario),
            "trace": (None if options.trace is None else f"trace:{options.trace}", now.scenario),
            "load": (options.utilisation, now.load),
            "seed": (options.seed, now.seed),
            "speed": (options.speed, now.speed),
            "schedulers": (options.schedulers, now.schedulers),
        }
        changes = {name for name, (new, present) in wanted.items() if new is not None and new != present}
        if now.is_running or not changes:
            return self._engine.start()
        if now.is_paused and changes == {"speed"} and options.speed is not None:
            self._engine.set_speed(options.speed)
            return self._engine.start()
        return self._engine.restart(self._config_with(options))

    async def begin(self, options: StartOptions) -> dict[str, Any]:
        """Begin a new run with these options; the run before ends."""
        async with self._start_lock:
            return await self._run_command(lambda: self._engine.restart(self._config_with(options)))

    async def preview(self, options: StartOptions) -> dict[str, Any]:
        """Return the tasks, load and limits of the run that `begin` would begin, without beginning it."""
        return await asyncio.to_thread(lambda: preview_of(self._config_with(options)))

    def _config_with(self, options: StartOptions) -> LiveConfig:
        config = self._config
        if options.repeats is not None:
            stored = _stored_config(config, options.repeats)
            if stored is None:
                raise InvalidInputError("repeats", "a run that this program can repeat", "another version's")
            config = stored
        machine = chosen_machine(config.machine, options)
        if machine != config.machine:
            # Tasks of a trace are stretched to a load on one machine: for another they are read again.
            trace = config.trace
            config = replace(config, **machine_fields(machine), trace=None, slowdown=None)
            if trace is not None and options.scenario is None and options.trace is None:
                config = replace(config, trace=LiveTrace.of_run(trace.as_dict(), config))
        if options.scenario is not None or options.trace is not None:
            config = replace(config, trace=None, slowdown=None)
        if options.slowdown is not None:
            given = options.slowdown
            config = replace(config, slowdown=Slowdown.from_dict(given) if isinstance(given, dict) else None)
        scenario = config.scenario if options.scenario is None else self._scenario(options.scenario)
        # The configured utilisation belongs to the configured scenario; another scenario has its own.
        utilisation = config.utilisation if options.scenario is None else None
        load = utilisation if options.utilisation is None else options.utilisation
        if options.trace is not None:
            path = trace_named(options.trace, config.trace_folder)
            trace = LiveTrace.read(
                path, config.platform, config.physics, repeat=options.repeat, load=options.utilisation
            )
            config = replace(config, trace=trace)
        return replace(
            config,
            scenario=scenario,
            utilisation=load,
            seed=config.seed if options.seed is None else options.seed,
            speed=config.speed if options.speed is None else options.speed,
            schedulers=config.schedulers if options.schedulers is None else options.schedulers,
        )

    async def stop(self) -> dict[str, Any]:
        """End the run."""
        return await self._run_command(self._engine.stop)

    async def pause(self) -> dict[str, Any]:
        """Pause the run."""
        return await self._run_command(self._engine.pause)

    async def resume(self) -> dict[str, Any]:
        """Resume a paused run."""
        return await self._run_command(self._engine.resume)

    async def set_speed(self, speed: float) -> dict[str, Any]:
        """Change the speed, in virtual seconds per wall second."""
        return await self._run_command(lambda: self._engine.set_speed(speed))

    async def set_scenario(self, scenario: str, utilisation: float | None) -> dict[str, Any]:
        """Change the scenario; None as utilisation means the scenario's own."""
        found = self._scenario(scenario)
        return await self._run_command(lambda: self._engine.set_scenario(found, utilisation))

    async def retrain(self, scheduler: str) -> dict[str, Any]:
        """Train the model of a learned scheduler again."""
        return await self._run_command(lambda: self._engine.retrain(scheduler))

    async def submit(self, task: NewTask) -> int:
        """Return the task's id, once the task and its results are durable."""
        new = SubmittedTask(
            task.size, task.compute_intensity, task.memory_required, task.kind, task.external_id, task.divisible
        )
        key = None if task.key is None else IdempotencyKey(task.key, task.fingerprint, 0)
        return await _until_durable(self._engine.submit(new, key))

    async def store_measured(self, run: MeasuredRun, key: IdempotencyKey | None = None) -> str:
        """Return the id of the run, once the run is durable."""
        return await _until_durable(self._engine.store_measured(run, key))

    async def delete_tasks(self) -> int | None:
        """Delete all tasks and return their number; None if that is going on and sure to be completed."""
        return await _deleted_tasks(await asyncio.to_thread(self._engine.delete_tasks))

    async def delete_run(self, run_id: str) -> int | None:
        """Delete a run that has ended and return the number of its tasks; None if that is going on."""
        return await _deleted_tasks(await asyncio.to_thread(self._engine.delete_run, run_id))

    async def describe_run(self, run_id: str, labels: RunLabels) -> None:
        """Replace name, tags and note of a run; returns once they are durable."""
        await _until_durable(self._engine.describe_run(run_id, labels))

    async def learners(self) -> dict[str, dict[str, Any]]:
        """Return feature_importance, agent and accuracy of each learned scheduler of the run."""
        cards = await asyncio.to_thread(self._engine.models)
        return {card.scheduler_name: card.as_dict() for card in cards}

    async def explanations(self, task_id: int) -> dict[str, dict[str, Any]]:
        """Return the values by which each learned scheduler placed a task, if it is one of the newest."""
        return await asyncio.to_thread(self._engine.explanations, task_id)

    async def _run_command(self, command: Callable[[], LiveStatus]) -> dict[str, Any]:
        return (await asyncio.to_thread(command)).as_dict()


def _stored_config(config: LiveConfig, stored: dict[str, Any]) -> LiveConfig | None:
    """Return the configuration of a stored run; None if it cannot be repeated."""
    try:
        return config.resumed(stored)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        return None  # a run of another program's version, or one that a client stored


async def _until_durable(future: Future[_T]) -> _T:
    try:
        # Shielded: a client that disconnects must not cancel a write that the journal has accepted.
        async with asyncio.timeout(COMMIT_TIMEOUT_S):
            return await asyncio.shield(asyncio.wrap_future(future))
    except TimeoutError:
        raise JournalUnavailable(
            "the database did not take it in time", hint="try again with the same key"
        ) from None


async def _deleted_tasks(deleted: Future[int]) -> int | None:
    """Return the result of a deletion; None if it is going on after a few seconds."""
    response = asyncio.wrap_future(deleted)
    clock = asyncio.get_running_loop().time
    until = clock() + COMMIT_TIMEOUT_S
    done, _ = await asyncio.wait({response}, timeout=DELETE_TIMEOUT_S)
    while not done and not deleted.running() and clock() < until:
        done, _ = await asyncio.wait({response}, timeout=_POLL_S)
    if done:
        return response.result()
    if deleted.running() or not deleted.cancel():
        return None
    raise JournalUnavailable("the database did not take it in time", hint="nothing was deleted: try again")
