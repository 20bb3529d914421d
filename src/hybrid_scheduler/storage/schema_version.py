"""Which version of the schema a database has, and how it gets the newest one.

A database is one of: empty; ours, older; ours, current; ours, newer than this program; something else. The last two
are refused, so that nothing of somebody else's is ever changed.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from .database import CONNECT_TIMEOUT, DRIVER_ERRORS, reason_of
from .database_address import DatabaseAddress
from .errors import DatabaseUnavailable, DatabaseUnusable
from .tables import metadata

T = TypeVar("T")

_MIGRATIONS = Path(__file__).parent / "migrations"
_VERSION_TABLE = "alembic_version"


@cache
def newest_revision() -> str:
    head = ScriptDirectory(str(_MIGRATIONS)).get_current_head()
    assert head is not None
    return head


def revision_of(connection: sa.Connection, address: DatabaseAddress) -> str | None:
    """None for an empty database. Raises `DatabaseUnusable` for one that is newer, or not ours."""
    found = set(sa.inspect(connection).get_table_names())
    if _VERSION_TABLE not in found:
        # In PostgreSQL other people's tables may live beside ours, as long as the names do not meet.
        strangers = sorted(found if address.is_sqlite else found & set(metadata.tables))
        if strangers:
            raise DatabaseUnusable(
                f"{address}: holds tables of another program ({', '.join(strangers[:3])})",
                hint="choose another file or database",
            )
        return None
    revision: str | None = connection.execute(sa.text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalar()
    if revision is None:
        return None
    known = {script.revision for script in ScriptDirectory(str(_MIGRATIONS)).walk_revisions()}
    if revision not in known:
        raise DatabaseUnusable(
            f"{address}: has schema version {revision}, this program knows versions up to {newest_revision()}",
            hint="it was made by a newer program: use that one, or choose another database",
        )
    return revision


def upgrade_connection(connection: sa.Connection, address: DatabaseAddress) -> tuple[str | None, str]:
    """Bring the schema up to date inside the connection's transaction; returns the versions before and after."""
    before = revision_of(connection, address)
    if before != newest_revision():
        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return before, newest_revision()


def upgrade(address: DatabaseAddress) -> tuple[str | None, str]:
    """Create or upgrade a database that no engine uses; returns the versions before and after.

    One that is current is left alone, even if it is in use.
    Raises `EngineBusy`, `DatabaseUnavailable` and `DatabaseUnusable`.
    """
    from .journal_writer import store_of  # it upgrades when it is opened, under the engine's lock

    if not address.is_sqlite or address.path.exists():
        revision = with_connection(address, lambda c: revision_of(c, address), read_only=True)
        if revision == newest_revision():
            return revision, revision
    else:
        revision = None

    async def under_lock() -> None:
        store = store_of(address, "upgrade")
        await store.open()
        await store.close()

    run_blocking(under_lock())
    return revision, newest_revision()


def require_current(connection: sa.Connection, address: DatabaseAddress) -> None:
    """For readers, who do not upgrade."""
    revision = revision_of(connection, address)
    if revision != newest_revision():
        found = "an empty database" if revision is None else f"schema version {revision}"
        raise DatabaseUnusable(
            f"{address}: has {found}, not version {newest_revision()}", hint="run hybrid-scheduler db upgrade"
        )


def with_connection(
    address: DatabaseAddress, work: Callable[[sa.Connection], T], *, read_only: bool = False, timeout: float = 600.0
) -> T:
    """Call `work` with a connection in a transaction, and commit. Blocks; may be called with or without a loop."""
    try:
        if address.is_sqlite:
            return _with_sqlite(address, work, read_only)
        return run_blocking(_with_postgres(address, work, timeout))
    except DRIVER_ERRORS as error:
        raise explained(address, error) from error


def explained(address: DatabaseAddress, error: BaseException) -> DatabaseUnavailable | DatabaseUnusable:
    """A driver's error in words that name the database."""
    cause = getattr(error, "orig", None) or error
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if code in _DAMAGED:
        return DatabaseUnusable(
            f"{address}: is damaged or not an SQLite database ({cause})",
            hint="restore a backup, or choose another file",
        )
    if code in _CLOSED:
        return DatabaseUnusable(f"{address}: cannot be opened ({cause})", hint="choose another file")
    if address.is_sqlite and isinstance(error, OSError) and not isinstance(error, TimeoutError):
        return DatabaseUnusable(f"{address}: cannot be opened ({error.strerror})", hint="choose another file")
    return DatabaseUnavailable(f"{address}: the database does not answer ({reason_of(error)})")


_CLOSED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)
_DAMAGED = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT)


def _with_sqlite(address: DatabaseAddress, work: Callable[[sa.Connection], T], read_only: bool) -> T:
    path = address.path
    if path.is_dir():
        raise IsADirectoryError(21, "it is a folder")
    if read_only:
        if not path.exists():
            raise FileNotFoundError(2, "there is no such file")
    else:
        path.parent.mkdir(parents=True, exist_ok=True)

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=5.0, isolation_level=None)
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        return connection

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=NullPool)

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        # Explicitly, because the driver leaves CREATE TABLE outside of transactions.
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    try:
        with engine.begin() as connection:
            return work(connection)
    finally:
        engine.dispose()


async def _with_postgres(address: DatabaseAddress, work: Callable[[sa.Connection], T], timeout: float) -> T:
    engine = create_async_engine(
        "postgresql+asyncpg://",
        poolclass=NullPool,
        connect_args={**address.asyncpg_arguments(), "timeout": CONNECT_TIMEOUT, "command_timeout": timeout},
    )
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(work)
    finally:
        await engine.dispose()


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, also for callers that are inside a loop: then in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(asyncio.run(work))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
