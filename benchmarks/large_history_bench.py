"""Response times of every GET route on a large history.

    python benchmarks/large_history_bench.py                     ten million result rows in SQLite
    python benchmarks/large_history_bench.py --rows 600000 --folder /tmp/history
    python benchmarks/large_history_bench.py --postgresql        in a PostgreSQL that is started for it

Result: docs/results/large_history.txt. A block of tasks is stored as the engine stores it, then copied by SQL with
shifted ids and times until there are enough rows. A server that runs no simulation answers from this database; each
route is asked in turn. Parameters change with every request where a cache would answer else.

The 95th percentile (nearest rank) of every route is at most 300 ms, else the exit status is 1. Exports and
histories of more than 1,000 tasks are streams of any length: what counts is the time to the first byte, and the
throughput is printed. Reports and evidence files are computations of the what-if worker and are left out. A folder
keeps the database of SQLite.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "faults")]

from batches import RUN, Engine  # noqa: E402
from process import served  # noqa: E402
from services import fresh_database, postgres_server  # noqa: E402

from hybrid_scheduler.storage import DatabaseAddress, SqlJournal  # noqa: E402
from hybrid_scheduler.storage.schema_version import with_connection  # noqa: E402
from hybrid_scheduler.storage.tables import scheduler_results, tasks, training_data  # noqa: E402

SIX = ("round_robin", "random", "greedy", "hybrid_ml", "rl_agent", "oracle")
LIMIT_S = 0.3
#: Tasks that the journal stores, and copies of them that one statement makes.
BLOCK, COPIES_AT_ONCE = 5_000, 20
#: Seconds after which the rest of a stream is not read.
STREAM_S = 1.0


def shifted(column: str) -> str:
    """Return the expression of a column in copy number `n` of the block."""
    if column in ("task_id", "ordinal"):
        return f"{column} + n * {BLOCK}"
    if column == "id":
        return f"id + n * {BLOCK * len(SIX)}"
    if column in ("arrival_time", "start_time", "finish_time", "cpu_start", "gpu_start"):
        return f"{column} + n * {float(BLOCK)}"
    return column


def fill(address: DatabaseAddress, rows: int) -> None:
    """Fill a new database."""
    journal = SqlJournal(address)
    journal.open()
    engine = Engine(schedulers=SIX)
    try:
        for batch in engine.batches(BLOCK // 500, 500):
            journal.append(batch)
            batch.committed.result(60)
        stopped = engine.batch(0, status="stopped")
        journal.append(stopped)
        stopped.committed.result(60)
    finally:
        journal.close()
    copies = -(-rows // (BLOCK * len(SIX)))
    for first in range(1, copies, COPIES_AT_ONCE):
        with_connection(address, lambda connection, first=first: _copy(connection, first, copies))
    with_connection(address, lambda connection: _count(connection, copies * BLOCK))
    if not address.is_sqlite:
        with_connection(address, lambda connection: connection.exec_driver_sql("ANALYZE"))


def _copy(connection: Any, first: int, copies: int) -> None:
    last = min(first + COPIES_AT_ONCE, copies) - 1
    numbers = f"WITH RECURSIVE numbers(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n < {last}) "
    for table in (tasks, scheduler_results, training_data):
        names = [column.name for column in table.columns]
        values = ", ".join(shifted(name) for name in names)
        # In SQLite a CROSS JOIN keeps its order, so that ids ascend.
        rows = f"SELECT {values} FROM numbers CROSS JOIN {table.name} WHERE task_id <= {BLOCK}"
        connection.exec_driver_sql(f"INSERT INTO {table.name} ({', '.join(names)}) {numbers}{rows}")


def _count(connection: Any, count: int) -> None:
    """Set the counters that the journal would have."""
    connection.exec_driver_sql(f"UPDATE runs SET tasks = {count}")
    counters = {"next_task_id": count + 1, "next_result_id": count * len(SIX) + 1}
    known = connection.exec_driver_sql("SELECT value FROM meta WHERE key = 'counters'").scalar()
    changed = json.dumps({**json.loads(known), **counters})
    connection.exec_driver_sql(f"UPDATE meta SET value = '{changed}' WHERE key = 'counters'")
    for table, each in (("tasks", 1), ("scheduler_results", len(SIX)), ("training_data", 1)):
        connection.exec_driver_sql(f"UPDATE meta SET value = '{count * each}' WHERE key = 'rows:{table}'")


def routes(count: int) -> list[str]:
    """Return every GET route, with the parameters that make it work most, and pages in the middle.

    `{n}` changes with every request.
    """
    middle, end = count // 2, float(count)
    run, load = f"run_id={RUN}", f"/api/history/load?run_id={RUN}"
    gantt = f"/api/runs/{RUN}/gantt?scheduler=greedy"
    return [
        "/api/status", "/api/statistics", "/api/runs", f"/api/runs/{RUN}", f"/api/diff?a={RUN}&b={RUN}",
        "/api/tasks?limit=1{n}", f"/api/tasks?limit=100&before={middle}", f"/api/tasks?limit=100&{run}",
        f"/api/tasks?limit=100&{run}&before={middle}", "/api/tasks?external_id=job-1", f"/api/tasks/{middle}",
        f"/api/results?{run}&limit=1000", f"/api/results?{run}&scheduler=oracle&after_task={middle}&limit=1000",
        "/api/full_history?limit=100", f"/api/full_history?limit=1000&{run}",
        "/api/history/comparative?limit=9{n}", f"/api/history/comparative?limit=9{{n}}&{run}",
        f"/api/history/comparative?limit=99{{n}}&{run}",
        f"/api/history/trends?{run}&buckets=1{{n}}", f"/api/history/trends?{run}&buckets=9{{n}}",
        "/api/history/deletion",
        load + "&columns=1{n}", load + "&scheduler=greedy&columns=1{n}", load + "&scheduler=greedy&last=6{n}",
        f"{gantt}&start={end - 600}&end={end}&limit=2000", f"{gantt}&start={middle}&end={middle + 600}&limit=2000",
        f"{gantt}&limit=2000", gantt, f"/api/gantt/diff?a={RUN}&scheduler=greedy&other=oracle",
        f"/api/runs/{RUN}/learning?scheduler=greedy&limit=1{{n}}",
        "/api/events?after=0", "/api/models", "/api/schedulers", "/api/scenarios", "/api/scenarios/previews",
        "/api/machines", "/api/programs", "/api/sweeps", "/api/traces",
        "/api/health", "/api/health/live", "/api/health/ready", "/api/metrics",
    ]  # fmt: skip


def streams() -> list[str]:
    """Return the routes that stream any number of rows."""
    run = f"run_id={RUN}"
    return [
        f"/api/full_history?{run}&limit=10000", f"/api/full_history?{run}&limit=all",
        f"/api/export/tasks.csv?{run}&limit=10000", f"/api/export/results.csv?{run}&limit=10000",
        f"/api/export/results.csv?{run}&limit=all", f"/api/export/results.parquet?{run}&limit=10000",
        f"/api/export/trace.json?{run}&limit=10000",
    ]  # fmt: skip


class Times(NamedTuple):
    """Seconds of all requests to a route, in order, the processor time of one, and bytes a second of a stream."""

    seconds: list[float]
    busy: float
    rate: float = 0.0

    @property
    def p95(self) -> float:
        return sorted(self.seconds)[math.ceil(0.95 * len(self.seconds)) - 1]


def asked(client: httpx.Client, route: str, server: psutil.Process, repetitions: int) -> Times:
    """Ask a route again and again."""
    seconds, before = [], server.cpu_times()
    for number in range(repetitions):
        began = time.perf_counter()
        answer = client.get(route.replace("{n}", f"{number:02d}"))
        seconds.append(time.perf_counter() - began)
        answer.raise_for_status()
    return Times(seconds, _busy(server, before) / repetitions)


def streamed(client: httpx.Client, route: str, server: psutil.Process, repetitions: int) -> Times:
    """Read the beginning of a stream again and again; its seconds are those to the first byte."""
    seconds, received, reading, before = [], 0, 0.0, server.cpu_times()
    for _ in range(repetitions):
        began = time.perf_counter()
        with client.stream("GET", route) as answer:
            answer.raise_for_status()
            for number, chunk in enumerate(answer.iter_raw()):
                if not number:
                    seconds.append(time.perf_counter() - began)
                received += len(chunk)
                if time.perf_counter() - began > STREAM_S:
                    break
        reading += time.perf_counter() - began
    return Times(seconds, _busy(server, before) / repetitions, received / reading)


def _busy(server: psutil.Process, before: Any) -> float:
    after = server.cpu_times()
    return float(after.user + after.system - before.user - before.system)


def measure(url: str, pid: int, count: int, repetitions: int) -> int:
    """Ask every route, print its times, and return how many are too slow.

    The processor time of the server is printed, too, because on a busy machine the other figures say little.
    """
    server = psutil.Process(pid)
    found: list[tuple[float, str]] = []
    with httpx.Client(base_url=url, timeout=120, headers={"Accept-Encoding": "identity"}) as client:
        print("  first    best     p95     CPU  route (ms)")
        for route in routes(count):
            times = asked(client, route, server, repetitions)
            print(f"{_figures(times)}  {route}", flush=True)
            found.append((times.p95, route))
        print("  first    best     p95     CPU  time to the first byte (ms) and throughput of streams")
        for route in streams():
            times = streamed(client, route, server, repetitions)
            print(f"{_figures(times)}  {route}  {times.rate / 1e6:.1f} MB/s", flush=True)
            found.append((times.p95, route))
    slow = [route for p95, route in found if p95 > LIMIT_S]
    worst = max(found)
    print(f"worst  {1000 * worst[0]:.0f} ms p95 of {worst[1]} (at most {1000 * LIMIT_S:.0f} ms)")
    print(f"slow   {len(slow)} of {len(found)} routes: {' '.join(slow) or 'none'}")
    return len(slow)


def _figures(times: Times) -> str:
    shown = (times.seconds[0], min(times.seconds), times.p95, times.busy)
    return " ".join(f"{1000 * each:7.0f}" for each in shown)


@contextlib.contextmanager
def database(folder: Path, rows: int, *, postgresql: bool) -> Iterator[tuple[DatabaseAddress, dict[str, str]]]:
    """Yield a filled database, and the environment of a server that uses it."""
    with contextlib.ExitStack() as stack:
        if postgresql:
            url = stack.enter_context(fresh_database(stack.enter_context(postgres_server()).url))
            address, environment = DatabaseAddress.from_url(url), {"DATABASE_URL": url}
            filled = False
        else:
            file = folder / "history.db"
            address, environment = DatabaseAddress.sqlite(file), {"HYBRID_STORAGE__SQLITE_FILE": str(file)}
            filled = file.exists()
        if not filled:
            folder.mkdir(parents=True, exist_ok=True)
            began = time.monotonic()
            fill(address, rows)
            print(f"filled in {time.monotonic() - began:.0f} s", flush=True)
        yield address, environment


def _size(connection: Any) -> tuple[int, int]:
    """Return the newest task and the bytes of the database."""
    newest = connection.exec_driver_sql("SELECT max(task_id) FROM tasks").scalar()
    if connection.dialect.name == "sqlite":
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        return newest, pages * connection.exec_driver_sql("PRAGMA page_size").scalar()
    return newest, connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--folder", type=Path, help="keep the database here, and use it again")
    parser.add_argument("--postgresql", action="store_true", help="PostgreSQL instead of SQLite")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as temporary,
        database(given.folder or Path(temporary), given.rows, postgresql=given.postgresql) as (
            address,
            environment,
        ),
    ):
        count, size = with_connection(address, _size, read_only=True)
        print(
            f"rows   {count * len(SIX):,} results of {count:,} tasks, {size / 1e9:.2f} GB, {address.kind}",
            flush=True,
        )
        environment |= {"HYBRID_SERVER__RATE_LIMIT": "off", "HYBRID_SERVER__WARM_WHATIF": "false"}
        with served(Path(temporary) / "server", "--no-start", environment=environment) as process:
            return 1 if measure(process.url, process.process.pid, count, given.repetitions) else 0


if __name__ == "__main__":
    sys.exit(main())
