"""Connections that send too much, too little or nothing, on a real port."""

import asyncio
import logging
import socket
import struct
import threading
from contextlib import contextmanager

import httpx
import pytest
from fakes import fake_context
from live_server import serving
from loguru import logger

from hybrid_scheduler.server.app_context import ConnectionLimits

QUICK = ConnectionLimits(header_timeout=0.3, body_timeout=0.3, send_timeout=0.3, per_address=8, in_all=12)
HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
POST = (
    b"POST /api/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n"
)


@pytest.fixture
def log():
    lines = []
    sink = logger.add(lambda line: lines.append(str(line)), level="INFO", format="{message}")
    yield lines
    logger.remove(sink)


@contextmanager
def connected(live, first=b""):
    with socket.create_connection(("127.0.0.1", live.port), timeout=20) as connection:
        connection.sendall(first)
        yield connection


def received(connection):
    """Everything until the server closes."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        parts.append(b"<reset>")
    return b"".join(parts)


def frame(opcode, payload=b"", fin=True):
    """A masked frame with the mask zero."""
    return struct.pack("!BB", opcode | (0x80 if fin else 0), 0x80 | len(payload)) + bytes(4) + payload


def close_code(data):
    """The code of the close frame that ends the data."""
    at = data.rindex(b"\x88")
    return struct.unpack("!H", data[at + 2 : at + 4])[0]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"", "headers"),
        (b"GET /api/health/live HTTP/1.1\r\nHost: local", "headers"),
        (POST + b'{"size"', "body"),
    ],
)
def test_half_sent_request_is_closed_with_a_log_line(tmp_path, log, sent, reason):
    with serving(fake_context(tmp_path, connections=QUICK)) as live, connected(live, sent) as connection:
        answer = received(connection)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert httpx.get(f"{live.url}/api/health/live").status_code == 200
    assert any("127.0.0.1" in line and reason in line for line in log)
    assert not any("Traceback" in line for line in log)


def test_trickled_body_is_closed(tmp_path):
    with serving(fake_context(tmp_path, connections=QUICK)) as live, connected(live, POST) as connection:
        connection.settimeout(0.05)
        answer = b""
        for _ in range(80):
            try:
                connection.sendall(b" ")
                if answer := connection.recv(65536):
                    break
            except TimeoutError:
                continue
        assert answer.startswith(b"HTTP/1.1 408 ")


def test_second_request_on_a_connection_has_the_same_deadline(tmp_path):
    whole = b"GET /api/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        serving(fake_context(tmp_path, connections=QUICK)) as live,
        connected(live, whole + whole[:20]) as connection,
    ):
        answer = received(connection)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in answer


@pytest.mark.parametrize(
    "headers",
    [b"X-Big: " + b"x" * 2**20 + b"\r\n", b"X-Many: 1\r\n" * 101, b"X-Big: " + b"x" * 70_000 + b"\r\n"],
)
def test_too_many_or_too_large_headers_are_431(tmp_path, headers):
    request = b"GET /api/health/live HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n"
    with serving(fake_context(tmp_path)) as live, connected(live) as connection:
        sender = threading.Thread(target=lambda: connection.sendall(request), daemon=True)
        sender.start()
        answer = received(connection)
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert b'"code":"too_large"' in answer


def test_too_large_websocket_handshake_is_431(tmp_path):
    request = HANDSHAKE[:-2] + b"X-Big: " + b"x" * 9000 + b"\r\n\r\n"
    with serving(fake_context(tmp_path)) as live, connected(live, request) as connection:
        assert received(connection).startswith(b"HTTP/1.1 431 ")


def test_connections_of_one_address_are_limited(tmp_path, log):
    context = fake_context(tmp_path, token="t" * 30, connections=ConnectionLimits(per_address=8))
    with serving(context) as live:
        held = [socket.create_connection(("127.0.0.1", live.port), timeout=20) for _ in range(8)]
        with connected(live) as connection:
            assert received(connection).startswith(b"HTTP/1.1 503 ")
        assert any("too many connections" in line for line in log)
        for each in held:
            each.close()
        # A place is free again once the server has seen one of them close.
        transport = httpx.HTTPTransport(retries=3)
        with httpx.Client(transport=transport) as client:
            for _ in range(200):
                if client.get(f"{live.url}/api/health/live").status_code == 200:
                    break
            else:
                pytest.fail("closed connections still count")


def test_websockets_do_not_count_as_connections(tmp_path):
    with serving(fake_context(tmp_path, connections=QUICK)) as live:
        sockets = []
        for _ in range(QUICK.per_address + 2):
            sockets.append(socket.create_connection(("127.0.0.1", live.port), timeout=20))
            sockets[-1].sendall(HANDSHAKE)
            assert sockets[-1].recv(65536).startswith(b"HTTP/1.1 101 ")
        for each in sockets:
            each.close()


def test_client_that_does_not_read_its_response_is_dropped(tmp_path, log):
    context = fake_context(tmp_path, connections=QUICK)
    row = dict(context.repository.tasks_by_id[1])
    context.repository.tasks_by_id.update({n: {**row, "task_id": n} for n in range(1, 20_000)})
    request = b"GET /api/full_history?limit=all HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(context) as live, connected(live, request) as connection:
        waiting = threading.Event()
        for _ in range(300):
            if any("read nothing" in line for line in log):
                break
            waiting.wait(0.1)
        assert not received(connection).endswith(b"\r\n0\r\n\r\n")  # it breaks off


@pytest.mark.parametrize(
    "flood",
    [
        frame(1) * 200_000,
        frame(9) * 200_000,
        frame(10) * 200_000,
        frame(1, b"x", fin=False) + frame(0, b"", fin=False) * 200_000,
    ],
    ids=["empty frames", "pings", "pongs", "fragments"],
)
def test_flood_of_frames_is_closed_with_1008(tmp_path, log, flood):
    context = fake_context(tmp_path)
    with serving(context) as live, connected(live, HANDSHAKE) as connection:
        assert connection.recv(12) == b"HTTP/1.1 101"
        sender = threading.Thread(target=lambda: connection.sendall(flood), daemon=True)
        sender.start()
        data = received(connection)
        assert close_code(data) == 1008
        assert any("a second" in line for line in log)
        assert httpx.get(f"{live.url}/api/status").status_code == 200
        assert not live.context.hub.clients


def test_few_frames_and_pings_are_welcome(tmp_path):
    with serving(fake_context(tmp_path)) as live, connected(live, HANDSHAKE) as connection:
        assert connection.recv(12) == b"HTTP/1.1 101"
        connection.sendall(frame(1, b"hello") * 20 + frame(9, b"last") * 5)
        data = b""
        while b"\x8a\x04last" not in data:
            data += connection.recv(65536)
        connection.sendall(frame(8, struct.pack("!H", 1000)))
        assert close_code(received(connection)) == 1000


def test_stopping_cuts_a_request_off_without_a_traceback(tmp_path, caplog, monkeypatch):
    context, asked, answers = fake_context(tmp_path), threading.Event(), []

    async def never(task_id):
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(context.repository, "task", never)
    with caplog.at_level(logging.INFO), serving(context, timeout_graceful_shutdown=0.2) as live:
        asking = threading.Thread(target=lambda: answers.append(httpx.get(f"{live.url}/api/tasks/1", timeout=30)))
        asking.start()
        assert asked.wait(30)
    asking.join(30)
    assert answers[0].status_code == 503
    assert "retry-after" in answers[0].headers
    assert not [record for record in caplog.records if record.exc_info]


def test_client_that_answers_no_ping_leaves_with_1013(tmp_path):
    context = fake_context(tmp_path)
    with (
        serving(context, ws_ping_interval=0.2, ws_ping_timeout=0.2) as live,
        connected(live, HANDSHAKE) as connection,
    ):
        assert close_code(received(connection)) == 1013
        assert not live.context.hub.clients


TASK = b'{"size":1200,"compute_intensity":0.5,"memory_required":96}'
CHUNKED = (
    b"POST /api/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def chunks(body, size):
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n"


@pytest.mark.parametrize("size", [1, 1000])
def test_trailers_do_not_become_headers(tmp_path, size):
    trailers = b"Host: evil\r\nOrigin: http://evil\r\nContent-Encoding: gzip\r\nIdempotency-Key: \xff\r\n\r\n"
    with serving(fake_context(tmp_path)) as live, connected(live, CHUNKED + chunks(TASK, size) + trailers) as one:
        assert received(one).startswith(b"HTTP/1.1 201")


@pytest.mark.parametrize(
    "rest",
    [b"X: " + b"x" * 200_000, b"X: x\r\n" * 30_000, b"1;" + b"x" * 200_000],
    ids=["one long trailer", "many trailers", "extension of a chunk"],
)
def test_endless_trailers_and_extensions_are_431(tmp_path, log, rest):
    start = chunks(TASK, 1000) if rest.startswith(b"X") else b"1\r\n{\r\n"
    with serving(fake_context(tmp_path)) as live, connected(live, CHUNKED + start) as one:
        threading.Thread(target=one.sendall, args=(rest,), daemon=True).start()
        assert received(one).startswith(b"HTTP/1.1 431")
    assert any("trailers or chunk extensions" in line for line in log)


def test_body_in_chunks_of_one_byte_is_accepted(tmp_path):
    body = TASK[:-1] + b"," + b" " * 40_000 + b'"kind":"generic"}'
    with serving(fake_context(tmp_path)) as live, connected(live) as one:
        one.sendall(CHUNKED + chunks(body, 1) + b"\r\n")
        assert received(one)[:12] in (b"HTTP/1.1 201", b"HTTP/1.1 422")
