"""Store in SQLite: one connection that writes and checkpoints, durable to the last commit.

Rows are inserted by statements of many rows. `executemany` would release the interpreter's lock at every row, and a
busy engine thread would take it each time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Sequence
from typing import Any

from .batch_rows import Columns
from .batch_transaction import Store
from .database import DatabaseAddress

_log = logging.getLogger(__name__)

#: Rows per statement. Few sizes keep the compiled statements in the driver's cache. Even the widest table stays
#: below SQLite's limit of 32,766 parameters.
_INSERT_SIZES = (1024, 128, 16, 1)
#: Pages of 4 kB in the log after which a checkpoint moves them into the file.
CHECKPOINT_PAGES = 4000
#: Bytes to which the log is truncated after a complete checkpoint.
LOG_LIMIT = 32 * 2**20
#: First version without a fault in WAL mode: two connections that write or checkpoint at once could damage a file.
_FIRST_SOUND_VERSION = (3, 51, 3)

_TRANSIENT_CODES = {
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
#: After these errors the connection can be used again.
_CONNECTION_OK_CODES = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class SqliteStore(Store):
    """A `Store` in an SQLite file."""

    nan_is_null = True

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address
        self._lock: sqlite3.Connection | None = None
        self._connection: sqlite3.Connection | None = None
        self._connection_ok = True
        self._log_file = f"{address.path}-wal"
        self._truncate_at = LOG_LIMIT

    @property
    def connection(self) -> sqlite3.Connection:
        """The open connection."""
        assert self._connection is not None
        return self._connection

    @property
    def is_connected(self) -> bool:
        """True while there is a connection."""
        return self._connection is not None

    async def take_lock(self) -> None:
        """Take the engine's lock, a transaction on a small file beside the database.

        The kernel releases it, however the process ends, and SQLite's locks work on every system.
        """
        _log_old_version()
        path = self.address.path
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = sqlite3.connect(path.with_name(path.name + ".engine-lock"), timeout=0, isolation_level=None)
        try:
            self._lock.execute("BEGIN EXCLUSIVE")
        except BaseException as error:
            self._lock.close()
            if isinstance(error, sqlite3.OperationalError) and _code(error) == sqlite3.SQLITE_BUSY:
                raise self.busy_error() from None
            raise

    async def connect(self) -> None:
        """Connect under the lock."""
        self._connection = self._new_connection()

    def _new_connection(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.address.path, timeout=1.0, isolation_level=None)
        try:
            for pragma in (
                "journal_mode = WAL",
                "synchronous = FULL",
                # A result is stored together with its task; checking each would cost a fifth of the speed.
                "foreign_keys = OFF",
                f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
                f"journal_size_limit = {LOG_LIMIT}",
                "cache_size = -8192",
                "temp_store = MEMORY",
            ):
                connection.execute(f"PRAGMA {pragma}").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    async def reopen(self) -> None:
        """Replace the connection if the last error may have broken it."""
        if self._connection_ok and self._connection is not None:
            return
        # The new connection is opened first, because the log stays in place while any connection is open.
        old = self._connection
        self._connection = self._new_connection()
        if old is not None:
            with contextlib.suppress(sqlite3.Error):
                old.close()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commit at the end of the block; roll back after an error."""
        connection = self.connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("COMMIT")
            self._connection_ok = True
        except BaseException as error:
            self._connection_ok = isinstance(error, sqlite3.Error) and _code(error) in _CONNECTION_OK_CODES
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise

    async def maintain(self) -> None:
        """Truncate a long log. Overlapping readers prevent that, so it waits a moment for a gap."""
        with contextlib.suppress(OSError, sqlite3.Error):
            size = os.path.getsize(self._log_file)
            if size > self._truncate_at:
                ((busy, *_),) = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                # If a reader did not end in time, the next attempt is not at the next commit already.
                self._truncate_at = size + LOG_LIMIT // 4 if busy else LOG_LIMIT

    async def execute(self, statement: str, *parameters: Any) -> int:
        """Run a statement and return the number of affected rows."""
        return self.connection.execute(statement, parameters).rowcount

    async def fetch(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""
        return self.connection.execute(query, parameters).fetchall()

    def prepare_rows(self, parts: Sequence[Columns]) -> list[Any]:
        """Return all values in one list, as `insert` binds them."""
        columns = [column for part in parts for column in part]
        flat: list[Any] = [None] * (len(columns[0]) * len(columns))
        for j, column in enumerate(columns):
            flat[j :: len(columns)] = column
        return flat

    async def insert(self, table: str, columns: Sequence[str], prepared: list[Any]) -> None:
        """Insert prepared rows."""
        width = len(columns)
        row = f"({','.join('?' * width)})"
        done = 0
        total = len(prepared) // width
        for size in _INSERT_SIZES:
            statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {','.join([row] * size)}"
            while total - done >= size:
                self.connection.execute(statement, prepared[done * width : (done + size) * width])
                done += size

    def is_transient(self, error: Exception) -> bool:
        """Return True if a retry can help."""
        if isinstance(error, sqlite3.Error):
            return _code(error) in _TRANSIENT_CODES
        return isinstance(error, OSError)

    async def close(self) -> None:
        """Move the log into the file, disconnect, and release the engine's lock."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        if self._lock is not None:
            self._lock.close()


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


_logged = False


def _log_old_version() -> None:
    global _logged
    if sqlite3.sqlite_version_info < _FIRST_SOUND_VERSION and not _logged:
        _logged = True
        _log.info(
            "SQLite %s has a rare fault that can damage a busy database (fixed in 3.51.3); this program avoids it "
            "by writing from one connection only. For production PostgreSQL is recommended",
            sqlite3.sqlite_version,
        )
