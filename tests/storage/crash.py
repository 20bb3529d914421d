"""Kill a process in the middle of storing, again and again, and look for what it had acknowledged.

    python tests/storage/crash.py --cycles 50                    SQLite in a temporary folder
    python tests/storage/crash.py --cycles 50 --postgres         a PostgreSQL of its own
    python tests/storage/crash.py --worker URL                   what is killed

The worker prints a line for every acknowledged batch. After the kill, every task it spoke of must be there with all
its results, no id may be used twice, and the next worker goes on with the next id.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from batches import SCHEDULERS, Engine

from hybrid_scheduler.storage import DatabaseAddress, SqlJournal
from hybrid_scheduler.storage.integrity_check import verify
from hybrid_scheduler.storage.schema_version import with_connection


def worker(url: str) -> None:
    """Store batches of different sizes for ever; "ack LAST_TASK LAST_SEQ" once each is durable."""
    logging.basicConfig(level=logging.ERROR)
    journal = SqlJournal(DatabaseAddress.from_url(url))
    recovered = journal.open()
    ordinal = recovered.state["tasks"] if recovered.state else 0
    engine = Engine(seed=recovered.counters.next_task_id, counters=recovered.counters, ordinal=ordinal)
    print("open", recovered.counters.next_task_id, ordinal, flush=True)
    sizes = random.Random(recovered.counters.next_task_id)
    while True:
        batches = [engine.batch(sizes.choice([1, 3, 50, 400])) for _ in range(sizes.randint(1, 4))]
        for batch in batches:
            journal.append(batch)
        for batch in batches:
            assert batch.committed is not None
            batch.committed.result()
            print("ack", batch.counters.next_task_id - 1, batch.counters.next_seq - 1, flush=True)


class Cycle(NamedTuple):
    first_task: int
    acknowledged: int
    stored: int


def cycle(url: str, rng: random.Random) -> Cycle:
    """One life and death; raises AssertionError when a promise is broken."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--worker", url], stdout=subprocess.PIPE, text=True, env=os.environ.copy()
    )
    assert process.stdout is not None
    try:
        opened = process.stdout.readline().split()
        assert opened[:1] == ["open"], "the worker did not start"
        for _ in range(rng.randint(1, 12)):
            process.stdout.readline()
        # Somewhere in the middle of what comes next: neither right after an answer nor at a fixed time.
        for _ in range(rng.randint(0, 200_000)):
            pass
    finally:
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()
        process.wait()
        process.stdout.close()
    acknowledged = [line.split() for line in rest.splitlines() if line.startswith("ack") and line.count(" ") == 2]
    last_task, last_seq = (int(acknowledged[-1][1]), int(acknowledged[-1][2])) if acknowledged else (0, 0)
    address = DatabaseAddress.from_url(url)
    wrong = [finding for finding in verify(address) if not finding.ok]
    assert not wrong, wrong

    def look(connection):  # type: ignore[no-untyped-def]
        return [
            connection.exec_driver_sql(query).scalar() or 0
            for query in (
                "SELECT max(task_id) FROM tasks",
                "SELECT count(*) FROM tasks",
                "SELECT count(*) FROM scheduler_results",
                "SELECT count(*) FROM training_data",
                "SELECT max(seq) FROM events",
                "SELECT count(*) FROM events",
                "SELECT tasks FROM runs",
            )
        ]

    newest, tasks, results, training, seq, events, in_run = with_connection(address, look, read_only=True)
    assert newest >= last_task, f"task {last_task} was acknowledged, {newest} is the newest"
    assert seq >= last_seq
    assert tasks == newest == training == in_run, "ids have holes or are used twice"
    assert results == len(SCHEDULERS) * tasks
    assert events <= seq
    return Cycle(int(opened[1]), last_task, newest)


def campaign(url: str, cycles: int, seed: int = 1) -> list[Cycle]:
    rng = random.Random(seed)
    done: list[Cycle] = []
    for _ in range(cycles):
        one = cycle(url, rng)
        assert one.first_task == (done[-1].stored + 1 if done else 1), "did not go on with the next id"
        done.append(one)
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--worker", metavar="URL")
    options = parser.parse_args()
    if options.worker:
        worker(options.worker)
    elif options.postgres:
        from services import postgres_server

        with postgres_server() as server:
            _report("PostgreSQL", campaign(server.url, options.cycles, options.seed))
    else:
        with tempfile.TemporaryDirectory() as folder:
            _report("SQLite", campaign(f"sqlite:///{folder}/history.db", options.cycles, options.seed))


def _report(kind: str, done: list[Cycle]) -> None:
    print(f"{kind}: killed {len(done)} times, {done[-1].stored} tasks stored, none lost, no id twice")


if __name__ == "__main__":
    main()
