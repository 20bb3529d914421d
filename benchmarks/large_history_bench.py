"""Response times of every GET route on a large history.

    python benchmarks/large_history_bench.py                     ten million result rows in SQLite
    python benchmarks/large_history_bench.py --rows 600000 --folder /tmp/history

Result: docs/results/large_history.txt. A block of tasks is stored as the engine stores it, then copied by SQL with
shifted ids and times until there are enough rows. A server that runs no simulation answers from this database; each
route is asked in turn. The 95th percentile of every route is at most 300 ms, else the exit status is 1. Exports of
a whole run and `limit=all` are streams of any length, so they are asked with a limit. A folder keeps the database.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

import httpx
import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "faults")]

from batches import RUN, Engine  # noqa: E402
from process import served  # noqa: E402

from hybrid_scheduler.storage import DatabaseAddress, SqlJournal  # noqa: E402
from hybrid_scheduler.storage.tables import scheduler_results, tasks, training_data  # noqa: E402

SIX = ("round_robin", "random", "greedy", "hybrid_ml", "rl_agent", "oracle")
LIMIT_S = 0.3
#: Tasks that the journal stores; all others are copies of them.
BLOCK = 5_000


def shifted(column: str) -> str:
    """Return the expression of a column in copy number `n` of the block."""
    if column in ("task_id", "ordinal"):
        return f"{column} + n * {BLOCK}"
    if column == "id":
        return f"id + n * {BLOCK * len(SIX)}"
    if column in ("arrival_time", "start_time", "finish_time", "cpu_start", "gpu_start"):
        return f"{column} + n * {float(BLOCK)}"
    return column


def fill(file: Path, rows: int) -> int:
    """Fill a new database and return its number of result rows."""
    journal = SqlJournal(DatabaseAddress.sqlite(file))
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
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA synchronous = OFF")
        for number in range(1, copies):
            for table in (tasks, scheduler_results, training_data):
                names = [column.name for column in table.columns]
                values = ", ".join(shifted(name) for name in names)
                database.execute(
                    f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {values} FROM {table.name}, "
                    f"(SELECT {number} AS n) WHERE task_id <= {BLOCK}"
                )
            database.commit()
        count = copies * BLOCK
        database.execute("UPDATE runs SET tasks = ?", (count,))
        counters = {"next_task_id": count + 1, "next_result_id": count * len(SIX) + 1}
        (known,) = database.execute("SELECT value FROM meta WHERE key = 'counters'").fetchone()
        changed = json.dumps({**json.loads(known), **counters})
        database.execute("UPDATE meta SET value = ? WHERE key = 'counters'", (changed,))
        for table, each in (("tasks", 1), ("scheduler_results", len(SIX)), ("training_data", 1)):
            database.execute("UPDATE meta SET value = ? WHERE key = ?", (str(count * each), f"rows:{table}"))
    return count * len(SIX)


def routes(count: int) -> list[str]:
    """Return every GET route, with the parameters that make it work most, and pages in the middle."""
    middle, end = count // 2, float(count)
    run = f"run_id={RUN}"
    return [
        "/api/status", "/api/statistics", "/api/runs", f"/api/runs/{RUN}", f"/api/diff?a={RUN}&b={RUN}",
        "/api/tasks?limit=100", f"/api/tasks?limit=100&before={middle}", f"/api/tasks?limit=100&{run}",
        f"/api/tasks?limit=100&{run}&before={middle}", "/api/tasks?external_id=job-1", f"/api/tasks/{middle}",
        f"/api/results?{run}&limit=1000", f"/api/results?{run}&scheduler=oracle&after_task={middle}&limit=1000",
        "/api/full_history?limit=100", f"/api/full_history?limit=100&{run}",
        "/api/history/comparative?limit=1000", f"/api/history/comparative?limit=1000&{run}",
        f"/api/history/trends?{run}&buckets=120", "/api/history/deletion",
        f"/api/runs/{RUN}/gantt?scheduler=greedy&start={end - 600}&end={end}&limit=2000",
        f"/api/runs/{RUN}/gantt?scheduler=greedy&start={middle}&end={middle + 600}&limit=2000",
        f"/api/runs/{RUN}/gantt?scheduler=greedy&limit=2000",
        "/api/events?after=0", "/api/models", "/api/schedulers", "/api/scenarios", "/api/traces",
        f"/api/export/tasks.csv?{run}&limit=1000", f"/api/export/results.csv?{run}&limit=1000",
        f"/api/export/results.parquet?{run}&limit=1000", f"/api/export/trace.json?{run}&limit=1000",
        "/api/health", "/api/health/live", "/api/health/ready", "/api/metrics",
    ]  # fmt: skip


def measure(url: str, pid: int, count: int, repetitions: int) -> int:
    """Ask every route, print its times, and return how many are too slow.

    The processor time of the server is printed, too, because on a busy machine the other figures say little.
    """
    server = psutil.Process(pid)
    slow = []
    worst = (0.0, "")
    print("  first    best     p95     CPU  route (ms)")
    with httpx.Client(base_url=url, timeout=120) as client:
        for route in routes(count):
            seconds = []
            before = server.cpu_times()
            for _ in range(repetitions):
                began = time.perf_counter()
                answer = client.get(route)
                seconds.append(time.perf_counter() - began)
                answer.raise_for_status()
            p95 = sorted(seconds)[min(len(seconds) - 1, int(0.95 * len(seconds)))]
            worst = max(worst, (p95, route))
            if p95 > LIMIT_S:
                slow.append(route)
            after = server.cpu_times()
            busy = (after.user + after.system - before.user - before.system) / repetitions
            figures = f"{1000 * seconds[0]:7.0f} {1000 * min(seconds):7.0f} {1000 * p95:7.0f} {1000 * busy:7.0f}"
            print(f"{figures}  {route}", flush=True)
    print(f"worst  {1000 * worst[0]:.0f} ms p95 of {worst[1]} (at most {1000 * LIMIT_S:.0f} ms)")
    print(f"slow   {len(slow)} of {len(routes(count))} routes")
    return len(slow)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--folder", type=Path, help="keep the database here, and use it again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        file = (given.folder or Path(temporary)) / "history.db"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            began = time.monotonic()
            fill(file, given.rows)
            print(f"filled in {time.monotonic() - began:.0f} s", flush=True)
        with sqlite3.connect(file) as database:
            count = int(database.execute("SELECT max(task_id) FROM tasks").fetchone()[0])
        size = file.stat().st_size / 1e9
        print(f"rows   {count * len(SIX):,} results of {count:,} tasks, {size:.2f} GB", flush=True)
        environment = {
            "HYBRID_STORAGE__SQLITE_FILE": str(file),
            "HYBRID_SERVER__RATE_LIMIT": "off",
            "HYBRID_SERVER__WARM_WHATIF": "false",
        }
        with served(Path(temporary) / "server", "--no-start", environment=environment) as process:
            return 1 if measure(process.url, process.process.pid, count, given.repetitions) else 0


if __name__ == "__main__":
    sys.exit(main())
