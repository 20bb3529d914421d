"""Strict loader of JSON documents: limits on the file, and dataclasses whose every field is checked.

Errors name the file, the path of the field in the document, what is allowed and what was found.
"""

from __future__ import annotations

import json
import math
import os
import stat
from dataclasses import Field, fields, is_dataclass
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


class StrictObject:
    """Object of a JSON document.

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
    >>> from hybrid_scheduler.profiling.timing import Timing
    >>> document = {"median": 2.0, "spread": 0.1, "low": 1.9, "high": 2.1, "n": 5}
    >>> StrictObject(document, "cpu_seconds", "profile.json").read(Timing).median
    2.0
    """

    def __init__(self, value: object, place: str, file: str) -> None:
        self.place = place
        self.file = file
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

    def check_format(self, name: str, version: int, *, what: str, renew: str) -> None:
        """Take the fields `format` and `version`, and refuse others than these.

        Parameters
        ----------
        name : str
            Name of the format.
        version : int
            The version that this program reads.
        what : str
            The document in words, such as ``a hardware profile``.
        renew : str
            How to make a document of this version from an older one.
        """
        kind = self.take("format")
        if kind != name:
            raise self.error("format", repr(name), kind, hint=f"this is not {what}")
        got = self.take("version")
        if got != version or isinstance(got, bool):
            newer = isinstance(got, int) and got > version
            hint = "a newer program wrote it: update this one" if newer else renew
            raise self.error("version", str(version), got, hint=hint)

    def read(self, kind: type[_T]) -> _T:
        """Return the object as this dataclass, each field by its type.

        A field's metadata may give ``least`` of a whole number and ``above`` of a number. Names in the dataclass's
        `COMPUTED` are numbers or texts that follow from its fields: a file in which they do not is damaged.

        Raises
        ------
        InvalidInputError
            For the first field that is missing, wrong or unknown.
        """
        hints = _hints(kind)  # type: ignore[arg-type]
        values = {entry.name: self._value(entry, hints[entry.name]) for entry in fields(kind) if entry.init}  # type: ignore[arg-type]
        try:
            made = kind(**values)
        except InvalidInputError as error:
            raise self.error(error.field, error.allowed, error.got) from None
        for name in getattr(kind, "COMPUTED", ()):
            self._compare(name, getattr(made, name))
        self.refuse_others()
        return made

    def _value(self, entry: Field[Any], hint: Any) -> Any:
        name = entry.name
        options = get_args(hint)
        if NoneType in options:
            if self._left.get(name, _MISSING) is None:
                return self.take(name)
            hint = next(option for option in options if option is not NoneType)
        if get_origin(hint) is tuple:
            return self._items(name, get_args(hint)[0])
        if is_dataclass(hint):
            place = ".".join(part for part in (self.place, name) if part)
            return StrictObject(self.take(name), place, self.file).read(hint)  # type: ignore[arg-type]
        value = self.take(name)
        problem = _problem(value, hint, **entry.metadata)
        if problem is not None:
            raise self.error(name, problem, value)
        return float(value) if hint is float else value

    def _items(self, name: str, hint: Any) -> tuple[Any, ...]:
        value = self.take(name)
        if not isinstance(value, list):
            raise self.error(name, "a list", value)
        if is_dataclass(hint):
            items = (StrictObject(item, f"{name}[{i}]", self.file) for i, item in enumerate(value))
            return tuple(item.read(hint) for item in items)  # type: ignore[arg-type]
        for item in value:
            if not isinstance(item, hint):
                raise self.error(name, "a list of texts", item)
        return tuple(value)

    def _compare(self, name: str, expected: float | str | None) -> None:
        value = self.take(name)
        if isinstance(expected, float) and isinstance(value, int | float):
            agree = math.isclose(value, expected)
        else:
            agree = value == expected
        if not agree:
            raise self.error(name, f"{expected!r} (it follows from the other fields)", value)

    def refuse_others(self) -> None:
        """Raise an error for a field that was not read."""
        if self._left:
            raise self.error(next(iter(self._left)), "left out: no such field", next(iter(self._left.values())))


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
