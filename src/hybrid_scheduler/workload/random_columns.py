"""Random columns of consecutive tasks, independent of how they are cut into chunks.

Each column has its own stream of random numbers, keyed by (seed, column), and every value takes a fixed number of
draws from it. Joined chunks therefore equal the columns of one large draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


class Arrivals:
    """Arrival times of a regime's tasks, drawn in blocks of any length.

    Parameters
    ----------
    regime
        The regime.
    clock
        Random numbers of its arrival process.
    start
        Time at which it begins, before which no task arrives.
    """

    def __init__(self, regime: Regime, clock: np.random.Generator, start: float) -> None:
        self.process = ARRIVALS[regime.arrivals](clock)
        self.rate = regime.rate
        self.start = start
        #: Position in the unit Poisson process, and the newest arrival.
        self.point = 0.0
        self.last = start

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Return the next arrival times."""
        if not self.rate > 0:
            return np.full(count, self.start)
        gaps = exponential(rng, count)
        gaps[0] += self.point
        points = np.cumsum(gaps)
        self.point = float(points[-1])
        arrival = self.start + self.process(points) / self.rate
        # Rounding may put two almost simultaneous tasks in the wrong order.
        arrival[0] = max(arrival[0], self.last)
        arrival = np.maximum.accumulate(arrival)
        self.last = float(arrival[-1])
        return arrival


def draw_chunks(regimes: Sequence[Regime], seed: int, chunk: int) -> Iterator[ColumnChunk]:
    """Yield the tasks of all regimes in order, at most `chunk` at a time; no chunk spans two regimes."""
    streams = {column: column_stream(seed, column) for column in (SIZE, INTENSITY, MEMORY, ARRIVAL, CLOCK, KIND)}
    last = 0.0
    for regime in regimes:
        arrivals = Arrivals(regime, streams[CLOCK], last)
        for first in range(0, regime.count, chunk):
            yield draw_columns(regime, arrivals, streams, min(chunk, regime.count - first))
        last = arrivals.last


def draw_columns(
    regime: Regime, arrivals: Arrivals, streams: Mapping[int, np.random.Generator], count: int
) -> ColumnChunk:
    """Return the next tasks of a regime; generic ones, without kinds, take no random numbers for them."""
    kinds = None
    if regime.kinds:
        codes = np.floor(len(regime.kinds) * streams[KIND].random(count)).astype(np.int64)
        kinds = tuple(np.array(regime.kinds, dtype=object)[codes])
    return ColumnChunk(
        regime.size.sample(streams[SIZE], count),
        regime.intensity.sample(streams[INTENSITY], count),
        regime.memory.sample(streams[MEMORY], count),
        arrivals.draw(streams[ARRIVAL], count),
        kinds,
    )


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


def joined_tasks(parts: Sequence[Workload]) -> Workload:
    """Return consecutive tasks as one workload."""
    if len(parts) == 1:
        return parts[0]
    kinds = None
    if any(part.kinds != ("generic",) for part in parts):
        kinds = [part.kinds[code] for part in parts for code in part.kind.tolist()]
    external = None
    if any(part.external_id for part in parts):
        external = [name for part in parts for name in part.external_id or (None,) * len(part)]
    columns: dict[str, Any] = {
        name: np.concatenate([part.columns()[name] for part in parts]) for name in parts[0].columns()
    }
    divisible = np.concatenate([part.divisible for part in parts])
    return Workload(**columns, kind=kinds, external_id=external, divisible=divisible)
