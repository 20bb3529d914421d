"""SQLite's side of the writer: one connection that writes and checkpoints, durable to the last commit.

Rows go in through statements of many rows, not `executemany`: that gives up the interpreter's lock at every row,
and a busy engine thread takes it each time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from ..core import HybridSchedulerError
from ..live.journal import EngineBusy
from . import schema_version
from .batch_rows import Columns
from .database_address import DatabaseAddress

_log = logging.getLogger(__name__)

#: Rows per statement: few sizes, so that the compiled statements stay in the driver's cache. Even the widest table
#: stays below the 32,766 parameters that SQLite takes.
_SIZES = (1024, 128, 16, 1)
#: Pages of 4 kB after which the log is moved into the file.
_CHECKPOINT = 4000
#: The log is cut to this after a checkpoint that reached its end.
_LOG_LIMIT = 32 * 2**20
#: Fixed in this version: two connections that write or checkpoint at once could damage a file in WAL mode.
_SOUND = (3, 51, 3)

_PASSING = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_INTERRUPT,
}
#: The connection itself is fine after these.
_HARMLESS = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class EngineLock:
    """Held by the one engine of a database file. The kernel frees it, whichever way the process ends.

    It is a transaction on a small file of its own beside the database, because SQLite's locks work everywhere.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._connection: sqlite3.Connection | None = None

    def take(self) -> None:
        file = self._database.with_name(self._database.name + ".engine-lock")
        connection = sqlite3.connect(file, timeout=0, isolation_level=None)
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            connection.close()
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            raise EngineBusy(
                f"{self._database}: another engine is using this database",
                hint="stop that one first, or choose another database",
            ) from None
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def release(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class SqliteStore:
    nan_is_null = True

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address
        self.lock = EngineLock(address.path)
        self._connection: sqlite3.Connection | None = None
        self._harmless = True
        self._log_file = f"{address.path}-wal"
        self._trim_at = _LOG_LIMIT

    @property
    def connection(self) -> sqlite3.Connection:
        assert self._connection is not None
        return self._connection

    @property
    def alive(self) -> bool:
        return self._connection is not None

    async def open(self) -> None:
        _warn_of_old_version()
        try:
            path = self.address.path
            if path.is_dir():
                raise IsADirectoryError(21, "it is a folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            self.lock.take()
            try:
                schema_version.with_connection(
                    self.address, lambda connection: schema_version.upgrade_connection(connection, self.address)
                )
                self._connection = self._connect()
            except BaseException:
                self.lock.release()
                raise
        except (sqlite3.Error, OSError) as error:
            raise self.explained(error) from error

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.address.path, timeout=1.0, isolation_level=None)
        try:
            for pragma in (
                "journal_mode = WAL",
                "synchronous = FULL",
                # Every result goes in together with its task; checking each again would cost a fifth of the speed.
                "foreign_keys = OFF",
                f"wal_autocheckpoint = {_CHECKPOINT}",
                f"journal_size_limit = {_LOG_LIMIT}",
                "cache_size = -8192",
                "temp_store = MEMORY",
            ):
                connection.execute(f"PRAGMA {pragma}").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    async def reopen(self) -> None:
        if self._harmless and self._connection is not None:
            return
        # The new one first: the log stays in place for readers as long as somebody has the file open.
        old, self._connection = self._connection, self._connect()
        if old is not None:
            with contextlib.suppress(sqlite3.Error):
                old.close()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        connection = self.connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("COMMIT")
            self._harmless = True
        except BaseException as error:
            self._harmless = isinstance(error, sqlite3.Error) and _code(error) in _HARMLESS
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise

    async def tidy(self) -> None:
        """Readers that overlap keep the log from starting over: if it is long, wait a moment for a gap."""
        with contextlib.suppress(OSError, sqlite3.Error):
            size = os.path.getsize(self._log_file)
            if size > self._trim_at:
                ((busy, *_),) = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                # A reader did not leave in time: not again at every commit.
                self._trim_at = size + _LOG_LIMIT // 4 if busy else _LOG_LIMIT

    async def execute(self, statement: str, *parameters: Any) -> int:
        return self.connection.execute(statement, parameters).rowcount

    async def fetch(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(query, parameters).fetchall()

    def prepared(self, parts: Sequence[Columns]) -> list[Any]:
        """All values in a row, as `insert` binds them."""
        columns = [column for part in parts for column in part]
        flat: list[Any] = [None] * (len(columns[0]) * len(columns))
        for j, column in enumerate(columns):
            flat[j :: len(columns)] = column
        return flat

    async def insert(self, table: str, columns: Sequence[str], prepared: list[Any]) -> None:
        width = len(columns)
        row = f"({','.join('?' * width)})"
        done, total = 0, len(prepared) // width
        for size in _SIZES:
            statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {','.join([row] * size)}"
            while total - done >= size:
                self.connection.execute(statement, prepared[done * width : (done + size) * width])
                done += size

    def is_passing(self, error: Exception) -> bool:
        if isinstance(error, sqlite3.Error):
            return _code(error) in _PASSING
        return isinstance(error, OSError)

    def explained(self, error: Exception) -> HybridSchedulerError:
        return schema_version.explained(self.address, error)

    async def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        self.lock.release()


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


_warned = False


def _warn_of_old_version() -> None:
    global _warned
    if sqlite3.sqlite_version_info < _SOUND and not _warned:
        _warned = True
        _log.info(
            "SQLite %s has a rare fault that can damage a busy database (mended in 3.51.3); this program avoids it "
            "by writing from one connection only. For production PostgreSQL is recommended",
            sqlite3.sqlite_version,
        )
