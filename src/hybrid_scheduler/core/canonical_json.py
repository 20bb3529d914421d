"""Canonical JSON: one way to write a value, one treatment of infinity, one hash.

JSON knows neither NaN nor infinity: both are written as null, here and everywhere else in the product.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

#: Rule for every text that is stored or sent: PostgreSQL cannot hold NUL, and unpaired surrogates are not UTF-8.
TEXT_RULE = "text without NUL characters and unpaired surrogates"


def is_storable(text: str) -> bool:
    """Return whether a text fulfils `TEXT_RULE`."""
    if "\0" in text:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def plain_value(value: Any) -> Any:
    """Return the value in JSON's own types; numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, np.generic):
        return plain_value(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def canonical_json(value: Any) -> str:
    """Return the value with sorted keys and without blanks: equal values give equal texts."""
    return json.dumps(
        plain_value(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def content_hash(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def pretty_json(value: Any, *, sort_keys: bool = False) -> str:
    """Return the value indented for people, with a final line break."""
    return json.dumps(plain_value(value), indent=2, sort_keys=sort_keys, allow_nan=False) + "\n"
