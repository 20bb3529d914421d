"""Rate limits per client over a moving window, counted in Redis or in this process.

While Redis is unavailable the limits stay in force: the count continues in this process.
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
from .errors import ApiError

if TYPE_CHECKING:
    from .app_context import ServerOptions

#: Every request waits for Redis at most this long.
_REDIS_TIMEOUT_S = 0.25
#: After a failure Redis is not asked for this long.
_REDIS_RETRY_S = 5.0


def parse_limit(field: str, text: str) -> RateLimitItem | None:
    """Return the limit that a text such as "240/minute" names; None for "" and "off".

    Raises
    ------
    InvalidInputError
        If the text names no limit.
    """
    if text.strip().lower() in ("", "off", "0"):
        return None
    try:
        return parse(text)
    except ValueError:
        raise InvalidInputError(field, 'a rate such as "240/minute", or "off"', text) from None


class RateLimiter:
    """Counts requests per client address; requests that change something have a second limit.

    Parameters
    ----------
    options
        Names the limits.
    redis_url
        Redis that several processes share; None to count in this process.
    clock
        Returns monotonic seconds.
    """

    def __init__(
        self,
        options: ServerOptions,
        *,
        redis_url: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._all = parse_limit("server.rate_limit", options.rate_limit)
        self._writes = parse_limit("server.write_rate_limit", options.write_rate_limit)
        self._clock = clock
        self._memory = MovingWindowRateLimiter(MemoryStorage())
        self._redis = None if redis_url is None else MovingWindowRateLimiter(_redis_storage(redis_url))
        self._redis_retry_at = -math.inf

    async def check(self, client: str, *, writes: bool) -> None:
        """Count one request of a client.

        Raises
        ------
        ApiError
            With status 429 if the client has reached a limit.
        """
        for name, limit in (("all", self._all), ("writes", self._writes if writes else None)):
            if limit is not None and not await self._hit(limit, name, client):
                raise ApiError(429, f"more than {limit}", retry_after=await self._retry_after(limit, name, client))

    async def _hit(self, limit: RateLimitItem, name: str, client: str) -> bool:
        # The local count is always kept, so that it is complete when Redis fails.
        local = await self._memory.hit(limit, name, client)
        if self._redis is None or self._clock() < self._redis_retry_at:
            return local
        try:
            async with asyncio.timeout(_REDIS_TIMEOUT_S):
                # The local count also holds what came while Redis was unavailable and does not know of.
                return await self._redis.hit(limit, name, client) and local
        except Exception as error:
            self._redis_retry_at = self._clock() + _REDIS_RETRY_S
            logger.warning(f"rate limits count in this process: Redis is unavailable ({type(error).__name__})")
            return local

    async def _retry_after(self, limit: RateLimitItem, name: str, client: str) -> int:
        stats = await self._memory.get_window_stats(limit, name, client)
        return max(1, math.ceil(stats.reset_time - time.time()))

    async def close(self) -> None:
        """Close the connection to Redis."""
        storage, self._redis = None if self._redis is None else self._redis.storage, None
        if isinstance(storage, RedisStorage):
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_REDIS_TIMEOUT_S):
                    connection: Any = storage.bridge
                    await connection.get_connection().aclose()


def _redis_storage(url: str) -> Storage:
    return RedisStorage(
        "async+" + url,
        implementation="redispy",
        key_prefix="hybrid-scheduler:limits",
        socket_timeout=_REDIS_TIMEOUT_S,
        socket_connect_timeout=_REDIS_TIMEOUT_S,
    )
