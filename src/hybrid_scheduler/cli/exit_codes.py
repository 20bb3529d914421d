"""Every way a command can end, as a line, a hint and an exit code.

0 fine, 1 failed, 2 usage or bad input, 130 interrupted.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from .command_context import CommandContext
from .printer import Printer

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


def exit_code_of(command: Callable[[], Any], session: CommandContext) -> int:
    """Run a command, explain what went wrong, and close the log."""
    try:
        # The parser turns an interrupt into the exit code, too.
        with _warnings_as_lines(session):
            code = command()
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        # A new printer: the interrupt may have come while the old one was in the middle of a line.
        Printer().report("interrupted", session.after_interrupt)
        return INTERRUPTED
    except typer.TyperException as error:
        return _explain_usage(error, session)
    except Exception as error:
        return _explain(error, session)
    finally:
        session.close()


@contextmanager
def _warnings_as_lines(session: CommandContext) -> Iterator[None]:
    """Show Python warnings as lines on stderr, so that none of them ends a command.

    Meanwhile, filters that turn warnings into exceptions (``-W error``) only show them. Other filters keep their
    effect.
    """

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        kind = "" if category is UserWarning else f"{category.__name__}: "
        session.show_warning(f"{kind}{message}")

    with warnings.catch_warnings():
        warnings.filters[:] = [  # type: ignore[index]
            ("default" if action == "error" else action, *rest) for action, *rest in warnings.filters
        ]
        warnings.showwarning = show
        yield


def _explain_usage(error: typer.TyperException, session: CommandContext) -> int:
    """The parser's sentence in our form, with the nearest name as the hint."""
    message = re.sub(r" \(Possible options: .*\)$", "", error.format_message().rstrip("."))
    near = list(getattr(error, "possibilities", None) or ())
    if suggestion := re.search(r"\. Did you mean '(.*?)'.*\?$", message):
        near, message = [suggestion[1]], message[: suggestion.start()]
    context = getattr(error, "ctx", None)
    hint = f"see {context.command_path} --help" if context else None
    _tell(session, message[:1].lower() + message[1:], f"did you mean '{near[0]}'?" if near else hint)
    return error.exit_code


def _explain(error: Exception, session: CommandContext) -> int:
    from ..core import HybridSchedulerError  # not above: --help should not wait for NumPy

    if isinstance(error, HybridSchedulerError):
        for problem in getattr(error, "problems", [error]):
            _tell(session, str(problem), problem.hint)
        if session.is_logging or error.exit_code != BAD_INPUT:  # a mistyped option needs no new log file
            session.keep_traceback(error)
        return error.exit_code
    file = session.keep_traceback(error)
    if isinstance(error, MemoryError):
        _tell(session, "not enough memory", "fewer tasks or fewer schedulers need less")
    else:
        _tell(session, f"unexpected {type(error).__name__}: {error}" + (f", see {file}" if file else ""))
    return FAILED


def _tell(session: CommandContext, message: str, hint: str | None = None) -> None:
    session.printer.report("error", message)
    if hint:
        session.printer.report("hint", hint)
