"""Speed of storing history, as ratios to the bare drivers measured in one run.

    python benchmarks/storage_bench.py             SQLite, and PostgreSQL where one can be started
    python benchmarks/storage_bench.py --quick     fewer rows
    python benchmarks/storage_bench.py --json      one JSON document

The peer stores the same rows into the same tables, with the same indexes: `executemany` in one transaction for
SQLite, `copy_records_to_table` of asyncpg for PostgreSQL. Its rows are made beforehand; ours are made of columns,
go through a queue and a thread, and every batch is acknowledged. Both sides take the best of several repetitions,
interleaved, because machines are shared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import asyncpg
from batches import Engine
from services import CannotStart, fresh_database, postgres_server

from hybrid_scheduler.live.journal import Batch
from hybrid_scheduler.storage import DatabaseAddress, SqlJournal, batch_rows
from hybrid_scheduler.storage.schema_version import upgrade

SIX = ("round_robin", "random", "greedy", "earliest_finish", "price_index", "oracle")
MUST = 0.5


def batches_of(tasks: int, per_batch: int) -> list[Batch]:
    return list(Engine(schedulers=SIX).batches(tasks // per_batch, per_batch))


def tuples(batches: list[Batch]) -> tuple[tuple, dict[str, list[tuple]]]:
    """The rows that the batches will become, for the bare driver."""
    pending = [batch_rows.PendingBatch.of(number, batch, 1.0) for number, batch in enumerate(batches)]
    run = batch_rows.run_row(batches[-1].run, pending[-1], 0, {})
    content: dict[str, list[tuple]] = {table: [] for table in batch_rows.COLUMNS}
    for batch in pending:
        for table, parts in batch_rows.table_parts(batch, nan_is_null=False).items():
            content[table] += batch_rows.interleave(parts)
    return run, content


def ours(address: DatabaseAddress, batches: list[Batch]) -> float:
    """Seconds from the first batch handed over to the last one acknowledged."""
    journal = SqlJournal(address)
    journal.open()
    start = time.perf_counter()
    for batch in batches:
        while not journal.has_capacity:
            time.sleep(0.001)
        journal.append(batch)
    for batch in batches:
        assert batch.committed is not None
        batch.committed.result(600)
    seconds = time.perf_counter() - start
    journal.close()
    return seconds


def executemany(address: DatabaseAddress, run: tuple, content: dict[str, list[tuple]]) -> float:
    upgrade(address)
    connection = sqlite3.connect(address.path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}")
    start = time.perf_counter()
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"INSERT INTO runs VALUES ({','.join('?' * len(run))})", run)
    for table, found in content.items():
        connection.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(found[0]))})", found)
    connection.execute("COMMIT")
    seconds = time.perf_counter() - start
    connection.close()
    return seconds


def copy(address: DatabaseAddress, run: tuple, content: dict[str, list[tuple]]) -> float:
    upgrade(address)

    async def work() -> float:
        connection = await asyncpg.connect(**address.asyncpg_arguments())
        start = time.perf_counter()
        async with connection.transaction():
            await connection.copy_records_to_table("runs", records=[run])
            for table, found in content.items():
                await connection.copy_records_to_table(table, records=found)
        seconds = time.perf_counter() - start
        await connection.close()
        return seconds

    return asyncio.run(work())


def measure(
    name: str, fresh: Callable[[], DatabaseAddress], peer: Callable[..., float], tasks: int, repetitions: int
) -> dict[str, object]:
    best = {"peer": float("inf"), "ours": float("inf")}
    for _ in range(repetitions):
        batches = batches_of(tasks, 1000)
        run, content = tuples(batches)
        count = sum(map(len, content.values()))
        best["peer"] = min(best["peer"], peer(fresh(), run, content))
        del content  # or the collector would walk through the peer's rows while ours are made
        best["ours"] = min(best["ours"], ours(fresh(), batches))
    return {
        "store": name,
        "rows": count,
        "peer_rows_per_second": round(count / best["peer"]),
        "our_rows_per_second": round(count / best["ours"]),
        "our_tasks_per_second": round(tasks / best["ours"]),
        "ratio": round(best["peer"] / best["ours"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tasks, repetitions = (10_000, 2) if options.quick else (40_000, 3)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        names = iter(range(1000))
        found.append(
            measure(
                "SQLite, against executemany",
                lambda: DatabaseAddress.sqlite(Path(folder) / f"{next(names)}.db"),
                executemany,
                tasks,
                repetitions,
            )
        )
    try:
        with postgres_server() as server:

            def fresh() -> DatabaseAddress:
                with fresh_database(server.url) as url:  # dropped with the server
                    return DatabaseAddress.from_url(url)

            found.append(measure("PostgreSQL, against asyncpg's COPY", fresh, copy, tasks, repetitions))
    except CannotStart as reason:
        print(f"no PostgreSQL: {reason}", file=sys.stderr)
    if options.json:
        print(json.dumps({"storage": found, "must": MUST}, indent=2))
        return
    for each in found:
        print(
            f"{each['store']:38s} {each['our_rows_per_second']:>9,} rows/s "
            f"({each['our_tasks_per_second']:,} tasks/s), peer {each['peer_rows_per_second']:>9,}: "
            f"{each['ratio']} (must be {MUST})"
        )


if __name__ == "__main__":
    main()
