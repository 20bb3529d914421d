"""The program as a process: killed, stopped, started twice, started wrongly."""

import asyncio
import json
import os
import signal
import threading
import time

import httpx
import pytest
from process import failed_starts, served
from server_under_test import occupy, vacate
from services import database_url, postgres_url  # noqa: F401
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from hybrid_scheduler.storage import DatabaseAddress

pytestmark = pytest.mark.slow
TASK = {"size": 1200.0, "compute_intensity": 0.5, "memory_required": 96.0}
SPEED = ("--speed", "20")


@pytest.fixture
def environment(request):
    return {} if request.param == "sqlite" else {"DATABASE_URL": request.getfixturevalue("database_url")}


either_database = pytest.mark.parametrize("environment", ["sqlite", "postgresql"], indirect=True)
#: What the process does is the same with both, and tests of the storage try both.
one_database = pytest.mark.parametrize(
    "environment", ["sqlite", pytest.param("postgresql", marks=pytest.mark.repeat)], indirect=True
)


def settled(client):
    """Nothing waits to be stored."""
    while (status := client.get("/api/status").json())["unsaved_batches"]:
        time.sleep(0.02)
    return status


@either_database
def test_killed_server_resumes_its_run(tmp_path, environment, pytestconfig):
    """Nothing acknowledged is lost, no id is used twice, and the run continues."""
    cycles = 4 if pytestconfig.getoption("--all") else 2
    acknowledged: dict[str, int] = {}
    run_id, tasks, seq = None, 0, 0
    for cycle in range(cycles):
        with served(tmp_path, *SPEED, environment=environment) as server, server.client() as client:
            status = client.get("/api/status").json()
            if run_id is not None:
                assert status["run_id"] == run_id
                assert status["tasks_processed"] >= tasks
                assert status["last_seq"] >= seq
            assert status["slowdown"]["device"] == "gpu"  # the default run has one, and so has the resumed one
            run_id = status["run_id"]
            for key, task_id in acknowledged.items():
                assert client.get(f"/api/tasks/{task_id}").json()["external_id"] == key
            killer = threading.Timer(1.0 + 0.13 * cycle, server.process.kill)
            try:
                number = 0
                while True:
                    number += 1
                    if number == 2:  # not before the first answer, however long it takes
                        killer.start()
                    key = f"{cycle}-{number}"
                    answer = client.post(
                        "/api/tasks", json={**TASK, "external_id": key}, headers={"Idempotency-Key": key}
                    )
                    if answer.status_code == 201:
                        acknowledged[key] = answer.json()["task_id"]
                        tasks = max(tasks, answer.json()["ordinal"] + 1)
                    else:
                        assert answer.status_code == 429
            except httpx.TransportError:
                assert number > 1
                killer.join()
    assert len(set(acknowledged.values())) == len(acknowledged)
    with served(tmp_path, *SPEED, environment=environment) as server, server.client() as client:
        client.post("/api/pause")
        status = settled(client)
        history = client.get("/api/full_history?limit=all").json()
        ids = [task["task_id"] for task in history]
        assert len(set(ids)) == len(ids)
        assert [task["ordinal"] for task in history] == list(range(len(history)))
        assert set(acknowledged.values()) <= set(ids)
        assert status["next_task_id"] == max(ids) + 1
        assert all(len(task["results"]) == 3 for task in history)
        # Sending the last one again finds it.
        key, task_id = list(acknowledged.items())[-1]
        again = client.post("/api/tasks", json={**TASK, "external_id": key}, headers={"Idempotency-Key": key})
        assert (again.status_code, again.json()["task_id"]) == (201, task_id)
        assert again.headers["idempotent-replay"] == "true"
        events = client.get("/api/events?type=notification&limit=10000").json()["events"]
        assert sum(event["kind"] == "resumed" for event in events) >= cycles
        assert server.stop() == 0


def test_given_speed_applies_to_the_resumed_run(tmp_path):
    """Without one, the run keeps the speed it had."""
    seen = []
    for arguments in (("--speed", "20"), (), ("--speed", "5")):
        with served(tmp_path, *arguments) as server, server.client() as client:
            status = client.get("/api/status").json()
            seen.append((status["run_id"], status["speed"]))
            assert server.stop() == 0
    run = seen[0][0]
    assert seen == [(run, 20.0), (run, 20.0), (run, 5.0)]


@one_database
async def test_sigterm_closes_open_websockets(tmp_path, environment):
    with served(tmp_path, *SPEED, environment=environment) as server:
        sockets = [await connect(f"ws://127.0.0.1:{server.port}/ws", compression=None) for _ in range(50)]
        for each in sockets:
            assert json.loads(await each.recv())["type"] == "hello"
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
            await client.get("/api/status")
            flight = [asyncio.create_task(client.post("/api/tasks", json=TASK)) for _ in range(5)]
            await asyncio.wait(flight, return_when=asyncio.FIRST_COMPLETED)
            began = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            answers = await asyncio.gather(*flight, return_exceptions=True)

            async def code(socket):
                try:
                    while True:
                        await socket.recv()
                except ConnectionClosed as closed:
                    return closed.rcvd.code

            assert set(await asyncio.gather(*map(code, sockets))) == {1001}
        assert await asyncio.to_thread(server.wait) == 0
        assert time.monotonic() - began < 10
        stored = [answer.json()["task_id"] for answer in answers if isinstance(answer, httpx.Response)]
        assert len(stored) == 5
        assert not any("Traceback" in line for line in server.errors)
    with served(tmp_path, *SPEED, environment=environment) as server, server.client() as client:
        assert all(client.get(f"/api/tasks/{task_id}").status_code == 200 for task_id in stored)


@one_database
def test_one_engine_per_database(tmp_path, environment):
    with served(tmp_path, environment=environment) as first, first.client() as client:
        with served(tmp_path, environment=environment, ready=False) as second:
            assert second.wait() == 1
            assert second.output == []
            errors = [line for line in second.errors if line.startswith("error:")]
            assert len(errors) == 1
            assert "engine" in errors[0]
        assert client.get("/api/health/ready").status_code == 200


FAILED_STARTS = [
    (("--host", "0.0.0.0"), {}, 1, "token"),
    (("--host", "0.0.0.0"), {"API_TOKEN": "short"}, 2, "token"),
    (("--role", "api"), {}, 2, "--role"),
    (("--role", "both"), {}, 2, "--role"),
    (("--scenario", "mixd"), {}, 2, "mixed"),
    ((), {"DATABASE_URL": "postgresql://postgres@127.0.0.1:1/none"}, 1, "127.0.0.1"),
    (("--host", "no.such.host.invalid"), {"API_TOKEN": "x" * 40}, 1, "listen"),
]


def test_failed_start_names_the_reason(tmp_path):
    starts = failed_starts(tmp_path, [(arguments, environment) for arguments, environment, _, _ in FAILED_STARTS])
    for (arguments, _, code, word), start in zip(FAILED_STARTS, starts, strict=True):
        talk = [line for line in start.errors.splitlines() if not line.startswith("warning:")]
        assert start.code == code, (arguments, talk)
        assert start.output == ""
        assert word in " ".join(talk)
        assert 1 <= len(talk) <= 2, talk  # an error, and perhaps a hint
        assert "short" not in " ".join(talk)


def test_port_in_use_is_an_error(tmp_path):
    with (
        served(tmp_path / "a") as first,
        served(tmp_path / "b", "--port", str(first.port), ready=False) as second,
    ):
        assert second.wait() == 1
        assert any("cannot listen" in line for line in second.errors)


def test_interrupt_exits_with_its_code(tmp_path):
    with served(tmp_path) as server:
        assert server.stop(signal.SIGINT) == 130
        assert any("the run is kept" in line for line in server.errors)


def test_log_does_not_contain_the_token(tmp_path):
    file = tmp_path / "token"
    environment = {"HYBRID_SERVER__TOKEN_FILE": str(file), "HYBRID_LOGGING__LEVEL": "trace"}
    with served(tmp_path, environment=environment) as server:
        assert file.stat().st_mode & 0o777 == 0o600
        token = file.read_text().strip()
        assert len(token) >= 22

        async def look():
            async with connect(f"ws://127.0.0.1:{server.port}/ws?token={token}") as socket:
                await socket.recv()

        asyncio.run(look())
        with server.client(headers={"Authorization": f"Bearer {token}"}) as client:
            assert client.get("/api/status").status_code == 200
            assert client.get("/api/status", headers={"Authorization": f"Bearer {token}x"}).status_code == 401
        server.stop()
        log = (tmp_path / "logs" / "app.log").read_text()
        assert token not in log + "\n".join(server.output + server.errors)
    os.chmod(file, 0o644)
    with served(tmp_path, environment=environment, ready=False) as server:
        assert server.wait() == 2
        assert any("0600" in line for line in server.errors)


@one_database
def test_server_that_can_store_nothing_more_ends_with_status_1(tmp_path, environment):
    url = environment.get("DATABASE_URL", f"sqlite:///{tmp_path / 'data' / 'hybrid_scheduler.db'}")
    with served(tmp_path, *SPEED, environment=environment) as server, server.client() as client:
        run_id = client.get("/api/status").json()["run_id"]
        client.post("/api/pause")  # no task may take the id before the row is there
        taken = client.get("/api/status").json()["next_task_id"] + 20
        occupy(DatabaseAddress.from_url(url), taken)
        client.post("/api/resume")
        assert server.wait(60) == 1
        assert any("cannot be written" in line for line in server.errors[-3:])
        assert any("the server ends: nothing more can be stored" in line for line in server.errors)
        assert not any("Traceback" in line for line in server.errors if "ASGI" in line)
    vacate(DatabaseAddress.from_url(url), taken)
    with served(tmp_path, *SPEED, environment=environment) as server, server.client() as client:
        assert client.get("/api/status").json()["run_id"] == run_id
        assert client.post("/api/tasks", json=TASK).status_code == 201
