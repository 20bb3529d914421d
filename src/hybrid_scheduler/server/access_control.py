"""Network address of a client: the peer's, or the one that a trusted proxy reports."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

from ..core import InvalidInputError

Headers = dict[bytes, bytes]
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


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


def counted_address(address: str) -> str:
    """Return what a client counts as: an address of IPv6 stands for the 2^64 of its network."""
    known = _address(address)
    if not isinstance(known, ipaddress.IPv6Address):
        return address
    if known.ipv4_mapped is not None:
        return str(known.ipv4_mapped)
    return str(ipaddress.ip_network((int(known), 64), strict=False))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_inside(address: str, networks: tuple[_Network, ...]) -> bool:
    """Return True if the address belongs to one of the networks."""
    known = _address(address)
    return known is not None and any(known in network for network in networks)
