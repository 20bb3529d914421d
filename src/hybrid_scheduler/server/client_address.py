"""Who is asking: the peer's address, or what a trusted proxy says of it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

from ..core import InvalidInputError

Headers = dict[bytes, bytes]
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks(texts: Iterable[str]) -> tuple[_Network, ...]:
    """Addresses and ranges such as 10.0.0.0/8."""
    found: list[_Network] = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text.strip(), strict=False))
        except ValueError:
            raise InvalidInputError("trusted_proxies", "addresses such as 10.0.0.7 or 10.0.0.0/8", text) from None
    return tuple(found)


def client_address(scope: dict[str, Any], headers: Headers, trusted: tuple[_Network, ...]) -> str:
    """X-Forwarded-For counts only from a trusted peer, and only its part that trusted proxies wrote."""
    peer = (scope.get("client") or ("unknown",))[0]
    if not trusted or not _inside(peer, trusted):
        return str(peer)
    chain = [part.strip() for part in headers.get(b"x-forwarded-for", b"").decode("latin-1").split(",")]
    for hop in reversed([part for part in chain if part]):
        if not _is_address(hop):
            break
        peer = hop
        if not _inside(hop, trusted):
            break
    return str(peer)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _inside(address: str, ranges: tuple[_Network, ...]) -> bool:
    try:
        return any(ipaddress.ip_address(address) in network for network in ranges)
    except ValueError:
        return False
