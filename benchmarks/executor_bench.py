"""What deciding costs: the executor beside the standard library's thread pool, on kernels that take no time.

    python benchmarks/executor_bench.py                  2,000 tasks each
    python benchmarks/executor_bench.py --tasks 500 --json

Every row is one way to run the same empty callable on threads of this process, one task at a time; the decision is
the part of it that the scheduler takes. The last column is the rest: queue, threads, books.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor

from hybrid_scheduler.hardware.calibration import calibrate
from hybrid_scheduler.hardware.executor import HybridExecutor
from hybrid_scheduler.hardware.shipped import profile_named

SCHEDULERS = ("cpu_only", "greedy", "round_robin", "earliest_finish", "hybrid_ml", "rl_agent")
#: Decisions after which everything is compiled, and what learning there is has settled.
WARM = 100


def nothing() -> None:
    """The work."""


def standard(tasks: int) -> float:
    """Seconds per task of a pool with one thread."""
    with ThreadPoolExecutor(1) as pool:
        for _ in range(WARM):
            pool.submit(nothing).result()
        began = time.perf_counter()
        for _ in range(tasks):
            pool.submit(nothing).result()
        return (time.perf_counter() - began) / tasks


def ours(scheduler: str, tasks: int) -> tuple[float, float, float]:
    """Seconds per task, of deciding and of learning."""
    calibration = calibrate(profile_named("cpu_only"))
    with HybridExecutor(scheduler, device_type="cpu", calibration=calibration) as executor:

        def run(count: int) -> float:
            began = time.perf_counter()
            for i in range(count):
                # A kind that the calibration knows, so that told schedulers can be asked.
                executor.submit_variants(cpu=nothing, kind="sort", size=64.0 + i % 16).result()
            return (time.perf_counter() - began) / count

        run(WARM)
        decided, learned = executor.decision_seconds, executor.learning_seconds
        whole = run(tasks)
        return whole, (executor.decision_seconds - decided) / tasks, (executor.learning_seconds - learned) / tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {"ThreadPoolExecutor(1)": {"task": standard(options.tasks), "decision": 0.0, "learning": 0.0}}
    for scheduler in SCHEDULERS:
        whole, decision, learning = ours(scheduler, options.tasks)
        found[scheduler] = {"task": whole, "decision": decision, "learning": learning}
    if options.json:
        print(json.dumps({"tasks": options.tasks, "seconds": found}, indent=2))
        return
    print(f"{'µs per task':24s}{'all':>10s}{'decision':>10s}{'learning':>10s}{'rest':>10s}")
    for name, row in found.items():
        rest = row["task"] - row["decision"] - row["learning"]
        print(f"{name:24s}" + "".join(f"{1e6 * value:10.1f}" for value in (*row.values(), rest)))


if __name__ == "__main__":
    main()
