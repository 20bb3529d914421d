"""Orders from API processes to the engine's process, through a table in PostgreSQL.

A command is carried out at most once, and not after its sender has given up. Both sides reckon by the database's
clock. The bus wakes whoever waits; without one, both sides look ten times a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import orjson
from sqlalchemy import text

from ..core import HybridSchedulerError, InvalidInputError
from .database import Database
from .errors import DatabaseUnavailable
from .event_bus import ANSWERS, COMMANDS, EventBus

_log = logging.getLogger(__name__)

_POLL = 0.1
_NOW = "EXTRACT(EPOCH FROM clock_timestamp())::double precision"
#: Seconds that old commands stay, for whoever wants to know what happened.
_KEPT = 3600.0

Handler = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


class EngineUnavailable(HybridSchedulerError):
    """No engine answered in time."""


class CommandReply(NamedTuple):
    ok: bool
    #: The answer; if not ok: error (its kind), message, hint, and for bad input field, allowed, got.
    body: dict[str, Any]


class EngineCommandTable:
    """One per process: `ask` in API processes, `serve` in the engine's."""

    def __init__(self, database: Database, bus: EventBus | None = None) -> None:
        if database.address.is_sqlite:
            raise InvalidInputError("database", "PostgreSQL where engine and API are apart", "sqlite")
        self._database = database
        self._bus = bus

    # ---------------------------------------------------------------- the API's side

    async def ask(self, kind: str, payload: dict[str, Any] | None = None, timeout: float = 10.0) -> CommandReply:
        """Send a command and wait. Raises `EngineUnavailable`, and `DatabaseUnavailable` before it was sent."""
        with _Bell(self._bus, ANSWERS) as bell:
            async with self._database.writing() as connection:
                number = await connection.scalar(
                    text(
                        f"INSERT INTO commands (kind, payload, created_at, expires_at) "
                        f"VALUES (:kind, :payload, {_NOW}, {_NOW} + :timeout) RETURNING id"
                    ),
                    {"kind": kind, "payload": orjson.dumps(payload or {}).decode(), "timeout": timeout},
                )
            if self._bus is not None:
                self._bus.publish([str(number).encode()], COMMANDS)
            try:
                async with asyncio.timeout(timeout):
                    while (answer := await self._answer(number)) is None:
                        await bell.wait()
                    return answer
            except TimeoutError:
                return await self._give_up(kind, number)

    async def _answer(self, number: int) -> CommandReply | None:
        with contextlib.suppress(DatabaseUnavailable):
            async with self._database.reading() as connection:
                query = "SELECT ok, answer FROM commands WHERE id = :id AND answered_at IS NOT NULL"
                row = (await connection.execute(text(query), {"id": number})).first()
            return None if row is None else CommandReply(bool(row[0]), orjson.loads(row[1]))
        return None

    async def _give_up(self, kind: str, number: int) -> CommandReply:
        """Take it back, unless the engine has it already: then the answer may have come this very moment."""
        with contextlib.suppress(DatabaseUnavailable):
            async with self._database.writing() as connection:
                await connection.execute(
                    text("DELETE FROM commands WHERE id = :id AND taken_at IS NULL"), {"id": number}
                )
            answer = await self._answer(number)
            if answer is not None:
                return answer
        raise EngineUnavailable(f"the engine did not answer to '{kind}' in time", hint="is its process running?")

    # ---------------------------------------------------------------- the engine's side

    async def serve(self, handler: Handler, stop: asyncio.Event) -> None:
        """Carry out commands until `stop` is set. They begin in order; a slow one does not hold up the next."""
        running: set[asyncio.Task[None]] = set()
        turns = 0
        with _Bell(self._bus, COMMANDS) as bell:
            while not stop.is_set():
                try:
                    found = await self._take()
                    if turns % 600 == 0:
                        await self._sweep()
                    turns += 1
                except DatabaseUnavailable as error:
                    _log.debug("commands wait: %s", error)
                    found = []
                for number, kind, payload in found:
                    task = asyncio.create_task(self._carry_out(handler, number, kind, payload))
                    running.add(task)
                    task.add_done_callback(running.discard)
                if not found:
                    await bell.wait()
        if running:
            await asyncio.wait(running, timeout=5.0)

    async def _take(self) -> list[tuple[int, str, str]]:
        query = (
            f"UPDATE commands SET taken_at = {_NOW} WHERE id IN (SELECT id FROM commands WHERE taken_at IS NULL "
            f"AND expires_at > {_NOW} ORDER BY id LIMIT 20) RETURNING id, kind, payload"
        )
        async with self._database.writing() as connection:
            rows = (await connection.execute(text(query))).all()
        return sorted((row[0], row[1], row[2]) for row in rows)

    async def _sweep(self) -> None:
        async with self._database.writing() as connection:
            await connection.execute(
                text(f"DELETE FROM commands WHERE created_at < {_NOW} - :kept"), {"kept": _KEPT}
            )

    async def _carry_out(self, handler: Handler, number: int, kind: str, payload: str) -> None:
        try:
            answer = CommandReply(True, await handler(kind, orjson.loads(payload)))
        except HybridSchedulerError as error:
            answer = CommandReply(False, _described(error))
        except Exception:
            _log.exception("the command '%s' failed", kind)
            answer = CommandReply(False, {"error": "internal", "message": "the command failed", "hint": None})
        body = orjson.dumps(answer.body, option=orjson.OPT_SERIALIZE_NUMPY).decode()
        query = f"UPDATE commands SET answered_at = {_NOW}, ok = :ok, answer = :answer WHERE id = :id"
        for _ in range(5):
            with contextlib.suppress(DatabaseUnavailable):
                async with self._database.writing() as connection:
                    await connection.execute(text(query), {"ok": answer.ok, "answer": body, "id": number})
                break
            await asyncio.sleep(0.5)
        if self._bus is not None:
            self._bus.publish([str(number).encode()], ANSWERS)


def _described(error: HybridSchedulerError) -> dict[str, Any]:
    described: dict[str, Any] = {"error": type(error).__name__, "message": str(error), "hint": error.hint}
    if isinstance(error, InvalidInputError):
        described |= {"field": error.field, "allowed": error.allowed, "got": str(error.got)[:80]}
    return described


class _Bell:
    """Rings when the bus says something on a topic, or a tenth of a second later."""

    def __init__(self, bus: EventBus | None, topic: str) -> None:
        self._bus = bus
        self._topic = topic
        self._rung = asyncio.Event()
        self._leave: Callable[[], None] = lambda: None

    def __enter__(self) -> _Bell:
        if self._bus is not None:
            loop = asyncio.get_running_loop()

            def ring(_: list[bytes]) -> None:
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._rung.set)

            self._leave = self._bus.subscribe(ring, self._topic)
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    async def wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), _POLL)
        self._rung.clear()
