"""Set-up of logging: warnings to stderr, the rest to a file.

Only the command line sets it up; a library must not. It is a module of its own because it loads Loguru.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loguru import logger

if TYPE_CHECKING:
    from loguru import Message, Record

    from ..config import LoggingSettings
    from .printer import Printer

#: Set on messages for the file only, such as the traceback of an error that was already explained.
_FILE_ONLY = "file_only"
_FORMAT = "{time:YYYY-MM-DD HH:mm:ss.SSS} {level: <8} {process} {name}:{line} {message}"


def to_stderr(printer: Printer, level: str) -> None:
    """Replace all handlers by one that prints messages from this level on as plain lines on stderr."""

    def show(message: Message) -> None:
        printer.report(message.record["level"].name.lower(), message.record["message"])

    def for_terminal(record: Record) -> bool:
        return _FILE_ONLY not in record["extra"]

    logger.remove()
    logger.add(show, level=level, format="{message}", filter=for_terminal, backtrace=False, diagnose=False)


def to_file(settings: LoggingSettings, file: str) -> bool:
    """Add the log file, and return whether it can be written; if not, a warning says so."""
    try:
        logger.add(
            file,
            level=settings.level,
            format=_FORMAT,
            rotation=settings.rotation,
            retention=settings.retention,
            encoding="utf-8",
            backtrace=False,
            diagnose=False,  # it would write the values of variables, secrets included
        )
    except OSError as error:
        logger.warning(f"no log file: cannot write {file} ({error.strerror or error})")
        return False
    return True


def keep_traceback(error: BaseException) -> None:
    """Write an error with its traceback to the log file only."""
    logger.bind(**{_FILE_ONLY: True}).opt(exception=error).error(f"{type(error).__name__}: {error}")
