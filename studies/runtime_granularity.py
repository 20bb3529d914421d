"""Shortest task at which half of the time is useful work, for the executor and for other task schedulers.

    python -c "from studies.runtime_granularity import main; main()" executor

Task Bench calls this figure METG. A task hashes bytes: it does not hold the interpreter's lock or allocate memory,
and its length is proportional to the number of bytes. Efficiency is the time that all cores would need without any
overhead, over the measured time. Every way is measured in a process of its own, which is ended at a time limit: one
way that hangs costs the study nothing but its own figure.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

#: Runs a number of tasks that hash so many bytes each.
Way = Callable[[int, int], Any]

#: Names of the ways; dask and ray are measured where they are installed.
WAYS = ("executor", "ThreadPoolExecutor", "dask (threads)", "ray")
#: Seconds after which the search of one way ends with what it has found, and after which its process is ended.
SEARCH_SECONDS, LIMIT_SECONDS = 20.0, 45.0
#: Bytes of the longest task, and shortest and longest task of the search, in seconds.
_MAX_BYTES = 64 * 2**20
_SHORTEST, _LONGEST = 5e-6, 0.03
#: First guess of the search, its steps outwards, and the ratio of the interval at which it ends.
_FIRST, _STEP, _CLOSE = 2e-4, 4.0, 1.15
#: Seconds of useful work in one batch, its most tasks, and batches of which the fastest counts.
_BATCH, _MAX_TASKS, _REPEATS = 0.1, 1_000, 3


def shortest_efficient(
    efficiency: Callable[[float], float], is_late: Callable[[], bool] = lambda: False
) -> float | None:
    """Return the shortest task, in seconds, whose efficiency is at least one half.

    Parameters
    ----------
    efficiency : callable
        Efficiency of tasks of so many seconds; it grows with them.
    is_late : callable, optional
        Whether the search must end; it then returns the shortest task that was found to be efficient.

    Returns
    -------
    float or None
        None if no task was found to be efficient.
    """
    below, above = 0.0, math.inf
    length = _FIRST
    while not is_late():
        if efficiency(length) >= 0.5:
            above = length
        else:
            below = length
        if above <= _SHORTEST or below >= _LONGEST or above <= below * _CLOSE:
            break
        if below and above < math.inf:
            length = math.sqrt(below * above)
        else:
            length = max(length / _STEP, _SHORTEST) if not below else min(length * _STEP, _LONGEST)
    return above if above < math.inf else None


@functools.cache
def _block() -> memoryview:
    return memoryview(bytes(_MAX_BYTES))


def hash_bytes(size: int) -> bytes:
    """Return the hash of so many bytes, computed without the interpreter's lock."""
    return hashlib.sha256(_block()[:size]).digest()


def half_useful(way: Way, cores: int, seconds: float = SEARCH_SECONDS) -> float | None:
    """Return the shortest task, in microseconds, at which half of the time is useful work; None if none is."""
    deadline = time.perf_counter() + seconds
    hash_bytes(_MAX_BYTES)
    rate = 2**20 / _fastest(lambda: hash_bytes(2**20), 20)

    def efficiency(length: float) -> float:
        size = min(max(4096, int(length * rate)), _MAX_BYTES)
        alone = _fastest(lambda: hash_bytes(size), 10)
        tasks = max(4 * cores, min(_MAX_TASKS, int(_BATCH * cores / alone)))
        way(size, 4 * cores)
        return alone * tasks / cores / _fastest(lambda: way(size, tasks), _REPEATS)

    found = shortest_efficient(efficiency, lambda: time.perf_counter() > deadline)
    return None if found is None else found * 1e6


def _fastest(run: Callable[[], Any], times: int) -> float:
    found = math.inf
    for _ in range(times):
        began = time.perf_counter()
        run()
        found = min(found, time.perf_counter() - began)
    return found


# ------------------------------------------------------------------------------------------ ways


def _executor(cores: int) -> tuple[Way, Callable[[], Any]]:
    import hybrid_scheduler as hs

    executor = hs.HybridExecutor(cores=cores, history=False)
    executor.graph.wait_ready()
    return _futures(executor.submit), executor.shutdown


def _thread_pool(cores: int) -> tuple[Way, Callable[[], Any]]:
    pool = ThreadPoolExecutor(cores)
    return _futures(pool.submit), pool.shutdown


def _futures(submit: Callable[..., Any]) -> Way:
    return lambda size, tasks: [one.result() for one in [submit(hash_bytes, size) for _ in range(tasks)]]


def _dask(cores: int) -> tuple[Way, Callable[[], Any]]:
    import dask

    delayed = dask.delayed(hash_bytes, pure=False)

    def way(size: int, tasks: int) -> Any:
        return dask.compute(*[delayed(size) for _ in range(tasks)], scheduler="threads", num_workers=cores)

    return way, lambda: None


def _ray(cores: int) -> tuple[Way, Callable[[], Any]]:
    import ray

    ray.init(num_cpus=cores, include_dashboard=False, log_to_driver=False, configure_logging=False)
    remote = ray.remote(hash_bytes)
    return lambda size, tasks: ray.get([remote.remote(size) for _ in range(tasks)]), ray.shutdown


_BUILDERS = dict(zip(WAYS, (_executor, _thread_pool, _dask, _ray), strict=True))


# ------------------------------------------------------------------------------------------ processes


def run_apart(module: str, *args: str, command: list[str] | None = None, limit: float = LIMIT_SECONDS) -> Any:
    """Return what the `main` of a module of the studies prints last, as JSON, in a process of its own.

    Parameters
    ----------
    module, *args : str
        Name of the module, and the arguments of its command line.
    command : list of str, optional
        Program to run instead.
    limit : float, optional
        Seconds after which the process is ended.

    Returns
    -------
    Any
        The value, or a text that begins with "not measured" and says why there is none.
    """
    own = [sys.executable, "-c", f"from studies.{module} import main; main()", *args]
    process = subprocess.Popen(
        command or own,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *filter(None, sys.path)])},
    )
    try:
        out, error = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):  # with the processes that it started
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"not measured: it did not end within {limit:g} s"
    lines = out.strip().splitlines()
    if process.returncode or not lines:
        return f"not measured: {(error.strip().splitlines() or ['no output'])[-1][:200]}"
    return json.loads(lines[-1])


def main() -> None:
    """Measure the way that the command line names, and print its figure in microseconds as JSON."""
    cores = len(os.sched_getaffinity(0))
    way, close = _BUILDERS[sys.argv[-1]](cores)
    found = half_useful(way, cores)
    close()
    print(json.dumps(found), flush=True)
