"""Overhead of the executor beside the standard library's thread pool, on kernels that take no time.

    python benchmarks/executor_bench.py                  2,000 tasks each
    python benchmarks/executor_bench.py --tasks 500 --json

Every row is one way to run the same empty callable on threads of this process, one task at a time. The decision is
the scheduler's part of it, learning is the processing of outcomes, the rest is queues, threads and records. The
last column is the longest time that `submit` blocked its caller. Libraries are loaded beforehand.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from hybrid_scheduler.profiling.calibration import calibrate
from hybrid_scheduler.profiling.hardware_profile import profile_named
from hybrid_scheduler.runtime.kernel_executor import KernelExecutor

SCHEDULERS = ("cpu_only", "greedy", "round_robin", "earliest_finish", "hybrid_ml", "rl_agent")
#: Decisions after which everything is compiled and learning has settled.
WARM = 100


def nothing() -> None:
    """Do nothing: the work of every task."""


def one_by_one(submit: Callable[[int], Future[None]], tasks: int) -> tuple[float, float]:
    """Return the seconds per task, and those of the slowest `submit`."""
    slowest, start = 0.0, time.perf_counter()
    for i in range(tasks):
        began = time.perf_counter()
        future = submit(i)
        slowest = max(slowest, time.perf_counter() - began)
        future.result()
    return (time.perf_counter() - start) / tasks, slowest


def standard(tasks: int) -> dict[str, float]:
    """Measure a pool with one thread."""
    with ThreadPoolExecutor(1) as pool:
        one_by_one(lambda _: pool.submit(nothing), WARM)
        whole, slowest = one_by_one(lambda _: pool.submit(nothing), tasks)
        return {"task": whole, "decision": 0.0, "learning": 0.0, "slowest_submit": slowest}


def ours(scheduler: str, tasks: int) -> dict[str, float]:
    """Measure the executor; all in seconds, deciding and learning per task."""
    calibration = calibrate(profile_named("cpu_only"))
    with KernelExecutor(scheduler, device_type="cpu", calibration=calibration) as executor:

        def submit(i: int) -> Future[None]:
            # A kind that the calibration knows, so that schedulers that know durations can decide.
            return executor.submit_variants(cpu=nothing, kind="sort", size=64.0 + i % 16)

        one_by_one(submit, WARM)
        decided, learned = executor.decision_seconds, executor.learning_seconds
        whole, slowest = one_by_one(submit, tasks)
        return {
            "task": whole,
            "decision": (executor.decision_seconds - decided) / tasks,
            "learning": (executor.learning_seconds - learned) / tasks,
            "slowest_submit": slowest,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    importlib.import_module("sklearn.ensemble")  # two seconds, in which learners compete with it
    found = {"ThreadPoolExecutor(1)": standard(options.tasks)}
    found |= {scheduler: ours(scheduler, options.tasks) for scheduler in SCHEDULERS}
    if options.json:
        print(json.dumps({"tasks": options.tasks, "seconds": found}, indent=2))
        return
    print(f"{'µs per task':24s}{'all':>10s}{'decision':>10s}{'learning':>10s}{'rest':>10s}{'slowest submit':>18s}")
    for name, row in found.items():
        rest = row["task"] - row["decision"] - row["learning"]
        times = row["task"], row["decision"], row["learning"], rest
        columns = "".join(f"{1e6 * value:10.1f}" for value in times)
        print(f"{name:24s}{columns}{1e3 * row['slowest_submit']:15.2f} ms")


if __name__ == "__main__":
    main()
