"""The database goes and comes back; Redis freezes; engine and API live apart."""

import asyncio
import sqlite3
import threading
import time
from contextlib import contextmanager

import pytest
from measured_examples import measured_run
from server_under_test import occupy, opened_server, settings_of
from services import (  # noqa: F401
    database_url,
    fresh_database,
    postgres_server,
    postgres_url,
    redis_server,
    redis_url,
)

from hybrid_scheduler.live import measured_to_json
from hybrid_scheduler.live.commands import Explanations
from hybrid_scheduler.server.composition import open_server
from hybrid_scheduler.storage import retention
from hybrid_scheduler.storage.retention import delete_tasks
from hybrid_scheduler.storage.schema_version import with_connection

pytestmark = pytest.mark.slow
TASK = {"size": 1200.0, "compute_intensity": 0.5, "memory_required": 96.0}


async def until(condition, seconds=60.0):
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.05)


async def test_database_outage_gives_503_and_loses_nothing(tmp_path, monkeypatch):
    with postgres_server() as postgres, fresh_database(postgres.url) as url:
        more = {"storage.database_url": url, "live.speed": "20", "live.update_interval": "0.1"}
        async with opened_server(tmp_path, monkeypatch, start=True, **more) as (client, _):
            kept = [(await client.post("/api/tasks", json=TASK)).json()["task_id"] for _ in range(3)]
            await asyncio.to_thread(postgres.stop)

            async def gone():
                return (await client.get("/api/health/ready")).status_code == 503

            await until(gone)
            for path in ("/api/tasks", "/api/runs", "/api/full_history?limit=all", "/api/export/tasks.csv"):
                answer = await client.get(path)
                assert answer.status_code == 503, path
                assert int(answer.headers["retry-after"]) >= 1
                assert answer.json()["error"]["code"] == "unavailable"
                assert b"postgres" not in answer.content
            refused = await client.post("/api/tasks", json=TASK, headers={"Idempotency-Key": "k"})
            assert refused.status_code == 503
            assert (await client.get("/api/health/live")).status_code == 200
            assert (await client.get("/api/health")).json()["status"] == "down"
            status = await client.get("/api/status")
            assert status.status_code == 200
            assert status.json()["storage"] == "away"
            assert (await client.get("/api/metrics")).status_code == 200
            await asyncio.to_thread(postgres.start)

            async def back():
                answer = await client.get("/api/health/ready")
                status = (await client.get("/api/status")).json()
                return answer.status_code == 200 and status["storage"] == "ok" and status["state"] == "running"

            await until(back)
            again = await client.post("/api/tasks", json=TASK, headers={"Idempotency-Key": "k"})
            assert again.status_code == 201
            for task_id in kept:
                assert (await client.get(f"/api/tasks/{task_id}")).status_code == 200
            await client.post("/api/pause")

            async def settled():
                return not (await client.get("/api/status")).json()["unsaved_batches"]

            await until(settled)
            history = (await client.get("/api/full_history?limit=all")).json()
            assert [task["ordinal"] for task in history] == list(range(len(history)))
            notifications = (await client.get("/api/events?type=notification")).json()["events"]
            assert any(event["kind"] == "storage" for event in notifications)


@contextmanager
def locked(settings):
    """Another program holds the database: reads go on, writes fail."""
    address = settings.storage.address()
    if address.is_sqlite:
        connection = sqlite3.connect(address.path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.close()
        return

    def hold(connection):
        connection.exec_driver_sql("LOCK TABLE tasks, runs IN EXCLUSIVE MODE")
        held.set()
        assert over.wait(60)

    held, over = threading.Event(), threading.Event()
    holder = threading.Thread(target=with_connection, args=(address, hold))
    holder.start()
    assert held.wait(30)
    try:
        yield
    finally:
        over.set()
        holder.join(30)


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request):
    """Settings of either database."""
    return {} if request.param == "sqlite" else {"storage.database_url": request.getfixturevalue("database_url")}


async def test_one_key_stores_one_task_and_one_id_one_run_while_writes_fail(storage, tmp_path, monkeypatch):
    monkeypatch.setattr("hybrid_scheduler.storage.postgres_store.COMMAND_TIMEOUT_S", 3.0)
    more = {**storage, "live.speed": "10000", "live.update_interval": "0.1"}
    async with opened_server(tmp_path, monkeypatch, start=True, **more) as (client, _):
        statuses = []

        async def keep_sending(path, body, **headers):
            while (answer := await client.post(path, json=body, headers=headers)).status_code == 503:
                statuses.append(503)
                await asyncio.sleep(0.1)
            assert answer.status_code == 201, answer.text
            return answer.json()

        def send(number):
            key = f"key-{number}"
            return keep_sending("/api/tasks", {**TASK, "external_id": key}, **{"Idempotency-Key": key})

        runs = [measured_run(20, run_id=f"01JCQ4W3E8Z0V6M8T1S9Y5K2R{i}") for i in range(4)]
        begun = [asyncio.create_task(send(number)) for number in range(12)]
        begun += [asyncio.create_task(keep_sending("/api/runs", measured_to_json(run))) for run in runs]
        keyed = [{"Idempotency-Key": f"run-{i}"} for i in range(3)]
        unnamed = measured_to_json(measured_run(7))
        begun += [asyncio.create_task(keep_sending("/api/runs", unnamed, **key)) for key in keyed]
        with locked(settings_of(tmp_path, **storage)):
            begun += [asyncio.create_task(send(number)) for number in range(12, 24)]
            async with asyncio.timeout(60):
                while not statuses:
                    await asyncio.sleep(0.05)
        async with asyncio.timeout(60):
            answers = await asyncio.gather(*begun)
        assert statuses, "the lock came too late"
        for number in range(24):
            found = (await client.get(f"/api/tasks?external_id=key-{number}")).json()["tasks"]
            assert len(found) == 1, number
            assert found[0]["task_id"] in {answer.get("task_id") for answer in answers}
        for run in runs:
            assert (await client.get(f"/api/runs/{run.run_id}")).json()["tasks"] == 20
        stored = [run for run in (await client.get("/api/runs")).json()["runs"] if run["source"] == "measured"]
        assert sorted(run["tasks"] for run in stored) == [7] * 3 + [20] * 4


@pytest.mark.parametrize("known_by", ["run_id", "run key", "task key"])
async def test_request_that_looked_before_the_first_was_stored_stores_nothing(
    storage, known_by, tmp_path, monkeypatch
):
    """The second request finds nothing; the first one's batch is stored; then the second reaches the engine."""
    monkeypatch.setattr("hybrid_scheduler.storage.postgres_store.COMMAND_TIMEOUT_S", 3.0)
    path = "/api/tasks" if known_by == "task key" else "/api/runs"
    headers = {} if known_by == "run_id" else {"Idempotency-Key": "k"}
    run = measured_run(20, run_id="01JCQ4W3E8Z0V6M8T1S9Y5K2RA" if known_by == "run_id" else None)
    body = {**TASK, "external_id": "one"} if known_by == "task key" else measured_to_json(run)
    async with opened_server(tmp_path, monkeypatch, start=False, **storage) as (client, running):

        async def rows():
            if known_by == "task key":
                return len((await client.get("/api/tasks?external_id=one")).json()["tasks"])
            found = (await client.get("/api/runs")).json()["runs"]
            return sum(run["tasks"] for run in found if run["source"] == "measured")

        async def stored():
            return await rows() > 0

        control = running.context.control
        real, looked, go_on = control.run, asyncio.Event(), asyncio.Event()

        async def held(command):
            looked.set()
            await go_on.wait()
            return await real(command)

        with locked(settings_of(tmp_path, **storage)):
            assert (await client.post(path, json=body, headers=headers)).status_code == 503
            monkeypatch.setattr(control, "run", held)
            again = asyncio.create_task(client.post(path, json=body, headers=headers))
            await looked.wait()
        await until(stored)
        go_on.set()
        assert (await again).status_code == 201
        assert await rows() == (1 if known_by == "task key" else 20)


async def test_long_deletion_is_answered_with_its_progress(storage, tmp_path, monkeypatch):
    monkeypatch.setattr("hybrid_scheduler.server.engine_control.DELETE_TIMEOUT_S", 0.05)
    monkeypatch.setattr(retention, "DELETE_CHUNK_TASKS", 5)

    async def slow(*arguments):
        await asyncio.sleep(0.05)
        return await delete_tasks(*arguments)

    monkeypatch.setattr(retention, "delete_tasks", slow)
    more = {**storage, "live.speed": "100", "live.update_interval": "0.1"}
    async with opened_server(tmp_path, monkeypatch, start=True, **more) as (client, _):

        async def filled():
            return (await client.get("/api/statistics")).json()["rows"]["tasks"] > 200

        await until(filled)
        await client.post("/api/pause")
        answer = await client.delete("/api/history")
        assert answer.status_code == 202
        assert answer.headers["location"] == "/api/history/deletion"
        assert answer.json()["done"] is False
        assert answer.json()["deleted_tasks"] < answer.json()["tasks"]
        assert {row["tasks"] for row in (await client.get("/api/status")).json()["comparison"]} == {0}

        async def ended():
            return (await client.get("/api/history/deletion")).json()["done"]

        await until(ended)
        assert (await client.get("/api/full_history")).json() == []


async def test_writer_that_failed_for_good_is_not_ready(storage, tmp_path, monkeypatch):
    more = {**storage, "live.speed": "20", "live.update_interval": "0.1"}
    async with opened_server(tmp_path, monkeypatch, start=True, **more) as (client, running):
        assert (await client.get("/api/health/ready")).status_code == 200
        assert "hybrid_scheduler_storage_up 1.0" in (await client.get("/api/metrics")).text
        await client.post("/api/pause")  # no task may take the id before the row is there
        occupy(running.address, (await client.get("/api/status")).json()["next_task_id"] + 20)
        await client.post("/api/resume")
        async with asyncio.timeout(60):
            assert "cannot be written" in str(await running.failure)
        assert (await client.get("/api/health/ready")).status_code == 503
        assert (await client.get("/api/health")).json()["status"] == "down"
        assert "hybrid_scheduler_storage_up 0.0" in (await client.get("/api/metrics")).text
        assert (await client.post("/api/tasks", json=TASK)).status_code == 503
        assert (await client.get("/api/tasks")).status_code == 200  # reads go on


async def test_frozen_database_is_reported_and_blocks_nothing_else(tmp_path, monkeypatch):
    with postgres_server() as postgres, fresh_database(postgres.url) as url:
        more = {"storage.database_url": url, "live.speed": "20"}
        async with opened_server(tmp_path, monkeypatch, start=True, **more) as (client, _):
            assert (await client.get("/api/health/ready")).status_code == 200
            postgres.freeze()
            try:
                async with asyncio.timeout(60):
                    answers = await asyncio.gather(*(client.get("/api/health/ready") for _ in range(20)))
                    assert {answer.status_code for answer in answers} == {503}
                    metrics = await client.get("/api/metrics")
                    assert 'database_up{kind="postgresql"} 0.0' in metrics.text
                    for path in ("/api/schedulers", "/api/scenarios", "/api/status", "/api/health/live"):
                        assert (await client.get(path)).status_code == 200, path
            finally:
                postgres.thaw()

            async def back():
                return (await client.get("/api/health/ready")).status_code == 200

            await until(back)


async def test_frozen_redis_degrades_health_and_nothing_else(tmp_path, monkeypatch):
    with redis_server() as redis:
        more = {
            "storage.redis_host": "127.0.0.1",
            "storage.redis_port": str(redis.port),
            "server.rate_limit": "40/minute",
        }
        async with opened_server(tmp_path, monkeypatch, start=False, **more) as (client, _):
            assert (await client.get("/api/health")).json()["cache"] == {"state": "ok", "kind": "redis"}
            assert (await client.get("/api/statistics")).status_code == 200
            redis.freeze()
            try:
                statuses, slowest = [], 0.0
                for _ in range(60):
                    began = time.monotonic()
                    statuses.append((await client.get("/api/statistics")).status_code)
                    slowest = max(slowest, time.monotonic() - began)
                assert set(statuses) == {200, 429}  # never an error, never unlimited
                assert 35 <= statuses.count(200) <= 40
                health = (await client.get("/api/health")).json()
                assert health["status"] == "degraded"
                assert health["cache"]["state"] == "away"
                assert (await client.get("/api/health/ready")).status_code == 200
                assert slowest < 5.0  # two waits of a quarter second, on a busy machine
            finally:
                redis.thaw()

            async def back():
                return (await client.get("/api/health")).json()["status"] == "ok"

            await until(back)


@pytest.mark.parametrize("with_redis", [False, True])
async def test_engine_and_api_in_two_processes(with_redis, request, tmp_path, monkeypatch):
    more = {"storage.database_url": request.getfixturevalue("database_url")}
    if with_redis:
        port = request.getfixturevalue("redis_url").rpartition(":")[2].partition("/")[0]
        more |= {"storage.redis_host": "127.0.0.1", "storage.redis_port": port}
    monkeypatch.chdir(tmp_path)
    settings = settings_of(tmp_path, **more, **{"live.speed": "20", "live.update_interval": "0.1"})
    async with (
        open_server(settings, role="engine") as engine,
        opened_server(tmp_path, monkeypatch, role="api", start=False, **more) as (client, running),
    ):
        assert running.engine is None

        async def ready():
            return (await client.get("/api/health")).json()["status"] == "ok"

        await until(ready)
        made = await client.post("/api/tasks", json=TASK, headers={"Idempotency-Key": "k"})
        assert made.status_code == 201
        task_id = made.json()["task_id"]
        assert (
            await running.context.control.run(Explanations(task_id)) == {}
        )  # the engine says that no scheduler learns
        assert (await client.get(f"/api/tasks/{task_id}")).json() == made.json() | {"explanations": {}}
        measured = await client.post("/api/runs", json=measured_to_json(measured_run(30)))
        assert measured.status_code == 201
        detail = (await client.get(f"/api/runs/{measured.json()['run_id']}")).json()
        assert (detail["source"], detail["tasks"], detail["status"]) == ("measured", 30, "stopped")
        assert (await client.post("/api/pause")).json()["state"] == "paused"
        assert engine.engine.status().state == "paused"
        wrong = await client.post("/api/simulation/scenario", json={"scenario": "mixd"})
        assert wrong.status_code == 422
        assert wrong.json()["error"]["hint"] == "did you mean 'mixed'?"
        assert (await client.get("/api/models")).json() == []
        assert (await client.post("/api/resume")).json()["state"] == "running"

        async def flows():
            return running.context.hub.last_seq >= engine.context.hub.last_seq > 10

        await until(flows)
        assert (await client.delete("/api/history")).json()["deleted_tasks"] > 0
        live = (await client.get("/api/status")).json()["run_id"]
        assert (await client.delete(f"/api/runs/{live}")).status_code == 409  # it has not ended
        assert (await client.post("/api/simulation/stop")).json()["state"] == "stopped"

        async def stopped():
            return (await client.get(f"/api/runs/{live}")).json()["status"] == "stopped"

        await until(stopped)
        for run_id in (live, measured.json()["run_id"]):
            assert (await client.delete(f"/api/runs/{run_id}")).status_code == 200
            assert (await client.get(f"/api/runs/{run_id}")).status_code == 404
        assert (await client.delete(f"/api/runs/{live}")).status_code == 404
        fresh = await client.post("/api/simulation/start")
        assert fresh.json()["run_id"] not in (None, live)
