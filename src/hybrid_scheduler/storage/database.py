"""Connections for reading, and (PostgreSQL) for the table of commands. History is written by `SqlJournal` alone."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import asyncpg
import orjson
from sqlalchemy import URL, event, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from .database_address import DatabaseAddress
from .errors import DatabaseUnavailable

_log = logging.getLogger(__name__)

#: Seconds that one question to the database may take, with everything around it.
PATIENCE = 6.0
STATEMENT_TIMEOUT = 5.0
CONNECT_TIMEOUT = 3.0

DRIVER_ERRORS = (
    SQLAlchemyError,
    sqlite3.Error,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)


class Database:
    """A pool of connections to one database."""

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address
        self.kind = address.kind
        self.engine = _sqlite_engine(address) if address.is_sqlite else _postgres_engine(address, read_only=True)
        self._writer: AsyncEngine | None = None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection that sees one state of the database from its first question to its last."""
        with _translated(self.address):
            async with asyncio.timeout(PATIENCE), self.engine.connect() as connection:
                if not self.address.is_sqlite:
                    yield connection
                    return
                # A cancelled question would go on in SQLite's thread, and everything else would wait behind it.
                raw = await connection.get_raw_connection()
                alarm = asyncio.get_running_loop().call_later(STATEMENT_TIMEOUT, _interrupt, raw.driver_connection)
                try:
                    yield connection
                finally:
                    alarm.cancel()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction. For commands in PostgreSQL only: an SQLite database has one writer, the journal."""
        if self.address.is_sqlite:
            raise TypeError("an SQLite database is written by its journal alone")
        if self._writer is None:
            self._writer = _postgres_engine(self.address, read_only=False)
        with _translated(self.address):
            async with asyncio.timeout(PATIENCE), self._writer.begin() as connection:
                yield connection

    async def ping(self) -> None:
        """Raises `DatabaseUnavailable`."""
        async with self.reading() as connection:
            await connection.execute(text("SELECT 1"))

    async def close(self) -> None:
        with _translated(self.address):
            await self.engine.dispose()
            if self._writer is not None:
                await self._writer.dispose()


def open_database(address: DatabaseAddress) -> Database:
    """Connects when first asked something, and again whenever a connection was lost."""
    return Database(address)


def reason_of(error: BaseException) -> str:
    """One line without statement and parameters."""
    cause = getattr(error, "orig", None) or error
    inner = getattr(cause, "__cause__", None) if type(cause).__module__.startswith("sqlalchemy") else None
    words = str(inner or cause).strip().splitlines()
    return words[0] if words else type(cause).__name__


class _translated:
    """Turns whatever a driver raises into `DatabaseUnavailable`."""

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, DRIVER_ERRORS):
            _log.debug("%s: %r", self.address, error)
            raise DatabaseUnavailable(
                f"{self.address}: the database does not answer ({reason_of(error)})"
            ) from error


def _sqlite_engine(address: DatabaseAddress) -> AsyncEngine:
    # Read-only: such a connection can neither write nor move the log into the file, not even when it closes last.
    url = URL.create(
        "sqlite+aiosqlite", database=f"file:{quote(str(address.path))}", query={"mode": "ro", "uri": "true"}
    )
    engine = create_async_engine(
        url,
        pool_size=4,
        max_overflow=4,
        pool_timeout=CONNECT_TIMEOUT,
        connect_args={"timeout": 2.0, "isolation_level": None},
        json_deserializer=orjson.loads,
    )

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        cursor = connection.cursor()
        for pragma in ("query_only = 1", "wal_autocheckpoint = 0", "cache_size = -2048"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")  # the driver itself would begin before a write only

    return engine


def _interrupt(connection: Any) -> None:
    if connection is not None:
        task = asyncio.ensure_future(connection.interrupt())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())


def _postgres_engine(address: DatabaseAddress, *, read_only: bool) -> AsyncEngine:
    settings = {
        "application_name": "hybrid-scheduler",
        "statement_timeout": str(int(STATEMENT_TIMEOUT * 1000)),
        "idle_in_transaction_session_timeout": "30000",
    }
    if read_only:
        settings |= {"default_transaction_read_only": "on", "default_transaction_isolation": "repeatable read"}
    return create_async_engine(
        "postgresql+asyncpg://",
        pool_size=4,
        max_overflow=4,
        pool_timeout=CONNECT_TIMEOUT,
        pool_pre_ping=True,
        json_deserializer=orjson.loads,
        connect_args={
            **address.asyncpg_arguments(),
            "timeout": CONNECT_TIMEOUT,
            "command_timeout": STATEMENT_TIMEOUT + 0.5,
            "server_settings": settings,
        },
    )
