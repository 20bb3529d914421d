"""Endless source of tasks for live runs, with a state of a few hundred bytes.

The columns are those of `column_source.draw_chunks`: one stream of random numbers per column. They are drawn in
blocks. To resume, the block is drawn again from the state that its streams had before it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import Floats, InvalidInputError, Platform
from ..physics import Physics
from .arrivals import ARRIVALS, ArrivalProcess, BurstyArrivals
from .column_source import ARRIVAL, CLOCK, INTENSITY, MEMORY, SIZE, ColumnChunk, Regime, column_stream
from .distributions import exponential
from .scenarios import Scenario, capacity_of

_COLUMNS = (SIZE, INTENSITY, MEMORY, ARRIVAL)
_BLOCK = 4096
#: Points per step when an arrival process is advanced to a stored position.
_STRIDE = 50_000.0


class EndlessSource:
    """Endless stream of a scenario's tasks. A scenario with a second regime alternates between the two.

    `peek` returns the next tasks and `take` consumes them, so a caller can decide late how many it needs.

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
        self._platform, self._physics = platform, physics
        self._streams = {column: column_stream(seed, column) for column in (*_COLUMNS, CLOCK)}
        #: Tasks taken so far.
        self.taken = 0
        self._delay = 0.0  # seconds that pauses have added to every arrival
        self._set(scenario, utilisation, 0.0)

    def _set(self, scenario: Scenario, utilisation: float | None, start: float) -> None:
        self.scenario = scenario
        self.utilisation = scenario.utilisation if utilisation is None else utilisation
        scenarios = [scenario] if scenario.then is None else [scenario, scenario.then]
        if any(one.kinds for one in scenarios):
            raise InvalidInputError(
                "scenario.kinds", "left out in a live run, whose tasks are generic", scenario.name
            )
        self._regimes = [
            one.regime(0, self.utilisation * capacity_of(one, self._platform, self._physics)) for one in scenarios
        ]
        self._enter(0, start)
        self._draw()

    def _enter(self, regime: int, start: float) -> None:
        """Begin a regime: its arrival process starts at `start`, before any delay."""
        self._regime, self._start, self._point, self._last = regime, start, 0.0, start
        self._left = 0 if len(self._regimes) == 1 else self.scenario.then_tasks
        self._process_began = _saved(self._streams[CLOCK])
        self._process: ArrivalProcess = ARRIVALS[self._current.arrivals](self._streams[CLOCK])

    @property
    def _current(self) -> Regime:
        return self._regimes[self._regime]

    # ---------------------------------------------------------------- reading

    @property
    def next_arrival(self) -> float:
        """Arrival of the next task in seconds."""
        return float(self._block.arrival_time[self._used]) + self._delay

    def peek(self, most: int, until: float = math.inf) -> ColumnChunk:
        """Return the next tasks that arrive by `until`, at most `most`; a block's end may cut them short."""
        begin = self._used
        end = min(begin + most, len(self._block.size))
        arrival = self._block.arrival_time[begin:end] + self._delay
        end = begin + int(np.searchsorted(arrival, until, side="right"))
        block = self._block
        return ColumnChunk(
            block.size[begin:end],
            block.compute_intensity[begin:end],
            block.memory_required[begin:end],
            arrival[: end - begin],
        )

    def take(self, count: int) -> None:
        """Consume the first `count` tasks that `peek` returned."""
        if count > len(self._block.size) - self._used:
            raise ValueError("more tasks taken than peek returned")
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
            self._enter((self._regime + 1) % len(self._regimes), self._last)
        count = _BLOCK if len(self._regimes) == 1 else min(_BLOCK, self._left)
        self._left -= count if len(self._regimes) > 1 else 0
        self._opening = (
            {str(column): _saved(self._streams[column]) for column in _COLUMNS},
            self._point,
            self._last,
            count,
        )
        self._before = self._last
        regime = self._current
        self._block = ColumnChunk(
            regime.size.sample(self._streams[SIZE], count),
            regime.intensity.sample(self._streams[INTENSITY], count),
            regime.memory.sample(self._streams[MEMORY], count),
            self._arrivals(count),
        )
        self._used = 0

    def _arrivals(self, count: int) -> Floats:
        gaps = exponential(self._streams[ARRIVAL], count)
        gaps[0] += self._point
        points = np.cumsum(gaps)
        self._point = float(points[-1])
        arrival = self._start + self._process(points) / self._current.rate
        # Rounding may put two almost simultaneous tasks in the wrong order.
        arrival[0] = max(arrival[0], self._last)
        arrival = np.maximum.accumulate(arrival)
        self._last = float(arrival[-1])
        return arrival

    # ---------------------------------------------------------------- state

    def state(self) -> dict[str, Any]:
        """Return the position as plain values for JSON. The scenario is not part of it."""
        streams, point, last, count = self._opening
        return {
            "taken": self.taken,
            "delay": self._delay,
            "regime": self._regime,
            "left": self._left + (count if len(self._regimes) > 1 else 0),
            "start": self._start,
            "point": point,
            "last": last,
            "clock_began": self._process_began,
            "streams": streams,
            "used": self._used,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from the state of a source with the same scenario, platform and load."""
        for column in _COLUMNS:
            _set_state(self._streams[column], state["streams"][str(column)])
        _set_state(self._streams[CLOCK], state["clock_began"])
        self._enter(int(state["regime"]), float(state["start"]))
        self._left, self._point, self._last = int(state["left"]), float(state["point"]), float(state["last"])
        if isinstance(self._process, BurstyArrivals):  # the other processes have no state
            for point in np.arange(_STRIDE, self._point, _STRIDE):
                self._process(np.array([point]))
            if self._point > 0:
                self._process(np.array([self._point]))
        self.taken, self._delay = int(state["taken"]), float(state["delay"])
        self._draw()
        self._used = int(state["used"])


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
