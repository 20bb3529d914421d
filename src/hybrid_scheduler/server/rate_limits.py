"""How often one client may ask: a moving window, in Redis where there is one, in this process otherwise.

Redis away never means unlimited: the count goes on in this process until it is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from limits import RateLimitItem, parse
from limits.aio.storage import MemoryStorage, RedisStorage, Storage
from limits.aio.strategies import MovingWindowRateLimiter
from loguru import logger

from ..core import InvalidInputError
from .errors import Refused

if TYPE_CHECKING:
    from .app_context import ServerOptions

#: Longer than that, a frozen Redis would be felt.
_PATIENCE = 0.25
#: So long is a Redis that failed left alone.
_REST = 5.0


def limit_of(field: str, text: str) -> RateLimitItem | None:
    """ "240/minute"; "" or "off" is no limit."""
    if text.strip().lower() in ("", "off", "0"):
        return None
    try:
        return parse(text)
    except ValueError:
        raise InvalidInputError(field, 'a rate such as "240/minute", or "off"', text) from None


class Limiter:
    """Counts by client address; changes have a limit of their own on top."""

    def __init__(
        self,
        options: ServerOptions,
        *,
        redis_url: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._all = limit_of("server.rate_limit", options.rate_limit)
        self._writes = limit_of("server.write_rate_limit", options.write_rate_limit)
        self._clock = clock
        self._memory = MovingWindowRateLimiter(MemoryStorage())
        self._redis = None if redis_url is None else MovingWindowRateLimiter(_redis_storage(redis_url))
        self._rests_until = -math.inf

    async def check(self, client: str, *, writes: bool) -> None:
        """Count one request, or raise the 429."""
        for name, limit in (("all", self._all), ("writes", self._writes if writes else None)):
            if limit is not None and not await self._hit(limit, name, client):
                raise Refused(429, f"more than {limit}", retry_after=await self._wait(limit, name, client))

    async def _hit(self, limit: RateLimitItem, name: str, client: str) -> bool:
        # The local count runs along, so that it is warm when it is needed.
        local = await self._memory.hit(limit, name, client)
        if self._redis is None or self._clock() < self._rests_until:
            return local
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._redis.hit(limit, name, client)
        except Exception as error:
            self._rests_until = self._clock() + _REST
            logger.warning(f"rate limits count in this process: Redis is away ({type(error).__name__})")
            return local

    async def _wait(self, limit: RateLimitItem, name: str, client: str) -> int:
        stats = await self._memory.get_window_stats(limit, name, client)
        return max(1, math.ceil(stats.reset_time - time.time()))

    async def close(self) -> None:
        storage, self._redis = None if self._redis is None else self._redis.storage, None
        if isinstance(storage, RedisStorage):
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_PATIENCE):
                    connection: Any = storage.bridge
                    await connection.get_connection().aclose()


def _redis_storage(url: str) -> Storage:
    return RedisStorage(
        "async+" + url,
        implementation="redispy",
        key_prefix="hybrid-scheduler:limits",
        socket_timeout=_PATIENCE,
        socket_connect_timeout=_PATIENCE,
    )
