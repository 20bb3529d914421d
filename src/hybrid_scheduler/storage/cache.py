"""Cache of response bodies, in this process or in Redis for several processes."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from .redis_cache import CircuitBreaker, RedisAddress, close_quietly


class Cache(Protocol):
    """Protocol of a cache. Entries may disappear at any time; callers can compute them again."""

    kind: str

    @property
    def state(self) -> str:
        """State: "ok" or "away"."""

    async def get(self, key: str) -> bytes | None:
        """Return the value of a key, or None."""

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Store a value for `ttl` seconds."""

    async def delete(self, key: str) -> None:
        """Remove a key."""

    async def ping(self) -> bool:
        """Return True if the cache answers now."""

    async def close(self) -> None:
        """Release connections."""


class MemoryCache:
    """Cache of the most recent entries within this process.

    Parameters
    ----------
    max_entries
        Largest number of entries.
    clock
        Returns monotonic seconds.
    """

    kind = "memory"
    state = "ok"

    def __init__(self, max_entries: int = 1000, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_entries = max_entries
        self._clock = clock
        self._entries: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    async def get(self, key: str) -> bytes | None:
        """Return the value of a key, or None."""
        until, value = self._entries.get(key, (0.0, b""))
        if self._clock() >= until:
            self._entries.pop(key, None)
            return None
        return value

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Store a value for `ttl` seconds."""
        now = self._clock()
        self._entries[key] = (now + ttl, value)
        self._entries.move_to_end(key)
        # Keys contain the stream's position and are soon out of use, so expired entries are removed here.
        while self._entries:
            until, _ = next(iter(self._entries.values()))
            if until > now and len(self._entries) <= self._max_entries:
                break
            self._entries.popitem(last=False)

    async def delete(self, key: str) -> None:
        """Remove a key."""
        self._entries.pop(key, None)

    async def ping(self) -> bool:
        """Return True."""
        return True

    async def close(self) -> None:
        """Remove all entries."""
        self._entries.clear()


class RedisCache:
    """Cache in Redis. While Redis is unavailable nothing is found and nothing is stored.

    Parameters
    ----------
    address
        The Redis server.
    prefix
        Prefix of all keys.
    """

    kind = "redis"

    def __init__(self, address: RedisAddress, prefix: str = "hybrid-scheduler:cache:") -> None:
        self._client = address.client()
        self._prefix = prefix
        self._breaker = CircuitBreaker(address.redacted)

    @property
    def state(self) -> str:
        """State: "ok" or "away"."""
        return self._breaker.state

    async def get(self, key: str) -> bytes | None:
        """Return the value of a key, or None."""
        found = await self._breaker.call(lambda: self._client.get(self._prefix + key), None)
        return found.encode() if isinstance(found, str) else found

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Store a value for `ttl` seconds."""
        milliseconds = max(1, int(ttl * 1000))
        await self._breaker.call(lambda: self._client.set(self._prefix + key, value, px=milliseconds), None)

    async def delete(self, key: str) -> None:
        """Remove a key."""
        await self._breaker.call(lambda: self._client.delete(self._prefix + key), 0)

    async def ping(self) -> bool:
        """Return True if Redis answers now."""
        return bool(await self._breaker.call(lambda: self._client.ping(), False))

    async def close(self) -> None:
        """Close the connection."""
        await close_quietly(self._client)
