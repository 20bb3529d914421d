"""Redis as a convenience: when it is gone or frozen, everything goes on without it, and without waiting for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from ..core import InvalidInputError

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds for one exchange with Redis.
TIMEOUT = 0.25
#: After a failure nobody asks again for so long.
REST = 1.0

FAILURES = (RedisError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True)
class RedisAddress:
    host: str
    port: int = 6379
    db: int = 0
    password: str | None = field(default=None, repr=False)

    @classmethod
    def from_url(cls, url: str) -> RedisAddress:
        parts = urlsplit(url)
        if parts.scheme != "redis" or not parts.hostname:
            raise InvalidInputError("redis url", "redis://:PASSWORD@HOST:PORT/DB", f"{parts.scheme}://…")
        password = unquote(parts.password) if parts.password else None
        return cls(parts.hostname, parts.port or 6379, int(parts.path.strip("/") or 0), password)

    @property
    def redacted(self) -> str:
        return f"redis://{self.host}:{self.port}/{self.db}"

    def client(self) -> Redis:
        """Bound to the event loop that first uses it. It never tries twice: that is for the callers to decide."""
        return Redis(
            host=self.host,
            port=self.port,
            db=self.db,
            password=self.password or None,
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )


class Breaker:
    """Opens after a failure: then calls fail at once, but for one a second that tries whether Redis is back."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._closed_until_failure = True
        self._retry_at = 0.0
        self._known = False

    @property
    def state(self) -> str:
        return "ok" if self._known and self._closed_until_failure else "away"

    async def call(self, work: Callable[[], Awaitable[T]], otherwise: T) -> T:
        """The outcome of `work`, or `otherwise` where Redis is away."""
        if not self._closed_until_failure:
            if self._clock() < self._retry_at:
                return otherwise
            self._retry_at = self._clock() + REST  # the others keep failing at once while this one tries
        try:
            # Around everything: a connection that has to be made first costs several exchanges.
            async with asyncio.timeout(TIMEOUT):
                outcome = await work()
        except FAILURES as error:
            self.broken(error)
            return otherwise
        self.works()
        return outcome

    def broken(self, error: Exception) -> None:
        if self._closed_until_failure:
            _log.warning("%s: Redis does not answer (%s); going on without it", self._name, str(error) or "timeout")
        self._closed_until_failure = False
        self._known = True
        self._retry_at = self._clock() + REST

    def works(self) -> None:
        if not self._closed_until_failure:
            _log.warning("%s: Redis answers again", self._name)
        self._closed_until_failure = True
        self._known = True


async def close_quietly(link: Any) -> None:
    try:
        async with asyncio.timeout(TIMEOUT):
            await link.aclose()
    except FAILURES:
        pass
