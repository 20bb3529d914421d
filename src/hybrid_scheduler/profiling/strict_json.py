"""Reading a JSON object strictly: every field is asked for by name and kind, and whatever is left over is an error.

Messages say where in the document: ``profile.json: points[3].cpu_seconds.median: must be ...``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ..core.errors import InvalidInputError

T = TypeVar("T")
_MISSING = object()


class StrictObject:
    """One object of the document."""

    def __init__(self, value: object, place: str, file: str) -> None:
        self.place, self.file = place, file
        if not isinstance(value, dict):
            raise self.error("", "an object", value)
        self._left: dict[str, Any] = dict(value)

    def error(self, name: str, allowed: str, got: object, hint: str | None = None) -> InvalidInputError:
        field = ".".join(part for part in (self.place, name) if part) or "document"
        shown = "nothing" if got is _MISSING else got
        return InvalidInputError(field, allowed, shown, where=self.file, hint=hint)

    def take(self, name: str) -> Any:
        return self._left.pop(name, _MISSING)

    def text(self, name: str) -> str:
        value = self.take(name)
        if not isinstance(value, str):
            raise self.error(name, "text", value)
        return value

    def whole(self, name: str, least: int = 0) -> int:
        value = self.take(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.error(name, f"a whole number >= {least}", value)
        return value

    def number(self, name: str, *, above: float | None = None) -> float:
        """A finite number, at least 0, or more than `above`."""
        value = self.take(name)
        allowed = "a finite number >= 0" if above is None else f"a finite number > {above:g}"
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.error(name, allowed, value)
        if value < 0 or (above is not None and value <= above):
            raise self.error(name, allowed, value)
        return float(value)

    def optional(self, name: str, read: Callable[[str], T]) -> T | None:
        """`read(name)`, or None where the document says null. The field itself must be there."""
        if self._left.get(name, _MISSING) is None:
            del self._left[name]
            return None
        return read(name)

    def object(self, name: str) -> StrictObject:
        return StrictObject(self.take(name), ".".join(part for part in (self.place, name) if part), self.file)

    def items(self, name: str) -> list[Any]:
        value = self.take(name)
        if not isinstance(value, list):
            raise self.error(name, "a list", value)
        return value

    def objects(self, name: str) -> list[StrictObject]:
        return [StrictObject(item, f"{name}[{i}]", self.file) for i, item in enumerate(self.items(name))]

    def computed(self, name: str, expected: float | None) -> None:
        """A number that follows from others: a file in which it does not was changed by hand or damaged."""
        value = self.optional(name, self.number)
        agree = value is expected if value is None or expected is None else math.isclose(value, expected)
        if not agree:
            raise self.error(name, f"{expected} (it follows from the other fields)", value)

    @contextmanager
    def all_read(self) -> Iterator[StrictObject]:
        """Around the reading of an object: in the end nothing may be left."""
        yield self
        if self._left:
            raise self.error(next(iter(self._left)), "left out: no such field", next(iter(self._left.values())))
