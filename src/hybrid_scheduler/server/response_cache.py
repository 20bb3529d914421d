"""Answers that may be a second old are computed at most once a second."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from .app_context import AppContext
from .json_response import dumps

_SECONDS = 1.0


async def cached(parts: AppContext, name: str, fresh: Callable[[], Awaitable[Any]]) -> bytes:
    """The stored body, or a new one. A cache that is away is a cache that has nothing.

    The key moves with the stream and with deletions, so that nobody is told what was true before an event he has
    seen.
    """
    key = f"answer:{name}:{parts.hub.last_seq}:{parts.tally.deletions}"
    known = await parts.cache.get(key)
    if known is not None:
        return known
    body = dumps(await fresh())
    await parts.cache.set(key, body, _SECONDS)
    return body
