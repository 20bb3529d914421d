"""Energy meters: joules of one run from hardware counters (NVML for an NVIDIA GPU, RAPL for the CPU packages).

Counters tick every 20 to 100 ms, so a run is repeated for about half a second and the difference is divided. It
includes the energy between two runs, as in a stream of such tasks. Where no counter can be read (a virtual machine,
no permission) the result is None, never an estimate.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from .machine_info import handle_of, nvml
from .timing import TimerFunction

#: Several ticks of the slowest counter.
WINDOW = 0.5
_POWERCAP = Path("/sys/class/powercap")
_SAMPLE_EVERY = 0.02


class Meter(ABC):
    """A counter of joules, from an arbitrary start."""

    source: ClassVar[str]

    @abstractmethod
    def joules(self) -> float:
        """Return joules so far."""

    def close(self) -> None:  # noqa: B027  most counters hold nothing
        """Release the counter."""


class NvmlCounter(Meter):
    """Energy counter of a GPU (Volta and newer), in millijoules since the driver was loaded."""

    source = "nvml energy counter"

    def __init__(self, library: Any, handle: Any) -> None:
        self._library = library
        self._handle = handle

    def joules(self) -> float:
        """Return joules since the driver was loaded."""
        return float(self._library.nvmlDeviceGetTotalEnergyConsumption(self._handle)) / 1e3


class NvmlPower(Meter):
    """Power samples of a GPU without an energy counter, summed over time by a thread."""

    source = "nvml power samples"

    def __init__(self, library: Any, handle: Any, clock: TimerFunction = time.perf_counter) -> None:
        self._library = library
        self._handle = handle
        self._clock = clock
        self._joules = 0.0
        self._watts = self._power()
        self._read_at = clock()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="gpu-power", daemon=True)
        self._thread.start()

    def joules(self) -> float:
        """Return joules since the meter was created."""
        with self._lock:
            watts = self._power()
            now = self._clock()
            self._joules += (self._watts + watts) / 2 * (now - self._read_at)
            self._watts = watts
            self._read_at = now
            return self._joules

    def close(self) -> None:
        """End the sampling thread."""
        self._stop.set()
        self._thread.join()

    def _power(self) -> float:
        return float(self._library.nvmlDeviceGetPowerUsage(self._handle)) / 1e3

    def _sample(self) -> None:
        while not self._stop.wait(_SAMPLE_EVERY):
            try:
                self.joules()
            except Exception:  # the next reader gets the same error and reports it
                return


class _Rapl(Meter):
    """Energy counters of the CPU packages, in microjoules; each restarts at 0 when it is full."""

    source = "rapl packages"

    def __init__(self, zones: list[Path]) -> None:
        self._zones = zones
        self._ranges = [_number(zone / "max_energy_range_uj") for zone in zones]
        self._last = [_number(zone / "energy_uj") for zone in zones]
        self._total = 0

    def joules(self) -> float:
        """Return joules since the meter was created."""
        for i, zone in enumerate(self._zones):
            now = _number(zone / "energy_uj")
            self._total += (now - self._last[i]) % (self._ranges[i] + 1)
            self._last[i] = now
        return self._total / 1e6


def gpu_meter(kind: str, uuid: str | None = None, index: int = 0) -> Meter | None:
    """Return a meter for the accelerator; None if it has none.

    Parameters
    ----------
    kind : str
        Torch's name of the accelerator.
    uuid : str, optional
        Identity of the GPU.
    index : int, optional
        Number of the GPU, if its identity is unknown.
    """
    library = nvml() if kind == "cuda" else None
    if library is None:
        return None
    try:
        handle = handle_of(library, uuid, index)
        counter = NvmlCounter(library, handle)
        try:
            counter.joules()
            return counter
        except Exception:  # an older GPU: its power may still be readable
            return NvmlPower(library, handle)
    except Exception:
        return None


def cpu_meter(powercap: Path = _POWERCAP) -> Meter | None:
    """Return a meter for the CPU packages; None if their counters cannot be read (often only by root)."""
    try:
        # Zones inside a package (cores, memory) have a second number: the package includes them already.
        zones = [
            zone
            for zone in sorted(powercap.glob("intel-rapl:*"))
            if zone.name.count(":") == 1 and (zone / "name").read_text(encoding="ascii").startswith("package")
        ]
        return _Rapl(zones) if zones else None
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
    """Return joules of one run, measured over as many runs as fill the window.

    Parameters
    ----------
    meter : Meter or None
        The meter.
    run : callable
        The run.
    window : float, optional
        Seconds to measure.
    synchronize : callable, optional
        Waits for the device.
    clock : callable, optional
        Returns seconds.

    Returns
    -------
    float or None
        None if there is no meter, or if it fails or does not change.
    """
    if meter is None:
        return None

    def run_once() -> None:
        run()
        if synchronize is not None:
            synchronize()

    def run_to_tick() -> tuple[float, int]:
        """Return the counter just after a tick, and how many runs that took."""
        last = meter.joules()
        since = clock()
        runs = 0
        while (now := meter.joules()) == last and clock() - since < window:
            run_once()
            runs += 1
        return now, runs

    try:
        # From tick to tick: otherwise a counter that ticks every 100 ms is wrong by a fifth of the window.
        before, _ = run_to_tick()
        began = clock()
        runs = 0
        # The counter is not read meanwhile: that can take longer than the kernel.
        while runs == 0 or clock() - began < window:
            run_once()
            runs += 1
        after, more = run_to_tick()
        used = after - before
        runs = runs + more
    except OSError:
        return None
    except Exception as error:
        if type(error).__name__.startswith("NVMLError"):  # by name: the binding may not be installed
            return None
        raise  # the kernel's own failure is for the caller
    return used / runs if used > 0 else None


def _number(file: Path) -> int:
    return int(file.read_text(encoding="ascii"))
