"""Joins workload, schedulers and cluster."""

from ..learning.errand import Trained
from .clock import Clock, WallClock
from .commands import EngineClosed, SubmittedTask
from .comparison import Comparison, compare
from .continuous import ContinuousSimulation
from .course import Course
from .journal import EngineBusy, Journal, JournalAway, JournalFull
from .measured import MeasuredRun, batch_of
from .measured_json import measured_from_json, measured_to_json
from .online_scheduler import OnlineScheduler, Placement
from .records import Batch, Counters, Event, Idempotency, Recent, Recovered, ResultColumns, RunRecord, VersionRecord
from .status import ComparisonRow, Episode, ModelCard, Status
from .trainer import InlineTrainer, ProcessTrainer, Trainer
from .virtual_multi_gpu import BASELINES, VirtualMultiGPU

__all__ = [
    "BASELINES",
    "Batch",
    "Clock",
    "Comparison",
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
    "OnlineScheduler",
    "Placement",
    "ProcessTrainer",
    "Recent",
    "Recovered",
    "ResultColumns",
    "RunRecord",
    "Status",
    "SubmittedTask",
    "Trained",
    "Trainer",
    "VersionRecord",
    "VirtualMultiGPU",
    "WallClock",
    "batch_of",
    "compare",
    "measured_from_json",
    "measured_to_json",
]
