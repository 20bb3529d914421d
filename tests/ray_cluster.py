"""Program with three Ray nodes on this machine: one is killed during tasks of an executor, the next during a sweep.

`test_ray_executor.py` starts it with the folder of the sweep, and reads the JSON line that it prints.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

import ray
from ray.cluster_utils import Cluster
from sweep_examples import lines_of, plan

from hybrid_scheduler.experiments.sweep import RaySweepBackend, run_sweep
from hybrid_scheduler.runtime.ray_executor import RayExecutor
from hybrid_scheduler.runtime.submission import KernelCall

SMALL = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


def nap(number: int) -> int:
    time.sleep(0.2)
    return number


def main() -> None:
    cluster = Cluster(initialize_head=True, head_node_args={**SMALL, "include_dashboard": False})
    first, second = (cluster.add_node(**SMALL) for _ in range(2))
    cluster.wait_for_nodes()
    found = run_tasks(cluster, first)
    ray.shutdown()
    found["sweep"] = run_cells(cluster, second, Path(sys.argv[1]))
    print(json.dumps(found), flush=True)
    os._exit(0)


def run_cells(cluster: Cluster, victim: object, folder: Path) -> dict[str, int]:
    """Run a sweep during which a node is killed; return its rows, and the rows that were there before."""
    before = []

    def kill() -> None:
        while lines_of(folder) < 3:
            time.sleep(0.05)
        before.append(lines_of(folder))
        cluster.remove_node(victim, allow_graceful=False)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    rows = run_sweep(plan(tasks=400, seeds=6), folder, RaySweepBackend(cluster.address))
    killer.join()
    return {"rows": len(rows), "before": before[0]}


def run_tasks(cluster: Cluster, victim: object) -> dict[str, object]:
    """Run tasks of an executor during which a node is killed."""
    executor = RayExecutor("round_robin", address=cluster.address)
    names = [pool.name for pool in executor.pools]
    futures = [
        executor.submit_variants(cpu=nap, args=(i,), kind="nap", device=names[i % len(names)]) for i in range(60)
    ]
    while len(executor.records) < 6:
        time.sleep(0.02)
    killer = threading.Thread(target=cluster.remove_node, args=(victim,), kwargs={"allow_graceful": False})
    killer.start()
    results = [future.result(timeout=120) for future in futures]
    killer.join()
    lost = [name for name, backend in executor.backends.items() if backend.lost]
    kernels = [executor.submit_kernel(KernelCall("sort", 32)) for _ in range(9)]
    for future in kernels:
        (values,) = future.result(timeout=120)
        assert bool((values[1:] >= values[:-1]).all())
    found = {
        "devices": names,
        "results_are_right": results == list(range(60)),
        "tasks": len(futures) + len(kernels),
        "records": len(executor.records),
        "different_tasks": len({record.task_id for record in executor.records}),
        "statuses": sorted({record.status for record in executor.records}),
        "counts": dict(executor.counts),
        "last_devices_without_the_lost_one": not {r.device for r in list(executor.records)[-9:]} & set(lost),
    }
    executor.shutdown()
    return found


if __name__ == "__main__":
    main()
