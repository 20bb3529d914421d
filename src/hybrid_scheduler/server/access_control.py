"""Access token of the server and network address of a client.

The token comes from the settings or from a file that only its owner can read. The client's address is the peer's,
or the one that a trusted proxy reports.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..core import HybridSchedulerError, InvalidInputError

Headers = dict[bytes, bytes]
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

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
    address = _address(host.strip("[]"))
    return host == "localhost" or (address is not None and address.is_loopback)


def parse_networks(texts: Iterable[str]) -> tuple[_Network, ...]:
    """Return the networks named by addresses and ranges such as 10.0.0.0/8.

    Raises
    ------
    InvalidInputError
        If a text is neither an address nor a range.
    """
    networks: list[_Network] = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text.strip(), strict=False))
        except ValueError:
            raise InvalidInputError("trusted_proxies", "addresses such as 10.0.0.7 or 10.0.0.0/8", text) from None
    return tuple(networks)


def client_address(scope: dict[str, Any], headers: Headers, trusted: tuple[_Network, ...]) -> str:
    """Return the address of the client behind a connection.

    X-Forwarded-For counts only from a trusted peer, and only as far as trusted proxies wrote it.
    """
    peer = (scope.get("client") or ("unknown",))[0]
    if not trusted or not is_inside(peer, trusted):
        return str(peer)
    chain = [part.strip() for part in headers.get(b"x-forwarded-for", b"").decode("latin-1").split(",")]
    for hop in reversed([part for part in chain if part]):
        if _address(hop) is None:
            break
        peer = hop
        if not is_inside(hop, trusted):
            break
    return str(peer)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_inside(address: str, networks: tuple[_Network, ...]) -> bool:
    """Return True if the address belongs to one of the networks."""
    known = _address(address)
    return known is not None and any(known in network for network in networks)
