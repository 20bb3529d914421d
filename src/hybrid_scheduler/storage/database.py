"""Database connections for reading, and for the command table of PostgreSQL.

History is written by `SqlJournal` alone.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import quote

import orjson
from sqlalchemy import URL, event, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from ..core import HybridSchedulerError
from .database_address import DatabaseAddress

_log = logging.getLogger(__name__)

#: Seconds for all statements on one connection, and for the connection itself.
QUERY_TIMEOUT_S = 6.0
_STATEMENT_TIMEOUT_S = 5.0
CONNECT_TIMEOUT_S = 3.0

#: A shorter text is neither 254 levels deep nor contains a number beyond every float.
_SURELY_WRITABLE = 250


def driver_errors() -> tuple[type[BaseException], ...]:
    """Return the errors of all drivers in use, for an `except` clause; asyncpg is loaded for PostgreSQL alone."""
    asyncpg = sys.modules.get("asyncpg")
    names = ("PostgresError", "InterfaceError", "InternalClientError") if asyncpg else ()
    return (SQLAlchemyError, sqlite3.Error, OSError, TimeoutError, *(getattr(asyncpg, name) for name in names))


class DatabaseUnavailable(HybridSchedulerError):
    """The database does not answer now. It may do so later without any change."""


class DatabaseUnusable(HybridSchedulerError):
    """The database answers but cannot be used: it is foreign, damaged, or of another version."""


class Database:
    """A pool of connections to one database."""

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address
        self.kind = address.kind
        self.engine = _sqlite_engine(address) if address.is_sqlite else _postgres_engine(address, read_only=True)
        self._writer: AsyncEngine | None = None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection that sees one state of the database for all its queries.

        Raises
        ------
        DatabaseUnavailable
            If the database does not answer in time.
        """
        with _driver_errors_as_unavailable(self.address):
            async with asyncio.timeout(QUERY_TIMEOUT_S), self.engine.connect() as connection:
                if not self.address.is_sqlite:
                    yield connection
                    return
                # A cancelled query would go on in SQLite's thread and block all others: it is interrupted instead.
                raw = await connection.get_raw_connection()
                timer = asyncio.get_running_loop().call_later(
                    _STATEMENT_TIMEOUT_S, _interrupt, raw.driver_connection
                )
                try:
                    yield connection
                finally:
                    timer.cancel()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction, in PostgreSQL only: an SQLite database has one writer, the journal.

        Raises
        ------
        DatabaseUnavailable
            If the database does not answer in time.
        """
        if self.address.is_sqlite:
            raise TypeError("an SQLite database is written by its journal alone")
        if self._writer is None:
            self._writer = _postgres_engine(self.address, read_only=False)
        with _driver_errors_as_unavailable(self.address):
            async with asyncio.timeout(QUERY_TIMEOUT_S), self._writer.begin() as connection:
                yield connection

    async def ping(self) -> None:
        """Check that the database answers.

        Raises
        ------
        DatabaseUnavailable
            If it does not.
        """
        async with self.reading() as connection:
            await connection.execute(text("SELECT 1"))

    async def close(self) -> None:
        """Close all connections."""
        with _driver_errors_as_unavailable(self.address):
            await self.engine.dispose()
            if self._writer is not None:
                await self._writer.dispose()


def open_database(address: DatabaseAddress) -> Database:
    """Return the database at an address. It connects on first use, and again after a lost connection."""
    return Database(address)


def _stored_json(text: str | bytes) -> Any:
    """Return a stored JSON value, or a placeholder for one that no response could contain.

    Older versions stored values that are too deep or too large to be written again. One such row must not make a
    list of rows fail; `db verify` finds them.
    """
    try:
        value = orjson.loads(text)
        if len(text) >= _SURELY_WRITABLE:
            orjson.dumps(value)
        return value
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return {"unreadable": True} if text[:1] in ("{", b"{") else []


def error_reason(error: BaseException) -> str:
    """Return one line about an error, without statement and parameters."""
    cause = getattr(error, "orig", None) or error
    inner = getattr(cause, "__cause__", None) if type(cause).__module__.startswith("sqlalchemy") else None
    words = str(inner or cause).strip().splitlines()
    return words[0] if words else type(cause).__name__


@contextmanager
def _driver_errors_as_unavailable(address: DatabaseAddress) -> Iterator[None]:
    try:
        yield
    except driver_errors() as error:
        _log.debug("%s: %r", address, error)
        raise DatabaseUnavailable(f"{address}: the database does not answer ({error_reason(error)})") from error


def _sqlite_engine(address: DatabaseAddress) -> AsyncEngine:
    # A read-only connection can neither write nor checkpoint the log, not even when it closes last.
    url = URL.create(
        "sqlite+aiosqlite", database=f"file:{quote(str(address.path))}", query={"mode": "ro", "uri": "true"}
    )
    engine = create_async_engine(
        url,
        pool_size=4,
        max_overflow=4,
        pool_timeout=CONNECT_TIMEOUT_S,
        connect_args={"timeout": 2.0, "isolation_level": None},
        json_deserializer=_stored_json,
    )

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        cursor = connection.cursor()
        for pragma in ("query_only = 1", "wal_autocheckpoint = 0", "cache_size = -2048"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")  # the driver itself begins a transaction only before a write

    return engine


def _interrupt(connection: Any) -> None:
    if connection is not None:
        task = asyncio.ensure_future(connection.interrupt())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())


def _postgres_engine(address: DatabaseAddress, *, read_only: bool) -> AsyncEngine:
    settings = {
        "application_name": "hybrid-scheduler",
        "statement_timeout": str(int(_STATEMENT_TIMEOUT_S * 1000)),
        "idle_in_transaction_session_timeout": "30000",
    }
    if read_only:
        settings |= {"default_transaction_read_only": "on", "default_transaction_isolation": "repeatable read"}
    return create_async_engine(
        "postgresql+asyncpg://",
        pool_size=4,
        max_overflow=4,
        pool_timeout=CONNECT_TIMEOUT_S,
        pool_pre_ping=True,
        json_deserializer=_stored_json,
        connect_args={
            **address.asyncpg_arguments(),
            "timeout": CONNECT_TIMEOUT_S,
            "command_timeout": _STATEMENT_TIMEOUT_S + 0.5,
            "server_settings": settings,
        },
    )
