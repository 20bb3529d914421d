"""Schema versions of a database, and the upgrade to the newest one.

A database is empty, older, current, newer than this program, or of another program. The last two are refused, so
that data of other programs is never changed.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from .database import (
    CONNECT_TIMEOUT_S,
    DatabaseAddress,
    DatabaseUnavailable,
    DatabaseUnusable,
    driver_errors,
    error_reason,
)
from .tables import metadata

T = TypeVar("T")

_MIGRATIONS = Path(__file__).parent / "migrations"
_VERSION_TABLE = "alembic_version"


#: Versions that this program knows, oldest first: the names of migrations begin with them.
_REVISIONS = sorted(path.name.partition("_")[0] for path in (_MIGRATIONS / "versions").glob("[0-9]*.py"))


def newest_revision() -> str:
    """Return the newest version that this program knows."""
    return _REVISIONS[-1]


def revision_of(connection: sa.Connection, address: DatabaseAddress) -> str | None:
    """Return the version of a database; None if it is empty.

    Raises
    ------
    DatabaseUnusable
        If the database is newer than this program, or contains tables of another program.
    """
    found = set(sa.inspect(connection).get_table_names())
    if _VERSION_TABLE not in found:
        # PostgreSQL may contain tables of other programs, if their names differ from ours.
        foreign = sorted(found if address.is_sqlite else found & set(metadata.tables))
        if foreign:
            raise DatabaseUnusable(
                f"{address}: holds tables of another program ({', '.join(foreign[:3])})",
                hint="choose another file or database",
            )
        return None
    revision: str | None = connection.execute(sa.text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalar()
    if revision is None:
        return None
    if revision not in _REVISIONS:
        raise DatabaseUnusable(
            f"{address}: has schema version {revision}, this program knows versions up to {newest_revision()}",
            hint="it was made by a newer program: use that one, or choose another database",
        )
    return revision


def upgrade_connection(connection: sa.Connection, address: DatabaseAddress) -> tuple[str | None, str]:
    """Upgrade the schema inside the connection's transaction; return the versions before and after."""
    before = revision_of(connection, address)
    if before is None:
        metadata.create_all(connection)
        connection.execute(
            sa.text(f"CREATE TABLE IF NOT EXISTS {_VERSION_TABLE} (version_num VARCHAR(32) PRIMARY KEY)")
        )
        connection.execute(sa.text(f"INSERT INTO {_VERSION_TABLE} VALUES ('{newest_revision()}')"))
    elif before != newest_revision():
        from alembic import command  # takes 6 MB, which a server of a current database does not need
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return before, newest_revision()


def upgrade(address: DatabaseAddress) -> tuple[str | None, str]:
    """Create or upgrade a database that no engine uses.

    A current database is not changed and may be in use.

    Parameters
    ----------
    address
        The database.

    Returns
    -------
    tuple
        The versions before (None for an empty database) and after.

    Raises
    ------
    EngineBusy
        If an engine uses the database.
    DatabaseUnavailable, DatabaseUnusable
        If the database cannot be read or upgraded.
    """
    from .retention import create_store  # a store upgrades when it is opened, under the engine's lock

    if not address.is_sqlite or address.path.exists():
        revision = with_connection(address, lambda c: revision_of(c, address), read_only=True)
        if revision == newest_revision():
            return revision, revision
    else:
        revision = None

    async def under_lock() -> None:
        store = create_store(address, "upgrade")
        await store.open()
        await store.close()

    run_blocking(under_lock())
    return revision, newest_revision()


def with_connection(
    address: DatabaseAddress, work: Callable[[sa.Connection], T], *, read_only: bool = False, timeout: float = 600.0
) -> T:
    """Call `work` with a connection in a transaction, and commit. Blocks, with or without a running loop.

    Parameters
    ----------
    address
        The database.
    work
        Called with the connection.
    read_only
        All queries see one state of the database. For SQLite: the file is not created and not locked for writing.
    timeout
        For PostgreSQL: seconds for one statement.

    Returns
    -------
    object
        The result of `work`.

    Raises
    ------
    DatabaseUnavailable, DatabaseUnusable
        If the database does not answer or cannot be opened.
    """
    try:
        if address.is_sqlite:
            return _with_sqlite(address, work, read_only)
        return run_blocking(_with_postgres(address, work, timeout, read_only))
    except driver_errors() as error:
        raise explain_error(address, error) from error


def explain_error(address: DatabaseAddress, error: BaseException) -> DatabaseUnavailable | DatabaseUnusable:
    """Return an error that names the database, for an error of a driver."""
    cause = getattr(error, "orig", None) or error
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if code in _DAMAGED:
        return DatabaseUnusable(
            f"{address}: is damaged or not an SQLite database ({cause})",
            hint="restore a backup, or choose another file",
        )
    if code in _CANNOT_OPEN:
        return DatabaseUnusable(f"{address}: cannot be opened ({cause})", hint="choose another file")
    if address.is_sqlite and isinstance(error, OSError) and not isinstance(error, TimeoutError):
        return DatabaseUnusable(f"{address}: cannot be opened ({error.strerror})", hint="choose another file")
    return DatabaseUnavailable(f"{address}: the database does not answer ({error_reason(error)})")


_CANNOT_OPEN = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)
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
        # An explicit BEGIN, because the driver runs CREATE TABLE outside of transactions.
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    try:
        with engine.begin() as connection:
            return work(connection)
    finally:
        engine.dispose()


async def _with_postgres(
    address: DatabaseAddress, work: Callable[[sa.Connection], T], timeout: float, read_only: bool
) -> T:
    engine = create_async_engine(
        "postgresql+asyncpg://",
        poolclass=NullPool,
        # PostgreSQL's default would let every query see what an engine has stored meanwhile.
        **({"isolation_level": "REPEATABLE READ"} if read_only else {}),
        connect_args={**address.asyncpg_arguments(), "timeout": CONNECT_TIMEOUT_S, "command_timeout": timeout},
    )
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(work)
    finally:
        await engine.dispose()


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. Inside a running loop this happens in another thread."""
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
