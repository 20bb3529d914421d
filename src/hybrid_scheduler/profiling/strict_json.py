"""Strict loader of JSON documents: limits on the file, and dataclasses whose every field is checked.

Errors name the file, the path of the field in the document, what is allowed and what was found.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from ..core.errors import InvalidInputError
from ..workload.argument_checks import file_errors

_T = TypeVar("_T")
_MISSING = object()


def read_json(path: Path, max_bytes: int = 64 * 2**20) -> Any:
    """Return the JSON document of a file.

    Parameters
    ----------
    path : Path
        A regular file: reading anything else may never end.
    max_bytes : int, optional
        Largest size of the file.

    Raises
    ------
    InvalidInputError
        If the file cannot be read or is no JSON document.
    """

    def open_at_once(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    if not path.exists():
        raise InvalidInputError("path", "a file that exists", path.name)
    with file_errors("path", "a file that can be read", path), open(path, "rb", opener=open_at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise InvalidInputError("path", "a regular file", path.name)
        if status.st_size > max_bytes:
            raise InvalidInputError("path", f"a file of at most {max_bytes / 2**20:g} MB", path.name)
        content = file.read()
    return parse_json(content, path.name)


def parse_json(content: bytes | str, where: str = "") -> Any:
    """Return a JSON document; NaN and infinity are no JSON.

    Raises
    ------
    InvalidInputError
        If it is no JSON in UTF-8, or too deep; `where` names it in the message.
    """
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        return json.loads(text, parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise InvalidInputError("document", "JSON in UTF-8", "other bytes", where=where or None) from None
    except RecursionError:
        raise InvalidInputError("document", "JSON", "too many levels", where=where or None) from None
    except ValueError as error:
        raise InvalidInputError("document", "JSON", str(error)[:70], where=where or None) from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def check_format(document: object, file: str, name: str, version: int, *, what: str, renew: str) -> dict[str, Any]:
    """Return a document without its fields `format` and `version`; refuse others than these.

    Parameters
    ----------
    document : object
        Parsed JSON.
    file : str
        File name, for messages.
    name : str
        Name of the format.
    version : int
        The version that this program reads.
    what : str
        The document in words, such as ``a hardware profile``.
    renew : str
        How to make a document of this version from an older one.
    """
    left = _as_object(document, file, "")
    kind = left.pop("format", _MISSING)
    if kind != name:
        raise _error("format", repr(name), kind, file, f"this is not {what}")
    got = left.pop("version", _MISSING)
    if got != version or isinstance(got, bool):
        newer = isinstance(got, int) and got > version
        raise _error(
            "version", str(version), got, file, "a newer program wrote it: update this one" if newer else renew
        )
    return left


def read_object(value: object, kind: type[_T], file: str, place: str = "") -> _T:
    """Return an object of a JSON document as a dataclass, each field by its type.

    A field's metadata may give ``least`` of a whole number and ``above`` of a number. Names in the dataclass's
    `COMPUTED` are numbers or texts that follow from its fields: a file in which they do not is damaged.

    Parameters
    ----------
    value : object
        Parsed JSON; must be a dictionary.
    kind : type
        The dataclass.
    file : str
        File name, for messages.
    place : str, optional
        Path within the document, for messages.

    Raises
    ------
    InvalidInputError
        For the first field that is missing, wrong or unknown.

    Examples
    --------
    >>> from hybrid_scheduler.profiling.strict_json import read_object
    >>> from hybrid_scheduler.profiling.timing import Timing
    >>> document = {"median": 2.0, "spread": 0.1, "low": 1.9, "high": 2.1, "n": 5}
    >>> read_object(document, Timing, "profile.json").median
    2.0
    """
    left = _as_object(value, file, place)
    at = f"{place}." if place else ""
    hints = _hints(kind)  # type: ignore[arg-type]
    values = {
        entry.name: _read(left.pop(entry.name, _MISSING), hints[entry.name], file, at + entry.name, entry.metadata)
        for entry in fields(kind)  # type: ignore[arg-type]
        if entry.init
    }
    try:
        made = kind(**values)
    except InvalidInputError as error:
        raise _error(at + error.field, error.allowed, error.got, file) from None
    for name in getattr(kind, "COMPUTED", ()):
        got = left.pop(name, _MISSING)
        expected = getattr(made, name)
        numbers = isinstance(expected, float) and isinstance(got, int | float)
        if not (math.isclose(got, expected) if numbers else got == expected):
            raise _error(at + name, f"{expected!r} (it follows from the other fields)", got, file)
    for name, got in left.items():
        raise _error(at + name, "left out: no such field", got, file)
    return made


def _as_object(value: object, file: str, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _error(place or "document", "an object", value, file)
    return dict(value)


def _read(value: Any, hint: Any, file: str, place: str, metadata: Mapping[str, Any]) -> Any:
    """Return one value by its type; a missing one is an object that no check accepts."""
    options = get_args(hint)
    if NoneType in options:
        if value is None:
            return None
        hint = next(option for option in options if option is not NoneType)
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise _error(place, "a list", value, file)
        item = get_args(hint)[0]
        return tuple(_read(entry, item, file, f"{place}[{i}]", {}) for i, entry in enumerate(value))
    if is_dataclass(hint):
        return read_object(value, hint, file, place)  # type: ignore[arg-type]
    problem = _problem(value, hint, **metadata)
    if problem is not None:
        raise _error(place, problem, value, file)
    return float(value) if hint is float else value


def _error(field: str, allowed: str, got: object, file: str, hint: str | None = None) -> InvalidInputError:
    return InvalidInputError(field, allowed, "nothing" if got is _MISSING else got, where=file, hint=hint)


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def _problem(value: object, hint: type[Any], least: int = 0, above: float | None = None) -> str | None:
    """Return what is allowed where a value is not: text, a whole number, or a finite number."""
    if hint is str:
        return None if isinstance(value, str) else "text"
    if hint is int:
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
        return None if whole else f"a whole number >= {least}"
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if number and value >= 0 and (above is None or value > above):  # type: ignore[operator]
        return None
    return "a finite number >= 0" if above is None else f"a finite number > {above:g}"
