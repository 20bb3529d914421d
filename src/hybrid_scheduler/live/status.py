"""What the engine says about itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

#: running, paused, stopped; held: running, but the store has no room, so no tasks are made.
STATES = ("running", "paused", "stopped", "held")


@dataclass(frozen=True, slots=True)
class SchedulerStatistics:
    """One scheduler since the run began or history was deleted. None: not known, or nothing to average yet."""

    name: str
    tasks: int
    failed: int
    avg_time: float | None
    avg_latency: float | None
    #: Half the width of the 95 % interval, by batch means.
    latency_ci95: float | None
    avg_wait: float | None
    avg_energy: float | None
    avg_cost: float | None
    total_energy: float
    total_cost: float
    avg_gpu_fraction: float | None
    #: Paired with the oracle, task by task.
    avg_regret: float | None
    regret_ci95: float | None
    #: Quantiles over the newest `window` tasks.
    p50_latency: float | None
    p95_latency: float | None
    p99_latency: float | None
    window: int
    makespan: float
    load_balance: float
    #: ready, warming, learned, fallback, or off after it failed.
    state: str
    model_version: int | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LiveEpisode:
    """Where a scenario of episodes stands."""

    number: int
    tasks: int
    length: int


@dataclass(frozen=True, slots=True)
class LiveStatus:
    """One moment of the engine, as plain values."""

    state: str
    is_running: bool
    is_paused: bool
    run_id: str | None
    source: str
    scenario: str
    utilisation: float
    seed: int
    #: Virtual per wall seconds; None means as fast as possible.
    speed: float | None
    platform: dict[str, Any]
    schedulers: tuple[str, ...]
    tasks_processed: int
    virtual_time: float
    tasks_per_second: float
    started_at: float | None
    last_seq: int
    next_task_id: int
    episode: LiveEpisode | None
    unsaved_batches: int
    storage: str
    notes: tuple[str, ...]
    comparison: tuple[SchedulerStatistics, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        plain = asdict(self)
        for name in ("schedulers", "notes", "comparison"):
            plain[name] = list(plain[name])
        return plain


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What is known of one learned scheduler's model."""

    scheduler_name: str
    state: str
    current_version: int | None
    feature_importance: dict[str, float] | None
    #: {epsilon, updates, loss} of a reinforcement learner.
    agent: dict[str, float | int | None] | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
