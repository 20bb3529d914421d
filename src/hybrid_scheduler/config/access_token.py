"""Access token of the server: from the settings, or from a file that only its owner can read."""

from __future__ import annotations

import ipaddress
import os
import secrets
import stat
from pathlib import Path

from ..core import HybridSchedulerError, InvalidInputError

#: 22 characters of base64 are 132 bits.
_MIN_TOKEN_LENGTH = 22
_TOKEN_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~+/=")


def resolve_token(token: str, token_file: str, host: str) -> str:
    """Return the access token that the settings ask for.

    Parameters
    ----------
    token
        The token itself, or "".
    token_file
        File that holds the token, or "". A missing file is created with a random token.
    host
        Address on which the server listens.

    Returns
    -------
    str
        The token, or "" for none, which only a loopback address may have.

    Raises
    ------
    HybridSchedulerError
        If the host can be reached from other machines and there is no token.
    InvalidInputError
        If the token is too short, or its file cannot be used.
    """
    chosen = token or (_read_or_create(Path(token_file)) if token_file else "")
    if not chosen:
        if not is_loopback(host):
            raise HybridSchedulerError(
                f"host {host} can be reached from other machines: a token is needed",
                hint="set API_TOKEN or server.token_file, or use --host 127.0.0.1",
            )
        return ""
    name = "server.token" if token else "server.token_file"
    if len(chosen) < _MIN_TOKEN_LENGTH or not _TOKEN_CHARACTERS.issuperset(chosen):
        # The message leaves the value out: it is a secret, if a bad one.
        allowed = f"at least {_MIN_TOKEN_LENGTH} letters and digits"
        raise InvalidInputError(name, allowed, f"{len(chosen)} characters", hint="openssl rand -hex 32 makes one")
    return chosen


def _read_or_create(path: Path) -> str:
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


def is_loopback(host: str) -> bool:
    """Return True if the host can only be reached from this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
