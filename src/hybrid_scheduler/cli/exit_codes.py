"""Exit codes of commands, and the error lines that go with them.

0 success, 1 failure, 2 usage error or bad input, 130 interrupted.
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


def exit_code_of(run: Callable[[], Any], command: CommandContext) -> int:
    """Run a command, explain errors on stderr, and close the log."""
    try:
        # The parser turns an interrupt into the exit code, too.
        with _warnings_as_lines(command):
            code = run()
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        # A new printer: the interrupt may have come in the middle of a line of the old one.
        Printer().report("interrupted", command.after_interrupt)
        return INTERRUPTED
    except typer.TyperException as error:
        return _explain_usage(error, command)
    except Exception as error:
        return _explain(error, command)
    finally:
        command.close()


@contextmanager
def _warnings_as_lines(command: CommandContext) -> Iterator[None]:
    """Show Python warnings as lines on stderr, so that none of them ends a command.

    Meanwhile, filters that turn warnings into exceptions (``-W error``) only show them. Other filters keep their
    effect.
    """

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        kind = "" if category is UserWarning else f"{category.__name__}: "
        command.show_warning(f"{kind}{message}")

    with warnings.catch_warnings():
        warnings.filters[:] = [  # type: ignore[index]
            ("default" if action == "error" else action, *rest) for action, *rest in warnings.filters
        ]
        warnings.showwarning = show
        yield


def _explain_usage(error: typer.TyperException, command: CommandContext) -> int:
    """Print the parser's message as one line, with the nearest name as the hint."""
    message = re.sub(r" \(Possible options: .*\)$", "", error.format_message().rstrip("."))
    near = list(getattr(error, "possibilities", None) or ())
    if suggestion := re.search(r"\. Did you mean '(.*?)'.*\?$", message):
        near, message = [suggestion[1]], message[: suggestion.start()]
    context = getattr(error, "ctx", None)
    hint = f"see {context.command_path} --help" if context else None
    _tell(command, message[:1].lower() + message[1:], f"did you mean '{near[0]}'?" if near else hint)
    return error.exit_code


def _explain(error: Exception, command: CommandContext) -> int:
    from ..core import HybridSchedulerError, MissingExtraError  # here, because --help should not load NumPy
    from ..core.errors import EXTRA_OF

    if isinstance(error, ModuleNotFoundError) and error.name in EXTRA_OF:
        error = MissingExtraError(error.name, "this command")
    if isinstance(error, HybridSchedulerError):
        for problem in getattr(error, "problems", [error]):
            _tell(command, str(problem), problem.hint)
        if command.writes_log:  # an explained error needs no new log file
            command.keep_traceback(error)
        return error.exit_code
    file = command.keep_traceback(error)
    if isinstance(error, MemoryError):
        _tell(command, "not enough memory", "fewer tasks or fewer schedulers need less")
    else:
        _tell(command, f"unexpected {type(error).__name__}: {error}" + (f", see {file}" if file else ""))
    return FAILED


def _tell(command: CommandContext, message: str, hint: str | None = None) -> None:
    command.printer.report("error", message)
    if hint:
        command.printer.report("hint", hint)
