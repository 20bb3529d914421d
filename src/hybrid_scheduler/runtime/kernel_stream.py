"""Streams of kernel calls and their input data, reproducible from a seed.

Sizes lie on a grid of quarter octaves. `half` takes every other size, so that what is learned on one half can be
tested on the other, whose sizes were never seen.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core import InvalidInputError, Task, Workload
from ..profiling.machine_info import available_memory, need_torch
from .submission import KernelCall

Tensors = tuple[Any, ...]
_SIZES_PER_OCTAVE = 4
#: Sizes are multiples of it, so that every kernel accepts every size.
_SIZE_STEP = 16
#: Share of the memory free at the first call that kept inputs may take.
_MEMORY_SHARE = 0.3


def size_grid(smallest: int, largest: int, half: int | None = None) -> list[int]:
    """Return sizes in quarter octaves from the smallest to the largest.

    Parameters
    ----------
    smallest, largest : int
        Range of sizes; the smallest is at least 16.
    half : {None, 0, 1}, optional
        All sizes, those at even places, or those at odd places.
    """
    if not _SIZE_STEP <= smallest <= largest:
        raise InvalidInputError("sizes", f"a range from {_SIZE_STEP} on", f"{smallest} to {largest}")
    grid: list[int] = []
    for step in range(64 * _SIZES_PER_OCTAVE):
        size = round(smallest * 2 ** (step / _SIZES_PER_OCTAVE) / _SIZE_STEP) * _SIZE_STEP
        if size > largest:
            break
        if size not in grid:
            grid.append(size)
    return grid if half is None or len(grid) < 2 else grid[half::2]


def make_stream(
    kinds: Sequence[str],
    tasks: int,
    *,
    seed: int = 0,
    smallest: int = 64,
    largest: int = 2048,
    half: int | None = None,
    limits: Mapping[str, int] | None = None,
) -> list[KernelCall]:
    """Return a random stream of kernel calls, each kind about as often as the others.

    Parameters
    ----------
    kinds : sequence of str
        Kernel names.
    tasks : int
        Number of calls.
    seed : int, optional
        The same seed gives the same stream.
    smallest, largest : int, optional
        Range of sizes.
    half : {None, 0, 1}, optional
        Which half of the sizes, see `size_grid`.
    limits : mapping, optional
        Largest size for some kinds.
    """
    from ..profiling.kernels import kernels_named

    names = [kernel.name for kernel in kernels_named(kinds)]
    if tasks < 1:
        raise InvalidInputError("tasks", "a whole number >= 1", tasks)
    if seed < 0:
        raise InvalidInputError("seed", "a whole number >= 0", seed)
    rng = np.random.default_rng([seed, 2 if half is None else half])
    grids = {name: size_grid(smallest, min(largest, (limits or {}).get(name, largest)), half) for name in names}
    order: list[str] = []
    while len(order) < tasks:
        order += [names[i] for i in rng.permutation(len(names))]
    return [KernelCall(name, int(rng.choice(grids[name]))) for name in order[:tasks]]


def as_workload(
    calls: Iterable[KernelCall],
    arrivals: Sequence[float] | None = None,
    ids: Sequence[int] | None = None,
    divisible: Callable[[KernelCall], bool] | None = None,
) -> Workload:
    """Return the stream as a workload for the simulator.

    Parameters
    ----------
    calls : iterable of KernelCall
        The stream.
    arrivals : sequence of float, optional
        Arrival times in seconds; all 0 if left out.
    ids : sequence of int, optional
        Task ids; counted from 0 if left out.
    divisible : callable, optional
        Tells which calls may be split; all if left out.
    """
    rows = list(calls)
    times = [0.0] * len(rows) if arrivals is None else arrivals
    task_ids = range(len(rows)) if ids is None else ids
    return Workload.from_tasks(
        Task(
            task_id,
            float(call.size),
            call.intensity,
            call.memory,
            arrival_time=at,
            kind=call.kind,
            divisible=divisible is None or divisible(call),
        )
        for task_id, call, at in zip(task_ids, rows, times, strict=True)
    )


class KernelInputs:
    """Cache of input tensors by kernel kind, size and seed; kernels do not change their inputs.

    Parameters
    ----------
    most_bytes : float, optional
        Memory limit; a share of the free memory if left out. The least recently used inputs are dropped first.
    """

    def __init__(self, most_bytes: float | None = None) -> None:
        self._kept: OrderedDict[tuple[str, int, int], Tensors] = OrderedDict()
        self._bytes = 0
        self._most = most_bytes
        self._lock = threading.Lock()

    def of(self, call: KernelCall) -> Tensors:
        """Return the inputs of a call, made now unless they are kept."""
        key = call.kind, call.size, call.seed
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        generator = need_torch().Generator().manual_seed(call.seed * 2**20 + call.size)
        made: Tensors = call.kernel.make(call.size, generator)
        with self._lock:
            if key not in self._kept:
                self._keep(key, made)
        return made

    def _keep(self, key: tuple[str, int, int], made: Tensors) -> None:
        if self._most is None:
            self._most = _MEMORY_SHARE * (available_memory() or 4e9)
        size = sum(tensor.nbytes for tensor in made)
        if size > self._most:
            return
        self._kept[key] = made
        self._bytes += size
        while self._bytes > self._most:
            _, old = self._kept.popitem(last=False)
            self._bytes -= sum(tensor.nbytes for tensor in old)
