"""Where log messages go: a few to stderr, the rest to a file. Only the command line sets this up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loguru import logger

if TYPE_CHECKING:
    from loguru import Message, Record

    from ..config import LoggingSettings
    from .printer import Printer

#: Set on messages that are for the file alone, such as the traceback of an error that was explained already.
_FILE_ONLY = "file_only"
_FORMAT = "{time:YYYY-MM-DD HH:mm:ss.SSS} {level: <8} {process} {name}:{line} {message}"


def to_stderr(printer: Printer, level: str) -> None:
    """Start afresh, with messages from this level on as plain lines on stderr."""

    def show(message: Message) -> None:
        printer.report(message.record["level"].name.lower(), message.record["message"])

    def wanted(record: Record) -> bool:
        return _FILE_ONLY not in record["extra"]

    logger.remove()
    logger.add(show, level=level, format="{message}", filter=wanted, backtrace=False, diagnose=False)


def to_file(settings: LoggingSettings) -> bool:
    """Add the log file. Where it cannot be written, a warning says so and the run goes on without it."""
    try:
        logger.add(
            settings.file,
            level=settings.level,
            format=_FORMAT,
            rotation=settings.rotation,
            retention=settings.retention,
            encoding="utf-8",
            backtrace=False,
            diagnose=False,  # it would write down the values of variables, whatever they hold
        )
    except OSError as error:
        logger.warning(f"no log file: cannot write {settings.file} ({error.strerror or error})")
        return False
    return True


def keep_traceback(error: BaseException) -> None:
    """The whole story of an error, for the file alone."""
    logger.bind(**{_FILE_ONLY: True}).opt(exception=error).error(f"{type(error).__name__}: {error}")


def close() -> None:
    """Let go of the file, so that a program which calls a command keeps nothing open."""
    logger.remove()


def log_warning(text: str) -> None:
    """Log a Python warning: one line on stderr and one in the file."""
    logger.warning(text)
