"""Random columns of consecutive tasks, independent of how they are cut into chunks.

Each column has its own stream of random numbers, keyed by (seed, column), and every value takes a fixed number of
draws from it. Joined chunks therefore equal the columns of one large draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..core import Floats, Workload
from .arrivals import ARRIVALS
from .distributions import Distribution, exponential

# Numbered from 1: SeedSequence ignores trailing zeros, so column 0 would repeat the stream of the bare seed.
SIZE, INTENSITY, MEMORY, ARRIVAL, CLOCK, SHAPE, DATA, KIND = range(1, 9)


def column_stream(seed: int, column: int) -> np.random.Generator:
    """Return the random generator of one column."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, column])))


@dataclass(frozen=True, slots=True)
class Regime:
    """Tasks with the same distributions. Rate 0 means that all arrive at the start."""

    count: int
    size: Distribution
    intensity: Distribution
    memory: Distribution
    arrivals: str
    rate: float
    #: Kinds of tasks, drawn in equal parts; empty for generic tasks.
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """Columns of some consecutive tasks."""

    size: Floats
    compute_intensity: Floats
    memory_required: Floats
    arrival_time: Floats
    kind: tuple[str, ...] | None = None


def draw_chunks(regimes: Sequence[Regime], seed: int, chunk: int) -> Iterator[ColumnChunk]:
    """Yield the tasks of all regimes in order, at most `chunk` at a time; no chunk spans two regimes."""
    streams = {column: column_stream(seed, column) for column in (SIZE, INTENSITY, MEMORY, ARRIVAL, CLOCK, KIND)}
    last = 0.0
    for regime in regimes:
        arrivals = ARRIVALS[regime.arrivals](streams[CLOCK])
        start, point = last, 0.0
        for first in range(0, regime.count, chunk):
            count = min(chunk, regime.count - first)
            if regime.rate > 0:
                gaps = exponential(streams[ARRIVAL], count)
                gaps[0] += point
                points = np.cumsum(gaps)
                point = float(points[-1])
                arrival = start + arrivals(points) / regime.rate
                # Rounding may put two almost simultaneous tasks in the wrong order.
                arrival[0] = max(arrival[0], last)
                arrival = np.maximum.accumulate(arrival)
                last = float(arrival[-1])
            else:
                arrival = np.full(count, start)
            yield ColumnChunk(
                regime.size.sample(streams[SIZE], count),
                regime.intensity.sample(streams[INTENSITY], count),
                regime.memory.sample(streams[MEMORY], count),
                arrival,
                draw_kinds(regime, streams[KIND], count),
            )


def draw_kinds(regime: Regime, rng: np.random.Generator, count: int) -> tuple[str, ...] | None:
    """Return the kind of each task; None for generic tasks, which take no random numbers."""
    if not regime.kinds:
        return None
    codes = np.floor(len(regime.kinds) * rng.random(count)).astype(np.int64)
    return tuple(np.array(regime.kinds, dtype=object)[codes])


def join_chunks(chunks: Sequence[ColumnChunk], first_id: int = 0) -> Workload:
    """Return the chunks as one workload, with consecutive ids."""
    size = np.concatenate([chunk.size for chunk in chunks])
    return Workload(
        task_id=first_id + np.arange(len(size), dtype=np.int64),
        size=size,
        compute_intensity=np.concatenate([chunk.compute_intensity for chunk in chunks]),
        memory_required=np.concatenate([chunk.memory_required for chunk in chunks]),
        arrival_time=np.concatenate([chunk.arrival_time for chunk in chunks]),
        kind=_joined_kinds(chunks),
    )


def _joined_kinds(chunks: Sequence[ColumnChunk]) -> list[str] | None:
    if all(chunk.kind is None for chunk in chunks):
        return None
    return [name for chunk in chunks for name in chunk.kind or ("generic",) * len(chunk.size)]
