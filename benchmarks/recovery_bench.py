"""Times of a server after a crash, with a frozen database, and with clients that never read.

    python benchmarks/recovery_bench.py                     all of them, about two minutes
    python benchmarks/recovery_bench.py --only restart      or frozen, or readers

Every server is a process of its own. The exit status is 1 if a limit is exceeded, which a busy machine does by
itself.

restart   killed with SIGKILL and started again at once, on both databases: seconds from the kill to readiness, at
          most 20. The run, its counters, models and next task id must be there. Code is compiled already.
frozen    PostgreSQL stopped with SIGSTOP: readiness is 503 within 3 s, metrics come within 2 s with the last
          values, a task is refused with 503, and routes without a database answer.
readers   20 clients read 20 updates a second, 5 read nothing: those are dropped within 30 s, the others miss
          nothing and wait at most 1 s for a message, and memory grows by at most 32 MiB.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
from websockets.asyncio.client import connect

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "faults"), str(ROOT / "benchmarks")]

from hostile_bench import HANDSHAKE, resident  # noqa: E402
from process import Served, served  # noqa: E402
from services import fresh_database, postgres_server  # noqa: E402

TASK = {"size": 1200.0, "compute_intensity": 0.5, "memory_required": 96.0}
READY_S, READINESS_S, METRICS_S, UNAFFECTED_S = 20.0, 3.0, 2.0, 1.0
DROPPED_S, GAP_S, GROWTH_MIB = 30.0, 1.0, 32.0
READERS, DEAF = 20, 5
WITHOUT_DATABASE = ("/api/schedulers", "/api/status", "/api/health/live")


class Limits:
    """Printed figures and whether all are within their limits."""

    def __init__(self) -> None:
        self.exceeded = 0

    def show(self, name: str, value: float, limit: float, unit: str) -> None:
        """Print a figure beside its limit."""
        holds = value <= limit
        self.exceeded += not holds
        print(f"{name}: {value:.2f} {unit}, at most {limit:g}{'' if holds else '  EXCEEDED'}", flush=True)

    def check(self, name: str, holds: bool) -> None:
        """Print a condition."""
        self.exceeded += not holds
        print(f"{name}: {'yes' if holds else 'NO'}", flush=True)


@contextmanager
def server(folder: Path, *arguments: str, **environment: str) -> Iterator[Served]:
    """Start a server as a user would, in a new interpreter."""
    common = {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HYBRID_SERVER__RATE_LIMIT": "off"}
    common |= {
        "HYBRID_SERVER__WRITE_RATE_LIMIT": "off",
        "HYBRID_SIMULATION__SCHEDULERS": "round_robin,greedy,hybrid_ml",
    }
    with served(folder, *arguments, environment={**common, **environment}) as process:
        yield process


# ------------------------------------------------------------------------------------------ restart


def restart(limits: Limits) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        postgres_server() as postgres,
        fresh_database(postgres.url) as url,
    ):
        for name, environment in (("sqlite", {}), ("postgresql", {"DATABASE_URL": url})):
            _restart(limits, name, Path(folder) / name, environment)


def _restart(limits: Limits, name: str, folder: Path, environment: dict[str, str]) -> None:
    with server(folder, "--speed", "100", **environment) as first, first.client() as client:
        while client.get("/api/status").json()["tasks_processed"] < 1500:
            time.sleep(0.2)
        stored = client.post("/api/tasks", json=TASK).json()
        before = client.get("/api/status").json()
        learned = _versions(client)
        began = time.monotonic()
        first.process.send_signal(signal.SIGKILL)
        with server(folder, "--speed", "100", **environment) as second, second.client() as again:
            while again.get("/api/health/ready").status_code != 200:
                time.sleep(0.02)
            seconds = time.monotonic() - began
            after, versions = again.get("/api/status").json(), _versions(again)
            kept = again.get(f"/api/tasks/{stored['task_id']}").status_code == 200
    limits.show(f"restart, {name}, from kill to readiness", seconds, READY_S, "s")
    resumed = after["run_id"] == before["run_id"] and after["tasks_processed"] > stored["ordinal"]
    limits.check(f"restart, {name}, run, counters, next id and models are there", (
        resumed and kept and after["next_task_id"] > stored["task_id"] and versions >= learned
    ))  # fmt: skip


def _versions(client: httpx.Client) -> int:
    """Return the number of stored versions of the learned models."""
    return sum(model["total_versions"] for model in client.get("/api/models").json())


# ------------------------------------------------------------------------------------------ frozen database


def frozen(limits: Limits) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        postgres_server() as postgres,
        fresh_database(postgres.url) as url,
        server(Path(folder), "--speed", "20", DATABASE_URL=url) as process,
        process.client() as client,
    ):
        client.get("/api/metrics")
        worst: dict[str, float] = {}
        statuses: dict[str, set[int]] = {}
        last_values = True
        for _ in range(3):
            postgres.freeze()
            try:
                for path in (
                    "/api/health/ready",
                    "/api/metrics",
                    "/api/schedulers",
                    "/api/status",
                    "/api/health/live",
                ):
                    began = time.monotonic()
                    answer = client.get(path)
                    worst[path] = max(worst.get(path, 0.0), time.monotonic() - began)
                    statuses.setdefault(path, set()).add(answer.status_code)
                    if path == "/api/metrics":
                        found = re.search(r"^hybrid_scheduler_run_tasks (\S+)$", answer.text, re.M)
                        last_values &= found is not None and float(found[1]) > 0
                        last_values &= 'database_up{kind="postgresql"} 0.0' in answer.text
                statuses.setdefault("write", set()).add(client.post("/api/tasks", json=TASK).status_code)
            finally:
                postgres.thaw()
            while client.get("/api/health/ready").status_code != 200:
                time.sleep(0.1)
    limits.show("frozen database, readiness", worst["/api/health/ready"], READINESS_S, "s")
    limits.show("frozen database, metrics", worst["/api/metrics"], METRICS_S, "s")
    others = max(worst[path] for path in ("/api/schedulers", "/api/status", "/api/health/live"))
    limits.show("frozen database, routes without it", others, UNAFFECTED_S, "s")
    limits.check(
        "frozen database, readiness and writes are 503", statuses["/api/health/ready"] | statuses["write"] == {503}
    )
    limits.check("frozen database, metrics have the last values", last_values and statuses["/api/metrics"] == {200})


# ------------------------------------------------------------------------------------------ readers


async def _read(url: str, gaps: list[float], numbers: list[int]) -> None:
    async with connect(f"{url}/ws", compression=None, max_queue=None) as stream:
        last = None
        async for text in stream:
            now = time.monotonic()
            if last is not None:
                gaps.append(now - last)
            last = now
            if (message := json.loads(text))["type"] != "hello":
                numbers.append(message["seq"])


def _deaf(port: int) -> socket.socket:
    """Open the stream with the smallest buffer that the kernel allows, and never read."""
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.connect(("127.0.0.1", port))
    deaf.sendall(HANDSHAKE)
    return deaf


class Reading(NamedTuple):
    """Gaps between messages before and with deaf clients, numbers of messages per reader, time and memory."""

    gaps_before: list[float]
    gaps: list[float]
    numbers: list[list[int]]
    dropped_after: float
    growth: int


async def _readers(process: Served, before_s: float, seconds: float) -> Reading:
    gaps: list[float] = []
    numbers: list[list[int]] = [[] for _ in range(READERS)]
    url = process.url.replace("http", "ws")
    tasks = [asyncio.create_task(_read(url, gaps, own)) for own in numbers]
    async with httpx.AsyncClient(base_url=process.url, timeout=30) as client:
        while not all(numbers):
            await asyncio.sleep(0.05)
        gaps.clear()
        await asyncio.sleep(before_s)
        gaps_before = gaps[:]
        gaps.clear()
        before, growth, dropped_after = resident(process.process.pid), 0, float("inf")
        deaf = [_deaf(process.port) for _ in range(DEAF)]
        began, joined = time.monotonic(), False
        while time.monotonic() - began < seconds:
            await asyncio.sleep(0.25)
            growth = max(growth, resident(process.process.pid) - before)
            if dropped_after == float("inf"):
                text = (await client.get("/api/metrics")).text
                found = re.search(r"^hybrid_scheduler_websocket_clients (\S+)$", text, re.M)
                clients = float(found[1]) if found is not None else 0.0
                joined |= clients == READERS + DEAF
                if joined and clients == READERS:
                    dropped_after = time.monotonic() - began
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for each in deaf:
        each.close()
    return Reading(gaps_before, gaps, numbers, dropped_after, growth)


def readers(limits: Limits) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fast = {"HYBRID_LIVE__UPDATE_INTERVAL": "0.05"}
        with server(Path(folder), "--speed", "5", **fast) as process:
            found = asyncio.run(_readers(process, 15.0, 35.0))
    complete = all(own == list(range(own[0], own[0] + len(own))) for own in found.numbers)
    rate = len(found.gaps) / READERS / 35.0
    print(f"{READERS} readers alone, worst gap: {max(found.gaps_before):.2f} s", flush=True)
    limits.show(f"{DEAF} clients that never read, dropped after", found.dropped_after, DROPPED_S, "s")
    limits.show(f"{READERS} readers at {rate:.0f} messages a second, worst gap", max(found.gaps), GAP_S, "s")
    limits.check("readers miss nothing", complete)
    limits.show("memory", found.growth / 2**20, GROWTH_MIB, "MiB more")


PARTS = {"restart": restart, "frozen": frozen, "readers": readers}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers end, too
    limits = Limits()
    for name, part in PARTS.items():
        if given.only in (None, name):
            part(limits)
    return 1 if limits.exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
