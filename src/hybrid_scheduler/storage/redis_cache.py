"""Redis with a circuit breaker, and the cache of response bodies in this process or in a Redis that several share.

A Redis that fails or hangs slows nothing down.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from ..core import InvalidInputError

if TYPE_CHECKING:
    from redis.asyncio import Redis

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds for one exchange with Redis.
TIMEOUT_S = 0.25
#: Seconds after a failure until the next attempt.
_RETRY_AFTER_S = 1.0


def redis_errors() -> tuple[type[Exception], ...]:
    """Return the errors of a Redis that does not answer; the library, 18 MB, is loaded when it is used."""
    from redis.exceptions import RedisError

    return RedisError, OSError, TimeoutError


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Address of a Redis server. Its text does not contain the password."""

    host: str
    port: int = 6379
    db: int = 0
    password: str | None = field(default=None, repr=False)

    @classmethod
    def from_url(cls, url: str) -> RedisAddress:
        """Return the address that a URL of the form ``redis://:PASSWORD@HOST:PORT/DB`` names.

        Raises
        ------
        InvalidInputError
            If the URL has another form.
        """
        parts = urlsplit(url)
        if parts.scheme != "redis" or not parts.hostname:
            raise InvalidInputError("redis url", "redis://:PASSWORD@HOST:PORT/DB", f"{parts.scheme}://…")
        password = unquote(parts.password) if parts.password else None
        return cls(parts.hostname, parts.port or 6379, int(parts.path.strip("/") or 0), password)

    @property
    def redacted(self) -> str:
        """The address without the password, for logs and messages."""
        return f"redis://{self.host}:{self.port}/{self.db}"

    def client(self) -> Redis:
        """Return a client, bound to the event loop that first uses it. It does not retry; callers decide that."""
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        return Redis(
            host=self.host,
            port=self.port,
            db=self.db,
            password=self.password or None,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )


class CircuitBreaker:
    """Circuit breaker: after a failure calls fail at once, except one per second that tries Redis again.

    Parameters
    ----------
    name
        Names the server in log messages.
    clock
        Returns monotonic seconds.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._open = False
        self._retry_at = 0.0
        self._called = False

    @property
    def state(self) -> str:
        """State: "ok" after a success, "unavailable" before the first call and after a failure."""
        return "ok" if self._called and not self._open else "unavailable"

    async def call(self, work: Callable[[], Awaitable[T]], default: T) -> T:
        """Return the result of `work`, or `default` while Redis is unavailable."""
        if self._open:
            if self._clock() < self._retry_at:
                return default
            self._retry_at = self._clock() + _RETRY_AFTER_S  # other calls fail at once while this one tries
        try:
            # The timeout covers everything, because a new connection costs several exchanges.
            async with asyncio.timeout(TIMEOUT_S):
                result = await work()
        except redis_errors() as error:
            self.record_failure(error)
            return default
        self.record_success()
        return result

    def record_failure(self, error: Exception) -> None:
        """Open the circuit; the first failure is logged."""
        if not self._open:
            _log.warning("%s: Redis does not answer (%s); going on without it", self._name, str(error) or "timeout")
        self._open = True
        self._called = True
        self._retry_at = self._clock() + _RETRY_AFTER_S

    def record_success(self) -> None:
        """Close the circuit."""
        if self._open:
            _log.warning("%s: Redis answers again", self._name)
        self._open = False
        self._called = True


async def close_quietly(connection: Any) -> None:
    """Close a client or subscription; errors are ignored."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await connection.aclose()
    except redis_errors():
        pass


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
        """State: "ok" or "unavailable"."""
        return self._breaker.state

    async def get(self, key: str) -> bytes | None:
        """Return the value of a key, or None."""
        found = await self._breaker.call(lambda: self._client.get(self._prefix + key), None)
        return found.encode() if isinstance(found, str) else found

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Store a value for `ttl` seconds."""
        milliseconds = max(1, int(ttl * 1000))
        await self._breaker.call(lambda: self._client.set(self._prefix + key, value, px=milliseconds), None)

    async def ping(self) -> bool:
        """Return True if Redis answers now."""
        return bool(await self._breaker.call(lambda: self._client.ping(), False))

    async def close(self) -> None:
        """Close the connection."""
        await close_quietly(self._client)


#: Entries of a cache may disappear at any time; callers can compute them again.
Cache = MemoryCache | RedisCache
