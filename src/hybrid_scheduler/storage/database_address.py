"""Address of the database: a file, or a server's host, port and account."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from ..core import InvalidInputError, require

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
        host, sslmode = query.pop("host", None), query.pop("sslmode", None)
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
