"""Identifiers of runs: ULIDs, which sort by the time they were made."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: no I, L, O, U
_RANDOM_BITS = 80
#: The text form of a ULID.
ULID = re.compile("[0-9A-HJKMNP-TV-Z]{26}")


class UlidGenerator:
    """Generator of strictly increasing ULIDs.

    Each one is greater than the one before, also within a millisecond or when the clock steps back.

    Parameters
    ----------
    unix
        Returns the time in seconds since 1970.
    entropy
        Returns the requested number of random bytes.
    """

    def __init__(self, unix: Callable[[], float], entropy: Callable[[int], bytes] = os.urandom) -> None:
        self._unix = unix
        self._entropy = entropy
        self._last = 0

    def __call__(self) -> str:
        """Return the next ULID."""
        timestamp = int(self._unix() * 1000.0) << _RANDOM_BITS
        number = timestamp | int.from_bytes(self._entropy(_RANDOM_BITS // 8), "big")
        self._last = max(number, self._last + 1)
        return "".join(_ALPHABET[self._last >> shift & 31] for shift in range(125, -1, -5))
