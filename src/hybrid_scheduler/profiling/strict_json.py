"""Strict reading of a JSON document: every field is checked, and unknown fields are refused.

Errors name the file, the path of the field in the document, what is allowed and what was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ..core.errors import InvalidInputError

_T = TypeVar("_T")
_MISSING = object()


class StrictObject:
    """Object of a JSON document whose fields are read one by one.

    Parameters
    ----------
    value : object
        Parsed JSON; must be a dictionary.
    place : str
        Path within the document, for messages.
    file : str
        File name, for messages.

    Examples
    --------
    >>> from hybrid_scheduler.profiling.strict_json import StrictObject
    >>> fields = StrictObject({"cores": 16}, "machine", "profile.json")
    >>> fields.whole("cores", least=1)
    16
    """

    def __init__(self, value: object, place: str, file: str) -> None:
        self.place, self.file = place, file
        if not isinstance(value, dict):
            raise self.error("", "an object", value)
        self._left: dict[str, Any] = dict(value)

    def error(self, name: str, allowed: str, got: object, hint: str | None = None) -> InvalidInputError:
        """Return an error about a field."""
        field = ".".join(part for part in (self.place, name) if part) or "document"
        value = "nothing" if got is _MISSING else got
        return InvalidInputError(field, allowed, value, where=self.file, hint=hint)

    def take(self, name: str) -> Any:
        """Return a field as it is; a missing one is an object that no check accepts."""
        return self._left.pop(name, _MISSING)

    def text(self, name: str) -> str:
        """Return a text field."""
        value = self.take(name)
        if not isinstance(value, str):
            raise self.error(name, "text", value)
        return value

    def whole(self, name: str, least: int = 0) -> int:
        """Return a whole number >= `least`."""
        value = self.take(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.error(name, f"a whole number >= {least}", value)
        return value

    def number(self, name: str, *, above: float | None = None) -> float:
        """Return a finite number that is at least 0, or more than `above`."""
        value = self.take(name)
        allowed = "a finite number >= 0" if above is None else f"a finite number > {above:g}"
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.error(name, allowed, value)
        if value < 0 or (above is not None and value <= above):
            raise self.error(name, allowed, value)
        return float(value)

    def optional(self, name: str, read: Callable[[str], _T]) -> _T | None:
        """Return `read(name)`, or None for null; the field must exist."""
        if self._left.get(name, _MISSING) is None:
            del self._left[name]
            return None
        return read(name)

    def object(self, name: str) -> StrictObject:
        """Return an object field."""
        return StrictObject(self.take(name), ".".join(part for part in (self.place, name) if part), self.file)

    def items(self, name: str) -> list[Any]:
        """Return a list field."""
        value = self.take(name)
        if not isinstance(value, list):
            raise self.error(name, "a list", value)
        return value

    def objects(self, name: str) -> list[StrictObject]:
        """Return a list of objects."""
        return [StrictObject(item, f"{name}[{i}]", self.file) for i, item in enumerate(self.items(name))]

    def computed(self, name: str, expected: float | None) -> None:
        """Check a number that follows from other fields; a file in which it does not is damaged."""
        value = self.optional(name, self.number)
        agree = value is expected if value is None or expected is None else math.isclose(value, expected)
        if not agree:
            raise self.error(name, f"{expected} (it follows from the other fields)", value)

    @contextmanager
    def all_read(self) -> Iterator[StrictObject]:
        """Check on leaving the context that all fields of the object were read."""
        yield self
        if self._left:
            raise self.error(next(iter(self._left)), "left out: no such field", next(iter(self._left.values())))
