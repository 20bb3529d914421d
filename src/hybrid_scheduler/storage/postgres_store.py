"""Store in PostgreSQL: rows through COPY, and an advisory lock that one session can hold.

The session that writes holds the lock, so there is never a second writer. After a lost connection the lock is taken
again before anything else. If our own dead session still holds it, that session is terminated. If another engine
holds it, that one has taken over and this one stops.
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

from .batch_rows import Columns, interleave
from .batch_transaction import Store
from .database import CONNECT_TIMEOUT_S, DatabaseAddress

_log = logging.getLogger(__name__)

#: Number of the advisory lock, the same in every database.
ENGINE_LOCK_ID = int.from_bytes(hashlib.sha256(b"hybrid-scheduler engine").digest()[:8], "big", signed=True)

#: A server that does not answer for this long counts as unavailable.
COMMAND_TIMEOUT_S = 10.0
#: Seconds that the session of a killed engine may take to end.
LOCK_TIMEOUT_S = 3.0

_TRANSIENT_CLASSES = ("08", "28", "40", "53", "57", "58")
_TRANSIENT_STATES = ("25006", "55P03")

_LOCK_HOLDERS = (
    "SELECT a.pid, a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
    "WHERE l.locktype = 'advisory' AND l.granted AND l.database = "
    "(SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND (l.classid::bigint << 32) | l.objid::bigint = $1 AND l.objsubid = 1"
)


class PostgresStore(Store):
    """A `Store` in a PostgreSQL database.

    Parameters
    ----------
    address
        The database.
    instance
        Identifies this engine's sessions.
    """

    nan_is_null = False

    def __init__(self, address: DatabaseAddress, instance: str) -> None:
        self.address = address
        self._name = f"hybrid-scheduler engine {instance}"
        self._connection: asyncpg.Connection | None = None

    @property
    def connection(self) -> asyncpg.Connection:
        """The open connection."""
        assert self._connection is not None
        return self._connection

    @property
    def is_connected(self) -> bool:
        """False if the connection is known to be lost."""
        return self._connection is not None and not self._connection.is_closed()

    async def reopen(self) -> None:
        """Connect again and take the engine's lock again."""
        await self._drop()
        await self.take_lock()

    async def take_lock(self) -> None:
        """Connect, and take the lock with this connection."""
        connection = await asyncpg.connect(
            **self.address.asyncpg_arguments(),
            timeout=CONNECT_TIMEOUT_S,
            command_timeout=COMMAND_TIMEOUT_S,
            server_settings={
                "application_name": self._name,
                "synchronous_commit": "on",
                # Without these, a machine that failed would hold the lock for the kernel's default of two hours.
                "tcp_keepalives_idle": "10",
                "tcp_keepalives_interval": "5",
                "tcp_keepalives_count": "3",
            },
        )
        try:
            await self._lock(connection)
        except BaseException:
            connection.terminate()
            raise
        self._connection = connection

    async def connect(self) -> None:
        """Do nothing: the connection that has the lock writes."""

    async def _lock(self, connection: asyncpg.Connection) -> None:
        clock = asyncio.get_running_loop().time
        until = clock() + LOCK_TIMEOUT_S
        while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", ENGINE_LOCK_ID):
            for pid, name in await connection.fetch(_LOCK_HOLDERS, ENGINE_LOCK_ID):
                if name and self._name.startswith(name):  # the server cuts names at 63 characters
                    await connection.execute("SELECT pg_terminate_backend($1)", pid)
            if clock() > until:
                raise self.busy_error()
            await asyncio.sleep(0.05)

    async def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commit at the end of the block; after an error, drop the connection."""
        connection = self.connection
        try:
            await connection.execute("BEGIN")
            yield
            await connection.execute("COMMIT")
        except BaseException:
            # The state of the session is unknown; the next attempt starts with a new one.
            await self._drop()
            raise

    async def execute(self, statement: str, *parameters: Any) -> int:
        """Run a statement and return the number of affected rows."""
        status = await self.connection.execute(_with_numbered_parameters(statement), *parameters)
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def fetch(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""
        rows = await self.connection.fetch(_with_numbered_parameters(query), *parameters)
        return [tuple(row) for row in rows]

    def prepare_rows(self, parts: Sequence[Columns]) -> list[Any]:
        """Return rows as tuples, one of each part in turn."""
        return interleave(parts)

    async def insert(self, table: str, columns: Sequence[str], prepared: list[Any]) -> None:
        """Insert prepared rows."""
        await self.connection.copy_records_to_table(table, columns=list(columns), records=prepared)

    async def maintain(self) -> None:
        """Do nothing: the server does its own maintenance."""

    def is_transient(self, error: Exception) -> bool:
        """Return True if a retry can help."""
        if isinstance(error, asyncpg.PostgresError):
            state = error.sqlstate or ""
            return state[:2] in _TRANSIENT_CLASSES or state in _TRANSIENT_STATES
        if isinstance(error, asyncpg.DataError):  # the driver refused a row before sending it
            return False
        # asyncpg raises InternalClientError when a server is killed in the middle of a response.
        return isinstance(error, OSError | TimeoutError | asyncpg.InterfaceError | asyncpg.InternalClientError)

    async def close(self) -> None:
        """Disconnect, which releases the engine's lock."""
        if self._connection is None:
            return
        connection = self._connection
        self._connection = None
        try:
            await connection.close(timeout=2.0)
        except Exception:
            connection.terminate()


@lru_cache(maxsize=256)
def _with_numbered_parameters(statement: str) -> str:
    """Return the statement with ``$1``, ``$2`` instead of ``?``, as PostgreSQL requires."""
    parts = re.split(r"\?", statement)
    return parts[0] + "".join(f"${number}{part}" for number, part in enumerate(parts[1:], start=1))
