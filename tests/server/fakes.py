"""An engine and a database that live in memory: what the server's own tests run on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import orjson
from pydantic import BaseModel

from hybrid_scheduler.config.configured_run import machine_fields
from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.core.canonical_json import plain_value
from hybrid_scheduler.experiments.what_if import WhatIfResult
from hybrid_scheduler.live import IdempotencyKey, JournalUnavailable, LiveConfig, SubmittedTask
from hybrid_scheduler.live.commands import (
    Command,
    DeleteRun,
    DeleteTasks,
    DeletionCommand,
    DescribeRun,
    Explanations,
    Models,
    Pause,
    Resume,
    SetScenario,
    SetSpeed,
    Stop,
    StoredCommand,
    StoreMeasured,
    Submit,
)
from hybrid_scheduler.live.lane_statistics import LaneStatistics
from hybrid_scheduler.metrics import RunningMean
from hybrid_scheduler.metrics.summary import Evidence
from hybrid_scheduler.metrics.verdict import judge
from hybrid_scheduler.physics import Slowdown
from hybrid_scheduler.server.app_context import AppContext, ServerOptions
from hybrid_scheduler.server.new_runs import (
    BeginRun,
    PreviewRun,
    StartRun,
    chosen_machine,
    preview_of,
)
from hybrid_scheduler.server.openapi_document import EXAMPLES
from hybrid_scheduler.server.prometheus_metrics import Metrics
from hybrid_scheduler.server.security_middleware import RateLimiter
from hybrid_scheduler.server.stream_hub import StreamHub
from hybrid_scheduler.server.whatif_worker import EvidenceJob, WhatIfJob, compute, compute_evidence
from hybrid_scheduler.storage.batch_rows import EventPayload
from hybrid_scheduler.storage.device_load import LoadWindow, Timelines
from hybrid_scheduler.storage.repository import ModelHistory

RUN = "01JCQ4W3E8Z0V6M8T1S9Y5K2RB"
OTHER_RUN = "01JCQ4W3E8Z0V6M8T1S9Y5K2RC"
SCHEDULERS = ("greedy", "hybrid_ml", "oracle")


def documented_example(schema: type[BaseModel]) -> dict[str, Any]:
    """Return the example that the documentation of the REST interface has of a request."""
    return deepcopy(EXAMPLES[schema.__name__])


_AVERAGES = (
    "mean_time", "mean_latency", "latency_ci95", "mean_wait", "mean_energy", "mean_cost", "mean_gpu_fraction",
    "mean_regret", "regret_ci95", "p50_latency", "p95_latency", "p99_latency",
)  # fmt: skip


_EVIDENCE = [
    Evidence("greedy", "Greedy", 20, 0.05, 0.001, mean_wait=0.02, window=(0.0, 2.0), worst_task=7),
    Evidence("hybrid_ml", "Hybrid ML", 20, 0.03, 0.001),
]


def comparison_row(name: str, tasks: int) -> dict[str, Any]:
    return {
        "name": name,
        "tasks": tasks,
        "failed": 0,
        **dict.fromkeys(_AVERAGES, None if tasks == 0 else 0.03),
        "total_energy": 2.0 * tasks,
        "total_cost": 1e-6 * tasks,
        "latency_over_bound": None,
        "window": min(tasks, 1000),
        "makespan": 1.0 * tasks,
        "load_balance": 0.9,
        "state": "learned" if name == "hybrid_ml" else "ready",
        "model_version": 3 if name == "hybrid_ml" else None,
        "waiting": 0,
        "decided_by": {},
    }


def lane_state(name: str) -> dict[str, Any]:
    """A lane's part of a checkpoint after twenty tasks of 0.03 s."""
    statistics = LaneStatistics(np.zeros(2, dtype=np.int64))
    state = statistics.state()
    latency = RunningMean()
    latency.add(np.linspace(0.02, 0.04, 20))
    sums = dict.fromkeys(state["sums"], 0.6)
    state |= {"tasks": 20, "sums": sums, "latency": latency.state(), "busy": [0.3, 0.3], "span": [0.1, 2.1]}
    return {"statistics": state, "version": 3 if name == "hybrid_ml" else None, "failure": None}


def result_row(name: str, arrival: float) -> dict[str, Any]:
    return {
        "scheduler_name": name,
        "device": "gpu_1",
        "gpu_fraction": 0.6,
        "actual_time": 0.03,
        "latency": 0.034,
        "wait": 0.004,
        "start_time": arrival + 0.004,
        "finish_time": arrival + 0.034,
        "cpu_start": arrival + 0.004,
        "cpu_time": 0.02,
        "gpu_start": arrival + 0.004,
        "gpu_time": 0.03,
        "energy_consumption": 2.1,
        "execution_cost": 3.6e-6,
        "regret": -0.001 if name == "greedy" else 0.0,
        "predicted_time": 0.029 if name == "hybrid_ml" else None,
        "confidence": 0.08 if name == "hybrid_ml" else None,
        "status": "ran",
        "model_version": 3 if name == "hybrid_ml" else None,
    }


class FakeRepository:
    """All reads of a database, over a list of tasks."""

    def __init__(self, tasks: int = 20) -> None:
        self.timelines = Timelines()
        self.tasks_by_id: dict[int, dict[str, Any]] = {}
        self.keys: dict[str, tuple[str, int]] = {}
        self.labels: dict[str, dict[str, Any]] = {}
        self.payloads: list[bytes] = []
        self.outage: Exception | None = None
        self.next_id = 1
        for _ in range(tasks):
            self.add(SubmittedTask(1000.0, 0.5, 100.0))
        for seq in range(1, 6):
            self.add_event(seq)

    def add(self, task: SubmittedTask, key: IdempotencyKey | None = None) -> int:
        task_id, self.next_id = self.next_id, self.next_id + 1
        arrival = 0.1 * task_id
        self.tasks_by_id[task_id] = {
            "task_id": task_id,
            "run_id": RUN,
            "ordinal": task_id - 1,
            "external_id": task.external_id,
            "size": task.size,
            "compute_intensity": task.compute_intensity,
            "memory_required": task.memory_required,
            "arrival_time": arrival,
            "dependencies": [],
            "kind": task.kind,
            "divisible": task.divisible,
            "recorded_at": 1.7e9 + task_id,
            "results": {name: result_row(name, arrival) for name in SCHEDULERS},
            "optimal_gpu_fraction": 0.7,
            "optimal_time": 0.02,
        }
        if key is not None:
            self.keys[key.key] = (key.fingerprint, task_id)
        return task_id

    def add_event(self, seq: int, kind: str = "notification") -> bytes:
        body = {"type": kind, "seq": seq, "run_id": RUN, "t": 0.5 * seq, "created_at": 1.7e9 + seq}
        body |= {"level": "info", "kind": "retrained", "message": f"event {seq}", "scheduler": None}
        body |= {"version": None, "at_task": None}
        self.payloads.append(orjson.dumps(body))
        return self.payloads[-1]

    def _check(self) -> None:
        if self.outage is not None:
            raise self.outage

    async def ping(self) -> None:
        self._check()

    async def counts(self) -> dict[str, Any]:
        self._check()
        moments = [task["recorded_at"] for task in self.tasks_by_id.values()]
        return {
            "rows": {"tasks": len(moments), "scheduler_results": 3 * len(moments)},
            "bytes": 4096,
            "first_recorded_at": min(moments, default=None),
            "last_recorded_at": max(moments, default=None),
        }

    async def runs(self, limit: int, before: str | None = None) -> list[dict[str, Any]]:
        self._check()
        rows = [row for run_id in (OTHER_RUN, RUN) if (row := await self.run(run_id)) is not None]
        return [row for row in rows if before is None or row["run_id"] < before][:limit]

    async def run(self, run_id: str) -> dict[str, Any] | None:
        self._check()
        if run_id not in (RUN, OTHER_RUN):
            return None
        return {
            "run_id": run_id,
            "created_at": 1.7e9,
            "ended_at": None if run_id == OTHER_RUN else 1.7e9 + 60,
            "status": "running" if run_id == OTHER_RUN else "stopped",
            "source": "simulated",
            "scenario": "default" if run_id == RUN else "mixed",
            "load": 0.1,
            "seed": 42,
            "platform": "workstation",
            "schedulers": list(SCHEDULERS),
            "config": {"seed": 42},
            "config_hash": "abc",
            "tasks": len(self.tasks_by_id) if run_id == RUN else 0,
            **self.labels.get(run_id, {"name": "", "tags": [], "note": ""}),
        }

    async def run_state(self, run_id: str) -> dict[str, Any] | None:
        self._check()
        return {"lanes": {name: lane_state(name) for name in SCHEDULERS}} if run_id in (RUN, OTHER_RUN) else None

    def _details(self, run_id: str | None) -> list[dict[str, Any]]:
        self._check()
        return [task for task in self.tasks_by_id.values() if run_id in (None, task["run_id"])]

    async def history(self, limit: int, run_id: str | None = None) -> list[dict[str, Any]]:
        return self._details(run_id)[-limit:]

    async def iterate_history(self, run_id: str | None = None, page: int = 7, newest: int | None = None) -> Any:
        rows = self._details(run_id)[-(newest or 0) :]
        for first in range(0, len(rows), page):
            self._check()
            yield rows[first : first + page]

    async def tasks(
        self, limit: int, before: int | None = None, run_id: str | None = None, external_id: str | None = None
    ) -> list[dict[str, Any]]:
        rows = [
            {
                key: value
                for key, value in task.items()
                if key not in ("results", "optimal_gpu_fraction", "optimal_time")
            }
            for task in reversed(self._details(run_id))
            if (before is None or task["task_id"] < before) and external_id in (None, task["external_id"])
        ]
        return rows[:limit]

    async def task(self, task_id: int) -> dict[str, Any] | None:
        self._check()
        return self.tasks_by_id.get(task_id)

    async def comparative(self, limit: int, run_id: str | None = None) -> dict[str, Any]:
        rows = self._details(run_id)[-limit:]
        names = [row for row in SCHEDULERS if rows]
        left_out = (
            "latency_ci95",
            "latency_over_bound",
            "regret_ci95",
            "window",
            "makespan",
            "load_balance",
            "state",
            "model_version",
            "waiting",
            "decided_by",
        )
        table = [comparison_row(name, len(rows)) for name in names]
        ids = [row["task_id"] for row in rows]
        return {
            "run_id": run_id,
            "tasks": len(rows),
            "schedulers": [{k: v for k, v in row.items() if k not in left_out} for row in table],
            "first_task_id": min(ids, default=None),
            "last_task_id": max(ids, default=None),
            "wins": {a: {b: len(rows) // 2 for b in names if b != a} for a in names},
        }

    async def trends(self, run_id: str | None, buckets: int) -> dict[str, Any]:
        rows = self._details(run_id)
        point = dict.fromkeys(("mean_latency", "mean_time", "mean_energy", "mean_cost", "mean_regret"), 0.03)
        whole = {
            "first_ordinal": 0,
            "last_ordinal": len(rows) - 1,
            "first_task_id": 1,
            "first_arrival": 0.1,
            "schedulers": {name: {"n": len(rows), **point} for name in SCHEDULERS},
        }
        return {"run_id": run_id, "sampled": False, "buckets": [whole] if rows else []}

    async def learning(self, run_id: str, scheduler: str) -> dict[str, Any] | None:
        if await self.run(run_id) is None:
            return None
        names = ("error", "bias", "uncertainty", "coverage", "mean_predicted", "mean_actual", "mean_latency",
                 "mean_regret")  # fmt: skip
        row = {"n": 20, "predictions": 20, **dict.fromkeys(names, 0.03)}
        return {
            "run_id": run_id, "scheduler": scheduler, "sampled": False,
            "versions": [{"version": 3, "first_ordinal": 0, "first_arrival": 0.1, **row}],
            "kinds": [{"kind": "generic", **row}],
        }  # fmt: skip

    async def gantt(
        self, run_id: str, scheduler: str, start: float | None, end: float | None, limit: int
    ) -> dict[str, Any] | None:
        if await self.run(run_id) is None:
            return None
        rows = [task for task in self._details(run_id) if scheduler in task["results"]]
        chosen = rows[-limit:]
        return {
            "run_id": run_id,
            "scheduler": scheduler,
            "devices": ["cpu", "gpu_0", "gpu_1"],
            "task_id": [task["task_id"] for task in chosen],
            "ordinal": [task["ordinal"] for task in chosen],
            "device": ["gpu_1" for _ in chosen],
            "part": ["gpu" for _ in chosen],
            "start": [task["arrival_time"] for task in chosen],
            "end": [task["arrival_time"] + 0.03 for task in chosen],
            "intensity": [task["compute_intensity"] for task in chosen],
            "truncated": len(rows) > limit,
        }

    async def device_load(self, run_id: str, scheduler: str | None, window: LoadWindow) -> dict[str, Any] | None:
        if await self.run(run_id) is None:
            return None
        names = SCHEDULERS if scheduler is None else (scheduler,)
        return {
            "run_id": run_id, "devices": ["cpu", "gpu_0", "gpu_1"], "start": 0.0, "end": 2.0, "known_to": 2.0,
            "newest": 2.0, "column_s": 1.0, "tasks": 20,
            "schedulers": {name: {"busy": [[0.5, 0.5]] * 3, "total": [1.0] * 3} for name in names},
            "blocks": None if scheduler is None else await self.gantt(run_id, scheduler, None, None, 5),
        }  # fmt: skip

    async def results(
        self, run_id: str, scheduler: str | None, after_task: int, limit: int
    ) -> list[dict[str, Any]]:
        tasks = [task for task in self._details(run_id) if task["task_id"] > after_task][: max(1, limit // 3)]
        return [
            {"task_id": task["task_id"], "run_id": task["run_id"], **result}
            for task in tasks
            for name, result in task["results"].items()
            if scheduler in (None, name)
        ]

    async def models(
        self, run_id: str, schedulers: Iterable[str], limit: int, before: int | None = None
    ) -> dict[str, Any]:
        self._check()
        rows = [
            {
                "run_id": RUN,
                "scheduler_name": "hybrid_ml",
                "version": version,
                "samples": 50 * version,
                "r2": 0.9,
                "trigger": "interval",
                "at_task": 50 * version,
                "created_at": 1.7e9,
                "seconds": 0.3,
                "error": 0.05,
                "loss": None,
            }
            for version in (1, 2, 3)
        ]
        page = [row for row in rows if before is None or row["version"] < before][-limit:]
        return {name: ModelHistory(page, len(rows), rows[0]) for name in schedulers}

    async def events_after(self, seq: int, limit: int, types: tuple[str, ...] | None = None) -> Any:
        self._check()
        found = [
            payload
            for payload in self.payloads
            if orjson.loads(payload)["seq"] > seq and (types is None or orjson.loads(payload)["type"] in types)
        ]
        last = orjson.loads(self.payloads[-1])["seq"] if self.payloads else 0
        events = [EventPayload(orjson.loads(payload)["seq"], payload) for payload in found[:limit]]
        return SimpleNamespace(events=events, last_seq=last, oldest_seq=1)

    async def engine_heartbeat(self) -> dict[str, Any]:
        self._check()
        return {"instance": "fake", "beat_at": 0.0, "age": 0.0, "status": {}}

    async def deletion(self) -> dict[str, Any] | None:
        self._check()
        return None

    async def idempotency_record(self, key: str) -> tuple[str, int] | None:
        self._check()
        return self.keys.get(key)


class FakeControl:
    """An engine that obeys at once."""

    def __init__(self, repository: FakeRepository) -> None:
        self.repository = repository
        self.state = "running"
        self.speed = 1.0
        self.scenario, self.load = "default", 0.1
        self.age: float | None = None
        self.orders: list[Any] = []
        self.slow_deletion = False

    async def heartbeat_age(self) -> float | None:
        return self.age

    async def status(self) -> dict[str, Any]:
        tasks = len(self.repository.tasks_by_id)
        return {
            "state": self.state,
            "is_running": self.state in ("running", "held"),
            "is_paused": self.state == "paused",
            "run_id": RUN,
            "source": "simulated",
            "scenario": self.scenario,
            "load": self.load,
            "seed": 42,
            "speed": self.speed,
            "platform": {
                "name": "workstation",
                "devices": [{"name": "cpu", "kind": "cpu"}, {"name": "gpu_0", "kind": "gpu"}],
            },
            "schedulers": list(SCHEDULERS),
            "tasks_processed": tasks,
            "virtual_time": 12.5,
            "tasks_per_second": 3.0,
            "started_at": 1.7e9,
            "last_seq": 5,
            "next_task_id": self.repository.next_id,
            "episode": None,
            "unsaved_batches": 0,
            "storage": "away" if self.repository.outage else "ok",
            "notes": [],
            "latency_bound": 0.02,
            "makespan_bound": 1.0,
            "first_arrival": 0.1,
            "slowdown": {"device": "gpu", "factor": 3.0, "start": 25.1, "until": 40.1, "every": 59.83},
            "comparison": [comparison_row(name, tasks) for name in SCHEDULERS],
            "verdict": plain_value(judge(_EVIDENCE, 0.02).as_dict()),
        }

    async def run(self, command: Command[Any, Any]) -> Any:
        """Record the command, and answer as the engine would."""
        match command:
            case Explanations():
                return await self.explanations(command.task_id)
            case Models():
                accuracy = {"error": 0.05, "kinds": {"generic": 0.05}, "outcomes": 150}
                importance = {"size": 0.8, "intensity": 0.2}
                return {"hybrid_ml": {"feature_importance": importance, "agent": None, "accuracy": accuracy}}
            case PreviewRun(options):
                config = LiveConfig(schedulers=options.schedulers or SCHEDULERS)
                config = replace(config, **machine_fields(chosen_machine(config.machine, options)))
                if isinstance(options.slowdown, dict):
                    config = replace(config, slowdown=Slowdown.from_dict(options.slowdown))
                return preview_of(config)
            case StoredCommand() | DeletionCommand() if self.repository.outage is not None:
                raise JournalUnavailable("the database is unavailable")
            case DeleteRun(run_id) if run_id == RUN and self.state != "stopped":
                raise InvalidInputError("run_id", "a run that has ended", run_id, hint="stop it first")
            case DeleteTasks():
                count = len(self.repository.tasks_by_id)
                self.repository.tasks_by_id.clear()
                return count
        self.orders.append(command)
        match command:
            case Submit(task, key):
                return self.repository.add(task, key)
            case StoreMeasured():
                return OTHER_RUN
            case DeleteRun():
                return None if self.slow_deletion else 7
            case DescribeRun(run_id, labels):
                labels_of = {"name": labels.name, "tags": list(labels.tags), "note": labels.note}
                self.repository.labels[run_id] = labels_of
                return None
            case SetSpeed(speed):
                self.speed = speed
            case SetScenario(scenario):
                self.scenario = scenario.name
            case Stop():
                self.state = "stopped"
            case Pause():
                self.state = "paused"
            case Resume() | StartRun() | BeginRun():
                self.state = "running"
        return await self.status()

    async def explanations(self, task_id: int) -> dict[str, dict[str, Any]]:
        predictions = [{"devices": ["cpu"], "seconds": 0.05, "spread": 0.04}]
        values: dict[str, Any] = {
            "policy": "price_index",
            "predictions": predictions,
            "records": {},
            "options": [],
            "queued": None,
        }
        return {"hybrid_ml": values}


class FakeCache:
    """Keeps entries without limit, unless it is unavailable."""

    kind = "memory"

    def __init__(self) -> None:
        self.known: dict[str, bytes] = {}
        self.is_unavailable = False

    @property
    def state(self) -> str:
        return "unavailable" if self.is_unavailable else "ok"

    async def ping(self) -> bool:
        return not self.is_unavailable

    async def get(self, key: str) -> bytes | None:
        return None if self.is_unavailable else self.known.get(key)

    async def set(self, key: str, value: bytes, seconds: float) -> None:
        if not self.is_unavailable:
            self.known[key] = value


class ThreadWhatIfWorker:
    """A worker in a thread of this process, with every scheduler that was registered here."""

    def __init__(self) -> None:
        self.work = compute

    def warm_up(self) -> None:
        pass

    async def run(self, job: WhatIfJob) -> list[WhatIfResult]:
        return await asyncio.to_thread(self.work, job)

    async def evidence(self, job: EvidenceJob) -> bytes:
        return await asyncio.to_thread(compute_evidence, job)


def fake_context(
    tmp_path: Path, *, hub: StreamHub | None = None, static: Path | None = None, **options: Any
) -> AppContext:
    """AppContext over fakes. Limits are off unless they are asked for."""
    given = {
        "traces": tmp_path / "traces",
        "sweeps": tmp_path / "results",
        "rate_limit": "off",
        "write_rate_limit": "off",
        **options,
    }
    chosen = replace(ServerOptions(), **given)
    repository = FakeRepository()
    return AppContext(
        repository=repository,  # type: ignore[arg-type]
        control=FakeControl(repository),
        hub=hub or StreamHub(max_clients=chosen.max_clients),
        cache=FakeCache(),  # type: ignore[arg-type]
        limiter=RateLimiter(chosen),
        metrics=Metrics(),
        clock=time.time,
        options=chosen,
        static=static,
        whatif_worker=ThreadWhatIfWorker(),  # type: ignore[arg-type]
    )


def client_of(app: Any, **arguments: Any) -> httpx.AsyncClient:
    """Requests that go straight into the application."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=("127.0.0.1", 50000))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost:8000", **arguments)
