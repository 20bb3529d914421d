"""Typed settings from the command line, the environment and config.yaml.

Nothing is read when this package is imported.
"""

from .loading import (
    CONFIG_FILE,
    ENV_FILE,
    FIELDS,
    SECTIONS,
    SHORT_VARIABLES,
    VARIABLES,
    SeveralProblemsError,
    load_settings,
)
from .sections import (
    DEFAULT_SCENARIO,
    DEFAULT_SCHEDULERS,
    LiveSettings,
    LoggingSettings,
    ObjectiveSettings,
    PhysicsSettings,
    ServerSettings,
    Settings,
    SimulationSettings,
    StorageSettings,
    WorkloadSettings,
)
from .value_types import ALL_SCHEDULERS, LOG_LEVELS

__all__ = [
    "ALL_SCHEDULERS",
    "CONFIG_FILE",
    "DEFAULT_SCENARIO",
    "DEFAULT_SCHEDULERS",
    "ENV_FILE",
    "FIELDS",
    "LOG_LEVELS",
    "SECTIONS",
    "SHORT_VARIABLES",
    "VARIABLES",
    "LiveSettings",
    "LoggingSettings",
    "ObjectiveSettings",
    "PhysicsSettings",
    "ServerSettings",
    "Settings",
    "SeveralProblemsError",
    "SimulationSettings",
    "StorageSettings",
    "WorkloadSettings",
    "load_settings",
]
