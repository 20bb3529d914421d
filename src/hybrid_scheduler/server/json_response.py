"""Bodies as strict JSON: NaN becomes null, whatever NumPy hands over is understood."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import Response


def dumps(content: Any) -> bytes:
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)


class StrictJSONResponse(Response):
    """A response that skips FastAPI's second look at what the server itself has made."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else dumps(content)
