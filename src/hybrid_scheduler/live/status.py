"""Status of the live engine as plain values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from ..metrics.verdict import Verdict
from ..physics import Slowdown

#: Beginning of the note in the status of an engine that has failed.
FAILURE_NOTE = "the engine failed: "


SchedulerState = Literal["ready", "warming", "learned", "fallback", "off"]
StorageState = Literal["ok", "away"]
RunSource = Literal["simulated", "measured"]
RunStatus = Literal["running", "paused", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStatistics:
    """Results of one scheduler since the run began or its history was deleted: seconds, joules, dollars.

    None means unknown or none yet.
    """

    name: str
    tasks: int
    failed: int
    #: Mean execution time.
    mean_time: float | None
    #: Mean time from arrival to finish, waiting included.
    mean_latency: float | None
    #: Half the width of the 95 % interval, by batch means.
    latency_ci95: float | None
    #: Mean latency over the lower bound that no scheduler can beat.
    latency_over_bound: float | None = None
    mean_wait: float | None
    mean_energy: float | None
    mean_cost: float | None
    total_energy: float
    total_cost: float
    mean_gpu_fraction: float | None
    #: Mean latency minus the oracle's, task by task.
    mean_regret: float | None
    #: Half the width of its 95 % interval, paired with the oracle.
    regret_ci95: float | None
    p50_latency: float | None
    p95_latency: float | None
    p99_latency: float | None
    #: Number of newest tasks behind the quantiles.
    window: int
    makespan: float | None
    #: Jain's index over the devices; 1 is even.
    load_balance: float | None
    #: `off`: it failed and was removed from the run.
    state: SchedulerState
    model_version: int | None
    #: Tasks in the common queue of a central scheduler: they have no result yet.
    waiting: int = 0
    #: Share of the tasks that each policy of a learned scheduler decided; empty for schedulers with one policy.
    decided_by: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LiveEpisode:
    """Progress of a scenario that has episodes."""

    number: int
    tasks: int
    length: int


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One device of the machine."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class PlatformInfo:
    """The machine that is simulated."""

    name: str
    devices: list[DeviceInfo]


@dataclass(frozen=True, slots=True)
class LiveStatus:
    """State of the live run at one time."""

    #: `held`: the run is on hold because the journal cannot take more batches, usually while the database is
    #: unavailable, or because the engine's process is unavailable.
    state: Literal["running", "paused", "stopped", "held"]
    is_running: bool
    is_paused: bool
    run_id: str | None
    source: RunSource
    scenario: str
    #: Offered load as a share of the machine's capacity.
    load: float
    seed: int
    #: Virtual seconds per second; null: as fast as possible.
    speed: float | None
    platform: PlatformInfo
    schedulers: tuple[str, ...]
    tasks_processed: int
    #: Virtual seconds since the run began.
    virtual_time: float
    tasks_per_second: float
    started_at: float | None
    last_seq: int
    next_task_id: int
    episode: LiveEpisode | None
    unsaved_batches: int
    #: `away`: the database is unavailable.
    storage: StorageState
    #: Remarks on the numbers.
    notes: tuple[str, ...]
    #: Lower bound on the mean latency of the tasks so far; no scheduler can beat it.
    latency_bound: float | None
    #: Lower bound on the makespan of the tasks so far.
    makespan_bound: float | None
    #: Arrival from which makespans count, in virtual seconds.
    first_arrival: float | None
    #: A time in which a device is slower.
    slowdown: Slowdown | None
    comparison: tuple[SchedulerStatistics, ...]
    #: Leader, and why the others are slower; null without a run.
    verdict: Verdict | None

    def as_dict(self) -> dict[str, Any]:
        """Return the status ready for JSON."""
        return asdict(replace(self, verdict=None)) | {"verdict": self.verdict and self.verdict.as_dict()}


@dataclass(frozen=True, slots=True)
class ModelCard:
    """Description of a learned scheduler's model."""

    scheduler_name: str
    state: str
    #: Number of the duration model, by which rules and agent decide.
    current_version: int | None
    feature_importance: dict[str, float] | None
    #: {epsilon, updates, loss} of a reinforcement learner.
    agent: dict[str, float | int | None] | None
    #: {error, kinds, outcomes}: typical relative error of recent predictions, of all and by task kind.
    accuracy: dict[str, Any] | None = None
    #: The policy that decided the newest task, such as ``"learned_rule"`` or ``"agent"``; None before the first.
    policy: str | None = None
    #: Share of the tasks that each policy decided.
    decided_by: dict[str, float] = field(default_factory=dict)
