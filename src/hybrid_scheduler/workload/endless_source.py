"""Sources of tasks for live runs, with a state of a few hundred bytes: endless draws, and a trace that is played.

The columns of an endless source are those of `random_columns.draw_chunks`: one stream of random numbers per column.
They are drawn in blocks. To resume, the block is drawn again from the state that its streams had before it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import InvalidInputError, Platform, Workload
from ..physics import Physics
from .arrivals import BurstyArrivals
from .distributions import Uniform
from .random_columns import (
    ARRIVAL,
    CLOCK,
    INTENSITY,
    KIND,
    MEMORY,
    SIZE,
    Arrivals,
    ColumnChunk,
    column_stream,
    draw_columns,
    join_chunks,
)
from .scenarios import Scenario, capacity_of, kinds_of

_COLUMNS = (SIZE, INTENSITY, MEMORY, ARRIVAL, KIND)
_BLOCK = 4096
#: Points per step when an arrival process is advanced to a stored position.
_STRIDE = 50_000.0
#: Stands for size 0 in the ranges of a trace, because distributions of sizes are positive.
_MIN_SIZE = 1e-9


class EndlessSource:
    """Endless stream of a scenario's tasks. A scenario with a second regime alternates between the two.

    `next_tasks` returns the next tasks and `take` consumes them, so a caller can decide late how many it needs.

    Parameters
    ----------
    scenario
        Scenario to draw from.
    seed
        Seed of the stream.
    platform, physics
        Devices and durations, which determine the arrival rate.
    utilisation
        Load; by default the scenario's.
    """

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        platform: Platform,
        physics: Physics,
        *,
        utilisation: float | None = None,
    ) -> None:
        self._platform = platform
        self._physics = physics
        self._streams = {column: column_stream(seed, column) for column in (*_COLUMNS, CLOCK)}
        #: Tasks taken so far.
        self.taken = 0
        self._delay = 0.0  # seconds that pauses have added to every arrival
        self._set(scenario, utilisation, 0.0)

    def _set(self, scenario: Scenario, utilisation: float | None, start: float) -> None:
        self.scenario = scenario
        self.utilisation = scenario.utilisation if utilisation is None else utilisation
        scenarios = [scenario] if scenario.then is None else [scenario, scenario.then]
        kinds = kinds_of(self._physics, self._platform)
        self._regimes = [
            part.regime(0, self.utilisation * capacity_of(part, self._platform, self._physics), kinds)
            for part in scenarios
        ]
        self._enter(0, start)
        self._draw()

    def _enter(self, regime: int, start: float) -> None:
        """Begin a regime: its arrival process starts at `start`, before any delay."""
        self._regime = regime
        self._left = 0 if len(self._regimes) == 1 else self.scenario.then_tasks
        self._process_began = _saved(self._streams[CLOCK])
        self._arrivals = Arrivals(self._regimes[regime], self._streams[CLOCK], start)

    @property
    def ended(self) -> bool:
        """Whether no task is left: never."""
        return False

    # ---------------------------------------------------------------- reading

    @property
    def next_arrival(self) -> float:
        """Arrival of the next task in seconds."""
        return float(self._block.arrival_time[self._used]) + self._delay

    def next_tasks(self, first_id: int, most: int, until: float = math.inf) -> Workload | None:
        """Return the next tasks that arrive by `until`, at most `most`, with consecutive ids; None without any.

        A block's end may cut them short.
        """
        block = self._block
        begin = self._used
        arrival = block.arrival_time[begin : begin + most] + self._delay
        count = int(np.searchsorted(arrival, until, side="right"))
        part = slice(begin, begin + count)
        kinds = None if block.kind is None else block.kind[part]
        columns = (block.size[part], block.compute_intensity[part], block.memory_required[part], arrival[:count])
        return join_chunks([ColumnChunk(*columns, kinds)], first_id) if count else None

    def take(self, count: int) -> None:
        """Consume the first `count` tasks that `next_tasks` returned."""
        if count > len(self._block.size) - self._used:
            raise ValueError("more tasks taken than there were")
        self.taken += count
        self._used += count
        if self._used == len(self._block.size):
            self._draw()

    def pause_until(self, moment: float) -> None:
        """Shift arrivals so that the next task keeps its gap, counted from `moment` instead of the last task."""
        last = float(self._block.arrival_time[self._used - 1]) if self._used else self._before
        self._delay = max(self._delay, moment - last)

    def change(self, scenario: Scenario, utilisation: float | None, now: float) -> None:
        """Switch to another scenario from the next task on, starting at `now`."""
        self._delay = 0.0
        self._set(scenario, utilisation, now)

    # ---------------------------------------------------------------- drawing

    def _draw(self) -> None:
        if len(self._regimes) > 1 and self._left == 0:
            self._enter((self._regime + 1) % len(self._regimes), self._arrivals.last)
        count = _BLOCK if len(self._regimes) == 1 else min(_BLOCK, self._left)
        self._left -= count if len(self._regimes) > 1 else 0
        streams = {str(column): _saved(self._streams[column]) for column in _COLUMNS}
        self._opening = (streams, self._arrivals.point, self._arrivals.last, count)
        self._before = self._arrivals.last
        self._block = draw_columns(self._regimes[self._regime], self._arrivals, self._streams, count)
        self._used = 0

    # ---------------------------------------------------------------- state

    def state(self) -> dict[str, Any]:
        """Return the position as plain values for JSON. The scenario is not part of it."""
        streams, point, last, count = self._opening
        return {
            "taken": self.taken,
            "delay": self._delay,
            "regime": self._regime,
            "left": self._left + (count if len(self._regimes) > 1 else 0),
            "start": self._arrivals.start,
            "point": point,
            "last": last,
            "clock_began": self._process_began,
            "streams": streams,
            "used": self._used,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from the state of a source with the same scenario, platform and load."""
        # States of older versions lack the stream of kinds, which they did not draw.
        for column, saved in state["streams"].items():
            _set_state(self._streams[int(column)], saved)
        _set_state(self._streams[CLOCK], state["clock_began"])
        self._enter(int(state["regime"]), float(state["start"]))
        self._left = int(state["left"])
        arrivals = self._arrivals
        arrivals.point = float(state["point"])
        arrivals.last = float(state["last"])
        if isinstance(arrivals.process, BurstyArrivals):  # the other processes have no state
            for point in (*np.arange(_STRIDE, arrivals.point, _STRIDE), arrivals.point):
                if point > 0:
                    arrivals.process(np.array([point]))
        self.taken = int(state["taken"])
        self._delay = float(state["delay"])
        self._draw()
        self._used = int(state["used"])


class TracePlayer:
    """Tasks of a trace, in their order and with the gaps between their arrivals; the first arrives at time 0.

    Parameters
    ----------
    scenario
        Name and ranges of the trace, see `trace_scenario`.
    workload
        The tasks.
    repeat
        Begin again at the end, one mean gap after the last arrival. Otherwise the source ends.

    Raises
    ------
    InvalidInputError
        If tasks depend on each other, or a trace without any gap is to repeat.
    """

    def __init__(self, scenario: Scenario, workload: Workload, *, repeat: bool = False) -> None:
        if workload.has_dependencies:
            raise InvalidInputError(
                "trace", "tasks without dependencies in a live run", f"{scenario.name}, a task graph",
                hint="hybrid-scheduler simulate --trace runs graphs",
            )  # fmt: skip
        span = float(workload.arrival_time[-1] - workload.arrival_time[0])
        if repeat and span <= 0:
            raise InvalidInputError("repeat", "left out: all tasks of the trace arrive at once", repeat)
        self.scenario = scenario
        self.utilisation = scenario.utilisation
        #: Tasks taken so far.
        self.taken = 0
        self._tasks = workload
        self._repeat = repeat
        self._arrival = workload.arrival_time - workload.arrival_time[0]
        self._period = span + span / max(1, len(workload) - 1)
        self._delay = 0.0

    @property
    def ended(self) -> bool:
        """Whether no task is left."""
        return not self._repeat and self.taken >= len(self._tasks)

    @property
    def next_arrival(self) -> float:
        """Arrival of the next task in seconds; infinite after the last."""
        return math.inf if self.ended else self._at(self.taken)

    def _at(self, number: int) -> float:
        rounds, row = divmod(number, len(self._tasks))
        return float(self._arrival[row]) + rounds * self._period + self._delay

    def next_tasks(self, first_id: int, most: int, until: float = math.inf) -> Workload | None:
        """Return the next tasks that arrive by `until`, at most `most`, with consecutive ids.

        The trace's end may cut them short; None if there are none.
        """
        if self.ended:
            return None
        rounds, begin = divmod(self.taken, len(self._tasks))
        end = min(begin + most, len(self._tasks))
        arrival = self._arrival[begin:end] + (rounds * self._period + self._delay)
        count = int(np.searchsorted(arrival, until, side="right"))
        if count == 0:
            return None
        part = self._tasks.rows(begin, begin + count)
        part.task_id = first_id + np.arange(count, dtype=np.int64)
        part.arrival_time = arrival[:count]
        # Compiled loops rely on columns that cannot be written to.
        part.task_id.flags.writeable = part.arrival_time.flags.writeable = False
        return part

    def take(self, count: int) -> None:
        """Consume the first `count` tasks that `next_tasks` returned."""
        self.taken += count

    def pause_until(self, moment: float) -> None:
        """Shift arrivals so that the next task keeps its gap, counted from `moment` instead of the last task."""
        last = self._at(self.taken - 1) - self._delay if self.taken else 0.0
        self._delay = max(self._delay, moment - last)

    def state(self) -> dict[str, Any]:
        """Return the position as plain values for JSON. The tasks are not part of it."""
        return {"taken": self.taken, "delay": self._delay}

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from the state of a player of the same trace."""
        self.taken = int(state["taken"])
        self._delay = float(state["delay"])


def trace_scenario(name: str, workload: Workload, load: float | None) -> Scenario:
    """Return a scenario that stands for a trace: its name, the ranges of its columns and the load it offers.

    Parameters
    ----------
    name
        Name of the trace.
    workload
        The tasks.
    load
        Offered load; None, for tasks that all arrive at once, becomes 1.
    """
    size = workload.size
    intensity = workload.compute_intensity
    memory = workload.memory_required
    return Scenario(
        f"trace:{name}",
        f"The {len(workload):,} tasks of the trace {name}",
        Uniform(max(float(size.min()), _MIN_SIZE), max(float(size.max()), _MIN_SIZE)),
        (float(intensity.min()), float(intensity.max())),
        (float(memory.min()), float(memory.max())),
        utilisation=load or 1.0,
    )


def _saved(stream: np.random.Generator) -> list[str]:
    inner: Any = stream.bit_generator.state["state"]
    return [hex(inner["state"]), hex(inner["inc"])]  # 128 bits each: too long for a number in JSON


def _set_state(stream: np.random.Generator, saved: list[str]) -> None:
    stream.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": int(saved[0], 16), "inc": int(saved[1], 16)},
        "has_uint32": 0,
        "uinteger": 0,
    }
