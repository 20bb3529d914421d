"""Journal of the live run: the records that the engine writes, and the protocol of the store that takes them.

One `Batch` is the content of one transaction. Core names are mapped to published ones here, once.

Call order: `open` once, before anything else; then `append`, `delete_tasks`, `delete_run` and `describe` as often
as needed; `close` at the end. Only the engine thread calls `append`. Only `open` and `close` wait for a disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core import Floats, HybridSchedulerError, Ints, InvalidInputError, Outcomes, Workload
from ..core.canonical_json import TEXT_RULE, is_storable
from ..core.outcome import OUTCOME_FIELDS

#: Longest name, in characters.
_MAX_TEXT = 200
#: Changes of a run that its record lists.
_MAX_CHANGES = 100
#: Keys of a stored configuration that say what happened to the run later: they are not part of its hash.
LATER_KEYS = ("changes", "submitted")


class Counters(NamedTuple):
    """The next number of each kind: stored with every batch, never decreasing, even if rows are deleted."""

    next_task_id: int = 1
    next_result_id: int = 1
    next_seq: int = 1


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run: its seed, scenario, machine and state."""

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

    def with_change(self, ordinal: int, text: str) -> RunRecord:
        """Return the record with a change of the run from this task on; the configuration's hash stays."""
        changes = [*self.config.get("changes", ()), {"task": ordinal, "change": text}]
        return replace(self, config={**self.config, "changes": changes[:_MAX_CHANGES]})

    def with_submission(self) -> RunRecord:
        """Return the record with one more task that a client sent."""
        return replace(self, config={**self.config, "submitted": self.config.get("submitted", 0) + 1})


@dataclass(frozen=True, slots=True)
class RunLabels:
    """Name, tags and note that people give to a run."""

    name: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class ResultColumns:
    """Results of one scheduler for the tasks of a batch. NaN means none: a part that did not run, or no oracle."""

    #: Index into the platform's devices.
    device: NDArray[np.int32]
    fraction: Floats
    time: Floats
    latency: Floats
    start: Floats
    finish: Floats
    cpu_start: Floats
    cpu_time: Floats
    accelerator_start: Floats
    accelerator_time: Floats
    energy: Floats
    cost: Floats
    #: Latency minus the oracle's for the same task, each on its own cluster.
    regret: Floats
    predicted_time: Floats
    #: Standard deviation of the predicted log seconds on the chosen device.
    confidence: Floats
    status: NDArray[np.uint8]
    #: Number of the model that decided each task, 0 before the first; None for a scheduler without versions.
    model_version: Ints | None = None

    @property
    def wait(self) -> Floats:
        """Latency minus time."""
        return self.latency - self.time


#: Names of the columns that are those of `Outcomes`.
OUTCOME_COLUMNS = (*OUTCOME_FIELDS, "time", "latency", "start", "finish")
#: Names of the columns that hold one value per task.
RESULT_COLUMNS = tuple(column.name for column in fields(ResultColumns) if column.name != "model_version")


@dataclass(frozen=True, slots=True)
class SchedulerResults:
    """Tasks of one scheduler in the order of their ids, with their results."""

    scheduler: str
    tasks: Workload
    columns: ResultColumns

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def results(self) -> dict[str, ResultColumns]:
        """The results by scheduler, as in a batch."""
        return {self.scheduler: self.columns}


@dataclass(frozen=True, slots=True)
class Event:
    """One message of the stream. The fields of `body` depend on `type`."""

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
    #: Duration of the training; null for a model that was loaded.
    seconds: float | None
    #: Mean absolute error of the log seconds predicted since the version before.
    error: float | None = None
    #: Mean loss of the network's updates since the version before; null without a network.
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A client's key for a task it sent, and the digest of the task."""

    key: str
    fingerprint: str
    #: Set when the task is numbered.
    task_id: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """The content of one transaction: stored completely or not at all."""

    run: RunRecord
    #: The run's checkpoint (JSON), which replaces the one before.
    state: dict[str, Any]
    counters: Counters
    device_names: tuple[str, ...]
    tasks: Workload | None = None
    #: Position in the run of the first task.
    first_ordinal: int = 0
    results: Mapping[str, ResultColumns] = field(default_factory=dict)
    first_result_id: int = 1
    #: Results of central schedulers, which place a task later than it arrives. Their ids follow those of `results`.
    started: tuple[SchedulerResults, ...] = ()
    #: The isolated optimum of every task.
    optimal_fraction: Floats | None = None
    optimal_time: Floats | None = None
    versions: tuple[VersionRecord, ...] = ()
    events: tuple[Event, ...] = ()
    idempotency: tuple[IdempotencyKey, ...] = ()
    #: Set once the batch is durable, or to the reason why it is not yet. After an error it may still be stored.
    committed: Future[None] | None = None
    #: Set once the batch is durable, or to an error once it is dropped and will never be stored.
    stored: Future[None] | None = None

    def __len__(self) -> int:
        return 0 if self.tasks is None else len(self.tasks)

    @property
    def groups(self) -> list[SchedulerResults]:
        """All results by scheduler."""
        tasks = self.tasks
        own = [SchedulerResults(name, tasks, part) for name, part in self.results.items() if tasks is not None]
        return [*own, *self.started]

    @property
    def rows(self) -> int:
        """Number of results."""
        return sum(map(len, self.groups))


class Recovered(NamedTuple):
    """State of a journal when it is opened."""

    counters: Counters
    #: The newest run that was not stopped, with its last checkpoint.
    run: RunRecord | None = None
    state: dict[str, Any] | None = None
    #: The newest tasks of each scheduler, from which models learn again.
    recent: Mapping[str, SchedulerResults] = MappingProxyType({})
    #: The newest idempotency keys, oldest first, with the id of their task or measured run.
    keys: Mapping[IdempotencyKey, int | str] = MappingProxyType({})
    #: Devices of the run.
    device_names: tuple[str, ...] = ()
    #: Why the stored run cannot be read; the record then has only what could be.
    problem: str | None = None


def check_text(field: str, text: object) -> None:
    """Raise `InvalidInputError` for a text that is too long, or that the database or JSON cannot hold."""
    if not isinstance(text, str) or not 0 < len(text) <= _MAX_TEXT:
        raise InvalidInputError(field, f"a text of 1 to {_MAX_TEXT} characters", text)
    if not is_storable(text):
        raise InvalidInputError(field, TEXT_RULE, text)


def check_texts(tasks: Workload) -> None:
    """Raise `InvalidInputError` for a kind or an external id that is too long to be stored with every task."""
    for kind in filter(None, tasks.kinds):
        check_text("kind", kind)
    for task_id, name in zip(tasks.task_id, tasks.external_id or (), strict=False):
        if name:
            check_text(f"external_id of task {task_id}", name)


def unstorable_text(value: Any, name: str = "") -> tuple[str, str] | None:
    """Return the path and the text of the first text, key or value, that breaks `TEXT_RULE`; None without one."""
    waiting: list[tuple[str, Any]] = [(name, value)]
    while waiting:
        path, item = waiting.pop()
        if isinstance(item, str):
            if not is_storable(item):
                return path, item
        elif isinstance(item, Mapping):
            waiting += [(path, key) for key in item]
            waiting += [(f"{path}.{key}".lstrip("."), inner) for key, inner in item.items()]
        elif isinstance(item, list | tuple):
            waiting += [(f"{path}[{number}]", inner) for number, inner in enumerate(item)]
    return None


def storable(value: Any) -> Any:
    """Return a JSON value in which characters that break `TEXT_RULE` are replaced by U+FFFD."""
    if isinstance(value, str):
        return value if is_storable(value) else value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    if isinstance(value, Mapping):
        return {storable(key): storable(item) for key, item in value.items()}
    return [storable(item) for item in value] if isinstance(value, list | tuple) else value


def joined_results(parts: Sequence[ResultColumns]) -> ResultColumns:
    """Return results of one scheduler as one."""
    if len(parts) == 1:
        return parts[0]
    names = RESULT_COLUMNS if parts[0].model_version is None else (*RESULT_COLUMNS, "model_version")
    columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return ResultColumns(**columns)


def joined_outcomes(tasks: Workload, parts: Sequence[Outcomes]) -> Outcomes:
    """Return outcomes of consecutive parts of a workload as one."""
    return Outcomes(tasks, *(np.concatenate([getattr(part, name) for part in parts]) for name in OUTCOME_FIELDS))


# ------------------------------------------------------------------------------------------ published names

#: Core name to published name, where the two differ.
_RESULT_NAMES = {
    "scheduler": "scheduler_name",
    "fraction": "gpu_fraction",
    "time": "actual_time",
    "start": "start_time",
    "finish": "finish_time",
    "accelerator_start": "gpu_start",
    "accelerator_time": "gpu_time",
    "energy": "energy_consumption",
    "cost": "execution_cost",
}
_CORE_NAMES = {published: core for core, published in _RESULT_NAMES.items()}

#: Column of the offered load in the table `runs`; JSON bodies call it `load`.
LOAD_COLUMN = "utilisation"


def published_name(core: str) -> str:
    """Return the published name of a result column.

    Parameters
    ----------
    core : str
        Name in Python and on the stream.

    Returns
    -------
    str
        Name in the database, in REST rows and in files.
    """
    return _RESULT_NAMES.get(core, core)


def core_name(published: str) -> str:
    """Return the core name of a published result column, the inverse of `published_name`."""
    return _CORE_NAMES.get(published, published)


# ------------------------------------------------------------------------------------------ protocol


class JournalUnavailable(HybridSchedulerError):
    """The journal cannot take anything now. Nothing is lost: what was not acknowledged is tried again."""


class JournalFull(HybridSchedulerError):
    """Too much waits to be stored. Look at `has_capacity` before `append`."""


class EngineBusy(HybridSchedulerError):
    """Another engine writes to this journal."""


class Journal(Protocol):
    """Store of batches, in order and each completely or not at all.

    It publishes the events of a batch once the batch is durable.
    """

    def open(self) -> Recovered:
        """Become the one engine of this journal, and return where the last one ended.

        Raises
        ------
        EngineBusy
            If another engine has it.
        """

    @property
    def has_capacity(self) -> bool:
        """False while so much waits to be stored that no new tasks should be decided."""

    @property
    def unsaved(self) -> int:
        """The number of batches that are not durable yet."""

    @property
    def unavailable(self) -> bool:
        """True while the last attempt to store something failed."""

    def check(self, batch: Batch) -> None:
        """Raise `InvalidInputError` if the journal could never store this batch; nothing is stored."""

    def append(self, batch: Batch) -> None:
        """Take a batch; never waits.

        Raises
        ------
        JournalFull
            If there is no capacity.
        InvalidInputError
            As `check`.
        """

    def delete_tasks(self, deleted: Future[int]) -> None:
        """Delete every task with its results; runs and counters stay.

        `deleted` is running once the request is durable, and gets the number of tasks at the end. Until it is
        running it may be cancelled or get an error; then nothing was deleted.
        """

    def delete_run(self, run_id: str, deleted: Future[int]) -> None:
        """Delete a run with all its rows, completely or not at all; `deleted` is used as by `delete_tasks`."""

    def describe(self, run_id: str, labels: RunLabels, stored: Future[None]) -> None:
        """Replace name, tags and note of a run, after the batches that wait; never waits itself.

        `stored` is done once that is durable, or gets an error; then nothing was changed.
        """

    def close(self, timeout: float = 5.0) -> None:
        """Store what waits, within `timeout` seconds, and let another engine open the journal."""
