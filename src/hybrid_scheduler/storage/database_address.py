"""Where the database is: a file, or a server's name, port and account."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from ..core import InvalidInputError

_FORMS = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """Use `sqlite`, `postgres` or `from_url` to make one. Printing it does not show the password."""

    kind: str  # "sqlite" or "postgresql"
    file: Path | None = None
    #: A name, an address, or the folder of a Unix socket.
    host: str = ""
    port: int = 5432
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    database: str = ""
    sslmode: str | None = None

    @classmethod
    def sqlite(cls, file: str | os.PathLike[str]) -> DatabaseAddress:
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
        if sslmode is not None and sslmode not in _SSL_MODES:
            raise InvalidInputError("sslmode", "one of " + ", ".join(_SSL_MODES), sslmode)
        if not database:
            raise InvalidInputError("database url", "one that names a database", host)
        return cls("postgresql", None, host, port, user or None, password or None, database, sslmode)

    @classmethod
    def from_url(cls, url: str) -> DatabaseAddress:
        """Takes the forms other programs use, ``postgres://`` and ``postgresql+asyncpg://`` among them."""
        try:
            parts = make_url(url)
        except (ArgumentError, ValueError):
            # Not the text itself: it may hold a password.
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
        return self.kind == "sqlite"

    @property
    def path(self) -> Path:
        """The file of an SQLite database."""
        if self.file is None:
            raise TypeError("a PostgreSQL database has no file")
        return self.file

    @property
    def redacted(self) -> str:
        """For logs and messages."""
        if self.file is not None:
            return str(self.file)
        account = f"{self.user}@" if self.user else ""
        return f"postgresql://{account}{self.host}:{self.port}/{self.database}"

    def asyncpg_arguments(self) -> dict[str, Any]:
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
