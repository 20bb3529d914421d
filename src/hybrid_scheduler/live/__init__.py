"""The continuous run: tasks without end through every scheduler, in batches for a journal."""

from .batch_records import (
    Batch,
    Counters,
    Event,
    Idempotency,
    Recent,
    Recovered,
    ResultColumns,
    RunRecord,
    VersionRecord,
)
from .clock import Clock, WallClock
from .command_queue import EngineClosed, SubmittedTask
from .continuous_simulation import ContinuousSimulation
from .journal import EngineBusy, Journal, JournalAway, JournalFull
from .live_config import Course
from .measured_json import measured_from_json, measured_to_json
from .measured_run import MeasuredRun, batch_of
from .status import ComparisonRow, Episode, ModelCard, Status
from .training_worker import InlineTrainer, ProcessTrainer, Trainer

__all__ = [
    "Batch",
    "Clock",
    "ComparisonRow",
    "ContinuousSimulation",
    "Counters",
    "Course",
    "EngineBusy",
    "EngineClosed",
    "Episode",
    "Event",
    "Idempotency",
    "InlineTrainer",
    "Journal",
    "JournalAway",
    "JournalFull",
    "MeasuredRun",
    "ModelCard",
    "ProcessTrainer",
    "Recent",
    "Recovered",
    "ResultColumns",
    "RunRecord",
    "Status",
    "SubmittedTask",
    "Trainer",
    "VersionRecord",
    "WallClock",
    "batch_of",
    "measured_from_json",
    "measured_to_json",
]
