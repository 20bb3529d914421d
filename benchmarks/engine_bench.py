"""Tasks per second that the live engine makes, and that can be stored.

    python benchmarks/engine_bench.py                  without storage, then into SQLite; half a minute
    python benchmarks/engine_bench.py --seconds 3 --schedulers hybrid_ml,oracle
    python benchmarks/engine_bench.py --folder /dev/shm     another disk

Per wall second, and per CPU second because the machine may be shared. Nothing here asserts a time. Rows are
results, one per task and scheduler; tasks, labels and events come on top.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from hybrid_scheduler.live import Batch, ContinuousSimulation, Counters, LiveConfig, Recovered

SIX = "round_robin,random,greedy,oracle,earliest_finish,gpu_only"


class DiscardingJournal:
    """A journal that discards everything."""

    has_capacity, unsaved, unavailable = True, 0, False

    def open(self) -> Recovered:
        return Recovered(Counters())

    def append(self, batch: Batch) -> None:
        for future in (batch.committed, batch.stored):
            if future is not None:
                future.set_result(None)

    def delete_tasks(self, deleted: Future[int]) -> None:
        deleted.set_result(0)

    def close(self, timeout: float = 5.0) -> None:
        pass


def measure(journal: Any, config: LiveConfig, seconds: float) -> tuple[float, float]:
    """Return durable tasks per wall second, and per CPU second of this process with all its threads."""
    engine = ContinuousSimulation(config, journal)
    engine.open()
    engine.start()
    stop = threading.Event()
    stop.wait(0.5)  # until the first chunks have found their size
    first = engine.pause().tasks_processed
    drained(journal)
    wall, cpu = time.perf_counter(), time.process_time()
    engine.resume()
    stop.wait(seconds)
    made = engine.pause().tasks_processed - first
    drained(journal)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    engine.stop()
    engine.close(60.0)
    return made / wall, made / cpu


def drained(journal: Any) -> None:
    pause = threading.Event()
    while journal.unsaved:
        pause.wait(0.001)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--schedulers", default=SIX)
    parser.add_argument("--folder", type=Path, default=None, help="where the SQLite file goes")
    options = parser.parse_args()
    schedulers = tuple(options.schedulers.split(","))
    config = LiveConfig(schedulers=schedulers, speed=math.inf)
    lanes = len(schedulers)
    show("engine alone", *measure(DiscardingJournal(), config, options.seconds), lanes)
    try:
        from hybrid_scheduler.storage import DatabaseAddress, SqlJournal
    except ImportError:
        print("into SQLite    storage is not installed")
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        file = Path(folder) / "bench.db"
        show("into SQLite", *measure(SqlJournal(DatabaseAddress.sqlite(file)), config, options.seconds), lanes)


def show(what: str, per_second: float, per_cpu_second: float, lanes: int) -> None:
    print(
        f"{what:14s}{per_second:10,.0f} tasks/s {per_second * lanes:10,.0f} rows/s     "
        f"{per_cpu_second:10,.0f} tasks per CPU second {per_cpu_second * lanes:10,.0f} rows",
        flush=True,
    )


if __name__ == "__main__":
    main()
