"""Run that was measured on real devices: its checks, its JSON form, and the batch that stores it.

The JSON form has columns of equal length, with null where a value is unknown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sized
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Device, Floats, InvalidInputError, Platform, UnknownNameError, Workload
from ..core.canonical_json import content_hash
from ..core.outcome import FAILED, STATUS_NAMES
from ..core.ulid import ULID
from ..workload.argument_checks import whole_number
from .journal import RESULT_COLUMNS, Batch, Counters, Event, ResultColumns, RunRecord, check_text, published_name
from .lane_statistics import LaneStatistics
from .stream_messages import notification

#: A larger run would keep the journal busy for too long.
MAX_TASKS = 20_000
MAX_SCHEDULERS = 16

#: Largest and smallest positive number that sums, squares and ratios of seconds, joules and dollars can hold.
_MAX_VALUE = 1e15
_MIN_VALUE = 1e-12
#: Share by which a part may be longer than its task: two clocks measured them.
_CLOCK_TOLERANCE = 0.01
_CLOCK_TOLERANCE_S = 0.001

#: Columns in which NaN means unknown; in the required ones it is allowed for failed tasks alone.
_OPTIONAL = ("energy", "cost", "predicted_time")
_REQUIRED = ("time", "latency", "start", "finish")
_TASK_NUMBERS = ("size", "compute_intensity", "memory_required", "arrival_time")
_OPTIMA = ("optimal_fraction", "optimal_time")
_RESULT_NUMBERS = tuple(name for name in RESULT_COLUMNS if name not in ("device", "status", "regret", "confidence"))


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """Tasks that ran on real devices, once under each scheduler. The constructor checks them.

    Times count from the first submission under that scheduler. Under another scheduler the same task may have been
    submitted at another time: a task's arrival is the earliest of them.
    """

    #: Seconds since 1970.
    created_at: float
    ended_at: float
    seed: int
    #: Description of the tasks, such as "kernels: matmul, sort".
    scenario: str
    platform: Platform
    #: Further settings to store, as JSON.
    config: dict[str, Any]
    #: Numbered from 0.
    tasks: Workload
    results: Mapping[str, ResultColumns]
    #: The best measured choice of every task; NaN where there is none.
    optimal_fraction: Floats
    optimal_time: Floats
    #: The sender's id, so that sending the run again does not store it twice; None lets the engine choose.
    run_id: str | None = None

    def __post_init__(self) -> None:
        n = len(self.tasks)
        if self.run_id is not None and not ULID.fullmatch(self.run_id):
            raise InvalidInputError("run_id", "a ULID: 26 digits and capitals without I, L, O and U", self.run_id)
        check_text("scenario", self.scenario)
        check_text("platform.name", self.platform.name)
        whole_number("seed", self.seed, 0, 2**53)
        try:
            json.dumps(self.config, allow_nan=False)
        except (TypeError, ValueError):
            raise InvalidInputError("config", "JSON without NaN and infinity", self.config) from None
        if not 0 <= self.created_at <= self.ended_at < np.inf:
            raise InvalidInputError("ended_at", f"at or after created_at ({self.created_at})", self.ended_at)
        if n > MAX_TASKS:
            raise InvalidInputError("tasks", f"at most {MAX_TASKS:,}", n)
        if self.tasks.task_id[0] != 0 or self.tasks.task_id[-1] != n - 1:
            raise InvalidInputError("tasks.task_id", "0, 1, 2, ...", self.tasks.task_id[0])
        if self.tasks.has_dependencies:
            raise InvalidInputError("tasks.dependencies", "none in a measured run", "some")
        if not 1 <= len(self.results) <= MAX_SCHEDULERS:
            raise InvalidInputError("results", f"1 to {MAX_SCHEDULERS} schedulers", len(self.results))
        for name, results in self.results.items():
            self._check(name, results)
        _check_column("tasks.optimal_fraction", self.optimal_fraction, n, upto=1.0, unknown=True)
        _check_column("tasks.optimal_time", self.optimal_time, n, unknown=True)

    def _check(self, name: str, results: ResultColumns) -> None:
        where = f"results.{name}"
        n = len(self.tasks)
        for column in RESULT_COLUMNS:
            check_length(f"{where}.{published_name(column)}", getattr(results, column), n)
        _check_codes(f"{where}.device", results.device, [device.name for device in self.platform.devices])
        _check_codes(f"{where}.status", results.status, STATUS_NAMES)
        _check_column(f"{where}.gpu_fraction", results.fraction, n, upto=1.0)
        for column in _OPTIONAL:
            _check_column(f"{where}.{published_name(column)}", getattr(results, column), n, unknown=True)
        failed = results.status == FAILED
        for column in _REQUIRED:
            field = f"{where}.{published_name(column)}"
            values = getattr(results, column)
            _refuse(field, "null for a task that failed", values, failed & ~np.isnan(values))
            allowed = f"from 0 to {_MAX_VALUE:g}"
            _refuse(field, allowed, values, ~failed & ~((values >= 0) & (values <= _MAX_VALUE)))
        for column in ("time", "latency"):
            values = getattr(results, column)
            allowed = f"at least {_MIN_VALUE:g}"
            _refuse(f"{where}.{published_name(column)}", allowed, values, ~failed & ~(values >= _MIN_VALUE))
        # Queries for a time interval find tasks by their arrival.
        start = results.start
        finish = results.finish
        arrival = self.tasks.arrival_time
        _refuse(f"{where}.start_time", "at or after the task's arrival_time", start, ~failed & ~(start >= arrival))
        _refuse(f"{where}.finish_time", "after start_time", finish, finish < start)
        for part, start, seconds in (
            ("cpu", results.cpu_start, results.cpu_time),
            ("gpu", results.accelerator_start, results.accelerator_time),
        ):
            _check_column(f"{where}.{part}_start", start, n, unknown=True)
            _check_column(f"{where}.{part}_time", seconds, n)
            _refuse(f"{where}.{part}_time", "0 where nothing started", seconds, np.isnan(start) & (seconds != 0))
            allowed = f"0 or at least {_MIN_VALUE:g}"
            _refuse(f"{where}.{part}_time", allowed, seconds, (seconds > 0) & (seconds < _MIN_VALUE))
            longest = results.time * (1 + _CLOCK_TOLERANCE) + _CLOCK_TOLERANCE_S
            _refuse(f"{where}.{part}_time", "at most actual_time", seconds, ~failed & (seconds > longest))

    @property
    def schedulers(self) -> tuple[str, ...]:
        """The names of the schedulers."""
        return tuple(self.results)

    @property
    def device_names(self) -> tuple[str, ...]:
        """The names of the devices, in the order of their codes."""
        return tuple(device.name for device in self.platform.devices)


def batch_of(run: MeasuredRun, run_id: str, counters: Counters, *, now: float, watched: str | None = None) -> Batch:
    """Return everything of the run as one batch.

    Parameters
    ----------
    run
        The measured run.
    run_id
        Its id in the history.
    counters
        The first numbers of its tasks, results and events.
    now
        Seconds since 1970.
    watched
        The run that open dashboards follow. The notification goes into its stream.

    Returns
    -------
    Batch
        Its futures `committed` and `stored` are set when the batch is durable.
    """
    n = len(run.tasks)
    lanes = len(run.results)
    after = Counters(counters.next_task_id + n, counters.next_result_id + n * lanes, counters.next_seq + 1)
    settings = {"seed": run.seed, "schedulers": list(run.schedulers), "platform": _platform_json(run.platform)}
    config = {**run.config, **settings}
    message = f"{n:,} tasks measured on {run.platform.name} ({run.scenario}) are stored as run {run_id}"
    body = notification("measured_run", message)
    return Batch(
        run=RunRecord(
            run_id=run_id,
            created_at=run.created_at,
            scenario=run.scenario,
            utilisation=float("nan"),
            seed=run.seed,
            platform=run.platform.name,
            schedulers=run.schedulers,
            config=config,
            config_hash=content_hash(config),
            source="measured",
            status="stopped",
            ended_at=run.ended_at,
        ),
        state={"lanes": {name: _lane_state(run, results) for name, results in run.results.items()}},
        counters=after,
        device_names=run.device_names,
        tasks=_numbered(run.tasks, counters.next_task_id),
        results=run.results,
        first_result_id=counters.next_result_id,
        optimal_fraction=run.optimal_fraction,
        optimal_time=run.optimal_time,
        events=(Event(counters.next_seq, "notification", watched or run_id, 0.0, now, body),),
        committed=Future(),
        stored=Future(),
    )


def _lane_state(run: MeasuredRun, results: ResultColumns) -> dict[str, Any]:
    """Return a scheduler's part of the checkpoint, from which the comparison of a run is read."""
    statistics = LaneStatistics(run.platform.cpu_of)
    statistics.add(run.tasks, results)
    return {"statistics": statistics.state(), "version": None, "failure": None}


def _platform_json(platform: Platform) -> dict[str, Any]:
    """Return what is known of real devices; their watts and prices are unknown."""
    devices = [{"name": device.name, "kind": device.kind, "node": device.node} for device in platform.devices]
    return {"name": platform.name, "devices": devices}


def _numbered(tasks: Workload, first: int) -> Workload:
    columns: dict[str, Any] = tasks.columns() | {"task_id": tasks.task_id + first}
    return Workload(
        **columns, kind=[tasks.kinds[code] for code in tasks.kind.tolist()], external_id=tasks.external_id
    )


# ------------------------------------------------------------------------------------------ JSON


def measured_to_json(run: MeasuredRun) -> dict[str, Any]:
    """Return the run ready for JSON."""
    tasks = run.tasks
    names = run.device_names
    return {
        "run_id": run.run_id,
        "created_at": run.created_at,
        "ended_at": run.ended_at,
        "seed": run.seed,
        "scenario": run.scenario,
        "platform": _platform_json(run.platform),
        "config": run.config,
        "tasks": {
            **{name: getattr(tasks, name).tolist() for name in _TASK_NUMBERS},
            "kind": [tasks.kinds[code] for code in tasks.kind.tolist()],
            **{name: _nullable(getattr(run, name)) for name in _OPTIMA},
        },
        "results": {
            name: {
                "device": [names[code] for code in results.device.tolist()],
                **{published_name(column): _nullable(getattr(results, column)) for column in _RESULT_NUMBERS},
                "status": [STATUS_NAMES[code] for code in results.status.tolist()],
            }
            for name, results in run.results.items()
        },
    }


def measured_from_json(content: dict[str, Any]) -> MeasuredRun:
    """Return the run that `measured_to_json` wrote.

    Parameters
    ----------
    content
        The JSON object. Its fields must exist and have their types.

    Raises
    ------
    InvalidInputError
        If columns do not fit together or values are out of range.
    """
    tasks = content["tasks"]
    n = len(tasks["size"])
    for name in (*_TASK_NUMBERS, "kind"):
        check_length(f"tasks.{name}", tasks[name], n)
    described = content["platform"]
    devices = (Device(**device, memory=math.inf) for device in described["devices"])
    platform = Platform(described["name"], tuple(devices))
    return MeasuredRun(
        run_id=content.get("run_id"),
        created_at=content["created_at"],
        ended_at=content["ended_at"],
        seed=content["seed"],
        scenario=content["scenario"],
        platform=platform,
        config=content["config"],
        tasks=Workload(task_id=range(n), kind=tasks["kind"], **{name: tasks[name] for name in _TASK_NUMBERS}),
        results={
            name: _columns(f"results.{name}", columns, platform) for name, columns in content["results"].items()
        },
        optimal_fraction=_floats(tasks["optimal_fraction"]),
        optimal_time=_floats(tasks["optimal_time"]),
    )


def _columns(where: str, columns: dict[str, Any], platform: Platform) -> ResultColumns:
    code_of = {device.name: code for code, device in enumerate(platform.devices)}
    for name in columns["device"]:
        if name not in code_of:
            raise UnknownNameError(f"{where}.device", name, code_of)
    numbers: dict[str, Any] = {name: _floats(columns[published_name(name)]) for name in _RESULT_NUMBERS}
    return ResultColumns(
        device=np.array([code_of[name] for name in columns["device"]], dtype=np.int32),
        **numbers,
        # There is no oracle on a real machine, because the times on the other devices are unknown.
        regret=np.full(len(columns["device"]), np.nan),
        confidence=np.full(len(columns["device"]), np.nan),
        status=np.array([STATUS_NAMES.index(name) for name in columns["status"]], dtype=np.uint8),
    )


def _floats(values: list[float | None]) -> Floats:
    return np.array(values, dtype=np.float64)


def _nullable(values: Floats) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]


# ------------------------------------------------------------------------------------------ checks


def check_length(field: str, values: Sized, n: int) -> None:
    """Raise unless there is one value per task."""
    if len(values) != n:
        raise InvalidInputError(field, f"one value per task ({n})", f"{len(values)} values")


def _check_codes(field: str, codes: NDArray[Any], names: Any) -> None:
    bad = (codes < 0) | (codes >= len(names))
    _refuse(field, "one of " + ", ".join(names), codes, bad)


def _check_column(field: str, values: Floats, n: int, *, upto: float = _MAX_VALUE, unknown: bool = False) -> None:
    check_length(field, values, n)
    allowed = "a number in [0, 1]" if upto == 1.0 else f"from 0 to {upto:g}"
    good = (values >= 0) & (values <= upto)
    _refuse(field, allowed + (", or null" if unknown else ""), values, ~(good | (unknown & np.isnan(values))))


def _refuse(field: str, allowed: str, values: NDArray[Any], bad: NDArray[np.bool_]) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidInputError(f"{field}.{row}", allowed, values[row])
