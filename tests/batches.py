"""Batches as the live engine would make them, with numbers that only depend on a seed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np

from hybrid_scheduler.core import Workload
from hybrid_scheduler.live.journal import (
    Batch,
    Counters,
    Event,
    IdempotencyKey,
    ResultColumns,
    RunRecord,
    VersionRecord,
)

SCHEDULERS = ("round_robin", "greedy", "oracle")
DEVICES = ("cpu", "gpu_0", "gpu_1")
RUN = "01J00000000000000000000001"


def run_record(run_id: str = RUN, **changes: Any) -> RunRecord:
    record = RunRecord(
        run_id=run_id,
        created_at=1000.0,
        scenario="default",
        utilisation=0.1,
        seed=42,
        platform="workstation",
        schedulers=SCHEDULERS,
        config={"num_gpus": 2, "ranges": [0.1, 0.9]},
        config_hash="abc",
    )
    return replace(record, **changes)


def results_of(n: int, start: float, rng: np.random.Generator, name: str) -> ResultColumns:
    arrival = start + np.arange(n, dtype=np.float64)
    fraction = rng.choice([0.0, 0.4, 1.0], n)
    wait, cpu, gpu = rng.random(n), rng.random(n), rng.random(n)
    cpu = np.where(fraction == 1.0, 0.0, cpu)
    gpu = np.where(fraction == 0.0, 0.0, gpu)
    begin = arrival + wait
    time = np.maximum(cpu, gpu)
    return ResultColumns(
        device=np.where(fraction == 0.0, 0, rng.integers(1, 3, n)).astype(np.int32),
        fraction=fraction,
        time=time,
        latency=wait + time,
        start=begin,
        finish=begin + time,
        cpu_start=np.where(cpu > 0, begin, np.nan),
        cpu_time=cpu,
        accelerator_start=np.where(gpu > 0, begin, np.nan),
        accelerator_time=gpu,
        energy=50 * time,
        cost=1e-4 * time,
        regret=np.full(n, np.nan) if name == "round_robin" else rng.random(n) - 0.5,
        predicted_time=np.full(n, np.nan),
        confidence=np.full(n, 0.25) if name == "greedy" else np.full(n, np.nan),
        status=(rng.random(n) < 0.1).astype(np.uint8),
        model_version=np.full(n, 3) if name == "greedy" else None,
    )


class Engine:
    """Counts like the engine does. `batch` makes the next one; nothing is stored by that."""

    def __init__(
        self,
        seed: int = 1,
        run: RunRecord | None = None,
        counters: Counters | None = None,
        ordinal: int = 0,
        schedulers: tuple[str, ...] = SCHEDULERS,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.run = run or run_record(schedulers=schedulers)
        self.counters = counters or Counters()
        self.ordinal = ordinal
        self.schedulers = schedulers

    def new_run(self, run_id: str, **changes: Any) -> None:
        self.run = run_record(run_id, schedulers=self.schedulers, **changes)
        self.ordinal = 0

    def event(self, seq: int, kind: str = "simulation_update", **body: Any) -> Event:
        return Event(seq, kind, self.run.run_id, float(self.ordinal), 2000.0 + seq, {"tasks": self.ordinal, **body})

    def batch(
        self,
        tasks: int = 4,
        *,
        events: int = 1,
        kind: str = "simulation_update",
        key: IdempotencyKey | None = None,
        versions: tuple[VersionRecord, ...] = (),
        external: str | None = None,
        wait: bool = True,
        status: str = "running",
    ) -> Batch:
        task, result, seq = self.counters
        start = float(self.ordinal)
        workload, results, first_ordinal = None, {}, self.ordinal
        if tasks:
            workload = Workload(
                task_id=np.arange(task, task + tasks),
                size=self.rng.uniform(500, 1500, tasks),
                compute_intensity=self.rng.random(tasks),
                memory_required=self.rng.uniform(50, 150, tasks),
                arrival_time=start + np.arange(tasks, dtype=np.float64),
                external_id=(external,) + (None,) * (tasks - 1) if external else None,
            )
            results = {name: results_of(tasks, start, self.rng, name) for name in self.schedulers}
        self.ordinal += tasks
        self.counters = Counters(task + tasks, result + tasks * len(self.schedulers), seq + events)
        self.run = replace(self.run, status=status)
        return Batch(
            run=self.run,
            state={"tasks": self.ordinal, "big": 2**100},
            counters=self.counters,
            device_names=DEVICES,
            tasks=workload,
            first_ordinal=first_ordinal,
            results=results,
            first_result_id=result,
            optimal_fraction=self.rng.random(tasks) if tasks else None,
            optimal_time=self.rng.random(tasks) if tasks else None,
            versions=versions,
            events=tuple(self.event(seq + i, kind) for i in range(events)),
            idempotency=(key,) if key else (),
            committed=Future() if wait else None,
        )

    def batches(self, count: int, tasks: int = 4, **options: Any) -> Iterator[Batch]:
        return (self.batch(tasks, **options) for _ in range(count))
