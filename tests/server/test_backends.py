"""One contract over both databases, with Redis and without: the same statuses, the same bodies.

A run that is not started stands still at virtual time 0: what tasks of one's own get then depends on nothing but
the seed, so that bodies can be compared byte for byte once ids and moments are set aside.
"""

import asyncio
import csv
import json
from contextlib import asynccontextmanager
from dataclasses import replace

import published as schemas
import pytest
from fakes import client_of
from measured_examples import measured_run
from services import database_url, postgres_url, redis_url  # noqa: F401
from test_contract import fits

from hybrid_scheduler.config import load_settings
from hybrid_scheduler.live import measured_to_json
from hybrid_scheduler.server.app import create_app
from hybrid_scheduler.server.composition import open_server, options_of

BACKENDS = ["sqlite", "postgresql", "sqlite+redis", "postgresql+redis"]
TASK = {"size": 1200.0, "compute_intensity": 0.5, "memory_required": 96.0}


def settings_of(kind, request, tmp_path, **more):
    chosen = {
        "simulation.schedulers": "round_robin,greedy,oracle",
        "storage.history_csv": str(tmp_path / "history.csv"),
        "storage.sqlite_file": str(tmp_path / "live.db"),
        **more,
    }
    if kind.startswith("postgresql"):
        chosen["storage.database_url"] = request.getfixturevalue("database_url")
    if kind.endswith("redis"):
        host, port = request.getfixturevalue("redis_url").removeprefix("redis://").partition("/")[0].split(":")
        chosen |= {"storage.redis_host": host, "storage.redis_port": port}
    return load_settings(tmp_path / "config.yaml", chosen, environ={})


@asynccontextmanager
async def server(settings, tmp_path, monkeypatch, start=False):
    monkeypatch.chdir(tmp_path)
    options = replace(options_of(settings), traces=tmp_path / "traces")
    async with open_server(settings, start=start, options=options) as running:
        app = create_app(running.context)
        running.context.hub.attach(asyncio.get_running_loop())
        async with client_of(app, timeout=60) as client:
            yield client, running


async def script(client):
    """A client's day, as (request, status, body) with everything that may differ taken out."""
    responses = []

    async def ask(method, path, shape=None, **arguments):
        answer = await client.request(method, path, **arguments)
        if answer.status_code >= 400:
            fits(schemas.ErrorBody, answer.content)
        elif shape is not None:
            fits(shape, answer.content)
        body = answer.json() if answer.headers["content-type"].startswith("application/json") else answer.text
        responses.append((method, path, answer.status_code, body))
        return body

    for path in ("/api/health", "/api/status", "/api/full_history", "/api/tasks", "/api/runs", "/api/events"):
        await ask("GET", path)
    await ask("GET", "/api/history/comparative", schemas.Comparative)
    await ask("GET", "/api/history/trends", schemas.Trends)
    await ask("GET", "/api/results", schemas.ResultPage)
    first = await ask("POST", "/api/tasks", schemas.TaskDetail, json=TASK, headers={"Idempotency-Key": "one"})
    run = first["run_id"]
    again = await ask("POST", "/api/tasks", schemas.TaskDetail, json=TASK, headers={"Idempotency-Key": "one"})
    assert again == first
    await ask("POST", "/api/tasks", json={**TASK, "size": 5.0}, headers={"Idempotency-Key": "one"})
    for number in range(12):
        task = {**TASK, "size": 500.0 + 90 * number, "external_id": f"job {number % 3}", "kind": "matmul"}
        await ask("POST", "/api/tasks", schemas.TaskDetail, json=task)
    whole = await ask("POST", "/api/tasks", schemas.TaskDetail, json={**TASK, "divisible": False})
    assert (first["divisible"], whole["divisible"]) == (True, False)
    assert {result["gpu_fraction"] for result in whole["results"].values()} <= {0.0, 1.0}
    await ask("GET", "/api/status", schemas.LiveStatus)
    await ask("GET", "/api/full_history?limit=4", list[schemas.TaskDetail])
    everything = await ask("GET", "/api/full_history?limit=all", list[schemas.TaskDetail])
    assert [task["task_id"] for task in everything] == list(range(1, 15))
    await ask("GET", "/api/tasks?limit=5", schemas.TaskPage)
    await ask("GET", "/api/tasks?limit=5&before=6", schemas.TaskPage)
    await ask("GET", "/api/tasks?external_id=job%201", schemas.TaskPage)
    explained = await ask("GET", "/api/tasks/13", schemas.ExplainedTask)
    assert explained == everything[12] | {"explanations": {}}  # none of the schedulers learns
    await ask("GET", "/api/tasks/9223372036854775807")
    await ask("GET", "/api/history/comparative?limit=5", schemas.Comparative)
    listed = await ask("GET", "/api/history/comparative?format=published&limit=5", list[schemas.ResultRow])
    assert len({row["task_id"] for row in listed}) == 5
    await ask("GET", f"/api/history/comparative?run_id={run}", schemas.Comparative)
    await ask("GET", f"/api/history/trends?run_id={run}&buckets=3", schemas.Trends)
    await ask("GET", f"/api/results?run_id={run}&limit=7", schemas.ResultPage)
    await ask("GET", "/api/results?scheduler=greedy&after_task=3&limit=100", schemas.ResultPage)
    await ask("GET", f"/api/runs/{run}", schemas.RunDetail)
    await ask("GET", f"/api/runs/{run}/gantt?scheduler=greedy", schemas.Gantt)
    await ask("GET", f"/api/runs/{run}/gantt?scheduler=greedy&start=0.05&end=0.2&limit=3", schemas.Gantt)
    await ask("GET", f"/api/runs/{run}/gantt?scheduler=unknown", schemas.Gantt)
    await ask("GET", f"/api/history/load?run_id={run}&scheduler=greedy", schemas.DeviceLoadResponse)
    await ask("GET", f"/api/history/load?run_id={run}&last=60&columns=60", schemas.DeviceLoadResponse)
    diff = await ask("GET", f"/api/gantt/diff?a={run}&scheduler=greedy&other=oracle", schemas.GanttDiff)
    assert len(diff["ordinal"]) == len(diff["moved"]) == len(diff["finish_difference"]) > 0
    await ask("GET", f"/api/gantt/diff?a={run}&scheduler=greedy")
    await ask("GET", "/api/runs/00000000000000000000000000")
    await ask("GET", f"/api/diff?a={run}&b={run}", schemas.RunDiff)
    await ask("GET", "/api/events?after=0&limit=3")
    await ask("GET", "/api/events?type=notification", schemas.EventPage)
    await ask("GET", "/api/statistics", schemas.Statistics)
    await ask("GET", "/api/models", list[schemas.Model])
    await ask("GET", "/api/schedulers", list[schemas.SchedulerResponse])
    for name in ("tasks.csv", "results.csv", "trace.json"):
        await ask("GET", f"/api/export/{name}")
    await ask("POST", "/api/models/greedy/retrain")
    await ask("POST", "/api/simulation/scenario", json={"scenario": "nowhere"})
    await ask("POST", "/api/simulation/speed", json={"speed": 2.0})
    await ask("DELETE", "/api/history")
    await ask("GET", "/api/full_history?limit=all")
    await ask("GET", "/api/history/comparative?limit=5", schemas.Comparative)
    await ask("POST", "/api/tasks", json=TASK, headers={"Idempotency-Key": "one"})
    later = await ask("POST", "/api/tasks", schemas.TaskDetail, json=TASK)
    assert later["task_id"] == 15  # ids are never used again
    await ask("POST", "/api/simulation/stop", schemas.LiveStatus)
    return [(method, path.replace(run, "RUN"), code, timeless(body, run)) for method, path, code, body in responses]


_MOMENTS = {
    "created_at", "ended_at", "recorded_at", "started_at", "first_recorded_at", "last_recorded_at", "size_bytes",
    "id", "database", "cache", "unsaved_batches",
}  # fmt: skip


def timeless(body, run):
    if isinstance(body, dict):
        return {key: "·" if key in _MOMENTS else timeless(value, run) for key, value in body.items()}
    if isinstance(body, list):
        return [timeless(value, run) for value in body]
    if isinstance(body, str) and "recorded_at" in body:  # a CSV file of tasks
        rows = [line.split(",") for line in body.replace(run, "RUN").splitlines()]
        where = rows[0].index("recorded_at")
        return [row[:where] + row[where + 1 :] for row in rows]
    return body.replace(run, "RUN") if isinstance(body, str) else body


@pytest.fixture(scope="module")
def responses_by_kind():
    return {}


@pytest.mark.parametrize("kind", BACKENDS)
async def test_all_backends_return_the_same_responses(kind, request, tmp_path, monkeypatch, responses_by_kind):
    (tmp_path / "config.yaml").write_text("")
    settings = settings_of(kind, request, tmp_path)
    async with server(settings, tmp_path, monkeypatch) as (client, _):
        responses_by_kind[kind] = await script(client)
        health = (await client.get("/api/health")).json()
        assert health["database"] == {"state": "ok", "kind": kind.partition("+")[0]}
        assert health["cache"] == {"state": "ok", "kind": "redis" if kind.endswith("redis") else "memory"}
    reference = next(iter(responses_by_kind.values()))
    for mine, theirs in zip(responses_by_kind[kind], reference, strict=True):
        assert mine == theirs
    assert json.dumps(responses_by_kind[kind]) == json.dumps(reference)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_running_engine_and_its_database_agree(kind, request, tmp_path, monkeypatch):
    (tmp_path / "config.yaml").write_text("")
    settings = settings_of(kind, request, tmp_path, **{"live.speed": "50", "live.update_interval": "0.1"})
    async with server(settings, tmp_path, monkeypatch, start=True) as (client, running):
        for _ in range(600):
            await asyncio.sleep(0.05)
            if (await client.get("/api/status")).json()["tasks_processed"] >= 300:
                break
        status = (await client.post("/api/pause")).json()
        assert status["state"] == "paused"
        while (await client.get("/api/status")).json()["unsaved_batches"]:
            await asyncio.sleep(0.02)
        history = (await client.get("/api/full_history?limit=all")).json()
        assert len(history) == status["tasks_processed"]
        compared = (await client.get(f"/api/history/comparative?limit=10000&run_id={status['run_id']}")).json()
        rows = {row["name"]: row for row in compared["schedulers"]}
        for row in status["comparison"]:
            stored = rows[row["name"]]
            assert stored["tasks"] == row["tasks"]
            for name in ("latency", "time", "energy", "cost", "regret", "gpu_fraction"):
                assert stored[f"mean_{name}"] == pytest.approx(row[f"mean_{name}"], rel=1e-9, abs=1e-12)
            latencies = [task["results"][row["name"]]["latency"] for task in history]
            assert row["mean_latency"] == pytest.approx(sum(latencies) / len(latencies), rel=1e-9)
        events = (await client.get("/api/events?limit=10000")).json()
        numbers = [event["seq"] for event in events["events"]]
        assert numbers == list(range(1, numbers[-1] + 1))
        assert events["last_seq"] == numbers[-1] == running.context.hub.last_seq
        updates = [event for event in events["events"] if event["type"] == "simulation_update"]
        assert updates[-1]["comparison"] == status["comparison"]
        resumed = (await client.post("/api/resume")).json()
        assert resumed["state"] == "running"


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_wait_is_latency_minus_time_in_live_and_stored_figures(kind, request, tmp_path, monkeypatch):
    (tmp_path / "config.yaml").write_text("")
    settings = settings_of(kind, request, tmp_path)
    async with server(settings, tmp_path, monkeypatch) as (client, _):
        for number in range(9):  # all arrive at virtual time 0: the parts of split tasks wait apart
            await client.post("/api/tasks", json={**TASK, "size": 500.0 + 90 * number})
        live = {row["name"]: row["mean_wait"] for row in (await client.get("/api/status")).json()["comparison"]}
        stored = (await client.get("/api/history/comparative")).json()["schedulers"]
        assert live["greedy"] > 0
        assert {row["name"]: row["mean_wait"] for row in stored} == pytest.approx(live, rel=1e-9)
        results = (await client.get("/api/results")).json()["results"]
        assert len(results) == 27
        history = (await client.get("/api/full_history")).json()
        results += [result for task in history for result in task["results"].values()]
        assert all(result["wait"] == result["latency"] - result["actual_time"] for result in results)
        lines = csv.DictReader((await client.get("/api/export/results.csv")).text.splitlines())
        assert all(float(row["wait"]) == float(row["latency"]) - float(row["actual_time"]) for row in lines)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_measured_run_with_a_key_is_stored_once(kind, request, tmp_path, monkeypatch):
    (tmp_path / "config.yaml").write_text("")
    body, key = measured_to_json(measured_run(6)), {"Idempotency-Key": "mine"}
    settings = settings_of(kind, request, tmp_path)
    async with server(settings, tmp_path, monkeypatch) as (client, _):
        first = await client.post("/api/runs", json=body, headers=key)
        assert first.status_code == 201
        again = await client.post("/api/runs", json=body, headers=key)
        assert (again.status_code, again.json()) == (201, first.json())
        assert again.headers["idempotent-replay"] == "true"
        other = await client.post("/api/runs", json={**body, "seed": 99}, headers=key)
        assert other.status_code == 422
        assert (await client.post("/api/tasks", json=TASK, headers=key)).status_code == 422
        assert (await client.post("/api/runs", json=body)).json()["run_id"] != first.json()["run_id"]
        named = {**body, "run_id": first.json()["run_id"]}
        assert (await client.post("/api/runs", json=named, headers={"Idempotency-Key": "new"})).status_code == 201
        runs = (await client.get("/api/runs")).json()["runs"]
        assert [run["source"] for run in runs].count("measured") == 2
        assert {run["tasks"] for run in runs if run["source"] == "measured"} == {6}
    async with server(settings, tmp_path, monkeypatch) as (client, _):  # after a restart, too
        again = await client.post("/api/runs", json=body, headers=key)
        assert again.json() == first.json()
        await client.delete("/api/history")
        assert (await client.post("/api/runs", json=body, headers=key)).status_code in (201, 409)
