"""Addresses of databases, and connections for reading and for the command table of PostgreSQL.

History is written by `SqlJournal` alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
from sqlalchemy import URL, Select, event, make_url, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from ..core import HybridSchedulerError, InvalidInputError, require

_log = logging.getLogger(__name__)

#: Seconds for all statements on one connection, and for the connection itself.
QUERY_TIMEOUT_S = 6.0
_STATEMENT_TIMEOUT_S = 5.0
CONNECT_TIMEOUT_S = 3.0
_POOL: dict[str, Any] = {"pool_size": 4, "max_overflow": 4, "pool_timeout": CONNECT_TIMEOUT_S}

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


async def plain_rows(connection: AsyncConnection, query: Select[Any]) -> Sequence[Sequence[Any]]:
    """Return all rows of a query as the driver makes them, which takes a fraction of SQLAlchemy's time.

    Parameters
    ----------
    connection
        A connection on which another query came first, so that its transaction has begun.
    query
        Selects numbers and texts alone: values are not converted.

    Returns
    -------
    sequence
        The rows.
    """
    compiled = query.compile(dialect=connection.dialect)
    values = [compiled.params[name] for name in compiled.positiontup or ()]
    raw = await connection.get_raw_connection()
    driver: Any = raw.driver_connection
    if connection.dialect.name == "sqlite":
        rows: Sequence[Sequence[Any]] = await driver.execute_fetchall(str(compiled), values)
    else:
        rows = await driver.fetch(str(compiled), *values)
    return rows


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
        url, connect_args={"timeout": 2.0, "isolation_level": None}, json_deserializer=_stored_json, **_POOL
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
        pool_pre_ping=True,
        json_deserializer=_stored_json,
        **_POOL,
        connect_args={
            **address.asyncpg_arguments(),
            "timeout": CONNECT_TIMEOUT_S,
            "command_timeout": _STATEMENT_TIMEOUT_S + 0.5,
            "server_settings": settings,
        },
    )


# ------------------------------------------------------------------------------------------ addresses

_FORMS = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
#: SQL of the databases' clocks, in seconds since 1970.
_SQLITE_CLOCK = "(julianday('now') - 2440587.5) * 86400.0"
POSTGRES_CLOCK = "EXTRACT(EPOCH FROM clock_timestamp())::double precision"
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """Address of an SQLite file or a PostgreSQL database.

    Create it with `sqlite`, `postgres` or `from_url`. Its text does not contain the password.
    """

    kind: str  # "sqlite" or "postgresql"
    file: Path | None = None
    #: A host name, an IP address, or the folder of a Unix socket.
    host: str = ""
    port: int = 5432
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    database: str = ""
    sslmode: str | None = None

    @classmethod
    def sqlite(cls, file: str | os.PathLike[str]) -> DatabaseAddress:
        """Return the address of an SQLite file.

        Raises
        ------
        InvalidInputError
            If the name cannot be that of a file.
        """
        path = os.fspath(file)
        if path in ("", ":memory:") or "\0" in path:
            raise InvalidInputError("database file", "the name of a file", path)
        return cls("sqlite", file=Path(path))

    @classmethod
    def postgres(
        cls,
        host: str,
        port: int = 5432,
        user: str | None = None,
        password: str | None = None,
        database: str = "hybrid_scheduler_db",
        *,
        sslmode: str | None = None,
    ) -> DatabaseAddress:
        """Return the address of a PostgreSQL database.

        Parameters
        ----------
        host
            A host name, an IP address, or the folder of a Unix socket.
        port
            Port of the server.
        user, password
            Account; None for the driver's defaults.
        database
            Name of the database.
        sslmode
            One of PostgreSQL's modes; None for the driver's default.

        Returns
        -------
        DatabaseAddress
            The address.

        Raises
        ------
        InvalidInputError
            If the mode is unknown or the database has no name.
        """
        if sslmode is not None and sslmode not in _SSL_MODES:
            raise InvalidInputError("sslmode", "one of " + ", ".join(_SSL_MODES), sslmode)
        if not database:
            raise InvalidInputError("database url", "one that names a database", host)
        return cls("postgresql", None, host, port, user or None, password or None, database, sslmode)

    @classmethod
    def from_url(cls, url: str) -> DatabaseAddress:
        """Return the address that a URL names, such as ``sqlite:///FILE`` or ``postgresql://HOST/DATABASE``.

        ``postgres://`` and ``postgresql+asyncpg://`` are accepted, too.

        Raises
        ------
        InvalidInputError
            If the URL has another form.
        """
        try:
            parts = make_url(url)
        except (ArgumentError, ValueError):
            # The message leaves the URL out: it may contain a password.
            raise InvalidInputError("database url", _FORMS, "something else") from None
        kind = parts.drivername.partition("+")[0]
        if kind == "sqlite":
            return cls.sqlite(parts.database or "")
        if kind not in ("postgresql", "postgres"):
            raise InvalidInputError("database url", _FORMS, f"{parts.drivername}://…")
        query: dict[str, Any] = dict(parts.query)
        host = query.pop("host", None)
        sslmode = query.pop("sslmode", None)
        if query:
            raise InvalidInputError("database url", "without parameters but host and sslmode", sorted(query)[0])
        return cls.postgres(
            parts.host or host or "localhost",
            parts.port or 5432,
            parts.username,
            parts.password,
            parts.database or "",
            sslmode=sslmode,
        )

    @property
    def is_sqlite(self) -> bool:
        """True for an SQLite file."""
        return self.kind == "sqlite"

    @property
    def clock_sql(self) -> str:
        """SQL of the database's clock, which all its clients share, in seconds since 1970."""
        return _SQLITE_CLOCK if self.is_sqlite else POSTGRES_CLOCK

    @property
    def path(self) -> Path:
        """The file of an SQLite database."""
        if self.file is None:
            raise TypeError("a PostgreSQL database has no file")
        return self.file

    @property
    def redacted(self) -> str:
        """The address without the password, for logs and messages."""
        if self.file is not None:
            return str(self.file)
        account = f"{self.user}@" if self.user else ""
        return f"postgresql://{account}{self.host}:{self.port}/{self.database}"

    def asyncpg_arguments(self) -> dict[str, Any]:
        """Return the arguments of `asyncpg.connect`.

        Raises
        ------
        MissingExtraError
            If the driver is not installed.
        """
        require("asyncpg", "a PostgreSQL database", hint="SQLite needs no other package")
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "database": self.database,
            **({"ssl": self.sslmode} if self.sslmode else {}),
        }

    def __str__(self) -> str:
        return self.redacted
