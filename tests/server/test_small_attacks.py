"""Small attacks: guessed tokens, connections behind a proxy, a full disk, an engine that failed."""

import asyncio
import errno
import time

import pytest
from fakes import client_of, fake_context

from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.physics import Slowdown
from hybrid_scheduler.server import trace_uploads
from hybrid_scheduler.server.app import create_app
from hybrid_scheduler.server.app_context import ConnectionLimits, ServerOptions
from hybrid_scheduler.server.uvicorn_protocols import ConnectionGuard


async def test_wrong_tokens_count_toward_the_limit(tmp_path):
    context = fake_context(tmp_path, token="t" * 30, write_rate_limit="3/minute")
    async with client_of(create_app(context)) as client:
        wrong = {"Authorization": "Bearer guess"}
        statuses = [(await client.get("/api/status", headers=wrong)).status_code for _ in range(5)]
        assert statuses == [401, 401, 401, 429, 429]
        right = {"Authorization": f"Bearer {'t' * 30}"}
        assert (await client.get("/api/status", headers=right)).status_code == 200


def test_connections_of_a_trusted_proxy_count_for_the_forwarded_address():
    limits = ConnectionLimits(per_address=2, in_all=100)
    guard = ConnectionGuard(ServerOptions(trusted_proxies=("10.0.0.1",), connections=limits))
    header = (b"X-Forwarded-For", b"192.0.2.7")
    assert guard.client_of("10.0.0.1", [header]) == "192.0.2.7"
    assert guard.client_of("10.0.0.2", [header]) == "10.0.0.2"
    assert all(guard.admit("10.0.0.1") for _ in range(5))
    assert [guard.admit("192.0.2.7") for _ in range(3)] == [True, True, False]


def test_connections_from_one_network_of_ipv6_count_together():
    guard = ConnectionGuard(ServerOptions(connections=ConnectionLimits(per_address=2, in_all=100)))
    assert [guard.admit(f"2001:db8::{number}") for number in range(3)] == [True, True, False]
    assert guard.admit("2001:db8:0:1::1")
    for number in range(3):
        guard.release(f"2001:db8::{number}")
    assert guard.admit("2001:db8::9")


@pytest.mark.parametrize("body", ['{"size":"' + "1" * 1_000_000 + '"}', '{"' + "a" * 1_000_000 + '":1}'])
async def test_wrong_value_of_a_megabyte_is_answered_without_being_written_out(client, body):
    json = {"Content-Type": "application/json"}
    await client.post("/api/tasks", content="{}", headers=json)
    began = time.process_time()
    answer = await client.post("/api/tasks", content=body, headers=json)
    seconds = time.process_time() - began
    assert answer.status_code == 422
    assert len(answer.json()["error"]["message"]) < 400
    # Writing the value out, twice and character by character, took 0.2 to 0.7 s of the event loop.
    assert seconds < 0.15


async def test_hundreds_of_thousands_of_values_are_not_even_read(client):
    body = '{"size":[' + "1," * 500_000 + "1]}"
    answer = await client.post("/api/tasks", content=body, headers={"Content-Type": "application/json"})
    (field,) = answer.json()["error"]["fields"]
    assert (answer.status_code, field["field"], field["allowed"]) == (422, "body", "at most 100,000 values")


async def test_large_body_leaves_the_event_loop_free(client):
    body = '{"config":{"a":[' + "1," * 3_000_000 + "1]}}"
    json = {"Content-Type": "application/json"}
    began = time.thread_time()
    answer = await client.post("/api/runs", content=body, headers=json, timeout=60)
    seconds = time.thread_time() - began
    assert answer.status_code == 422
    assert "config" in [each["field"] for each in answer.json()["error"]["fields"]]
    assert seconds < 0.2  # 0.15 s to read it, and 0.3 s to check it


@pytest.mark.parametrize("number", ["0x" + "f" * 9_000, "0b" + "1" * 15_000, "0" + "7" * 9_000, "1" + ":1" * 7_000])
@pytest.mark.parametrize(
    "text",
    [
        "{}", "name: {}\ndevices: [cpu]", "devices: {}", "devices: [{}]", "devices: [{{name: {}}}]",
        "devices: [{{name: cpu, memory: {}}}]", "devices: [{{name: cpu, count: {}}}]", "devices: [{{? {} : 1}}]",
    ],
)  # fmt: skip
async def test_integer_of_thousands_of_digits_in_a_platform_is_422(client, number, text):
    answer = await client.post("/api/simulation/preview", json={"platform_yaml": text.format(number)})
    assert answer.status_code == 422
    (field,) = answer.json()["error"]["fields"]
    assert field["field"] == "platform_yaml"
    assert "64 bits" in field["got"]


@pytest.mark.parametrize(
    ("path", "media_type"), [("traces/inspect", "text/csv"), ("traces", "text/csv"), ("runs", "application/json")]
)
async def test_client_that_left_is_not_read_for(context, monkeypatch, path, media_type):
    began = asyncio.Event()
    left = asyncio.Event()
    ended = []

    async def never(*_):
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(path)

    monkeypatch.setattr(context.reader, "read", never)
    monkeypatch.setattr(context.reader, "compute", never)
    body = [{"type": "http.request", "body": b"{}", "more_body": False}]

    async def receive():
        if body:
            return body.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        pass

    headers = [(b"host", b"localhost"), (b"content-type", media_type.encode())]
    scope = {
        "type": "http", "method": "POST", "path": f"/api/{path}", "raw_path": b"", "query_string": b"name=a",
        "headers": headers, "client": ("127.0.0.1", 1), "server": ("localhost", 80), "scheme": "http",
        "root_path": "", "http_version": "1.1", "asgi": {"version": "3.0"},
    }  # fmt: skip
    request = asyncio.ensure_future(create_app(context)(scope, receive, send))
    await began.wait()
    left.set()
    await asyncio.wait({request}, timeout=10)
    assert ended == [path]


async def test_full_disk_is_503(client, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    async def receive(*_):
        full()

    monkeypatch.setattr(trace_uploads, "_receive", receive)
    answer = await client.post("/api/traces?name=t", content=b"a,b\n1,2\n", headers={"Content-Type": "text/csv"})
    assert (answer.status_code, answer.json()["error"]["hint"]) == (503, "the disk may be full")
    assert "Retry-After" in answer.headers


async def test_engine_that_failed_is_not_ready(client, context, monkeypatch):
    assert (await client.get("/api/health/ready")).status_code == 200
    status = await context.control.status()

    async def failed():
        return {**status, "state": "stopped", "notes": ["the engine failed: OverflowError"]}

    monkeypatch.setattr(context.control, "status", failed)
    assert (await client.get("/api/health/ready")).status_code == 503


@pytest.mark.parametrize(("until", "every"), [(5e-324, None), (5e-324, 1e-323), (1e-4, 1e-3)])
def test_slowdown_of_denormal_seconds_is_refused(until, every):
    with pytest.raises(InvalidInputError, match=r"0\.001 s or more after the start"):
        Slowdown("gpu", 2.0, 0.0, until, every)
