"""Program with three Ray nodes on this machine, one of which is killed during a run; prints one JSON line.

`test_ray_executor.py` starts it in a network namespace.
"""

import json
import threading
import time

import ray
from ray.cluster_utils import Cluster

from hybrid_scheduler.runtime.ray_executor import RayExecutor
from hybrid_scheduler.runtime.submission import KernelCall

SMALL = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


def nap(number: int) -> int:
    time.sleep(0.2)
    return number


def main() -> None:
    cluster = Cluster(initialize_head=True, head_node_args={**SMALL, "include_dashboard": False})
    victim = cluster.add_node(**SMALL)
    cluster.add_node(**SMALL)
    cluster.wait_for_nodes()
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
    print(
        json.dumps(
            {
                "devices": names,
                "results_are_right": results == list(range(60)),
                "tasks": len(futures) + len(kernels),
                "records": len(executor.records),
                "different_tasks": len({record.task_id for record in executor.records}),
                "statuses": sorted({record.status for record in executor.records}),
                "counts": dict(executor.counts),
                "last_devices_without_the_lost_one": not {r.device for r in list(executor.records)[-9:]}
                & set(lost),
            }
        ),
        flush=True,
    )
    executor.shutdown()
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
