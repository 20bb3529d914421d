"""The stream over real sockets: order, limits, slow readers, goodbye."""

import asyncio
import json
import socket

import pytest
from fakes import fake_context
from live_server import serving
from test_security import ORIGINS, TOKEN
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hybrid_scheduler.server.schemas.stream import Hello
from hybrid_scheduler.server.stream_hub import Client, StreamHub
from hybrid_scheduler.server.uvicorn_protocols import text_frame
from hybrid_scheduler.storage.batch_rows import EventPayload


def event(seq: int, size: int = 0) -> EventPayload:
    body = {"type": "log", "seq": seq, "pad": "é" * size}
    return EventPayload(seq, json.dumps(body, ensure_ascii=False).encode())


async def until(condition, seconds=20.0):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def client(url, **arguments):
    return connect(url, compression=None, max_size=None, **arguments)


async def test_hello_comes_first_and_events_follow_in_order(tmp_path):
    context = fake_context(tmp_path)
    context.hub.last_seq = 5
    with serving(context) as live:
        async with client(live.ws) as one, client(live.ws) as two:
            for each in (one, two):
                hello = Hello.model_validate_json(await each.recv())
                assert hello.seq == 5
                assert hello.status.run_id == hello.run_id
            live.call(context.hub.publish, [event(seq, size=30 * seq) for seq in range(6, 40)])
            for each in (one, two):
                assert [json.loads(await each.recv())["seq"] for _ in range(34)] == list(range(6, 40))
            # Nothing twice, nothing out of order.
            live.call(context.hub.publish, [event(39), event(20), event(40)])
            assert json.loads(await one.recv())["seq"] == 40
        await until(lambda: not context.hub.clients)
    assert context.hub.dropped == 0


async def test_messages_of_every_length_arrive_whole(tmp_path):
    context = fake_context(tmp_path)
    with serving(context) as live:
        async with client(live.ws) as one:
            await one.recv()
            for seq, size in enumerate((0, 30, 40, 60, 100, 32000, 33000, 70000, 500_000), 1):
                live.call(context.hub.publish, [event(seq, size)])
                assert await one.recv() == event(seq, size).content.decode()


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536])
def test_frames_are_those_of_the_library(size):
    from websockets.frames import Frame, Opcode

    assert text_frame(b"x" * size) == Frame(Opcode.TEXT, b"x" * size).serialize(mask=False)


async def test_events_while_the_hello_is_made_come_after_it(tmp_path):
    context = fake_context(tmp_path)
    asked, go_on = asyncio.Event(), asyncio.Event()
    status = context.control.status
    loop = asyncio.get_running_loop()

    async def slow_status():
        loop.call_soon_threadsafe(asked.set)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(go_on.wait(), loop))
        return await status()

    context.control.status = slow_status
    with serving(context) as live:
        async with client(live.ws) as one:
            await asked.wait()
            live.call(context.hub.publish, [event(1), event(2)])
            go_on.set()
            messages = [json.loads(await one.recv()) for _ in range(3)]
    assert [message["type"] for message in messages] == ["hello", "log", "log"]
    assert [message["seq"] for message in messages] == [0, 1, 2]


@pytest.mark.parametrize(("origin", "allowed"), ORIGINS)
async def test_socket_from_a_foreign_origin_is_refused(tmp_path, origin, allowed):
    context = fake_context(tmp_path, allowed_origins=("http://dash.lab",))
    with serving(context) as live:
        mine = None if origin is None else origin.replace("localhost:8000", f"127.0.0.1:{live.port}")
        if allowed:
            async with client(live.ws, origin=mine) as one:
                assert json.loads(await one.recv())["type"] == "hello"
        else:
            with pytest.raises(InvalidStatus) as refused:
                await client(live.ws, additional_headers={"Origin": mine})
            assert refused.value.response.status_code == 403
            assert json.loads(refused.value.response.body)["error"]["code"] == "forbidden"


async def test_token_is_checked_before_the_upgrade(tmp_path):
    with serving(fake_context(tmp_path, token=TOKEN)) as live:
        for url, arguments in (
            (live.ws, {}),
            (f"{live.ws}?token=wrong", {}),
            (live.ws, {"additional_headers": {"Authorization": "Bearer wrong"}}),
            (live.ws, {"subprotocols": ["hybrid-scheduler", "token.wrong"]}),
        ):
            with pytest.raises(InvalidStatus) as refused:
                await client(url, **arguments)
            assert refused.value.response.status_code == 401
        for url, arguments in (
            (f"{live.ws}?token={TOKEN}", {}),
            (live.ws, {"additional_headers": {"Authorization": f"Bearer {TOKEN}"}}),
            (live.ws, {"subprotocols": ["hybrid-scheduler", f"token.{TOKEN}"]}),
        ):
            async with client(url, **arguments) as one:
                assert json.loads(await one.recv())["type"] == "hello"
                assert one.subprotocol in (None, "hybrid-scheduler")  # the token is not sent back


async def test_other_paths_and_hosts_are_refused(tmp_path):
    with serving(fake_context(tmp_path)) as live:
        for url in (live.ws + "x", live.ws.replace("/ws", "/api/status")):
            with pytest.raises(InvalidStatus) as refused:
                await client(url)
            assert refused.value.response.status_code == 404
        with _deaf(live.port, host="evil.example") as foreign:
            foreign.settimeout(10)
            assert foreign.recv(100).startswith(b"HTTP/1.1 403")


async def test_client_beyond_the_limit_is_503(tmp_path):
    context = fake_context(tmp_path, max_clients=3)
    with serving(context) as live:
        async with client(live.ws), client(live.ws), client(live.ws) as last:
            with pytest.raises(InvalidStatus) as refused:
                await client(live.ws)
            assert refused.value.response.status_code == 503
            assert refused.value.response.headers["Retry-After"]
            await last.close()
            await until(lambda: len(context.hub.clients) == 2)
            async with client(live.ws):
                pass


async def test_large_inbound_messages_are_refused(tmp_path):
    with serving(fake_context(tmp_path)) as live:
        async with client(live.ws) as one:
            await one.recv()
            await one.send("x" * 1000)  # ignored by the server
            await one.send("x" * (64 * 1024 + 1))
            with pytest.raises(ConnectionClosed) as closed:
                await one.recv()
            assert closed.value.rcvd.code == 1009


async def test_stopping_server_closes_with_1001(tmp_path):
    context = fake_context(tmp_path)
    with serving(context) as live:
        sockets = [await client(live.ws) for _ in range(10)]
        for each in sockets:
            await each.recv()
        live.server.should_exit = True
        for each in sockets:
            with pytest.raises(ConnectionClosed) as closed:
                await each.recv()
            assert closed.value.rcvd.code == 1001


def _deaf(port: int, host: str = "localhost") -> socket.socket:
    """A client that never reads, with the smallest buffer the kernel allows."""
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.connect(("127.0.0.1", port))
    deaf.sendall(
        f"GET /ws HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    return deaf


async def test_slow_reader_does_not_delay_others(tmp_path):
    context = fake_context(tmp_path, hub=StreamHub(send_timeout=20.0, close_timeout=0.2))
    total, got = 600, [0] * 5  # far more than kernel buffers, the transport and a queue of 64 can hold

    async def read(number, url):
        async with client(url) as one:
            await one.recv()
            for seq in range(1, total + 1):
                assert json.loads(await one.recv())["seq"] == seq
                got[number] = seq
            assert len(context.hub.clients) == 5
            done.release()
            await leave.wait()

    done, leave = asyncio.Semaphore(0), asyncio.Event()
    with serving(context) as live:
        deaf = [_deaf(live.port) for _ in range(5)]
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(read(number, live.ws))
            await until(lambda: sum(each.hello_sent for each in tuple(context.hub.clients)) == 10)
            for seq in range(1, total + 1):
                live.call(context.hub.publish, [event(seq, size=20_000)])
                await until(lambda seq=seq: min(got) >= seq - 5)
            for _ in range(5):
                await done.acquire()
            assert context.hub.dropped == 5
            # They are really gone: the server holds no connection for them.
            await until(lambda: len(live.server.server_state.connections) == 5)
            leave.set()
        for each in deaf:
            each.close()


async def test_dropped_client_gets_the_reason(tmp_path):
    context = fake_context(tmp_path, hub=StreamHub(send_timeout=20.0, close_timeout=30.0))
    farewell = b"\x88\x0a\x03\xf5too slow"  # close, ten bytes, 1013
    with serving(context) as live, _deaf(live.port) as late:
        await until(lambda: len(context.hub.clients) == 1)
        seq = 0
        while not context.hub.dropped:
            seq += 1
            live.call(context.hub.publish, [event(seq, size=20_000)])
        late.settimeout(10)
        tail = b""
        while not tail.endswith(farewell):
            tail = (tail + await asyncio.to_thread(late.recv, 65536))[-200:]


async def test_send_timeout_drops_a_client_that_reads_nothing(tmp_path):
    context = fake_context(tmp_path, hub=StreamHub(max_queued=10**6, send_timeout=0.3, close_timeout=0.1))
    with serving(context) as live:
        deaf = _deaf(live.port)
        await until(lambda: len(context.hub.clients) == 1)
        for seq in range(1, 300):
            live.call(context.hub.publish, [event(seq, size=20_000)])
        await until(lambda: context.hub.dropped == 1)
        deaf.close()


class _Connection:
    """A connection that records what is written to it."""

    def __init__(self):
        self.sent, self.can_write, self.code = [], True, None

    def write_frame(self, frame):
        self.sent.append(json.loads(frame[frame.index(b"{") :])["seq"])

    def close_within(self, seconds, code, reason):
        self.code = code


async def test_the_queue_is_bounded_and_in_order():
    hub = StreamHub(max_queued=64)
    connection = _Connection()
    one = Client(hub, connection)
    async with hub.join(one):
        one.send_hello(b'{"type":"hello","seq":0,"run_id":null}')
        hub.publish([event(seq) for seq in range(1, 4)])
        connection.can_write = False
        hub.publish([event(seq) for seq in range(4, 68)])
        assert len(one.waiting) == 64
        connection.can_write = True
        one.flush()
        assert connection.sent == list(range(68))
        connection.can_write = False
        hub.publish([event(seq) for seq in range(68, 133)])
        assert connection.code == 1013
        assert hub.dropped == 1
        assert hub.clients == set()
