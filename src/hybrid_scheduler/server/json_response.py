"""Strict JSON responses, and a short-lived cache of their bodies.

NaN becomes null, and NumPy values are written as numbers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import orjson
from starlette.responses import Response, StreamingResponse

from ..live.journal import storable

if TYPE_CHECKING:
    from .app_context import AppContext

#: Seconds for which a cached body may be returned.
_CACHE_TTL_S = 1.0


def dumps(content: Any) -> bytes:
    """Return the content as strict JSON; characters that are not valid UTF-8 are replaced."""
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    try:
        return orjson.dumps(content, option=options)
    except TypeError:  # an unpaired surrogate, which only a text from outside can have
        return orjson.dumps(storable(content), option=options)


class StrictJSONResponse(Response):
    """A response that skips FastAPI's validation of what the server itself has made."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the body; bytes are taken as finished JSON."""
        return content if isinstance(content, bytes) else dumps(content)


async def cached_json(context: AppContext, name: str, compute: Callable[[], Awaitable[Any]]) -> Response:
    """Return the cached response to a request, or compute and cache a new one.

    The key contains the stream's position and the number of deletions. A client therefore never gets a body that is
    older than an event it has seen. A cache that is unavailable counts as empty.

    Parameters
    ----------
    context
        The server's parts.
    name
        Identifies the request with its parameters.
    compute
        Returns the content when the cache has none.

    Returns
    -------
    Response
        The JSON response.
    """
    key = f"response:{name}:{context.hub.last_seq}:{context.state.deletions}"
    body = await context.cache.get(key)
    if body is None:
        body = dumps(await compute())
        await context.cache.set(key, body, _CACHE_TTL_S)
    return StrictJSONResponse(body)


def attachment(content: bytes | AsyncIterator[bytes], media_type: str, name: str) -> Response:
    """Return the response that a browser stores as a file of this name."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    if isinstance(content, bytes):
        return Response(content, media_type=media_type, headers=headers)
    return StreamingResponse(content, media_type=media_type, headers=headers)
