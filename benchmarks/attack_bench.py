"""Clients that leave, a full queue, and SIGTERM while every slow route is under way, on one server.

    python benchmarks/attack_bench.py                       about three minutes
    python benchmarks/attack_bench.py --default-run 600     memory of the default run after so many seconds instead

The exit status is 1 if a limit is exceeded, which a busy machine does by itself.

leave     each slow route is asked eight times by clients that leave after 0.02 to 1 s: the 95th percentile of a
          live route meanwhile is at most 100 ms, a later upload and a what-if are answered, and no file stays open
queue     two central schedulers at ten times the capacity for a minute: memory grows by at most 192 MiB, and a
          pause takes at most 0.5 s
SIGTERM   with all slow routes under way: the process ends within 10 s, and the next one is ready within 5 s
memory    of the default run: server at most 300 MB, with its worker processes at most 450 MB
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import numpy as np
import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "faults"), str(ROOT / "benchmarks")]

from process import Served  # noqa: E402
from recovery_bench import Limits, server  # noqa: E402

HEAD = "task_id,size,compute_intensity,memory_required,arrival_time\n"
STAGES = (0.02, 0.1, 0.5, 1.0) * 2
LIVE_S, PAUSE_S, END_S, READY_S = 0.1, 0.5, 10.0, 5.0
#: Connections of the database and pipes of worker processes, which end when they are idle.
OPEN_FILES = 40
GROWTH_MIB, SERVER_MB, WHOLE_MB = 192.0, 300.0, 450.0


def post(path: str, body: str, media_type: str = "application/json") -> bytes:
    content = body.encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def requests_of(run: str) -> dict[str, bytes]:
    """Return a request for every slow route, complete but for the half upload."""
    inspect = "/api/traces/inspect"
    rows = "".join(f"{number},10,0.5,1,{number}\n" for number in range(300_000))
    what_if = {"num_gpus": 3, "tasks": 1000, "seeds": 16, "scenario": "mixed"}
    machine = "devices:\n- {name: cpu, kind: cpu}\n- {name: gpu, count: 1000}"
    return {
        "newlines": post(inspect, HEAD + "\n" * 10_000_000, "text/csv"),
        "open quote": post(inspect, HEAD + '"' + "1,10,0.5,1,0\n" * 800_000, "text/csv"),
        "columns": post(inspect, ",".join(f"c{number}" for number in range(60_000)) + "\n1", "text/csv"),
        "half upload": post("/api/traces?name=half", "x" * 1_000_000, "text/csv")[:-500_000],
        "upload": post("/api/traces?name=rows", HEAD + rows, "text/csv"),
        "preview": post("/api/simulation/preview", json.dumps({"platform_yaml": machine})),
        "what-if": post("/api/whatif", json.dumps(what_if)),
        "report": get(f"/api/runs/{run}/report?limit=2000"),
        "evidence": get(f"/api/runs/{run}/evidence?limit=2000"),
        "CSV": get("/api/export/results.csv?limit=all"),
        "Parquet": get("/api/export/results.parquet?limit=all"),
        "history": get("/api/full_history?limit=all"),
    }


@contextmanager
def watched(url: str) -> Iterator[list[float]]:
    """Ask a live route all the time; yields the seconds that each answer took."""
    seconds: list[float] = []
    ended = threading.Event()

    def watch() -> None:
        with httpx.Client(base_url=url, timeout=60) as client:
            while not ended.wait(0.02):
                began = time.perf_counter()
                client.get("/api/status")
                seconds.append(time.perf_counter() - began)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seconds
    finally:
        ended.set()
        thread.join()


def send(port: int, message: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.settimeout(5.0)
    with suppress(OSError):
        connection.sendall(message)
    return connection


def leave(server: Served, limits: Limits, run: str) -> None:
    url = server.url
    files = psutil.Process(server.process.pid).num_fds()
    for name, message in requests_of(run).items():
        with watched(url) as seconds:
            for stage in STAGES:
                connection = send(httpx.URL(url).port or 0, message)
                time.sleep(stage)
                connection.close()
        limits.show(f"{name}: live route p95", float(np.quantile(seconds, 0.95)), LIVE_S, "s")
    time.sleep(5.0)
    rows = HEAD + "1,1,0.5,1,0\n" * 10_000
    answer = httpx.post(f"{url}/api/traces/inspect", content=rows, headers={"Content-Type": "text/csv"}, timeout=60)
    limits.check("an upload is read afterwards", answer.status_code == 200)
    what_if = {"scenario": "mixed", "tasks": 50, "seeds": 2}
    limits.check("a what-if is computed", httpx.post(f"{url}/api/whatif", json=what_if, timeout=120).is_success)
    limits.show("files left open", psutil.Process(server.process.pid).num_fds() - files, OPEN_FILES, "files")


def queue(server: Served, limits: Limits) -> None:
    before = resident(server)
    schedulers = [{"name": "late_binding"}, {"name": "shortest_first"}]
    settings = {"load": 10, "speed": 10_000, "scenario": "mixed", "schedulers": schedulers}
    httpx.post(f"{server.url}/api/simulation/runs", json=settings, timeout=300).raise_for_status()
    most = 0.0
    for _ in range(30):
        time.sleep(2.0)
        most = max(most, resident(server))
    limits.show("memory of full queues", most - before, GROWTH_MIB, "MiB more")
    began = time.perf_counter()
    httpx.post(f"{server.url}/api/pause", timeout=60).raise_for_status()
    limits.show("pause meanwhile", time.perf_counter() - began, PAUSE_S, "s")


def resident(server: Served) -> float:
    return float(psutil.Process(server.process.pid).memory_info().rss / 2**20)


def end(server: Served, limits: Limits, run: str) -> None:
    connections = [send(httpx.URL(server.url).port or 0, message) for message in requests_of(run).values()]
    time.sleep(2.0)
    began = time.perf_counter()
    server.process.send_signal(signal.SIGTERM)
    server.wait(60)
    limits.show("SIGTERM with all slow routes under way", time.perf_counter() - began, END_S, "s")
    for connection in connections:
        connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--default-run", type=float, metavar="SECONDS")
    given = parser.parse_args()
    limits = Limits()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.default_run is not None:
            with server(folder, HYBRID_SIMULATION__SCHEDULERS="null") as started:
                time.sleep(given.default_run)
                family = [psutil.Process(started.process.pid)]
                family += family[0].children(recursive=True)
                sizes = [process.memory_info().rss / 1e6 for process in family]
                limits.show("server", sizes[0], SERVER_MB, "MB")
                limits.show(f"with {len(sizes) - 1} processes", sum(sizes), WHOLE_MB, "MB")
            return int(limits.exceeded > 0)
        with server(folder, "--speed", "20") as started:
            time.sleep(10.0)
            run = httpx.get(f"{started.url}/api/status").json()["run_id"]
            leave(started, limits, run)
            queue(started, limits)
            end(started, limits, run)
        began = time.perf_counter()
        with server(folder) as restarted:
            limits.show("next server ready", time.perf_counter() - began, READY_S, "s")
            limits.check("its run goes on", httpx.get(f"{restarted.url}/api/status").json()["run_id"] is not None)
    return int(limits.exceeded > 0)


if __name__ == "__main__":
    sys.exit(main())
