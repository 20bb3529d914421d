"""Context of one command: its printer, its settings and its log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..core import HybridSchedulerError, InvalidInputError
from .options import GOALS, SETTINGS_KEYS, option_of
from .printer import Printer

if TYPE_CHECKING:
    from ..config import LoggingSettings, Settings

_T = TypeVar("_T")
#: Option of each settings key, so that messages name what the user typed.
_OPTION_NAMES = {
    **{key: option_of(name) for name, key in SETTINGS_KEYS.items()},
    **{f"objective.{goal}": "--objective" for goal in GOALS},
    "logging.level": "--log-level",
    "server.host": "--host",
    "server.port": "--port",
    "live.trace": "--trace",
    "live.trace_load": "--utilisation",
    "live.repeat": "--repeat",
    "live.speed": "--speed",
}
#: Log file of commands that run long, and of unexpected errors, where the settings name none.
DEFAULT_LOG_FILE = "logs/app.log"


@contextmanager
def option_names(hints: Mapping[str, str] | None = None, /, **options: str) -> Iterator[None]:
    """Name options of the command line in errors of the library, which name its own parameters.

    Parameters
    ----------
    hints
        Text to show for each text in hints of the library that names a class or a parameter.
    **options
        Option or argument of each parameter, such as ``folder="--out"``.

    Raises
    ------
    InvalidInputError
        The error of the library, with the option as its field.
    """
    try:
        yield
    except HybridSchedulerError as error:
        for hint, with_option in (hints or {}).items():
            error.hint = error.hint and error.hint.replace(hint, with_option)
        if not isinstance(error, InvalidInputError) or error.field not in options:
            raise
        option = options[error.field]
        raise InvalidInputError(option, error.allowed, error.got, where=error.where, hint=error.hint) from None


class CommandContext:
    """State of one call of the program."""

    def __init__(self) -> None:
        self.printer = Printer()
        self.config_file: Path | None = None
        self.log_level: str | None = None
        #: Message after an interrupt; a command that keeps partial results replaces it.
        self.after_interrupt = "nothing was written"
        #: Whether the command runs long or in the background, and therefore always keeps a log file.
        self.keeps_log = False
        self._log_file: str | None = None
        self._logging: LoggingSettings | None = None
        self._listeners: ExitStack | None = None

    def settings(self, options: Mapping[str, Any] | None = None) -> Settings:
        """Load the settings with these options on top, and open the log.

        Parameters
        ----------
        options
            Settings keys and the text that was typed; None for options that were not given.

        Raises
        ------
        InvalidInputError, SeveralProblemsError
            If a setting or an option is wrong.
        """
        from ..config import load_settings

        given = {"logging.level": self.log_level, **(options or {})}
        typed = {key: value for key, value in given.items() if value is not None}
        settings = load_settings(self.config_file, typed, option_names=_OPTION_NAMES)
        self.open_log(settings.logging)
        self.name_compiled_functions()
        return settings

    def name_compiled_functions(self) -> None:
        """Say what is compiled from here to the end of the command: that can take a minute, also before a run."""
        if self._listeners is not None:
            return
        from numba.core.event import Event, RecordingListener, install_listener

        from ..compiled.jit_cache import compile_notice

        def say(event: Event) -> None:
            # Another process that compiles sends events without a function.
            name = event.data["dispatcher"].py_func.__name__ if event.data else "all that the run calls"
            self.printer.doing(f"compiling {name}")

        names = RecordingListener()
        names.on_start = say
        self._listeners = ExitStack()
        self._listeners.enter_context(compile_notice(self.printer.note))
        self._listeners.enter_context(install_listener("numba:compile", names))

    def open_log(self, settings: LoggingSettings) -> None:
        """Send messages to stderr and to the log file from here on."""
        from . import logging_setup

        # The level of the settings is for the file; only --log-level changes what the terminal shows.
        default = "ERROR" if self.printer.quiet else "WARNING"
        logging_setup.to_stderr(self.printer, settings.level if self.log_level else default)
        self._logging = settings
        self._log_file = None
        if settings.file or self.keeps_log:
            self._open_file(settings)

    def _open_file(self, settings: LoggingSettings) -> None:
        from . import logging_setup

        file = settings.file or DEFAULT_LOG_FILE
        self._log_file = file if logging_setup.to_file(settings, file) else None

    @property
    def writes_log(self) -> bool:
        """Whether a log file is open."""
        return self._log_file is not None

    def keep_traceback(self, error: BaseException) -> str | None:
        """Write the traceback to the log file, and return the file's name if there is one."""
        from ..config import LoggingSettings
        from . import logging_setup

        if self._logging is None:
            self.open_log(LoggingSettings())
        if self._log_file is None and self._logging is not None:
            self._open_file(self._logging)
        logging_setup.keep_traceback(error)
        return self._log_file

    def show_warning(self, text: str) -> None:
        """Show a Python warning as one line on stderr; also in the log file once that is open."""
        if self._logging:
            from loguru import logger

            logger.warning(text)
        elif not self.printer.quiet:
            self.printer.report("warning", text)

    def renamed_option(self, old: str, old_value: _T, new: str, value: _T | None) -> _T:
        """Return the value of a renamed option that the user typed under its old name, and warn.

        Parameters
        ----------
        old, new
            Both names of the option, dashes included.
        old_value, value
            What was typed for each; None for the new one if it was not given.

        Raises
        ------
        InvalidInputError
            If both names were typed.
        """
        if value is not None:
            raise InvalidInputError(old, f"left out with {new}, its new name", old_value)
        self.show_warning(f"{old} is deprecated and will be removed in the next release; use {new}")
        return old_value

    def close(self) -> None:
        """Close the log, and end what moves on the terminal."""
        self.printer.calm()
        if self._listeners is not None:
            self._listeners.close()
            self._listeners = None
        if self._logging:
            from loguru import logger

            logger.remove()  # a program that calls a command keeps no file open
            self._logging = None
