"""Choice of a device over many calls, on simulated devices whose run times are functions of the size.

    python -m studies.device_choice [SEEDS]

Forty functions with a start and a power of the size on each device, eight sizes, and calls in rising, falling or
random order of sizes. Runs vary; the first ones are disturbed, of a device or of every size there. Prints, for
every case, how long the chosen device takes after 20 calls of each size by how long the best one takes, and the
same for the first 300 calls with their trials: of each function, and of all functions together.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from hybrid_scheduler.runtime.device_placement import ONE_CORE, AcceleratorState, DevicePlacement
from hybrid_scheduler.runtime.function_durations import FunctionDurations
from hybrid_scheduler.runtime.task_function import CallSizes, TaskFunction

SIZES = [64, 128, 256, 500, 1000, 1500, 2000, 3000]
FUNCTIONS = 40
CALLS = 20
FIRST_CALLS = 300
ORDERS = ("rising", "falling", "random")


class Noise(NamedTuple):
    """Noise of run times.

    Attributes
    ----------
    spread : float
        Standard deviation of ln of the seconds.
    disturbed : float
        Factor of the first two runs on a device.
    each_size : float
        Factor of the first run of every size on a device.
    spikes : float
        Share of runs that take five times as long.
    loading : float
        Seconds that the first two runs on the accelerator take more.
    """

    spread: float = 0.05
    disturbed: float = 1.0
    each_size: float = 1.0
    spikes: float = 0.0
    loading: float = 0.001


NOISES = {
    "quiet": Noise(),
    "first runs x 10": Noise(disturbed=10.0),
    "first run of a size x 10": Noise(each_size=10.0),
    "noise 0.2, 3 % spikes": Noise(0.2, spikes=0.03),
    "10 ms of loading": Noise(loading=0.01),
}


@dataclass
class Curve:
    """Seconds of a function on each device: a start, and a power of the size."""

    number: int
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.number)
        self.exponent = float(self.rng.uniform(0.0, 3.0))
        crossover = float(np.exp(self.rng.uniform(math.log(16), math.log(12_000))))
        self.start = {ONE_CORE: 2e-6, "gpu": float(np.exp(self.rng.uniform(math.log(2e-5), math.log(4e-4))))}
        speedup = float(np.exp(self.rng.uniform(math.log(0.3), math.log(60))))
        self.scale = {ONE_CORE: self.start["gpu"] / crossover**self.exponent}
        self.scale["gpu"] = self.scale[ONE_CORE] / speedup
        self.function = TaskFunction(len, len, name=f"function_{self.number}")

    def seconds(self, device: str, size: int) -> float:
        """Return the seconds of an undisturbed run."""
        return float(self.start[device] + self.scale[device] * size**self.exponent)

    def best(self, size: int) -> float:
        """Return the seconds on the best device."""
        return min(self.seconds(device, size) for device in self.start)


class Machine:
    """One core and one GPU that run calls at once, and learn from them as the executor does."""

    def __init__(self, noise: Noise = NOISES["quiet"]) -> None:
        cores = SimpleNamespace(has_free_core=True, is_idle=False, cores=1, queue_seconds=0.0)
        state = AcceleratorState("gpu_0", "gpu", lambda limit=0.0: 0.0, math.inf, lambda event: 0.0)
        self.durations = FunctionDurations()
        self.placement = DevicePlacement(cores, [state], self.durations)  # type: ignore[arg-type]
        for overhead in (self.placement.in_place, self.placement.hand_over, *self.placement.starting):
            overhead.seconds = 0.0
        self.noise = noise
        self.runs: Counter[str] = Counter()
        self.sizes: set[tuple[str, int]] = set()
        self.spent = self.best = 0.0

    def call(self, curve: Curve, size: int) -> str:
        """Place a call, run it, and return the device."""
        sizes = CallSizes(((2, "float64"),), (math.log1p(size), math.log1p(size)), 8 * size * size)
        node: Any = SimpleNamespace(
            function=curve.function, key=curve.function.key, sizes=sizes, memory=0.0, handles=[], case=None,
            trial=None, beside=False, is_beside=False, waiting=list, measured=True, space=0, device_class="",
            seconds=0.0,
        )  # fmt: skip
        decision = self.placement.choose(node)
        device = "gpu" if decision.space else ONE_CORE
        facts = self.placement.facts_of(node.key)
        node.space, node.device_class = decision.space, device
        node.seconds = self._measured(curve, size, device)
        self.spent += node.seconds
        self.best += curve.best(size)
        self.placement.learn(node)
        facts.trials.clear()
        if node.beside:
            seconds = self._measured(curve, size, ONE_CORE)
            self.durations.learn(node.key, ONE_CORE, sizes, seconds)
            facts.beside_seconds += seconds
        return device

    def _measured(self, curve: Curve, size: int, device: str) -> float:
        self.runs[device] += 1
        noise = self.noise
        first = self.runs[device] <= 2
        factor = float(np.exp(curve.rng.normal(0.0, noise.spread)))
        factor *= noise.disturbed if first else 1.0
        factor *= noise.each_size if (device, size) not in self.sizes else 1.0
        factor *= 5.0 if curve.rng.random() < noise.spikes else 1.0
        self.sizes.add((device, size))
        return curve.seconds(device, size) * factor + (noise.loading if first and device == "gpu" else 0.0)


def in_order(order: str, rng: np.random.Generator, sizes: Sequence[int] = SIZES, calls: int = CALLS) -> list[int]:
    """Return the sizes of the calls of a function."""
    if order == "random":
        return [int(size) for size in rng.permutation(np.repeat(sizes, calls))]
    return [size for size in (sizes if order == "rising" else sizes[::-1]) for _ in range(calls)]


def ratios(machine: Machine, curve: Curve, sizes: Sequence[int] = SIZES) -> list[float]:
    """Return the seconds of the choice over those of the best device, for every size.

    The choice is the device of most of five further calls, of which one may be a trial.
    """
    found = []
    for size in sizes:
        chosen = np.median([curve.seconds(machine.call(curve, size), size) for _ in range(5)])
        found.append(float(chosen) / curve.best(size))
    return found


class Choices(NamedTuple):
    """Ratios to the best device, of choices after the calls and in a second start; seconds of the first calls."""

    learned: list[float]
    second_start: list[float]
    spent: list[float]
    best: list[float]

    @property
    def first_calls_together(self) -> float:
        """Seconds of the first calls of all functions by those on the best devices."""
        return sum(self.spent) / sum(self.best)


def measure(order: str, noise: Noise, *, seed: int = 0, functions: int = FUNCTIONS) -> Choices:
    """Call every function, and return how its choices compare with the best device."""
    found = Choices([], [], [], [])
    for number in range(seed * functions, (seed + 1) * functions):
        machine = Machine(noise)
        curve = Curve(number)
        for size in in_order(order, curve.rng):
            machine.call(curve, size)
        found.learned.extend(ratios(machine, curve))
        second = Machine(noise)
        second.placement.restore(machine.durations.state())
        found.second_start.extend(ratios(second, curve))
        machine = Machine(noise)
        for size in curve.rng.choice(SIZES, FIRST_CALLS):
            machine.call(curve, int(size))
        found.spent.append(machine.spent)
        found.best.append(machine.best)
    return found


def main() -> None:
    """Print the figures."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"{FUNCTIONS} functions x {len(SIZES)} sizes x {seeds} seeds; seconds of the choice / best device")
    print(
        f"{'':35}after {CALLS} calls: <= 1.10  max   second start: <= 1.10  max   first {FIRST_CALLS}: median  all"
    )
    for name, noise in NOISES.items():
        for order in ORDERS:
            runs = [measure(order, noise, seed=seed) for seed in range(seeds)]
            learned = np.concatenate([run.learned for run in runs])
            second = np.concatenate([run.second_start for run in runs])
            first = np.concatenate([np.divide(run.spent, run.best) for run in runs])
            together = float(np.mean([run.first_calls_together for run in runs]))
            print(
                f"{name:26}{order:8}{np.mean(learned <= 1.10):>23.1%}{np.max(learned):>6.2f}"
                f"{np.mean(second <= 1.10):>23.1%}{np.max(second):>6.2f}{np.median(first):>20.2f}{together:>6.2f}"
            )


if __name__ == "__main__":
    main()
