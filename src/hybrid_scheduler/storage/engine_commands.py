"""Commands from API processes to the engine's process, through a table in PostgreSQL.

A command is executed at most once, and not after its sender has given up. Both sides use the database's clock. The
event bus wakes a waiting process; without a bus, both sides poll ten times a second.
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
from .batch_rows import EventPayload
from .database import POSTGRES_CLOCK, Database, DatabaseUnavailable
from .event_bus import COMMANDS, REPLIES, BusSignal, EventBus

_log = logging.getLogger(__name__)

_POLL_INTERVAL_S = 0.1
_NOW = POSTGRES_CLOCK
#: Seconds for which old commands stay in the table, for diagnosis.
_KEEP_COMMANDS_S = 3600.0
#: Old commands are deleted once in this many polls.
_POLLS_PER_CLEANUP = 600

Handler = Callable[[str, dict[str, Any]], Awaitable[Any]]


class EngineUnavailable(HybridSchedulerError):
    """No engine answered in time."""


class CommandReply(NamedTuple):
    """Reply of the engine to a command."""

    ok: bool
    #: The result; if not ok: error (its class), message, hint, and for bad input field, allowed, got.
    body: Any


class EngineCommandTable:
    """The command table: `send_command` is for API processes, `serve` for the engine's.

    Parameters
    ----------
    database
        A PostgreSQL database.
    bus
        Wakes waiting processes; None to poll.

    Raises
    ------
    InvalidInputError
        If the database is SQLite.
    """

    def __init__(self, database: Database, bus: EventBus | None = None) -> None:
        if database.address.is_sqlite:
            raise InvalidInputError("database", "PostgreSQL where engine and API are apart", "sqlite")
        self._database = database
        self._bus = bus

    # ---------------------------------------------------------------- API process

    async def send_command(
        self, kind: str, payload: dict[str, Any] | None = None, timeout: float = 10.0
    ) -> CommandReply:
        """Send a command and wait for the reply.

        Parameters
        ----------
        kind
            Name of the command.
        payload
            Its arguments.
        timeout
            Seconds to wait.

        Returns
        -------
        CommandReply
            The engine's reply.

        Raises
        ------
        EngineUnavailable
            If no reply comes in time.
        DatabaseUnavailable
            If the command cannot be sent.
        """
        with BusSignal(self._bus, REPLIES, _POLL_INTERVAL_S) as signal:
            async with self._database.writing() as connection:
                number = await connection.scalar(
                    text(
                        f"INSERT INTO commands (kind, payload, created_at, expires_at) "
                        f"VALUES (:kind, :payload, {_NOW}, {_NOW} + :timeout) RETURNING id"
                    ),
                    {"kind": kind, "payload": orjson.dumps(payload or {}).decode(), "timeout": timeout},
                )
            if self._bus is not None:
                self._bus.publish([EventPayload(number)], COMMANDS)
            try:
                async with asyncio.timeout(timeout):
                    while (reply := await self._read_reply(number)) is None:
                        await signal.wait()
                    return reply
            except TimeoutError:
                return await self._withdraw(kind, number)

    async def _read_reply(self, number: int) -> CommandReply | None:
        with contextlib.suppress(DatabaseUnavailable):
            async with self._database.reading() as connection:
                query = "SELECT ok, answer FROM commands WHERE id = :id AND answered_at IS NOT NULL"
                row = (await connection.execute(text(query), {"id": number})).first()
            return None if row is None else CommandReply(bool(row[0]), orjson.loads(row[1]))
        return None

    async def _withdraw(self, kind: str, number: int) -> CommandReply:
        """Delete the command unless the engine has taken it; in that case its reply may just have arrived."""
        with contextlib.suppress(DatabaseUnavailable):
            async with self._database.writing() as connection:
                await connection.execute(
                    text("DELETE FROM commands WHERE id = :id AND taken_at IS NULL"), {"id": number}
                )
            reply = await self._read_reply(number)
            if reply is not None:
                return reply
        raise EngineUnavailable(f"the engine did not answer to '{kind}' in time", hint="is its process running?")

    # ---------------------------------------------------------------- engine process

    async def serve(self, handler: Handler, stop: asyncio.Event) -> None:
        """Execute commands until `stop` is set.

        Commands start in order; a slow one does not delay the next.

        Parameters
        ----------
        handler
            Executes a command and returns the body of its reply.
        stop
            Ends the loop.
        """
        running: set[asyncio.Task[None]] = set()
        polls = 0
        with BusSignal(self._bus, COMMANDS, _POLL_INTERVAL_S) as signal:
            while not stop.is_set():
                try:
                    found = await self._take()
                    if polls % _POLLS_PER_CLEANUP == 0:
                        await self._delete_old()
                    polls += 1
                except DatabaseUnavailable as error:
                    _log.debug("commands wait: %s", error)
                    found = []
                for number, kind, payload in found:
                    task = asyncio.create_task(self._execute(handler, number, kind, payload))
                    running.add(task)
                    task.add_done_callback(running.discard)
                if not found:
                    await signal.wait()
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

    async def _delete_old(self) -> None:
        async with self._database.writing() as connection:
            await connection.execute(
                text(f"DELETE FROM commands WHERE created_at < {_NOW} - :age"), {"age": _KEEP_COMMANDS_S}
            )

    async def _execute(self, handler: Handler, number: int, kind: str, payload: str) -> None:
        try:
            reply = CommandReply(True, await handler(kind, orjson.loads(payload)))
        except HybridSchedulerError as error:
            reply = CommandReply(False, _error_body(error))
        except Exception:
            _log.exception("the command '%s' failed", kind)
            reply = CommandReply(False, {"error": "internal", "message": "the command failed", "hint": None})
        body = orjson.dumps(reply.body, option=orjson.OPT_SERIALIZE_NUMPY).decode()
        query = f"UPDATE commands SET answered_at = {_NOW}, ok = :ok, answer = :answer WHERE id = :id"
        for _ in range(5):
            with contextlib.suppress(DatabaseUnavailable):
                async with self._database.writing() as connection:
                    await connection.execute(text(query), {"ok": reply.ok, "answer": body, "id": number})
                break
            await asyncio.sleep(0.5)
        if self._bus is not None:
            self._bus.publish([EventPayload(number)], REPLIES)


def _error_body(error: HybridSchedulerError) -> dict[str, Any]:
    body: dict[str, Any] = {"error": type(error).__name__, "message": str(error), "hint": error.hint}
    if isinstance(error, InvalidInputError):
        body |= {"field": error.field, "allowed": error.allowed, "got": str(error.got)[:80]}
    return body
