"""The token that lets clients in, from the settings or from a file that only its owner can read."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from ..core import HybridSchedulerError, InvalidInputError
from .client_address import is_loopback

#: 22 characters of base64 are 132 bits.
_SHORTEST = 22
_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~+/=")


def token_of(token: str, token_file: str, host: str) -> str:
    """The token, or "" for none, which only a loopback address may have. A file that is not there is made."""
    chosen = token or (_from_file(Path(token_file)) if token_file else "")
    if not chosen:
        if not is_loopback(host):
            raise HybridSchedulerError(
                f"host {host} can be reached from other machines: a token is needed",
                hint="set API_TOKEN or server.token_file, or use --host 127.0.0.1",
            )
        return ""
    name = "server.token" if token else "server.token_file"
    if len(chosen) < _SHORTEST or not _ALPHABET.issuperset(chosen):
        # What came is not shown: it is a secret, if a bad one.
        allowed = f"at least {_SHORTEST} letters and digits"
        raise InvalidInputError(name, allowed, f"{len(chosen)} characters", hint="openssl rand -hex 32 makes one")
    return chosen


def _from_file(path: Path) -> str:
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
        mode = stat.S_IMODE(path.stat().st_mode)
        if os.name == "posix" and mode & 0o077:
            raise InvalidInputError(
                "server.token_file", "a file that only its owner can read (mode 0600)", oct(mode), where=path.name
            )
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InvalidInputError("server.token_file", "a readable file", path.name, hint=reason) from None
