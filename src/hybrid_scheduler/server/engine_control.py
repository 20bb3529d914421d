"""Control of the live engine from the routes of the server: in this process, or in another through the database.

Neither way knows single commands: `live.commands` and `new_runs` define them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from ..core import HybridSchedulerError
from ..live import ContinuousSimulation, JournalUnavailable
from ..live.commands import Command, DeletionCommand, StoredCommand
from ..storage import Repository
from ..storage.engine_commands import EngineCommandTable, EngineUnavailable
from .errors import UNAVAILABLE, ApiError
from .new_runs import ConfiguredRun, SettingsCommand

_R = TypeVar("_R")
#: A task or run that is not durable after so many seconds is not acknowledged.
COMMIT_TIMEOUT_S = 15.0
#: A deletion that takes longer goes on after the response.
DELETE_TIMEOUT_S = 5.0
#: Seconds between two looks whether a deletion was accepted.
_POLL_S = 0.05
#: An engine in another process counts as unavailable after this many seconds without a heartbeat, which it sends
#: every second.
MAX_HEARTBEAT_AGE_S = 4.0
_HEARTBEAT_INTERVAL_S = 1.0


class LocalEngineControl:
    """Way to an engine of this process.

    Parameters
    ----------
    engine
        The opened engine.
    settings
        The configured run.
    """

    def __init__(self, engine: ContinuousSimulation, settings: ConfiguredRun) -> None:
        self._engine = engine
        self._settings = settings
        self._start_lock = asyncio.Lock()

    async def heartbeat_age(self) -> float | None:
        """Return None: the engine runs in this process."""
        return None

    async def status(self) -> dict[str, Any]:
        """Return the body of the current status."""
        return self._engine.status().as_dict()

    async def run(self, command: Command[Any, _R]) -> _R:
        """Carry out a command and return its result."""
        if not isinstance(command, SettingsCommand):
            return await self._send(command)
        async with self._start_lock if command.begins_run else contextlib.nullcontext():
            now = self._engine.status()
            loop = asyncio.get_running_loop()
            resolved: Any = await loop.run_in_executor(command.pool, command.resolve, self._settings, now)
            result: _R = await self._send(resolved) if isinstance(resolved, Command) else resolved
            return result

    async def _send(self, command: Command[Any, _R]) -> _R:
        if isinstance(command, StoredCommand):
            value = await _in_time(self._engine.store(command), COMMIT_TIMEOUT_S, JournalUnavailable, "database")
        else:
            value = await _in_time(self._engine.send(command), command.reply_timeout, EngineUnavailable, "engine")
        return command.result(await _deleted_tasks(value) if isinstance(command, DeletionCommand) else value)


async def _in_time(future: Future[_R], seconds: float, late: type[HybridSchedulerError], name: str) -> _R:
    """Return the result of a future; raise the error `late` of what has this name if it does not come in time."""
    try:
        # Shielded: what was sent takes effect, also if the client disconnects.
        async with asyncio.timeout(seconds):
            return await asyncio.shield(asyncio.wrap_future(future))
    except TimeoutError:
        raise late(f"the {name} did not answer in time", hint="try again with the same key") from None


async def _deleted_tasks(deleted: Future[int]) -> int | None:
    """Return the result of a deletion; None if it is going on after a few seconds."""
    response = asyncio.wrap_future(deleted)
    clock = asyncio.get_running_loop().time
    until = clock() + COMMIT_TIMEOUT_S
    done, _ = await asyncio.wait({response}, timeout=DELETE_TIMEOUT_S)
    while not done and not deleted.running() and clock() < until:
        done, _ = await asyncio.wait({response}, timeout=_POLL_S)
    if done and not deleted.cancelled():  # another caller may have cancelled it
        return response.result()
    if deleted.running() or not deleted.cancel():
        return None
    raise JournalUnavailable("the database did not take it in time", hint="nothing was deleted: try again")


class RemoteEngineControl:
    """Way to the engine from a process that has none.

    Commands go through a table of commands; the status comes with the engine's heartbeat.

    Parameters
    ----------
    commands
        The table that carries commands to the engine.
    repository
        Reads the engine's heartbeat.
    """

    def __init__(self, commands: EngineCommandTable, repository: Repository) -> None:
        self._commands = commands
        self._repository = repository

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

    async def run(self, command: Command[Any, _R]) -> _R:
        """Send a command to the engine and return the result that it replies."""
        age = await self.heartbeat_age()
        if age is not None and age >= MAX_HEARTBEAT_AGE_S:  # a command would wait for its timeout
            raise ApiError(503, "the engine is not running", hint="start one with --role engine")
        name = type(command).__name__
        reply = await self._commands.send_command(name, command.as_json(), timeout=command.reply_timeout)
        if reply.ok:
            result: _R = reply.body
            return result
        error = reply.body
        message = str(error.get("message", "the engine refused"))
        if error.get("error") in [unavailable.__name__ for unavailable in UNAVAILABLE]:
            raise ApiError(503, "the database or the engine is unavailable")
        if "field" in error:
            fields = [(error["field"], error["allowed"], error["got"])]
            raise ApiError(422, message, fields=fields, hint=error.get("hint"))
        raise HybridSchedulerError(message)


#: The way of a server to the live engine.
EngineControl = LocalEngineControl | RemoteEngineControl


async def send_heartbeats(
    control: EngineControl, send: Callable[[dict[str, Any]], None], stop: asyncio.Event
) -> None:
    """Send the status about once a second, until `stop` is set."""
    while not stop.is_set():
        send(await control.status())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _HEARTBEAT_INTERVAL_S)
