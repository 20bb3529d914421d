"""Joules of one run, read from counters that the hardware keeps: NVML for an NVIDIA GPU, RAPL for the CPU packages.

Counters tick every 20 to 100 ms, so a run is repeated for about half a second and the difference divided. It
includes what the device draws while it waits for the next run, as it would in a stream of such tasks. Where nothing
can be read (a virtual machine, no permission) the answer is None, never a guess.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from .nvml import handle_of, nvml
from .timing import TimerFunction

#: Several ticks of the slowest counter.
WINDOW = 0.5
_POWERCAP = Path("/sys/class/powercap")
_SAMPLE_EVERY = 0.02


class Meter(Protocol):
    """Counts joules from some moment on."""

    source: str

    def joules(self) -> float: ...

    def close(self) -> None: ...


class NvmlCounter:
    """The energy counter of a GPU, in millijoules since the driver was loaded (Volta and newer)."""

    source = "nvml energy counter"

    def __init__(self, library: Any, handle: Any) -> None:
        self._library, self._handle = library, handle

    def joules(self) -> float:
        return float(self._library.nvmlDeviceGetTotalEnergyConsumption(self._handle)) / 1e3

    def close(self) -> None:
        pass


class NvmlPower:
    """For GPUs without a counter: power, read by a thread of its own and summed over time."""

    source = "nvml power samples"

    def __init__(self, library: Any, handle: Any, clock: TimerFunction = time.perf_counter) -> None:
        self._library, self._handle, self._clock = library, handle, clock
        self._joules = 0.0
        self._watts = self._power()
        self._read_at = clock()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="gpu-power", daemon=True)
        self._thread.start()

    def joules(self) -> float:
        with self._lock:
            watts, now = self._power(), self._clock()
            self._joules += (self._watts + watts) / 2 * (now - self._read_at)
            self._watts, self._read_at = watts, now
            return self._joules

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _power(self) -> float:
        return float(self._library.nvmlDeviceGetPowerUsage(self._handle)) / 1e3

    def _sample(self) -> None:
        while not self._stop.wait(_SAMPLE_EVERY):
            try:
                self.joules()
            except Exception:  # the reader meets the same error and reports it
                return


class Rapl:
    """The CPU packages' counters, in microjoules; each starts again at 0 when it is full."""

    source = "rapl packages"

    def __init__(self, zones: list[Path]) -> None:
        self._zones = zones
        self._ranges = [_number(zone / "max_energy_range_uj") for zone in zones]
        self._last = [_number(zone / "energy_uj") for zone in zones]
        self._total = 0

    def joules(self) -> float:
        for i, zone in enumerate(self._zones):
            now = _number(zone / "energy_uj")
            self._total += (now - self._last[i]) % (self._ranges[i] + 1)
            self._last[i] = now
        return self._total / 1e6

    def close(self) -> None:
        pass


def gpu_meter(kind: str, uuid: str | None = None, index: int = 0) -> Meter | None:
    """A meter for the accelerator, if it has one."""
    library = nvml() if kind == "cuda" else None
    if library is None:
        return None
    try:
        handle = handle_of(library, uuid, index)
        counter = NvmlCounter(library, handle)
        try:
            counter.joules()
            return counter
        except Exception:  # an older GPU: it may still tell its power
            return NvmlPower(library, handle)
    except Exception:
        return None


def cpu_meter(powercap: Path = _POWERCAP) -> Meter | None:
    """A meter for the CPU packages, if their counters may be read (mostly by root alone)."""
    try:
        # The zones inside a package (cores, memory) have a second number: they are counted in it already.
        zones = [
            zone
            for zone in sorted(powercap.glob("intel-rapl:*"))
            if zone.name.count(":") == 1 and (zone / "name").read_text(encoding="ascii").startswith("package")
        ]
        return Rapl(zones) if zones else None
    except (OSError, ValueError):
        return None


def joules_per_run(
    meter: Meter | None,
    run: Callable[[], object],
    *,
    window: float = WINDOW,
    synchronize: Callable[[], None] | None = None,
    clock: TimerFunction = time.perf_counter,
) -> float | None:
    """Energy of one run, from as many as fill the window; None if the meter is missing, breaks or stands still."""
    if meter is None:
        return None

    def run_once() -> None:
        run()
        if synchronize is not None:
            synchronize()

    def run_to_tick() -> tuple[float, int]:
        """What the counter shows when it has just moved, and how many runs that took."""
        last, since, runs = meter.joules(), clock(), 0
        while (now := meter.joules()) == last and clock() - since < window:
            run_once()
            runs += 1
        return now, runs

    try:
        # From tick to tick: a counter that moves every 100 ms is wrong by a fifth of the window otherwise.
        before, _ = run_to_tick()
        began, runs = clock(), 0
        # Not read meanwhile: that can take longer than the kernel.
        while runs == 0 or clock() - began < window:
            run_once()
            runs += 1
        after, more = run_to_tick()
        used, runs = after - before, runs + more
    except OSError:
        return None
    except Exception as error:
        if type(error).__name__.startswith("NVMLError"):  # named, not imported: the binding may not be there
            return None
        raise  # the kernel's own failure is for the caller
    return used / runs if used > 0 else None


def _number(file: Path) -> int:
    return int(file.read_text(encoding="ascii"))
