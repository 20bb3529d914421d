"""Attacks on one server: clients that leave, that never read, that flood; full queues; SIGTERM at every stage.

    python benchmarks/attack_bench.py                       about four minutes
    python benchmarks/attack_bench.py --split               the same on engine and API over PostgreSQL and Redis
    python benchmarks/attack_bench.py --only columns        the attacks whose names contain this, and nothing else
    python benchmarks/attack_bench.py --sigterm             SIGTERM at three stages of every slow route
    python benchmarks/attack_bench.py --soak 20             minutes of all attacks in turn, memory and open files
    python benchmarks/attack_bench.py --default-run 600     memory of the default run after so many seconds

The exit status is 1 if a limit is exceeded, which a busy machine does by itself: the first attack is none.

attacks   each goes on for at least four seconds: the 95th percentile of a live route is at most 100 ms, and a
          command takes at most 500 ms; afterwards an upload and a what-if are answered, and no file stays open
queue     two central schedulers at ten times the capacity for a minute: memory grows by at most 192 MiB, and a
          pause takes at most 0.5 s
SIGTERM   with all slow routes under way: the process ends within 10 s, and the next one is ready within 5 s
soak      after the first five minutes memory grows by at most 1 MiB a minute, and open files stay within 5
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import cycle
from pathlib import Path

import httpx
import numpy as np
import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "faults"), str(ROOT / "benchmarks")]

from hostile_bench import ATTACKS as FLOODS  # noqa: E402
from process import Served, served  # noqa: E402
from recovery_bench import Limits, server  # noqa: E402
from services import fresh_database, postgres_server, redis_server  # noqa: E402

HEAD = "task_id,size,compute_intensity,memory_required,arrival_time\n"
#: Seconds after which clients leave.
STAGES = (0.02, 0.1, 0.5, 1.0)
ATTACK_S = 4.0
LIVE_S, COMMAND_S, PAUSE_S, END_S, READY_S = 0.1, 0.5, 0.5, 10.0, 5.0
#: Connections of the database and pipes of worker processes, which end when they are idle.
OPEN_FILES = 40
GROWTH_MIB, SERVER_MB, WHOLE_MB = 192.0, 300.0, 450.0
SETTLED_S, SLOPE_MIB, DESCRIPTORS = 300.0, 1.0, 5.0


def post(path: str, body: str, media_type: str = "application/json", *headers: str) -> bytes:
    content = body.encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Type: {media_type}", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(content)}", "", ""]).encode() + content


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def requests_of(run: str) -> dict[str, bytes]:
    """Return a request for every slow route, complete but for the half upload."""
    inspect = "/api/traces/inspect"
    rows = "".join(f"{number},10,0.5,1,{number}\n" for number in range(300_000))
    what_if = {"num_gpus": 3, "tasks": 1000, "seeds": 16, "scenario": "mixed"}
    machine = "devices:\n- {name: cpu, kind: cpu}\n- {name: gpu, count: 1000}"
    column = ",".join(f"{number}.5" for number in range(20_000))
    columns = ("size", "compute_intensity", "memory_required", "arrival_time")
    tasks = ",".join(f'"{name}":[{column}]' for name in columns)
    results = ",".join(
        f'"s{number}":{{"device":[],"latency":[{column}],"energy":[{column}]}}' for number in range(16)
    )
    measured = f'{{"tasks":{{{tasks}}},"results":{{{results}}}}}'
    return {
        "newlines": post(inspect, HEAD + "\n" * 10_000_000, "text/csv"),
        "open quote": post(inspect, HEAD + '"' + "1,10,0.5,1,0\n" * 800_000, "text/csv"),
        "columns": post(inspect, ",".join(f"c{number}" for number in range(60_000)) + "\n1", "text/csv"),
        "small columns": post(inspect, ",".join(f"c{number}" for number in range(9_000)) + "\n1", "text/csv"),
        "mapping": post(f"{inspect}?mapping=" + "%5B" * 1300, "x" * 1000, "text/csv"),
        "half upload": post("/api/traces?name=half", "x" * 1_000_000, "text/csv")[:-500_000],
        "upload": post("/api/traces?name=rows", HEAD + rows, "text/csv"),
        "preview": post("/api/simulation/preview", json.dumps({"platform_yaml": machine})),
        "brackets": post("/api/simulation/preview", json.dumps({"platform_yaml": "[" * 19_999})),
        "flow maps": post("/api/simulation/preview", json.dumps({"platform_yaml": "{a: {b: " * 7 + "1," * 9_900})),
        "what-if": post("/api/whatif", json.dumps(what_if)),
        "report": get(f"/api/runs/{run}/report?limit=2000"),
        "evidence": get(f"/api/runs/{run}/evidence?limit=2000"),
        "CSV": get("/api/export/results.csv?limit=all"),
        "Parquet": get("/api/export/results.parquet?limit=all"),
        "Perfetto": get("/api/export/trace.json?limit=all"),
        "history": get("/api/full_history?limit=all"),
        "comparative": get("/api/history/comparative?limit=10000"),
        "published": get("/api/history/comparative?limit=10000&format=published"),
        "trends": get("/api/history/trends?buckets=1000"),
        "load": get("/api/history/load?columns=2000"),
        "Gantt": get(f"/api/runs/{run}/gantt?scheduler=greedy&limit=200000"),
        "events": get("/api/events?after=0&limit=10000"),
        "measured run": post("/api/runs", measured),
        "16 MB of numbers": post("/api/runs", '{"config":{"a":[' + "1," * 7_900_000 + "1]}}"),
        "unknown names": post("/api/runs", "{" + ",".join(f'"n{number}":1' for number in range(19_000)) + "}"),
        "1 MB of numbers": post("/api/tasks", '{"size":[' + "1," * 500_000 + "1]}"),
        "brackets in JSON": post("/api/tasks", "[" * 99_000),
        "one long key": post("/api/tasks", '{"' + "a" * 1_000_000 + '":1}'),
        "digits": post("/api/tasks", '{"size":' + "9" * 900_000 + "}"),
        "one idempotency key": post(
            "/api/tasks", '{"size":1,"compute_intensity":0,"memory_required":0}', "application/json",
            "Idempotency-Key: one",
        ),
        "task submissions": post("/api/tasks", '{"size":1,"compute_intensity":0,"memory_required":0}'),
        "long query": get("/api/tasks?external_id=" + "a" * 30_000),
        "many query fields": get("/api/tasks?" + "&".join(f"a{number}=1" for number in range(8_000))),
    }  # fmt: skip


# ------------------------------------------------------------------------------------------ what goes on meanwhile


@contextmanager
def watched(url: str) -> Iterator[tuple[list[float], list[float]]]:
    """Ask a live route and send commands all the time; yields the seconds that each answer took."""
    live: list[float] = []
    commands: list[float] = []
    ended = threading.Event()

    def watch(seconds: list[float], pause: float, ask: Callable[[httpx.Client], httpx.Response]) -> None:
        with httpx.Client(base_url=url, timeout=60) as client:
            while not ended.wait(pause):
                began = time.perf_counter()
                ask(client).raise_for_status()
                seconds.append(time.perf_counter() - began)

    speeds = cycle((20.0, 21.0))
    threads = [
        threading.Thread(target=watch, args=(live, 0.02, lambda client: client.get("/api/status"))),
        threading.Thread(
            target=watch,
            args=(commands, 0.1, lambda client: client.post("/api/simulation/speed", json={"speed": next(speeds)})),
        ),
    ]
    for thread in threads:
        thread.start()
    try:
        yield live, commands
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def send(port: int, message: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.settimeout(5.0)
    with suppress(OSError):
        connection.sendall(message)
    return connection


def leave(message: bytes, port: int) -> None:
    """Send a request from clients that leave at different stages, at least two of them at once."""
    end = time.monotonic() + ATTACK_S
    while time.monotonic() < end:
        for stage in STAGES:
            connections = [send(port, message) for _ in range(2)]
            time.sleep(stage)
            for connection in connections:
                connection.close()


def never_read(message: bytes, port: int) -> None:
    """Send a request from twenty clients that read nothing."""
    connections = [send(port, message) for _ in range(20)]
    time.sleep(ATTACK_S)
    for connection in connections:
        connection.close()


def flood(name: str, port: int) -> None:
    end = time.monotonic() + ATTACK_S
    while time.monotonic() < end:
        FLOODS[name](port)


def attacks_of(run: str) -> dict[str, Callable[[int], None]]:
    """Return all attacks, each as a function of the port."""
    requests = requests_of(run)
    attacks: dict[str, Callable[[int], None]] = {"none": lambda port: time.sleep(ATTACK_S)}
    attacks |= {name: partial(leave, message) for name, message in requests.items()}
    for name in ("CSV", "history", "events", "report"):
        attacks[f"{name}, never read"] = partial(never_read, requests[name])
    attacks |= {name: partial(flood, name) for name in FLOODS if name not in ("none", "600 half-sent requests")}
    return attacks


# ------------------------------------------------------------------------------------------ one server or two


@contextmanager
def system(folder: Path, *, split: bool) -> Iterator[tuple[Served, list[Served]]]:
    """Start one server, or an engine and an API process; yields the one that clients ask, and all of them."""
    with ExitStack() as stack:
        if not split:
            one = stack.enter_context(server(folder, "--speed", "20"))
            yield one, [one]
            return
        postgres = stack.enter_context(postgres_server())
        redis = stack.enter_context(redis_server())
        services = {
            "DATABASE_URL": stack.enter_context(fresh_database(postgres.url)),
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": str(redis.port),
        }
        engine = stack.enter_context(server(folder / "engine", "--role", "engine", "--speed", "20", **services))
        api = stack.enter_context(server(folder / "api", "--role", "api", **services))
        yield api, [engine, api]


def run_attacks(asked: Served, limits: Limits, run: str, only: str) -> None:
    process = psutil.Process(asked.process.pid)
    files = process.num_fds()
    for name, attack in attacks_of(run).items():
        if only not in name and name != "none":
            continue
        with watched(asked.url) as (live, commands):
            attack(asked.port)
        limits.show(f"{name}: live route p95", float(np.quantile(live, 0.95)), LIVE_S, "s")
        limits.show(f"{name}: slowest command", max(commands), COMMAND_S, "s")
    time.sleep(5.0)
    rows = HEAD + "1,1,0.5,1,0\n" * 10_000
    csv = {"Content-Type": "text/csv"}
    answer = httpx.post(f"{asked.url}/api/traces/inspect", content=rows, headers=csv, timeout=60)
    limits.check("an upload is read afterwards", answer.status_code == 200)
    what_if = {"scenario": "mixed", "tasks": 50, "seeds": 2}
    limits.check(
        "a what-if is computed", httpx.post(f"{asked.url}/api/whatif", json=what_if, timeout=120).is_success
    )
    limits.show("files left open", process.num_fds() - files, OPEN_FILES, "files")


def queue(asked: Served, engine: Served, limits: Limits) -> None:
    before = resident(engine)
    schedulers = [{"name": "late_binding"}, {"name": "shortest_first"}]
    settings = {"load": 10, "speed": 10_000, "scenario": "mixed", "schedulers": schedulers}
    httpx.post(f"{asked.url}/api/simulation/runs", json=settings, timeout=300).raise_for_status()
    most = 0.0
    for _ in range(30):
        time.sleep(2.0)
        most = max(most, resident(engine))
    limits.show("memory of full queues", most - before, GROWTH_MIB, "MiB more")
    began = time.perf_counter()
    httpx.post(f"{asked.url}/api/pause", timeout=60).raise_for_status()
    limits.show("pause meanwhile", time.perf_counter() - began, PAUSE_S, "s")


def resident(asked: Served) -> float:
    return float(psutil.Process(asked.process.pid).memory_info().rss / 2**20)


def end(asked: Served, limits: Limits, what: str, messages: list[bytes], after: float) -> None:
    connections = [send(asked.port, message) for message in messages]
    time.sleep(after)
    began = time.perf_counter()
    asked.process.send_signal(signal.SIGTERM)
    asked.wait(60)
    limits.show(f"SIGTERM {what}", time.perf_counter() - began, END_S, "s")
    for connection in connections:
        connection.close()


def sigterm(folder: Path, limits: Limits, only: str) -> None:
    """End a server at three stages of each slow route, with two such requests under way."""
    names = requests_of("0" * 26)
    for name in [name for name in names if only in name]:
        for stage in (0.05, 0.4, 1.5):
            with served(folder, "--speed", "20") as one:
                run = httpx.get(f"{one.url}/api/status").json()["run_id"]
                end(one, limits, f"{stage:g} s into {name}", [requests_of(run)[name]] * 2, stage)


def soak(asked: Served, limits: Limits, minutes: float) -> None:
    """Go through all attacks in turn; look at memory and open files between them."""
    process = psutil.Process(asked.process.pid)
    began = time.monotonic()
    rows: list[tuple[float, float, int]] = []
    live_all: list[float] = []
    slowest = 0.0
    run = httpx.get(f"{asked.url}/api/status").json()["run_id"]
    attacks = attacks_of(run)
    for name in cycle(attacks):
        passed = time.monotonic() - began
        if passed > minutes * 60:
            break
        with watched(asked.url) as (live, commands):
            attacks[name](asked.port)
        live_all += live
        slowest = max(slowest, *commands)
        time.sleep(1.0)
        rows.append((passed, process.memory_info().rss / 2**20, process.num_fds()))
        seconds = f"{float(np.quantile(live, 0.95)):.3f} s, command {max(commands):.3f} s"
        print(
            f"{passed / 60:6.1f} min {rows[-1][1]:8.1f} MiB {rows[-1][2]:5d} files  {seconds}  {name}", flush=True
        )
    settled = [row for row in rows if row[0] >= min(SETTLED_S, rows[-1][0] / 2)]
    slope = float(np.polyfit([row[0] / 60 for row in settled], [row[1] for row in settled], 1)[0])
    half = len(settled) // 2
    early, late = (float(np.median([row[2] for row in part])) for part in (settled[:half], settled[half:]))
    limits.show("soak: memory", slope, SLOPE_MIB, "MiB a minute")
    limits.show("soak: open files, second half over the first", late - early, DESCRIPTORS, "files")
    limits.show("soak: live route p95", float(np.quantile(live_all, 0.95)), LIVE_S, "s")
    limits.show("soak: slowest command", slowest, COMMAND_S, "s")


def default_run(folder: Path, limits: Limits, seconds: float) -> None:
    with server(folder, HYBRID_SIMULATION__SCHEDULERS="null") as started:
        time.sleep(seconds)
        family = [psutil.Process(started.process.pid)]
        family += family[0].children(recursive=True)
        sizes = [process.memory_info().rss / 1e6 for process in family]
        limits.show("server", sizes[0], SERVER_MB, "MB")
        limits.show(f"with {len(sizes) - 1} processes", sum(sizes), WHOLE_MB, "MB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--sigterm", action="store_true")
    parser.add_argument("--soak", type=float, metavar="MINUTES")
    parser.add_argument("--default-run", type=float, metavar="SECONDS")
    given = parser.parse_args()
    limits = Limits()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.default_run is not None:
            default_run(folder, limits, given.default_run)
            return int(limits.exceeded > 0)
        if given.sigterm:
            sigterm(folder, limits, given.only)
            return int(limits.exceeded > 0)
        with system(folder, split=given.split) as (asked, processes):
            time.sleep(10.0)
            run = httpx.get(f"{asked.url}/api/status").json()["run_id"]
            if given.soak is not None:
                soak(asked, limits, given.soak)
                return int(limits.exceeded > 0)
            run_attacks(asked, limits, run, given.only)
            if given.only:
                return int(limits.exceeded > 0)
            queue(asked, processes[0], limits)
            for process in reversed(processes):
                messages = list(requests_of(run).values()) if process is asked else []
                end(process, limits, "with all slow routes under way", messages, 2.0)
            if given.split:
                return int(limits.exceeded > 0)
        began = time.perf_counter()
        with server(folder) as restarted:
            limits.show("next server ready", time.perf_counter() - began, READY_S, "s")
            limits.check("its run goes on", httpx.get(f"{restarted.url}/api/status").json()["run_id"] is not None)
    return int(limits.exceeded > 0)


if __name__ == "__main__":
    sys.exit(main())
