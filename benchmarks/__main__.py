"""Speed of the simulation, as ratios measured in one run, since machines differ and are shared.

    python benchmarks                 everything, about two minutes
    python benchmarks --quick         smaller sizes, about twenty seconds
    python benchmarks --json          one JSON document

Result: docs/results/benchmarks.txt. CPU seconds of this process, best of several repetitions. Nothing here asserts
a time; compare the ratios.
"""

from __future__ import annotations

import argparse
import json
import platform as host
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import simpy_cluster
from numba import njit

from hybrid_scheduler import AnalyticPhysics, Cluster, Workload, create, workstation
from hybrid_scheduler.core import multi_node_platform
from hybrid_scheduler.workload.scenarios import generate, scenario_named

SIX = ["round_robin", "random", "greedy", "earliest_finish", "price_index", "oracle"]


def mixed(tasks: int, seed: int = 1, utilisation: float = 0.7, machine=None) -> Workload:
    return generate(
        scenario_named("mixed"), tasks, seed,
        platform=machine or workstation(), physics=AnalyticPhysics(), utilisation=utilisation,
    )  # fmt: skip


def cpu_seconds(work: Callable[[], object], repetitions: int = 5) -> float:
    best = float("inf")
    for _ in range(repetitions):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def rate(workload: Workload, spec: str, machine=None, repetitions: int = 5) -> float:
    """Tasks per CPU second of a whole run: physics, decisions, queues and outcome columns."""
    cluster = Cluster(machine)
    cluster.run(workload.rows(0, 1), create(spec))  # compile
    return len(workload) / cpu_seconds(lambda: cluster.run(workload, create(spec)), repetitions)


def against_simpy(tasks: int) -> dict[str, float]:
    workload = mixed(tasks)
    table = AnalyticPhysics().times(workload, workstation())
    columns = [workload.arrival_time.tolist(), table[:, 0, 0].tolist(), table[:, 1, 0].tolist()]
    ours = Cluster().run(workload, create("earliest_finish")).outcomes.finish
    for model in (simpy_cluster.run, simpy_cluster.run_lean):
        np.testing.assert_allclose(model(*columns), ours, rtol=1e-9)
    idiomatic = tasks / cpu_seconds(lambda: simpy_cluster.run(*columns), 3)
    lean = tasks / cpu_seconds(lambda: simpy_cluster.run_lean(*columns), 3)
    fast = rate(mixed(1_000_000), "earliest_finish")
    return {
        "earliest_finish tasks/s": fast,
        "simpy tasks/s": idiomatic,
        "lean simpy tasks/s": lean,
        "ratio": fast / idiomatic,
        "ratio to lean": fast / lean,
    }


@njit(error_model="numpy")
def bare_loop(arrival, on_cpu, on_gpu, gpus, start, finish):
    """Split earliest finish on one CPU and equal GPUs, and nothing else: no memory limits, noise or objective."""
    free = np.zeros(gpus + 1)
    for i in range(len(arrival)):
        now, gpu = arrival[i], 1
        for d in range(2, gpus + 1):
            if free[d] < free[gpu]:
                gpu = d
        cpu_wait, wait = max(0.0, free[0] - now), max(0.0, free[gpu] - now)
        share = min(max((cpu_wait + on_cpu[i] - wait) / (on_cpu[i] + on_gpu[i]), 0.0), 1.0)
        latency = max(wait + share * on_gpu[i], cpu_wait + (1.0 - share) * on_cpu[i])
        if wait + on_gpu[i] <= latency:
            share, latency = 1.0, wait + on_gpu[i]
        if cpu_wait + on_cpu[i] < latency:
            share = 0.0
        start[i], finish[i] = np.inf, 0.0
        if share < 1.0:
            begin = max(now, free[0])
            free[0] = begin + (1.0 - share) * on_cpu[i]
            start[i], finish[i] = begin, free[0]
        if share > 0.0:
            begin = max(now, free[gpu])
            free[gpu] = begin + share * on_gpu[i]
            start[i], finish[i] = min(start[i], begin), max(finish[i], free[gpu])


def against_numba(tasks: int) -> dict[str, float]:
    """Compare a whole run with a bare loop, alone and with the physics that both need."""
    workload, machine, physics = mixed(tasks), workstation(), AnalyticPhysics()

    def bare(columns):
        columns = [np.ascontiguousarray(column) for column in columns]
        start, finish = np.empty((2, tasks))
        bare_loop(workload.arrival_time, *columns, len(machine.accelerators), start, finish)
        return finish

    table = physics.times(workload, machine)
    columns = [np.ascontiguousarray(table[:, c, 0]) for c in range(2)]
    np.testing.assert_allclose(bare(columns), Cluster().run(workload, create("earliest_finish")).outcomes.finish)
    ours = rate(workload, "earliest_finish", repetitions=15)
    loop = tasks / cpu_seconds(lambda: bare(columns), 15)
    both = tasks / cpu_seconds(lambda: bare(physics.times(workload, machine)[:, :2, 0].T), 15)
    return {
        "earliest_finish tasks/s": ours,
        "bare loop tasks/s": loop,
        "bare loop and physics tasks/s": both,
        "ratio to bare loop": ours / loop,
        "ratio to bare loop and physics": ours / both,
    }


def schedulers(tasks: int) -> dict[str, float]:
    workload = mixed(tasks)
    return {
        spec: rate(workload, spec, repetitions=3)
        for spec in (*SIX, "min_completion", "two_level", "oracle(grid=21)")
    }


def central_queue(tasks: int) -> dict[str, float]:
    """Late binding near capacity, and above it, where thousands of tasks wait."""
    near, above = mixed(tasks, utilisation=0.95), mixed(tasks // 5, utilisation=1.2)
    return {
        "at 0.95": rate(near, "late_binding"),
        "at 0.95, smallest first": rate(near, "late_binding(boost=1000)"),
        "at 1.2": rate(above, "late_binding"),
        "at 1.2, tasks that wait": waiting_tasks(above),
    }


def waiting_tasks(workload: Workload) -> float:
    """Tasks that wait under late binding, averaged over the arrivals."""
    starts = np.sort(Cluster().run(workload, create("late_binding")).outcomes.start)
    started = np.searchsorted(starts, workload.arrival_time, side="right")
    return float((np.arange(len(workload)) - started).mean())


def flat(sizes: list[int]) -> dict[str, float]:
    """Nanoseconds per task at growing sizes."""
    return {f"{n:,} tasks": 1e9 / rate(mixed(n), "earliest_finish", repetitions=3) for n in sizes}


def memory(tasks: int) -> dict[str, float]:
    """Peak memory of a fresh process that compares six schedulers (Linux: from /proc)."""
    code = (
        "from hybrid_scheduler import compare;"
        "from hybrid_scheduler.workload.scenarios import generate, scenario_named;"
        "tasks = generate(scenario_named('mixed'), {n}, 1, utilisation=0.7);"
        f"comparison = compare(tasks, {SIX!r}); comparison.summaries;"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    small, large = (
        int(subprocess.run([sys.executable, "-c", code.format(n=n)], capture_output=True, check=True).stdout) / 1024
        for n in (1000, tasks)
    )
    return {
        "MiB at 1,000 tasks": small,
        f"MiB at {tasks:,} tasks": large,
        "bytes per task": (large - small) * 2**20 / tasks,
    }


def scaling(node_counts: list[int], tasks: int) -> dict[str, dict[str, float]]:
    """Microseconds per decision as the cluster grows, at the same load per node."""
    result: dict[str, dict[str, float]] = {"two_level": {}, "earliest_finish": {}}
    for count in node_counts:
        machine = multi_node_platform(count)
        workload = mixed(tasks, machine=machine)
        for spec, column in result.items():
            column[f"{count} nodes"] = 1e6 / rate(workload, spec, machine, repetitions=3)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    quick = options.quick
    report = {
        "machine": {"processor": host.machine(), "python": host.python_version(), "system": host.system()},
        "against SimPy (split earliest finish, 5 devices)": against_simpy(2000 if quick else 20_000),
        "against a bare numba loop (split earliest finish, 5 devices)": against_numba(400_000),
        "tasks per CPU second": schedulers(100_000 if quick else 1_000_000),
        "late binding: tasks per CPU second": central_queue(20_000 if quick else 100_000),
        "flat cost: ns per task": flat([10**4, 10**5, 10**6] if quick else [10**4, 10**5, 10**6, 10**7]),
        "memory, six schedulers": memory(100_000 if quick else 1_000_000),
        "cluster size: us per task": scaling(
            [16, 64, 256] if quick else [16, 64, 256, 1000], 5_000 if quick else 20_000
        ),
    }
    if options.json:
        print(json.dumps(report, indent=2))
        return
    for title, rows in report.items():
        print(f"\n{title}")
        for name, value in rows.items():
            if isinstance(value, dict):
                print(f"  {name:24s}" + "".join(f"{key:>12s} {number:8.2f}" for key, number in value.items()))
            else:
                print(f"  {name:24s}{value if isinstance(value, str) else f'{value:16,.1f}'}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\npeak memory of this benchmark: {peak:,.0f} MiB")


if __name__ == "__main__":
    main()
