"""Tasks without end, for an engine that never stops. Where it stands fits into a few hundred bytes.

The columns are those of `source.pieces`: a stream of random numbers per column, cut anywhere. They are drawn in
blocks; to come back to a place, the block is drawn again from the state its streams had before it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import Floats, Platform
from ..physics import Physics
from .arrivals import ARRIVALS, ArrivalProcess, Bursts
from .column_source import ARRIVAL, CLOCK, INTENSITY, MEMORY, SIZE, ColumnChunk, Regime, column_stream
from .distributions import exponential
from .scenarios import Scenario, capacity_of

_COLUMNS = (SIZE, INTENSITY, MEMORY, ARRIVAL)
_BLOCK = 4096
#: Points at a time when a clock is wound forward again.
_STRIDE = 50_000.0


class EndlessSource:
    """The tasks of a scenario, one after the other. A scenario with a second mix alternates between the two.

    `peek` shows what comes and `take` moves on, so that a caller may decide late how many tasks it wants.
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
        self._delay = 0.0  # what pauses of the stream have added to every arrival
        self._set(scenario, utilisation, 0.0)

    def _set(self, scenario: Scenario, utilisation: float | None, start: float) -> None:
        self.scenario = scenario
        self.utilisation = scenario.utilisation if utilisation is None else utilisation
        mixes = [scenario] if scenario.then is None else [scenario, scenario.then]
        self._regimes = [
            mix.regime(0, self.utilisation * capacity_of(mix, self._platform, self._physics)) for mix in mixes
        ]
        self._enter(0, start)
        self._draw()

    def _enter(self, regime: int, start: float) -> None:
        """Begin with a mix: its clock starts at `start`, before any delay."""
        self._regime, self._start, self._point, self._last = regime, start, 0.0, start
        self._left = 0 if len(self._regimes) == 1 else self.scenario.then_tasks
        self._clock_began = _saved(self._streams[CLOCK])
        self._clock: ArrivalProcess = ARRIVALS[self._law.arrivals](self._streams[CLOCK])

    @property
    def _law(self) -> Regime:
        return self._regimes[self._regime]

    # ---------------------------------------------------------------- taking

    @property
    def next_arrival(self) -> float:
        return float(self._block.arrival_time[self._used]) + self._delay

    def peek(self, most: int, until: float = math.inf) -> ColumnChunk:
        """The next tasks, at most so many, that arrive by `until`; perhaps fewer than there are."""
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
        """Move on by so many of the tasks shown."""
        if count > len(self._block.size) - self._used:
            raise ValueError("more tasks taken than were shown")
        self.taken += count
        self._used += count
        if self._used == len(self._block.size):
            self._draw()

    def pause_until(self, moment: float) -> None:
        """Nothing arrives before `moment`; the next task keeps its distance, from there instead of the last one."""
        last = float(self._block.arrival_time[self._used - 1]) if self._used else self._before
        self._delay = max(self._delay, moment - last)

    def change(self, scenario: Scenario, utilisation: float | None, now: float) -> None:
        """From the next task on, and from `now` on, another mix."""
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
        law = self._law
        self._block = ColumnChunk(
            law.size.sample(self._streams[SIZE], count),
            law.intensity.sample(self._streams[INTENSITY], count),
            law.memory.sample(self._streams[MEMORY], count),
            self._arrivals(count),
        )
        self._used = 0

    def _arrivals(self, count: int) -> Floats:
        gaps = exponential(self._streams[ARRIVAL], count)
        gaps[0] += self._point
        points = np.cumsum(gaps)
        self._point = float(points[-1])
        arrival = self._start + self._clock(points) / self._law.rate
        # The last digit of a curved clock may step back between two tasks that all but coincide.
        arrival[0] = max(arrival[0], self._last)
        arrival = np.maximum.accumulate(arrival)
        self._last = float(arrival[-1])
        return arrival

    # ---------------------------------------------------------------- coming back

    def state(self) -> dict[str, Any]:
        """Where the source stands, in JSON. The scenario is not part of it."""
        streams, point, last, count = self._opening
        return {
            "taken": self.taken,
            "delay": self._delay,
            "regime": self._regime,
            "left": self._left + (count if len(self._regimes) > 1 else 0),
            "start": self._start,
            "point": point,
            "last": last,
            "clock_began": self._clock_began,
            "streams": streams,
            "used": self._used,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where a source of the same scenario, machine and load stood."""
        for column in _COLUMNS:
            _set_state(self._streams[column], state["streams"][str(column)])
        _set_state(self._streams[CLOCK], state["clock_began"])
        self._enter(int(state["regime"]), float(state["start"]))
        self._left, self._point, self._last = int(state["left"]), float(state["point"]), float(state["last"])
        if isinstance(self._clock, Bursts):  # the other clocks remember nothing
            for point in np.arange(_STRIDE, self._point, _STRIDE):
                self._clock(np.array([point]))
            if self._point > 0:
                self._clock(np.array([self._point]))
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
