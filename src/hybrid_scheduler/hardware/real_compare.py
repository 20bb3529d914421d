"""The same stream on the real machine and in the simulator that was calibrated to it, side by side.

The calibration comes from a quick profile made with the executor itself, so that it includes what the executor adds
to a kernel: handing over, staging, the result's memory. With `busy` the other devices work meanwhile, as they will
in the stream: they share memory and cores, and kernels that are alone are faster than kernels in company.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ..cluster import Cluster
from .calibration import Calibration, calibrate
from .devices import describe_machine, find_gpu
from .execution import Execution, Progress, Unheld, nothing, run_stream, shuffled
from .executor import HybridExecutor
from .jobs import DONE, KernelCall
from .measure import Timing
from .policy import KernelPolicy
from .profile import Copies, Method, Point, Profile
from .stream import as_workload


def executor_profile(
    executor: HybridExecutor,
    calls: Sequence[KernelCall],
    *,
    repeats: int = 4,
    busy: bool = False,
    seed: int = 0,
    progress: Progress = nothing,
) -> Profile:
    """Every kind and size `repeats` times on every device, in a mix, through the executor's own queues."""
    distinct = [KernelCall(*key) for key in dict.fromkeys((call.kind, call.size) for call in calls)]
    found: dict[tuple[str, int], dict[str, list[float]]] = {(call.kind, call.size): {} for call in distinct}
    began = executor.clock()
    for pool in executor.pools:
        others = [other.name for other in executor.pools if other.name != pool.name] if busy else []
        with company(executor, calls, others, seed):
            for turn in range(repeats):
                progress(f"profiling {pool.name}", turn)
                for key, seconds in _services(executor, shuffled(distinct, seed + turn), pool.name).items():
                    found[key].setdefault(pool.kind, []).append(seconds)
    executor.records.clear()
    gpu = find_gpu() if any(pool.is_accelerator for pool in executor.pools) else None
    points = tuple(
        _point(KernelCall(*key), {kind: Timing.of(seconds) for kind, seconds in by_kind.items()})
        for key, by_kind in found.items()
        if by_kind
    )
    method = Method("executor", seed, 0.0, None, executor.clock() - began, "as set")
    note = "made with the executor: GPU copies go through its staging buffers" + (", other devices busy" * busy)
    return Profile(
        datetime.now(UTC).isoformat(timespec="seconds"),
        describe_machine(gpu, executor.pools[0].threads),
        method,
        points,
        notes=(note,),
    )


def _services(executor: HybridExecutor, calls: Sequence[KernelCall], device: str) -> dict[tuple[str, int], float]:
    """Seconds from one result to the next, in a mix: a kernel that follows itself finds its data in the cache.

    The device is held until all of them wait for it: else one would measure how fast tasks are submitted.
    """
    first = len(executor.records)
    gate = threading.Event()
    holding = executor.submit_variants(cpu=gate.wait, gpu=gate.wait, kind="gate", device=device)
    with Unheld(executor) as stream:
        try:
            for call in calls:
                stream.submit(call, device)
        finally:
            gate.set()
    holding.exception()
    mine = [
        record for record in executor.records[first:] if record.device == device and record.finished is not None
    ]
    mine.sort(key=lambda record: record.finished or 0.0)
    return {
        (after.kind, int(after.size)): (after.finished or 0.0) - (before.finished or 0.0)
        for before, after in itertools.pairwise(mine)
        if after.status == DONE and after.kind != "gate" and before.finished != after.finished
    }


def _point(call: KernelCall, timings: dict[str, Timing]) -> Point:
    kernel = call.kernel
    gpu = timings.get("gpu")
    return Point(
        call.kind, call.size, kernel.bytes_in(call.size), kernel.bytes_out(call.size), kernel.flops(call.size),
        cpu_seconds=timings.get("cpu"),
        cpu_one_thread_seconds=timings.get("threads"),
        gpu_seconds=Copies(gpu) if gpu else None,
    )  # fmt: skip


@contextmanager
def company(
    executor: HybridExecutor, calls: Sequence[KernelCall], devices: Sequence[str], seed: int
) -> Iterator[None]:
    """Keep these devices busy with tasks of the same stream."""
    stop = threading.Event()

    def feed(device: str) -> None:
        for call in itertools.cycle(shuffled(calls, seed)):
            if stop.is_set():
                return
            executor.submit_kernel(call, device=device).exception()

    threads = [threading.Thread(target=feed, args=(device,), daemon=True) for device in devices]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def simulate(
    executor: HybridExecutor,
    calibration: Calibration,
    calls: Sequence[KernelCall],
    arrivals: Sequence[float],
    spec: str,
) -> dict[str, Any]:
    """The twin of a real batch: the same policy, arrivals and machine, durations as calibrated."""
    workload = as_workload(calls, arrivals)
    cluster = Cluster(executor.platform, calibration.physics)
    policy = KernelPolicy(spec, splits=executor._splits)
    outcomes = cluster.run(workload, policy).outcomes
    return {
        "makespan_seconds": float(outcomes.finish.max() - workload.arrival_time[0]),
        "busy_seconds": float(outcomes.time.sum()),
        "on_accelerator": float(np.mean(outcomes.fraction > 0)),
    }


def compare_real(
    executor: HybridExecutor,
    calibrations: dict[str, Calibration],
    calls: Sequence[KernelCall],
    spec: str,
    *,
    progress: Progress = nothing,
) -> tuple[dict[str, Any], Execution]:
    """Run the stream at once, then simulate it from each calibration; the executor's policy must be `spec`."""
    real = run_stream(executor, calls, mode="batch", name=spec, progress=progress)
    arrivals = [record.submitted for record in real.records]
    ends = [record.finished for record in real.records if record.finished is not None]
    makespan = max(ends) - min(arrivals)
    document: dict[str, Any] = {"scheduler": spec, "tasks": len(calls), "real": {"makespan_seconds": makespan}}
    document["real"]["on_accelerator"] = float(np.mean([record.fraction > 0 for record in real.records]))
    for name, calibration in calibrations.items():
        twin = simulate(executor, calibration, calls, arrivals, spec)
        twin["error"] = twin["makespan_seconds"] / makespan - 1.0
        document[f"simulated_{name}"] = twin
    return document, real


def quick_calibration(
    executor: HybridExecutor,
    calls: Sequence[KernelCall],
    *,
    busy: bool,
    repeats: int = 4,
    progress: Progress = nothing,
) -> Calibration:
    return calibrate(
        executor_profile(executor, calls, repeats=repeats, busy=busy, progress=progress), road="pageable"
    )
