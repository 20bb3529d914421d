"""Strict reading of JSON bodies. Processes that read large ones load this module, but not the server."""

from __future__ import annotations

import json
import reprlib
from typing import Any

from ..core import InvalidInputError

#: Containers within each other. orjson writes up to 254, and the stored run adds a few.
_MAX_DEPTH = 64
#: Lists and objects of a body. Millions of them fit into a few megabytes, and other requests wait while they are
#: read.
_MAX_CONTAINERS = 100_000
#: Names in all objects of a body: each that no field has is an error of a kilobyte.
_MAX_NAMES = 20_000
_LONGEST = 240
_EXCERPTS = reprlib.Repr()
_EXCERPTS.maxlevel = 3
_EXCERPTS.maxlist = _EXCERPTS.maxdict = _EXCERPTS.maxtuple = 20
_EXCERPTS.maxstring = _EXCERPTS.maxlong = _EXCERPTS.maxother = _LONGEST


def excerpt(value: Any) -> str:
    """Return a wrong value, cut before it is written out: megabytes can be one value, or one name."""
    if isinstance(value, str):
        return value[:_LONGEST]
    return _EXCERPTS.repr(value.item() if hasattr(value, "item") else value)


def parse(body: bytes) -> Any:
    """Return the content of a body.

    Raises
    ------
    InvalidInputError
        If it has too many containers.
    json.JSONDecodeError
        If it is malformed in any way: too deep, too many digits, not UTF-8.
    """
    if body.count(b"[") + body.count(b"{") > _MAX_CONTAINERS:
        raise InvalidInputError("body", f"at most {_MAX_CONTAINERS:,} lists and objects", "more")
    try:
        return json.loads(body.decode("utf-8"))
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        reason = "too deeply nested" if isinstance(error, RecursionError) else "unreadable text or number"
        raise json.JSONDecodeError(reason, "", 0) from None


def check_bounds(content: Any) -> None:
    """Refuse content that is too deep, or has integers that no later response could contain.

    Raises
    ------
    InvalidInputError
        With the name of the field.
    """
    waiting: list[tuple[Any, str, int]] = [([content], "", 0)]
    names = 0
    while waiting:
        container, path, depth = waiting.pop()
        names += len(container) if isinstance(container, dict) else 0
        if names > _MAX_NAMES:
            raise _refusal("body", f"at most {_MAX_NAMES:,} names", "more")
        if depth > _MAX_DEPTH:
            raise _refusal(path, f"at most {_MAX_DEPTH} levels deep", "a deeper value")
        for name, value in container.items() if isinstance(container, dict) else enumerate(container):
            if isinstance(value, dict | list):
                waiting.append((value, f"{path}.{name}" if depth else "", depth + 1))
            elif isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise _refusal(f"{path}.{name}", "an integer of 64 bits", "a larger one")


def _refusal(path: str, allowed: str, got: str) -> InvalidInputError:
    # A deep path repeats itself: its beginning names the field.
    field = ".".join(path.removeprefix(".").split(".")[:4])[:100] or "body"
    return InvalidInputError(field, allowed, got)
