"""Errors with a fixed form: the field, what is allowed, what was given, and a hint."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib import import_module
from typing import Any

#: The extra that brings each optional library.
EXTRA_OF = {
    "aiosqlite": "server",
    "alembic": "server",
    "asyncpg": "postgres",
    "fastapi": "server",
    "gymnasium": "gym",
    "limits": "server",
    "matplotlib": "report",
    "orjson": "server",
    "ortools": "exact",
    "prometheus_client": "server",
    "ray": "ray",
    "redis": "server",
    "reportlab": "report",
    "sqlalchemy": "server",
    "starlette": "server",
    "torch": "gpu",
    "uvicorn": "server",
    "websockets": "server",
    "xgboost": "learning",
}


class HybridSchedulerError(Exception):
    """Base class of the errors that this package raises on purpose.

    Parameters
    ----------
    message
        One line for the user.
    hint
        How to correct the problem, if that is known.

    Examples
    --------
    >>> from hybrid_scheduler import HybridSchedulerError
    >>> HybridSchedulerError("the profile is empty", hint="run `hybrid-scheduler profile`").hint
    'run `hybrid-scheduler profile`'
    """

    #: Exit code of the command line: 1 = failed, 2 = usage or bad input.
    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        # Subclasses take other arguments than a message, and errors must be picklable to leave a worker process.
        return _rebuild, (type(self), self.args, vars(self))


class InvalidInputError(HybridSchedulerError, ValueError):
    """Error for a value that cannot be used: ``where: field: must be ALLOWED, got GOT``.

    Parameters
    ----------
    field
        Name of the setting, argument or column.
    allowed
        Allowed values, in words.
    got
        Value that was given.
    where
        File, line or object in which the value stands.
    hint
        How to correct it, if that is known.

    Examples
    --------
    >>> from hybrid_scheduler import InvalidInputError
    >>> print(InvalidInputError("num_gpus", ">= 0", -1))
    num_gpus: must be >= 0, got -1
    """

    exit_code = 2

    def __init__(
        self, field: str, allowed: str, got: object, *, where: str | None = None, hint: str | None = None
    ) -> None:
        place = f"{where}: " if where else ""
        super().__init__(f"{place}{field}: must be {allowed}, got {_short_repr(got)}", hint=hint)
        self.field = field
        self.allowed = allowed
        self.got = got
        self.where = where


class UnknownNameError(InvalidInputError):
    """Error for a name outside a closed set; the hint suggests the nearest one.

    Parameters
    ----------
    kind
        What the name stands for, e.g. ``"scheduler"``.
    name
        Name that was given.
    choices
        Allowed names.
    where
        File, line or object in which the name stands.

    Examples
    --------
    >>> from hybrid_scheduler import UnknownNameError
    >>> UnknownNameError("scheduler", "greed", ["greedy", "oracle"]).hint
    "did you mean 'greedy'?"
    """

    def __init__(self, kind: str, name: object, choices: Iterable[str], *, where: str | None = None) -> None:
        known = sorted(choices)
        near = difflib.get_close_matches(str(name).lower(), known, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else None
        super().__init__(kind, "one of " + ", ".join(known), name, where=where, hint=hint)
        self.nearest = near[0] if near else None


class MissingExtraError(HybridSchedulerError, ImportError):
    """Error for an optional library that is not installed: ``PURPOSE needs LIBRARY: pip install …``.

    Parameters
    ----------
    library
        Name under which the library is imported.
    purpose
        What needs it, in words.
    hint
        How to do without it, if that is possible.

    Examples
    --------
    >>> from hybrid_scheduler.core import MissingExtraError
    >>> print(MissingExtraError("torch", "running kernels"))
    running kernels needs torch: pip install 'hybrid-scheduler[gpu]'
    """

    def __init__(self, library: str, purpose: str, *, hint: str | None = None) -> None:
        command = f"pip install 'hybrid-scheduler[{EXTRA_OF[library]}]'"
        super().__init__(f"{purpose} needs {library}: {command}", hint=hint)
        self.library = library


def require(library: str, purpose: str, *, hint: str | None = None) -> Any:
    """Import an optional library and return it.

    Parameters
    ----------
    library
        A name of `EXTRA_OF`.
    purpose
        What needs the library, for the message.
    hint
        How to do without it, if that is possible.

    Raises
    ------
    MissingExtraError
        If the library is not installed.
    """
    try:
        return import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise  # it is installed, and something that it needs is not
        raise MissingExtraError(library, purpose, hint=hint) from None


def _rebuild(
    kind: type[HybridSchedulerError], arguments: tuple[object, ...], values: dict[str, object]
) -> HybridSchedulerError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    vars(error).update(values)
    return error


def _short_repr(value: object) -> str:
    try:
        text = repr(value.item() if hasattr(value, "item") else value)
    except ValueError:  # Python does not print whole numbers of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= 80 else text[:77] + "..."
