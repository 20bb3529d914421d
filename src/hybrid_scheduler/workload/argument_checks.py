"""Checks of arguments: whole numbers, positive numbers, ranges, and names with parameters."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..core import InvalidInputError

Range = tuple[float, float]


@contextmanager
def file_errors(field: str, allowed: str, path: Path) -> Iterator[None]:
    """Raise an OSError of the block as an InvalidInputError with the file's name and the system's reason."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidInputError(field, allowed, path.name, hint=reason) from None


def whole_number(field: str, value: object, least: int, most: int = 2**63 - 1) -> int:
    """Return the value as an int; raise InvalidInputError if it is not a whole number in [least, most]."""
    allowed = f"a whole number >= {least}"
    if isinstance(value, bool):
        raise InvalidInputError(field, allowed, value)
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidInputError(field, allowed, value) from None
    if number < least:
        raise InvalidInputError(field, allowed, value)
    if number > most:
        raise InvalidInputError(field, f"a whole number from {least} to {most}", value)
    return number


def positive_number(field: str, value: object) -> float:
    """Return the value as a float; raise InvalidInputError if it is not a finite number above 0."""
    number = _number(value)
    if not (math.isfinite(number) and number > 0):
        raise InvalidInputError(field, "finite and > 0", value)
    return number


def number_range(
    field: str, value: object, *, least: float = 0.0, most: float = math.inf, open_below: bool = False
) -> Range:
    """Return a pair low <= high in [least, most] or (least, most]; raise InvalidInputError if it is not one."""
    below = "(" if open_below else "["
    above = "infinity)" if most == math.inf else f"{most:g}]"
    allowed = f"a pair low <= high of finite numbers in {below}{least:g}, {above}"
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise InvalidInputError(field, allowed, value)
    low, high = (_number(end) for end in value)
    inside = (low > least if open_below else low >= least) and low <= high <= most
    if not (math.isfinite(low) and math.isfinite(high) and inside):
        raise InvalidInputError(field, allowed, value)
    return low, high


#: Constants as JSON and YAML write them, and their names in Python.
_PYTHON_NAMES = {"true": "True", "false": "False", "null": "None", "none": "None"}


def parse_spec(spec: str, what: str = "scheduler") -> tuple[str, dict[str, Any]]:
    """Split ``name(parameter=value, ...)`` into name and arguments; values that are not literals are strings.

    Parameters
    ----------
    spec
        The text.
    what
        Word for the named thing in errors.

    Examples
    --------
    >>> from hybrid_scheduler.workload.argument_checks import parse_spec
    >>> parse_spec("oracle(grid=11)")
    ('oracle', {'grid': 11})
    """
    name, bracket, rest = spec.strip().partition("(")
    if not bracket:
        return name.strip(), {}
    if not rest.endswith(")"):
        raise InvalidInputError(what, "name or name(parameter=value, ...)", spec)
    arguments: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in rest[:-1].split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not (equals and key and value):
            raise InvalidInputError(f"{what} {name.strip()}", "parameter=value", item)
        try:
            arguments[key] = ast.literal_eval(_PYTHON_NAMES.get(value, value))
        except (ValueError, SyntaxError, RecursionError, MemoryError):  # the last two: it is too deep
            arguments[key] = value
    return name.strip(), arguments


def _number(value: object) -> float:
    """Return the value as a float; NaN, which every check refuses, if it is not a number."""
    if isinstance(value, (str, bytes, bool)):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan
