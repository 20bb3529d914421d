"""Everything at once: the real engine and database behind a real port, and a plain client."""

import asyncio
import json
from itertools import pairwise
from socket import IPPROTO_TCP, TCP_NODELAY
from typing import Any

import httpx
import pytest
from pydantic import BaseModel
from services import database_url, postgres_url  # noqa: F401
from test_backends import settings_of
from websockets.asyncio.client import connect

from hybrid_scheduler.live.journal import published_name
from hybrid_scheduler.server.app import create_app
from hybrid_scheduler.server.composition import open_server
from hybrid_scheduler.server.schemas.stream import Hello, LogLine, Notification, SimulationUpdate
from hybrid_scheduler.server.server_process import Server, bound_socket, uvicorn_config

SHAPES: dict[str, type[BaseModel]] = {
    "simulation_update": SimulationUpdate,
    "notification": Notification,
    "log": LogLine,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_plain_client_sees_the_run(kind, request, tmp_path, monkeypatch):
    (tmp_path / "config.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    more = {"simulation.schedulers": "greedy,hybrid_ml,oracle", "live.speed": "4"}
    settings = settings_of(kind, request, tmp_path, **more)
    ready = asyncio.Event()
    async with open_server(settings) as running:
        with bound_socket("127.0.0.1", 0) as listener:
            server = Server(
                uvicorn_config(create_app(running.context), running.context.options), running.context.hub, ready.set
            )
            serving = asyncio.create_task(server.serve([listener]))
            await ready.wait()
            port = listener.getsockname()[1]
            base = f"http://127.0.0.1:{port}"
            async with (
                connect(f"ws://127.0.0.1:{port}/ws", compression=None) as socket,
                httpx.AsyncClient(base_url=base, timeout=60) as client,
            ):
                await watched(socket, client)
            server.should_exit = True
            await serving


async def watched(socket, client):
    hello = Hello.model_validate_json(await socket.recv())
    assert hello.status.state == "running"
    ordered = await client.post("/api/models/hybrid_ml/retrain")
    assert ordered.status_code == 202
    messages: list[tuple[int, str]] = []
    updates: list[dict[str, Any]] = []
    retrained = None
    while len(updates) < 6 or retrained is None:
        raw = await socket.recv()
        message = json.loads(raw, parse_constant=pytest.fail)
        parsed = SHAPES[message["type"]].model_validate_json(raw)
        assert json.loads(parsed.model_dump_json(by_alias=True)) == message  # exactly the promised fields
        assert message["seq"] == hello.seq + len(messages) + 1
        assert message["run_id"] == hello.run_id
        messages.append((message["seq"], raw))
        if message["type"] == "simulation_update":
            updates.append(message)
            assert len(message["decisions"]) <= 200
        elif message["type"] == "notification" and message["kind"] == "retrained":
            retrained = message
    assert retrained["scheduler"] == "hybrid_ml"
    assert all(earlier["t"] <= later["t"] for earlier, later in pairwise(updates))
    # The database has the stream's content: the events byte for byte, the decisions number for number.
    stored = await client.get(f"/api/events?after={hello.seq}&limit={len(messages)}")
    assert [json.loads(raw) for _, raw in messages] == stored.json()["events"]
    last = next(update for update in reversed(updates) if update["task"] is not None)
    task = (await client.get(f"/api/tasks/{last['task']['task_id']}")).json()
    assert task["size"] == last["task"]["size"]
    for name, streamed in last["latest_results"].items():
        kept = task["results"][name]
        for field in ("time", "latency", "energy", "cost", "device", "fraction", "regret"):
            assert streamed[field] == kept[published_name(field)]
    for decision in last["decisions"][-6:]:
        kept = (await client.get(f"/api/tasks/{decision['task_id']}")).json()["results"][decision["scheduler"]]
        for field in ("latency", "start", "finish", "accelerator_start", "accelerator_time"):
            assert decision[field] == kept[published_name(field)]
    (model,) = (await client.get("/api/models")).json()
    assert model["current_version"] >= retrained["version"]
    assert retrained["version"] in [version["version"] for version in model["versions"]]


async def test_responses_leave_at_once():
    """With Nagle's algorithm the second half of a response waits 40 ms for the acknowledgement of the first."""
    accepted = asyncio.get_running_loop().create_future()
    with bound_socket("127.0.0.1", 0) as listener:
        server = await asyncio.start_server(lambda _, writer: accepted.set_result(writer), sock=listener)
        _, client = await asyncio.open_connection(*listener.getsockname())
        writer = await accepted
        assert writer.get_extra_info("socket").getsockopt(IPPROTO_TCP, TCP_NODELAY)
        writer.close()
        client.close()
        server.close()
        await server.wait_closed()
