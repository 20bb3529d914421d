"""A measured run as JSON: columns of equal length, null where nothing is known. So it travels between processes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import Device, Floats, InvalidInputError, Platform, UnknownNameError, Workload
from ..core.outcome import STATUS_NAMES
from .batch_records import ResultColumns
from .measured_run import MeasuredRun

TASK_NUMBERS = ("size", "compute_intensity", "memory_required", "arrival_time")
OPTIMA = ("optimal_fraction", "optimal_time")
RESULT_NUMBERS = (
    "gpu_fraction", "actual_time", "latency", "start_time", "finish_time", "cpu_start", "cpu_time", "gpu_start",
    "gpu_time", "energy_consumption", "execution_cost", "predicted_time",
)  # fmt: skip


def measured_to_json(run: MeasuredRun) -> dict[str, Any]:
    tasks, names = run.tasks, run.device_names
    return {
        "run_id": run.run_id,
        "created_at": run.created_at,
        "ended_at": run.ended_at,
        "seed": run.seed,
        "scenario": run.scenario,
        "platform": {
            "name": run.platform.name,
            "devices": [{"name": each.name, "kind": each.kind, "node": each.node} for each in run.platform.devices],
        },
        "config": run.config,
        "tasks": {
            **{name: getattr(tasks, name).tolist() for name in TASK_NUMBERS},
            "kind": [tasks.kinds[code] for code in tasks.kind.tolist()],
            **{name: _nullable(getattr(run, name)) for name in OPTIMA},
        },
        "results": {
            name: {
                "device": [names[code] for code in results.device.tolist()],
                **{column: _nullable(getattr(results, column)) for column in RESULT_NUMBERS},
                "status": [STATUS_NAMES[code] for code in results.status.tolist()],
            }
            for name, results in run.results.items()
        },
    }


def measured_from_json(content: dict[str, Any]) -> MeasuredRun:
    """The run again. Refuses what does not fit together; fields must be there and of their types."""
    tasks = content["tasks"]
    n = len(tasks["size"])
    for name in (*TASK_NUMBERS, "kind"):
        if len(tasks[name]) != n:
            raise InvalidInputError(f"tasks.{name}", f"one value per task ({n})", f"{len(tasks[name])} values")
    given = content["platform"]
    devices = (Device(each["name"], each["kind"], each["node"], memory=math.inf) for each in given["devices"])
    platform = Platform(given["name"], tuple(devices))
    return MeasuredRun(
        run_id=content.get("run_id"),
        created_at=content["created_at"],
        ended_at=content["ended_at"],
        seed=content["seed"],
        scenario=content["scenario"],
        platform=platform,
        config=content["config"],
        tasks=Workload(task_id=range(n), kind=tasks["kind"], **{name: tasks[name] for name in TASK_NUMBERS}),
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
    numbers: dict[str, Any] = {name: _floats(columns[name]) for name in RESULT_NUMBERS}
    return ResultColumns(
        device=np.array([code_of[name] for name in columns["device"]], dtype=np.int32),
        **numbers,
        # No oracle takes part on a real machine: it would have to know what has not happened.
        regret=np.full(len(columns["device"]), np.nan),
        status=np.array([STATUS_NAMES.index(name) for name in columns["status"]], dtype=np.uint8),
    )


def _floats(values: list[float | None]) -> Floats:
    return np.array(values, dtype=np.float64)


def _nullable(values: Floats) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]
