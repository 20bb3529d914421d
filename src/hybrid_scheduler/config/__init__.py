"""Typed settings from the command line, the environment and config.yaml.

Nothing is read when this package is imported.
"""

from .loading import (
    CONFIG_FILE,
    FIELDS,
    SECTIONS,
    SHORT_VARIABLES,
    VARIABLES,
    SeveralProblemsError,
    load_settings,
)
from .sections import (
    DEFAULT_SCENARIO,
    LoggingSettings,
    ServerSettings,
    Settings,
)
from .value_types import ALL_SCHEDULERS

__all__ = [
    "ALL_SCHEDULERS",
    "CONFIG_FILE",
    "DEFAULT_SCENARIO",
    "FIELDS",
    "SECTIONS",
    "SHORT_VARIABLES",
    "VARIABLES",
    "LoggingSettings",
    "ServerSettings",
    "Settings",
    "SeveralProblemsError",
    "load_settings",
]
