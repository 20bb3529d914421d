"""Stored events with the field names of 0.1."""

from __future__ import annotations

import json

from hybrid_scheduler.server.schemas.stream import SimulationUpdate
from hybrid_scheduler.storage.batch_rows import payload_seq
from hybrid_scheduler.storage.repository import current_event

_MEANS = ("time", "latency", "wait", "energy", "cost", "gpu_fraction", "regret")
_ROW = {
    "name": "greedy",
    "tasks": 2,
    "failed": 0,
    **{f"avg_{name}": float(number) for number, name in enumerate(_MEANS)},
    "latency_ci95": None,
    "total_energy": 6.0,
    "total_cost": 8.0,
    "regret_ci95": None,
    "p50_latency": 1.0,
    "p95_latency": 1.0,
    "p99_latency": 1.0,
    "window": 2,
    "makespan": 3.0,
    "load_balance": 1.0,
    "state": "ready",
    "model_version": None,
}
_DECISION = {
    "task_id": 7,
    "scheduler": "greedy",
    "device": "gpu_0",
    "fraction": 0.5,
    "start": 1.0,
    "finish": 3.0,
    "time": 1.5,
    "latency": 2.0,
    "energy": 3.0,
    "cost": 4.0,
    "regret": None,
    "cpu_start": 1.0,
    "cpu_time": 1.5,
    "gpu_start": 1.25,
    "gpu_time": 1.0,
    "size": 1000.0,
    "intensity": 0.6,
    "memory": 90.0,
}
OLD_UPDATE = {
    "type": "simulation_update",
    "seq": 12,
    "run_id": "01JCQ4W3E8Z0V6M8T1S9Y5K2RB",
    "t": 3.0,
    "created_at": 5.0,
    "task": {"id": 7, "size": 1000.0, "intensity": 0.6, "memory": 90.0, "arrival": 1.0},
    "latest_results": {},
    "comparison": [_ROW],
    "utilization": {"average_utilization": 0.5},
    "utilization_of": "greedy",
    "utilizations": {"greedy": {"cpu": 0.5}},
    "backlogs": {"greedy": {"cpu": 0.0}},
    "decisions": [_DECISION, {**_DECISION, "time": None, "latency": None}],
    "omitted": 0,
    "tasks_processed": 2,
    "tasks_per_second": 1.0,
    "virtual_time": 3.0,
    "state": "running",
}


def _payload(event: dict[str, object]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


def test_old_update_is_read_with_the_names_of_today() -> None:
    payload = current_event(_payload(OLD_UPDATE))
    event = json.loads(payload)
    SimulationUpdate.model_validate(event)
    assert payload_seq(payload) == 12
    assert [event["comparison"][0][f"mean_{name}"] for name in _MEANS] == [float(n) for n in range(len(_MEANS))]
    assert event["task"] == {
        "task_id": 7,
        "size": 1000.0,
        "compute_intensity": 0.6,
        "memory_required": 90.0,
        "arrival_time": 1.0,
    }
    first, failed = event["decisions"]
    assert (first["wait"], first["accelerator_start"], first["accelerator_time"]) == (0.5, 1.25, 1.0)
    assert (first["compute_intensity"], first["memory_required"]) == (0.6, 90.0)
    assert failed["wait"] is None
    assert not {"intensity", "memory", "gpu_start", "gpu_time"} & set(first)


def test_other_events_are_returned_unchanged() -> None:
    log = _payload({"type": "log", "seq": 1, "message": '"avg_latency":', "level": "info"})
    new = current_event(_payload(OLD_UPDATE))
    assert current_event(log) == log
    assert current_event(new) is new
