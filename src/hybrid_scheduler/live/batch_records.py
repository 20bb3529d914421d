"""What the live engine hands to whoever keeps it: one `Batch` is everything that one transaction must hold."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core import Floats, Workload


class Counters(NamedTuple):
    """The next number of each kind. They are stored with every batch and never step back, even when rows go."""

    next_task_id: int = 1
    next_result_id: int = 1
    next_seq: int = 1


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run: a seed, a scenario and a machine, with the tasks that came since it began."""

    run_id: str
    created_at: float
    scenario: str
    #: Offered load; NaN for a measured run, which has none.
    utilisation: float
    seed: int
    platform: str
    schedulers: tuple[str, ...]
    config: dict[str, Any]
    config_hash: str
    #: "simulated", or "measured" on real devices.
    source: str = "simulated"
    #: "running", "paused" or "stopped". A run that was not stopped goes on after a restart.
    status: str = "running"
    ended_at: float | None = None


@dataclass(frozen=True, slots=True)
class ResultColumns:
    """What one scheduler made of a batch's tasks. NaN stands for "none": a part that did not run, no oracle."""

    #: Index into the platform's devices.
    device: NDArray[np.int32]
    gpu_fraction: Floats
    actual_time: Floats
    latency: Floats
    start_time: Floats
    finish_time: Floats
    cpu_start: Floats
    cpu_time: Floats
    gpu_start: Floats
    gpu_time: Floats
    energy_consumption: Floats
    execution_cost: Floats
    #: Latency minus the oracle's for the same task, each on its own cluster.
    regret: Floats
    predicted_time: Floats
    status: NDArray[np.uint8]
    model_version: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One message of the stream. `body` holds the fields of its type."""

    seq: int
    type: str
    run_id: str
    #: Virtual seconds since the run began.
    t: float
    created_at: float
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """One version of a learned scheduler's model."""

    run_id: str
    scheduler_name: str
    version: int
    samples: int
    r2: float | None
    trigger: str
    at_task: int
    created_at: float
    #: How long the training took; None where it was loaded.
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A client's key for a task it sent, and the digest of what it sent."""

    key: str
    fingerprint: str
    task_id: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Stored whole or not at all."""

    run: RunRecord
    #: The run's checkpoint (JSON): it takes the place of the one before.
    state: dict[str, Any]
    counters: Counters
    device_names: tuple[str, ...]
    tasks: Workload | None = None
    #: Position in the run of the first task.
    first_ordinal: int = 0
    external_ids: tuple[str | None, ...] | None = None
    results: Mapping[str, ResultColumns] = field(default_factory=dict)
    first_result_id: int = 1
    #: The isolated optimum of every task.
    optimal_fraction: Floats | None = None
    optimal_time: Floats | None = None
    versions: tuple[VersionRecord, ...] = ()
    events: tuple[Event, ...] = ()
    idempotency: tuple[IdempotencyKey, ...] = ()
    #: Set once the batch is durable, or to the reason why it is not.
    committed: Future[None] | None = None

    def __len__(self) -> int:
        return 0 if self.tasks is None else len(self.tasks)


@dataclass(frozen=True, slots=True)
class Recent:
    """The newest tasks of a run with what became of them: learners are warmed with these after a restart."""

    tasks: Workload
    results: Mapping[str, ResultColumns]


class Recovered(NamedTuple):
    """What a store knows when it is opened."""

    counters: Counters
    #: The newest run that no person stopped, with its last checkpoint.
    run: RunRecord | None = None
    state: dict[str, Any] | None = None
    recent: Recent | None = None
