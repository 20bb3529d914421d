"""What every command has at hand: the printer, the settings once they are asked for, and the log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .printer import Printer

if TYPE_CHECKING:
    from ..config import LoggingSettings, Settings

#: Which option sets which key, so that messages speak of what was typed.
OPTION_NAMES = {
    "simulation.scenario": "--scenario",
    "simulation.utilisation": "--utilisation",
    "simulation.tasks": "--tasks",
    "simulation.seed": "--seed",
    "simulation.schedulers": "--schedulers",
    "simulation.platform": "--platform",
    "simulation.memory_policy": "--memory-policy",
    "physics.name": "--physics",
    "physics.noise_sigma": "--noise",
    "objective.latency": "--objective",
    "objective.energy": "--objective",
    "objective.cost": "--objective",
    "logging.level": "--log-level",
}


class CommandContext:
    """One call of the program."""

    def __init__(self) -> None:
        self.printer = Printer()
        self.config_file: Path | None = None
        self.log_level: str | None = None
        #: What is said when the user interrupts; a command that keeps something says so here.
        self.after_interrupt = "nothing was written"
        self._log_file: str | None = None
        self._logging = False

    def settings(self, options: Mapping[str, Any] | None = None) -> Settings:
        """The settings with these options on top; from here on messages are logged.

        Options are keys and the text that was typed; those that were not given are None.
        """
        from ..config import load_settings

        given = {"logging.level": self.log_level, **(options or {})}
        typed = {key: value for key, value in given.items() if value is not None}
        settings = load_settings(self.config_file, typed, option_names=OPTION_NAMES)
        self.open_log(settings.logging)
        return settings

    def open_log(self, settings: LoggingSettings) -> None:
        from . import logging_setup

        # Talk stays small: the level of the settings is the file's, unless it was asked for on the command line.
        usual = "ERROR" if self.printer.quiet else "WARNING"
        logging_setup.to_stderr(self.printer, settings.level if self.log_level else usual)
        self._logging = True
        self._log_file = settings.file if logging_setup.to_file(settings) else None

    @property
    def is_logging(self) -> bool:
        return self._logging

    def keep_traceback(self, error: BaseException) -> str | None:
        """Write it to the log file, and return the file's name if there is one."""
        from ..config import LoggingSettings
        from . import logging_setup

        if not self._logging:
            self.open_log(LoggingSettings())
        logging_setup.keep_traceback(error)
        return self._log_file

    def show_warning(self, text: str) -> None:
        """Show a Python warning as one line on stderr; also in the log file once that is open."""
        if self._logging:
            from . import logging_setup

            logging_setup.log_warning(text)
        elif not self.printer.quiet:
            self.printer.report("warning", text)

    def close(self) -> None:
        if self._logging:
            from . import logging_setup

            logging_setup.close()
            self._logging = False
