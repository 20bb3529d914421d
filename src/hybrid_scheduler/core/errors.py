"""Errors that tell a person what to change: the field, what is allowed, what came."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HybridSchedulerError(Exception):
    """Base of every error this package raises on purpose."""

    #: What the command line returns for it: 1 = failed, 2 = usage or bad input.
    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        # Subclasses take other arguments than a message, and errors must survive the way out of another process.
        return _remade, (type(self), self.args, vars(self))


class InvalidInputError(HybridSchedulerError, ValueError):
    """A value that cannot be used. Reads as ``where: field: must be ALLOWED, got GOT``."""

    exit_code = 2

    def __init__(
        self, field: str, allowed: str, got: object, *, where: str | None = None, hint: str | None = None
    ) -> None:
        place = f"{where}: " if where else ""
        super().__init__(f"{place}{field}: must be {allowed}, got {_shown(got)}", hint=hint)
        self.field = field
        self.allowed = allowed
        self.got = got
        self.where = where


class UnknownNameError(InvalidInputError):
    """A name that is not in a closed set; the nearest one is suggested."""

    def __init__(self, kind: str, name: object, choices: Iterable[str], *, where: str | None = None) -> None:
        known = sorted(choices)
        near = difflib.get_close_matches(str(name).lower(), known, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else None
        super().__init__(kind, "one of " + ", ".join(known), name, where=where, hint=hint)
        self.nearest = near[0] if near else None


def _remade(
    kind: type[HybridSchedulerError], arguments: tuple[object, ...], values: dict[str, object]
) -> HybridSchedulerError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    vars(error).update(values)
    return error


def _shown(value: object) -> str:
    text = repr(value.item() if hasattr(value, "item") else value)
    return text if len(text) <= 80 else text[:77] + "..."
