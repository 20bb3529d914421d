"""CPU cost of a broadcast: this server's stream beside `broadcast` of the websockets library, in one run.

    python benchmarks/stream_bench.py                    200 clients, 8 kB, 10 messages a second, 10 s each
    python benchmarks/stream_bench.py --rate 50 --seconds 5
    python benchmarks/stream_bench.py --limits           exit status 1 beyond a limit: no gap, delivery p99 300 ms,
                                                         REST p99 500 ms

The clients live in a second process. CPU seconds are those of the server process, measured while messages go out
and divided by the messages delivered. The last line is the ratio of the two.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

    from hybrid_scheduler.storage.batch_rows import EventPayload

Publish = Callable[["EventPayload"], None]
#: Limits of the 99th percentiles.
DELIVERY_S, REST_S = 0.3, 0.5
#: Clients that connect at once: a server refuses more than 256 HTTP connections of one address.
_HANDSHAKES = 100


@dataclass(frozen=True)
class Load:
    clients: int
    kilobytes: float
    rate: float
    seconds: float
    #: Whether clients ask for the status meanwhile, 20 times a second.
    rest: bool = False

    @property
    def messages(self) -> int:
        return round(self.rate * self.seconds)


def payload(seq: int, load: Load) -> EventPayload:
    from hybrid_scheduler.storage.batch_rows import EventPayload

    head = {"type": "simulation_update", "seq": seq, "sent": time.time(), "pad": ""}
    missing = int(load.kilobytes * 1000) - len(json.dumps(head))
    return EventPayload(seq, json.dumps({**head, "pad": "x" * max(0, missing)}).encode())


# ------------------------------------------------------------------------------------------ the clients' process


async def read_all(url: str, load: Load) -> None:
    """Connect, report readiness, read, and report delivery times, gaps and the number delivered."""
    import httpx
    from websockets.asyncio.client import connect

    delays: list[float] = []
    gaps = 0

    async def one() -> None:
        nonlocal gaps
        async with AsyncExitStack() as stack:
            connecting = connect(url, compression=None, max_size=None, max_queue=None, open_timeout=60)
            try:
                async with handshakes:
                    socket = await stack.enter_async_context(connecting)
            finally:
                ready.release()
            last = 0
            while last < load.messages:
                message = json.loads(await socket.recv())
                if message["type"] != "simulation_update":
                    continue
                delays.append(time.time() - message["sent"])
                gaps += message["seq"] != last + 1
                last = message["seq"]

    ready = asyncio.Semaphore(0)
    handshakes = asyncio.Semaphore(_HANDSHAKES)
    tasks = [asyncio.create_task(one()) for _ in range(load.clients)]
    for _ in range(load.clients):
        await ready.acquire()
    for failed in (task for task in tasks if task.done()):
        failed.result()
    client = httpx.AsyncClient(base_url=url.replace("ws://", "http://").removesuffix("/ws"), timeout=30)
    if load.rest:  # the first request takes longer, and would hold up the stream
        (await client.get("/api/status")).raise_for_status()
    print("ready", flush=True)
    polling = asyncio.create_task(poll(client)) if load.rest else None
    await asyncio.gather(*tasks)
    if polling is not None:
        if polling.done():
            polling.result()  # a request failed
        polling.cancel()
    await client.aclose()
    delays.sort()
    worst = {"p50": delays[len(delays) // 2], "p99": delays[int(len(delays) * 0.99)], "max": delays[-1]}
    print(json.dumps({"delivered": len(delays), "gaps": gaps, "rest": _p99(response_times), **worst}), flush=True)


response_times: list[float] = []


async def poll(client: httpx.AsyncClient) -> None:
    """Send ordinary requests meanwhile."""
    while True:
        began = time.monotonic()
        (await client.get("/api/status")).raise_for_status()
        response_times.append(time.monotonic() - began)
        await asyncio.sleep(0.05)


def _p99(values: list[float]) -> float | None:
    return sorted(values)[int(len(values) * 0.99)] if values else None


# ------------------------------------------------------------------------------------------ the server's process


@dataclass(frozen=True)
class Measured:
    name: str
    cpu: float
    delivered: int
    gaps: int
    p50: float
    p99: float
    rest: float | None

    @property
    def microseconds(self) -> float:
        return 1e6 * self.cpu / self.delivered

    def __str__(self) -> str:
        return (
            f"{self.name:34s} {self.microseconds:6.1f} µs CPU per message   delivery p50 {1e3 * self.p50:5.1f} ms"
            f"   p99 {1e3 * self.p99:5.1f} ms   {self.delivered:,} delivered, {self.gaps} gaps"
        ) + (f"   REST p99 {1e3 * self.rest:.0f} ms" if self.rest is not None else "")


async def measure(name: str, url: str, publish: Publish, load: Load) -> Measured:
    arguments = [sys.executable, __file__, "--read", url, *_arguments(load)]
    reader = await asyncio.create_subprocess_exec(*arguments, stdout=subprocess.PIPE)
    assert reader.stdout is not None
    assert (await reader.stdout.readline()).strip() == b"ready"
    await asyncio.sleep(0.5)  # handshakes and hellos are not part of what is measured
    began, next_at = _cpu(), time.monotonic()
    for seq in range(1, load.messages + 1):
        publish(payload(seq, load))
        next_at += 1.0 / load.rate
        await asyncio.sleep(max(0.0, next_at - time.monotonic()))
    spent = _cpu() - began
    report = json.loads(await reader.stdout.readline())
    await reader.wait()
    return Measured(name, spent, report["delivered"], report["gaps"], report["p50"], report["p99"], report["rest"])


async def ours(load: Load, ws: str = "frames") -> Measured:
    """Measure the server as it is run: its application, security middleware and hub on uvicorn."""
    import tempfile
    from pathlib import Path

    import uvicorn

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "server"))
    from fakes import fake_context

    from hybrid_scheduler.server.app import create_app
    from hybrid_scheduler.server.server_process import uvicorn_config

    with tempfile.TemporaryDirectory() as folder:
        context = fake_context(Path(folder), port=0, max_clients=load.clients + 10, rate_limit="off")
        config = uvicorn_config(create_app(context), context.options)
        if ws != "frames":
            config.ws = ws
        config.log_level = "error"
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
            if serving.done():
                serving.result()
        port = server.servers[0].sockets[0].getsockname()[1]
        publish = context.hub.publish
        name = f"hybrid-scheduler ({ws})"
        found = await measure(name, f"ws://127.0.0.1:{port}/ws", lambda body: publish([body]), load)
        server.should_exit = True
        await serving
    return found


async def library(load: Load) -> Measured:
    """Measure the websockets library's own server and `broadcast`."""
    from websockets.asyncio.server import ServerConnection, broadcast, serve

    connections: set[ServerConnection] = set()

    async def handle(connection: ServerConnection) -> None:
        connections.add(connection)
        await connection.wait_closed()
        connections.discard(connection)

    async with serve(handle, "127.0.0.1", 0, compression=None) as server:
        port = server.sockets[0].getsockname()[1]

        def publish(body: bytes) -> None:
            broadcast(connections, body.decode())

        return await measure("websockets.broadcast", f"ws://127.0.0.1:{port}/ws", publish, load)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _arguments(load: Load) -> list[str]:
    numbers = {"clients": load.clients, "kilobytes": load.kilobytes, "rate": load.rate, "seconds": load.seconds}
    arguments = [word for name, value in numbers.items() for word in (f"--{name}", str(value))]
    return [*arguments, "--rest"] if load.rest else arguments


def _run(work: Callable[[], Awaitable[Measured]], loop: str) -> Measured:
    async def main() -> Measured:
        return await work()

    if loop == "uvloop":
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())
    return asyncio.run(main())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--kilobytes", type=float, default=8.0)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument(
        "--loop", choices=("uvloop", "asyncio"), default="uvloop", help="event loop of both servers"
    )
    parser.add_argument("--all", action="store_true", help="also uvicorn's own WebSocket implementations")
    parser.add_argument("--limits", action="store_true", help="exit with status 1 if a limit is exceeded")
    parser.add_argument("--rest", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--read", metavar="URL", help=argparse.SUPPRESS)
    given = parser.parse_args()
    load = Load(given.clients, given.kilobytes, given.rate, given.seconds, given.rest)
    if given.read:
        asyncio.run(read_all(given.read, load))
        return
    os.environ.setdefault("PYTHONHASHSEED", "0")
    peer = _run(lambda: library(load), given.loop)
    print(peer, flush=True)
    mine = _run(lambda: ours(load), given.loop)
    print(mine, flush=True)
    for ws in ("websockets-sansio",) if given.all else ():
        print(_run(lambda ws=ws: ours(load, ws), given.loop), flush=True)
    # Separately, since responses cost CPU as well: response times of requests while the stream flows.
    asked = _run(lambda: ours(replace(load, rest=True)), given.loop)
    print(asked, flush=True)
    print(f"ratio {mine.microseconds / peer.microseconds:.2f}")
    within = not mine.gaps and mine.p99 <= DELIVERY_S and asked.rest is not None and asked.rest <= REST_S
    if given.limits and not within:
        sys.exit(f"beyond a limit: no gap, delivery p99 {DELIVERY_S:g} s, REST p99 {REST_S:g} s")


if __name__ == "__main__":
    main()
