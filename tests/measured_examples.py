"""A measured run with numbers that only depend on a seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid_scheduler.core import Device, Platform, Workload, cpu
from hybrid_scheduler.core.outcome import FAILED, RAN
from hybrid_scheduler.live import MeasuredRun, ResultColumns

#: As on a machine without a GPU: the second pool is no host, although it has "cpu" in its name.
PLATFORM = Platform("bench", (cpu("cpu_wide"), Device("cpu_narrow", "threads")))


def measured_results(n: int, rng: np.random.Generator, arrival: np.ndarray, late: float) -> ResultColumns:
    """A third on the CPU, a third beside it, a third on both; the last task failed."""
    fraction = np.array([0.0, 1.0, 0.4])[np.arange(n) % 3]
    start = arrival * (1 + late) + rng.uniform(0.001, 0.002, n)
    seconds = rng.uniform(0.01, 0.02, n)
    failed = np.arange(n) == n - 1
    nan = np.full(n, np.nan)
    gone = np.where(failed, np.nan, 1.0)
    on_cpu, there = (fraction < 1) & ~failed, (fraction > 0) & ~failed
    return ResultColumns(
        device=(fraction > 0).astype(np.int32),
        fraction=fraction,
        time=seconds * gone,
        latency=(start + seconds - arrival * (1 + late)) * gone,
        start=start * gone,
        finish=(start + seconds) * gone,
        cpu_start=np.where(on_cpu, start, np.nan),
        cpu_time=np.where(on_cpu, seconds, 0.0),
        accelerator_start=np.where(there, start, np.nan),
        accelerator_time=np.where(there, seconds, 0.0),
        energy=nan,
        cost=nan,
        regret=nan,
        predicted_time=np.where(fraction > 0, 0.015, np.nan),
        confidence=np.full(len(fraction), np.nan),
        status=np.where(failed, FAILED, RAN).astype(np.uint8),
    )


def measured_run(n: int = 12, **changes: Any) -> MeasuredRun:
    """Under the second scheduler everything is submitted later, as where the one before it is slower."""
    rng = np.random.default_rng(1)
    arrival = np.arange(n) * 0.03
    fields: dict[str, Any] = {
        "created_at": 1000.0,
        "ended_at": 1004.5,
        "seed": 7,
        "scenario": "kernels: sort",
        "platform": PLATFORM,
        "config": {"mode": "sequential"},
        "tasks": Workload(
            task_id=np.arange(n),
            size=rng.integers(16, 99, n).astype(float),
            compute_intensity=rng.random(n),
            memory_required=rng.random(n),
            arrival_time=arrival,
            kind=["sort"] * n,
        ),
        "results": {
            "greedy": measured_results(n, rng, arrival, 0.0),
            "cpu_only": measured_results(n, rng, arrival, 0.5),
        },
        "optimal_fraction": np.where(np.arange(n) % 4 == 0, np.nan, 1.0),
        "optimal_time": np.where(np.arange(n) % 4 == 0, np.nan, 0.01),
    }
    return MeasuredRun(**fields | changes)
