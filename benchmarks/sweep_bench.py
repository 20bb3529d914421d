"""Duration and memory of large comparisons, beside their limits; run it on an idle machine.

    python benchmarks/sweep_bench.py            six schedulers x 10 seeds x 20,000 tasks with learning on, and heavy
    python benchmarks/sweep_bench.py --quick    a hundredth of that

Wall-clock and CPU seconds are both printed: on a shared machine only the second is meaningful.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIX = "round_robin,random,greedy,hybrid_ml,rl_agent,oracle"


def measured(name: str, limit: str, *arguments: str) -> None:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hybrid_scheduler", "--quiet", *arguments]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = time.perf_counter() - began
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = after.ru_maxrss / 1024
    print(f"{name:58s} {wall:8.1f} s wall {spent:8.1f} s CPU {peak:7.0f} MiB at most   ({limit})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    share = 100 if options.quick else 1
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    print(f"{os.cpu_count()} cores, load before: {load}, {Path(sys.executable).name} {sys.version.split()[0]}")
    measured("heavy, 10,000 tasks, six schedulers", "30 s", "heavy", "--tasks", str(10_000 // share))
    tasks = str(20_000 // share)
    measured(
        f"compare, six schedulers x 10 seeds x {int(tasks):,} tasks", "600 s on 2 cores",
        "compare", "--tasks", tasks, "--seeds", "10", "--schedulers", SIX, "--processes", "2",
    )  # fmt: skip
    count = 100_000_000 // share
    measured(
        f"heavy, {count:,} tasks, greedy and oracle", "bounded memory",
        "heavy", "--tasks", str(count), "--schedulers", "greedy,oracle",
    )  # fmt: skip


if __name__ == "__main__":
    main()
