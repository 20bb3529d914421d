"""Data types and protocols that every other package uses."""

from .errors import HybridSchedulerError, InvalidInputError, MissingExtraError, UnknownNameError, require
from .objective import Objective, Scales
from .outcome import Outcome, Outcomes
from .platform import PLATFORMS, Device, Platform, cpu, multi_node_platform, platform_named, workstation
from .scheduler_protocols import (
    Central,
    Decision,
    Knowledge,
    Links,
    Online,
    Plan,
    Prediction,
    Queue,
    Scheduler,
    Setting,
    Static,
    TimeModel,
    TimeTable,
    View,
)
from .workload import Floats, Ints, Task, Workload, base_duration

__all__ = [
    "PLATFORMS",
    "Central",
    "Decision",
    "Device",
    "Floats",
    "HybridSchedulerError",
    "Ints",
    "InvalidInputError",
    "Knowledge",
    "Links",
    "MissingExtraError",
    "Objective",
    "Online",
    "Outcome",
    "Outcomes",
    "Plan",
    "Platform",
    "Prediction",
    "Queue",
    "Scales",
    "Scheduler",
    "Setting",
    "Static",
    "Task",
    "TimeModel",
    "TimeTable",
    "UnknownNameError",
    "View",
    "Workload",
    "base_duration",
    "cpu",
    "multi_node_platform",
    "platform_named",
    "require",
    "workstation",
]
