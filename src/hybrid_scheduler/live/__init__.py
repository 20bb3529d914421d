"""Live run: an endless stream of tasks through every scheduler, in batches for a journal."""

from ..learning.duration.retraining import InlineTrainingWorker, ProcessTrainingWorker, TrainingWorker
from .clock import Clock, WallClock
from .command_queue import EngineClosed, SubmittedTask
from .continuous_simulation import ContinuousSimulation
from .journal import (
    Batch,
    Counters,
    EngineBusy,
    Event,
    IdempotencyKey,
    Journal,
    JournalFull,
    JournalUnavailable,
    Recent,
    Recovered,
    ResultColumns,
    RunLabels,
    RunRecord,
    VersionRecord,
)
from .live_config import Course, LiveConfig
from .measured_run import MeasuredRun, batch_of, measured_from_json, measured_to_json
from .status import LiveEpisode, LiveStatus, ModelCard, SchedulerStatistics

__all__ = [
    "Batch",
    "Clock",
    "ContinuousSimulation",
    "Counters",
    "Course",
    "EngineBusy",
    "EngineClosed",
    "Event",
    "IdempotencyKey",
    "InlineTrainingWorker",
    "Journal",
    "JournalFull",
    "JournalUnavailable",
    "LiveConfig",
    "LiveEpisode",
    "LiveStatus",
    "MeasuredRun",
    "ModelCard",
    "ProcessTrainingWorker",
    "Recent",
    "Recovered",
    "ResultColumns",
    "RunLabels",
    "RunRecord",
    "SchedulerStatistics",
    "SubmittedTask",
    "TrainingWorker",
    "VersionRecord",
    "WallClock",
    "batch_of",
    "measured_from_json",
    "measured_to_json",
]
