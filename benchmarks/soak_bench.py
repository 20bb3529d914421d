"""Soak test: memory, file descriptors and write-ahead log of a real server under readers.

    python benchmarks/soak_bench.py                      10 minutes, 20 readers
    python benchmarks/soak_bench.py --minutes 60 --speed 20

Result: docs/results/soak.txt. The six default schedulers run and learn into SQLite. Readers follow the stream,
four come and go, others request status, statistics, history, tasks and metrics every second. Limits: after minute 2
memory grows by at most 1 MiB a minute, file descriptors stay within 5, the write-ahead log below 64 MiB, and every
response is a 200. Exit status 1 if one of them does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import psutil
from websockets.asyncio.client import connect

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "faults")]

from process import served  # noqa: E402

MEBIBYTE = 2**20
#: Clients that come and go; fewer than the descriptors may vary.
VISITORS = 4
SETTLED = 120.0
REQUESTED = ("status", "statistics", "history/trends", "tasks", "runs", "metrics")
SCHEDULERS = "round_robin,random,greedy,hybrid_ml,rl_agent,oracle"


@dataclass(frozen=True)
class Sample:
    """The server at a moment: itself and the processes that it started."""

    seconds: float
    mebibytes: float
    descriptors: int
    log_mebibytes: float
    tasks: int

    def row(self) -> str:
        head = f"{self.seconds / 60:7.1f}{self.mebibytes:9.1f}{self.descriptors:13d}"
        return f"{head}{self.log_mebibytes:9.1f}{self.tasks:12,d}"


def take_sample(process: psutil.Process, log: Path, seconds: float, tasks: int) -> Sample:
    family = [process, *process.children(recursive=True)]
    return Sample(
        seconds,
        sum(one.memory_info().rss for one in family) / MEBIBYTE,
        sum(one.num_fds() for one in family),
        log.stat().st_size / MEBIBYTE if log.exists() else 0.0,
        tasks,
    )


async def read(url: str) -> None:
    async with connect(url.replace("http", "ws") + "/ws", max_size=None) as socket:
        async for _ in socket:
            pass


async def come_and_go(url: str, seconds: float) -> None:
    """Read for some seconds, leave, and come back at once."""
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await read(url)


async def request(client: httpx.AsyncClient, responses: dict[int, int]) -> None:
    while True:
        for path in REQUESTED:
            status = (await client.get(f"/api/{path}")).status_code
            responses[status] = responses.get(status, 0) + 1
        await asyncio.sleep(1.0)


async def soak(
    url: str, process: psutil.Process, log: Path, readers: int, minutes: float
) -> tuple[list[Sample], dict[int, int]]:
    samples: list[Sample] = []
    responses: dict[int, int] = {}
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        tasks = [asyncio.create_task(read(url)) for _ in range(readers)]
        tasks += [asyncio.create_task(come_and_go(url, 1.0 + number)) for number in range(VISITORS)]
        tasks.append(asyncio.create_task(request(client, responses)))
        began = time.monotonic()
        print(f"{'minute':>7s}{'MiB':>9s}{'descriptors':>13s}{'log MiB':>9s}{'tasks':>12s}")
        while (passed := time.monotonic() - began) < 60.0 * minutes:
            done = (await client.get("/api/status")).json()["tasks_processed"]
            samples.append(take_sample(process, log, passed, done))
            if len(samples) % 6 == 1:
                print(samples[-1].row(), flush=True)
            await asyncio.sleep(5.0)
            for task in tasks:
                if task.done():
                    task.result()  # a reader that was cut off, or a response that never came, ends the soak
        for task in tasks:
            task.cancel()
    return samples, responses


def verdict(samples: list[Sample], responses: dict[int, int]) -> bool:
    print("responses by status:", ", ".join(f"{status}: {count}" for status, count in sorted(responses.items())))
    settled = [one for one in samples if one.seconds >= SETTLED] or samples
    slope = float(np.polyfit([one.seconds / 60 for one in settled], [one.mebibytes for one in settled], 1)[0])
    descriptors = [one.descriptors for one in settled]
    middle = float(np.median(descriptors))
    deviation = max(abs(count - middle) for count in descriptors)
    largest = max(one.log_mebibytes for one in samples)
    print(f"memory     {slope:+.2f} MiB a minute after minute 2 (at most 1)")
    print(f"descriptors {middle:.0f}, at most {deviation:.0f} away from that (5)")
    print(f"log        {largest:.1f} MiB at most (64)")
    return slope <= 1.0 and deviation <= 5 and largest <= 64.0 and set(responses) == {200}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--readers", type=int, default=20)
    parser.add_argument("--speed", default="10", help="virtual seconds per second")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        environment = {"HYBRID_SIMULATION__SCHEDULERS": SCHEDULERS}
        with served(at, "--speed", options.speed, environment=environment) as server:
            process = psutil.Process(server.process.pid)
            log = at / "data" / "hybrid_scheduler.db-wal"
            fine = verdict(*asyncio.run(soak(server.url, process, log, options.readers, options.minutes)))
            server.stop()
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
