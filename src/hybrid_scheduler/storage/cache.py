"""A place for answers that are dear to make: this process, or Redis for several processes."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from .redis_connection import Breaker, RedisAddress, close_quietly


class Cache(Protocol):
    """Nothing in it is missed: whoever asks can make the answer anew."""

    kind: str

    @property
    def state(self) -> str:
        """ "ok" or "away"."""

    async def get(self, key: str) -> bytes | None: ...

    async def set(self, key: str, value: bytes, ttl: float) -> None: ...

    async def delete(self, key: str) -> None: ...

    async def ping(self) -> bool:
        """Ask it now whether it is there."""

    async def close(self) -> None: ...


class MemoryCache:
    """The most recent entries, within this process."""

    kind = "memory"
    state = "ok"

    def __init__(self, most: int = 1000, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._entries: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    async def get(self, key: str) -> bytes | None:
        until, value = self._entries.get(key, (0.0, b""))
        if self._clock() >= until:
            self._entries.pop(key, None)
            return None
        return value

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        now = self._clock()
        self._entries[key] = (now + ttl, value)
        self._entries.move_to_end(key)
        # Keys move on with the stream and are not asked for again: the oldest go as soon as their time is over.
        while self._entries:
            until, _ = next(iter(self._entries.values()))
            if until > now and len(self._entries) <= self._most:
                break
            self._entries.popitem(last=False)

    async def delete(self, key: str) -> None:
        self._entries.pop(key, None)

    async def ping(self) -> bool:
        return True

    async def close(self) -> None:
        self._entries.clear()


class RedisCache:
    """Redis. Away means: nothing is found, nothing is kept."""

    kind = "redis"

    def __init__(self, address: RedisAddress, prefix: str = "hybrid-scheduler:cache:") -> None:
        self._client = address.client()
        self._prefix = prefix
        self._breaker = Breaker(address.redacted)

    @property
    def state(self) -> str:
        return self._breaker.state

    async def get(self, key: str) -> bytes | None:
        found = await self._breaker.call(lambda: self._client.get(self._prefix + key), None)
        return found.encode() if isinstance(found, str) else found

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        milliseconds = max(1, int(ttl * 1000))
        await self._breaker.call(lambda: self._client.set(self._prefix + key, value, px=milliseconds), None)

    async def delete(self, key: str) -> None:
        await self._breaker.call(lambda: self._client.delete(self._prefix + key), 0)

    async def ping(self) -> bool:
        return bool(await self._breaker.call(lambda: self._client.ping(), False))

    async def close(self) -> None:
        await close_quietly(self._client)
