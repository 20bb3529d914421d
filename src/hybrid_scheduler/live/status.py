"""Status of the live engine as plain values."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .journal import Counters, Journal, RunRecord
    from .live_config import LiveConfig
    from .live_run import LiveRun


@dataclass(frozen=True, slots=True)
class SchedulerStatistics:
    """Results of one scheduler since the run began or its history was deleted. None means unknown or none yet."""

    name: str
    tasks: int
    failed: int
    mean_time: float | None
    mean_latency: float | None
    #: Half the width of the 95 % interval, by batch means.
    latency_ci95: float | None
    #: Mean latency over its lower bound.
    latency_over_bound: float | None
    mean_wait: float | None
    mean_energy: float | None
    mean_cost: float | None
    total_energy: float
    total_cost: float
    mean_gpu_fraction: float | None
    #: Paired with the oracle, task by task.
    mean_regret: float | None
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
    #: Tasks in the common queue of a central scheduler: they have no result yet.
    waiting: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the fields ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LiveEpisode:
    """Progress of a scenario that has episodes."""

    number: int
    tasks: int
    length: int


@dataclass(frozen=True, slots=True)
class LiveStatus:
    """State of the engine at one time."""

    #: running, paused, stopped, or held: the run is on hold because the journal cannot take more batches, usually
    #: while the database is unavailable.
    state: str
    is_running: bool
    is_paused: bool
    run_id: str | None
    source: str
    scenario: str
    #: Offered load.
    load: float
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
    #: "ok", or "away" while the database is unavailable.
    storage: str
    notes: tuple[str, ...]
    #: Lower bound on the mean latency of the tasks so far.
    latency_bound: float | None
    #: Lower bound on the makespan so far, and the arrival from which both count.
    makespan_bound: float | None
    first_arrival: float | None
    #: Fields of the run's `Slowdown`; None without one.
    slowdown: dict[str, Any] | None
    comparison: tuple[SchedulerStatistics, ...]
    #: Leader, and why the others are slower, from `metrics.verdict.Verdict.as_dict`; None without a run.
    verdict: dict[str, Any] | None

    def as_dict(self) -> dict[str, Any]:
        """Return the status ready for JSON."""
        plain = asdict(self)
        for name in ("schedulers", "notes", "comparison"):
            plain[name] = list(plain[name])
        return plain


@dataclass(frozen=True, slots=True)
class ModelCard:
    """Description of a learned scheduler's model."""

    scheduler_name: str
    state: str
    current_version: int | None
    feature_importance: dict[str, float] | None
    #: {epsilon, updates, loss} of a reinforcement learner.
    agent: dict[str, float | int | None] | None
    #: {error, kinds, outcomes}: typical relative error of recent predictions, of all and by task kind.
    accuracy: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields ready for JSON."""
        return asdict(self)


def read_status(
    run: LiveRun | None,
    record: RunRecord | None,
    config: LiveConfig,
    counters: Counters,
    journal: Journal,
    *,
    held: bool,
    tasks_per_second: float,
    notes: tuple[str, ...],
) -> LiveStatus:
    """Return the status of the active run; without one, of the run that `config` would begin.

    Parameters
    ----------
    run, record, config, counters, journal
        The state of the controller.
    held
        Whether the run waits for the journal.
    tasks_per_second
        The rate over the last updates.
    notes
        Warnings and errors; those of schedulers that are off are added.
    """
    lanes, mode = run.lanes if run else [], record.status if record else "stopped"
    return LiveStatus(
        state="held" if mode == "running" and held else mode,
        is_running=mode == "running",
        is_paused=mode == "paused",
        run_id=record.run_id if record else None,
        source="simulated",
        scenario=record.scenario if record else config.scenario.name,
        load=record.utilisation if record else config.load,
        seed=record.seed if record else config.seed,
        speed=None if config.speed == math.inf else config.speed,
        platform={
            "name": config.platform.name,
            "devices": [{"name": device.name, "kind": device.kind} for device in config.platform.devices],
        },
        schedulers=record.schedulers if record else config.schedulers,
        tasks_processed=run.ordinal if run else 0,
        virtual_time=run.now if run else 0.0,
        tasks_per_second=tasks_per_second,
        started_at=record.created_at if record else None,
        last_seq=counters.next_seq - 1,
        next_task_id=counters.next_task_id,
        episode=run.episode if run else None,
        unsaved_batches=journal.unsaved,
        storage="away" if journal.unavailable else "ok",
        notes=(*notes, *(f"{lane.name} is off: {lane.failure}" for lane in lanes if lane.failure is not None)),
        latency_bound=run.latency_bound.mean if run else None,
        makespan_bound=run.latency_bound.makespan if run else None,
        first_arrival=run.latency_bound.first_arrival if run else None,
        slowdown=None if config.slowdown is None else asdict(config.slowdown),
        comparison=tuple(run.statistics()) if run else (),
        verdict=run.verdict().as_dict() if run else None,
    )
