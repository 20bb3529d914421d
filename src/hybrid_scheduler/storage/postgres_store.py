"""PostgreSQL's side of the writer: rows through COPY, and a lock that only one session can hold.

The session that writes is the one that holds the advisory lock, so nobody writes without it. After a lost
connection the lock is taken anew before anything else: if it is held by our own session, which the server has not
noticed to be dead, that one is ended; if by somebody else, another engine has taken over and this one stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import re
from collections.abc import AsyncIterator, Sequence
from functools import lru_cache
from typing import Any

import asyncpg

from ..core import HybridSchedulerError
from ..live.journal import EngineBusy
from . import schema_version
from .batch_rows import Columns, interleaved
from .database import CONNECT_TIMEOUT
from .database_address import DatabaseAddress

_log = logging.getLogger(__name__)

#: Locks are numbers; this one is ours in every database.
LOCK = int.from_bytes(hashlib.sha256(b"hybrid-scheduler engine").digest()[:8], "big", signed=True)

#: A server that says nothing for so long is away.
_COMMAND_TIMEOUT = 10.0
#: How long a killed engine's session may take to end.
_LOCK_PATIENCE = 3.0

_PASSING_CLASSES = ("08", "28", "40", "53", "57", "58")
_PASSING_STATES = ("25006", "55P03")

_HOLDER = (
    "SELECT a.pid, a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
    "WHERE l.locktype = 'advisory' AND l.granted AND l.database = "
    "(SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND (l.classid::bigint << 32) | l.objid::bigint = $1 AND l.objsubid = 1"
)


class PostgresStore:
    nan_is_null = False

    def __init__(self, address: DatabaseAddress, instance: str) -> None:
        self.address = address
        self._name = f"hybrid-scheduler engine {instance}"
        self._connection: asyncpg.Connection | None = None

    @property
    def connection(self) -> asyncpg.Connection:
        assert self._connection is not None
        return self._connection

    @property
    def alive(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    async def open(self) -> None:
        try:
            await self._connect()
            try:
                schema_version.with_connection(
                    self.address, lambda connection: schema_version.upgrade_connection(connection, self.address)
                )
            except BaseException:
                await self.close()
                raise
        except HybridSchedulerError:
            raise
        except Exception as error:
            raise self.explained(error) from error

    async def reopen(self) -> None:
        await self._drop()
        await self._connect()

    async def _connect(self) -> None:
        connection = await asyncpg.connect(
            **self.address.asyncpg_arguments(),
            timeout=CONNECT_TIMEOUT,
            command_timeout=_COMMAND_TIMEOUT,
            server_settings={
                "application_name": self._name,
                "synchronous_commit": "on",
                # An engine whose machine is gone must not keep the lock for the two hours of the kernel's default.
                "tcp_keepalives_idle": "10",
                "tcp_keepalives_interval": "5",
                "tcp_keepalives_count": "3",
            },
        )
        try:
            await self._take_lock(connection)
        except BaseException:
            connection.terminate()
            raise
        self._connection = connection

    async def _take_lock(self, connection: asyncpg.Connection) -> None:
        clock = asyncio.get_running_loop().time
        until = clock() + _LOCK_PATIENCE
        while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", LOCK):
            for pid, name in await connection.fetch(_HOLDER, LOCK):
                if name and self._name.startswith(name):  # the server cuts names at 63 characters
                    await connection.execute("SELECT pg_terminate_backend($1)", pid)
            if clock() > until:
                raise EngineBusy(
                    f"{self.address}: another engine is using this database",
                    hint="stop that one first, or choose another database",
                )
            await asyncio.sleep(0.05)

    async def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        connection = self.connection
        try:
            await connection.execute("BEGIN")
            yield
            await connection.execute("COMMIT")
        except BaseException:
            # A session in an unknown state is of no use; the next attempt starts with a new one.
            await self._drop()
            raise

    async def execute(self, statement: str, *parameters: Any) -> int:
        outcome = await self.connection.execute(_numbered(statement), *parameters)
        count = outcome.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def fetch(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.connection.fetch(_numbered(query), *parameters)]

    def prepared(self, parts: Sequence[Columns]) -> list[Any]:
        return interleaved(parts)

    async def insert(self, table: str, columns: Sequence[str], prepared: list[Any]) -> None:
        await self.connection.copy_records_to_table(table, columns=list(columns), records=prepared)

    async def tidy(self) -> None:
        """The server does that."""

    def is_passing(self, error: Exception) -> bool:
        if isinstance(error, asyncpg.PostgresError):
            state = error.sqlstate or ""
            return state[:2] in _PASSING_CLASSES or state in _PASSING_STATES
        if isinstance(error, asyncpg.DataError):  # a row that cannot be stored, found out before it was sent
            return False
        # The last one is what asyncpg says when a server was killed in the middle of an answer.
        return isinstance(error, OSError | TimeoutError | asyncpg.InterfaceError | asyncpg.InternalClientError)

    def explained(self, error: Exception) -> HybridSchedulerError:
        return schema_version.explained(self.address, error)

    async def close(self) -> None:
        if self._connection is None:
            return
        connection, self._connection = self._connection, None
        try:
            await connection.close(timeout=2.0)
        except Exception:
            connection.terminate()


@lru_cache(maxsize=256)
def _numbered(statement: str) -> str:
    """``?`` as PostgreSQL wants it: ``$1``, ``$2``."""
    parts = re.split(r"\?", statement)
    return parts[0] + "".join(f"${number}{part}" for number, part in enumerate(parts[1:], start=1))
