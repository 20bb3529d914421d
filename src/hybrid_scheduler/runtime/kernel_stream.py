"""Streams of real kernels: the same seed gives the same kinds and sizes everywhere.

Sizes lie on a grid of quarter octaves. `half` takes every other one of them: what is learned on one half can be
tested on the other, whose sizes were never seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..core import InvalidInputError, Task, Workload
from .submission import KernelCall

_PER_OCTAVE = 4
#: Sizes are multiples of it, so that every kernel takes every size.
_STEP = 16


def size_grid(smallest: int, largest: int, half: int | None = None) -> list[int]:
    """Quarter octaves from the smallest to the largest size; `half` 0 or 1 takes the even or the odd ones."""
    if not _STEP <= smallest <= largest:
        raise InvalidInputError("sizes", f"a range from {_STEP} on", f"{smallest} to {largest}")
    grid: list[int] = []
    for step in range(64 * _PER_OCTAVE):
        size = round(smallest * 2 ** (step / _PER_OCTAVE) / _STEP) * _STEP
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
    """`tasks` calls, each kind about as often as the others; `limits` holds a largest size for some kinds."""
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
    calls: Iterable[KernelCall], arrivals: Sequence[float] | None = None, ids: Sequence[int] | None = None
) -> Workload:
    """The same stream for the simulator; without arrivals everything is there at time 0, and ids count from 0."""
    rows = list(calls)
    times = [0.0] * len(rows) if arrivals is None else arrivals
    names = range(len(rows)) if ids is None else ids
    return Workload.from_tasks(
        Task(task_id, float(call.size), call.intensity, call.memory, arrival_time=at, kind=call.kind)
        for task_id, call, at in zip(names, rows, times, strict=True)
    )
