"""Choice of device over many calls, on simulated devices whose run times are functions of the size."""

import math
from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hybrid_scheduler.runtime.device_placement import ONE_CORE, AcceleratorState, DevicePlacement
from hybrid_scheduler.runtime.function_durations import FunctionDurations
from hybrid_scheduler.runtime.task_function import CallSizes, TaskFunction

SIZES = [64, 128, 256, 500, 1000, 1500, 2000, 3000]
FUNCTIONS = 40
CALLS = 20
ORDERS = ("rising", "falling", "random")


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
        return self.start[device] + self.scale[device] * size**self.exponent


class Machine:
    """One core and one GPU that run calls at once, and learn from them as the executor does."""

    def __init__(self, disturbed: float = 1.0, durations: FunctionDurations | None = None) -> None:
        cores = SimpleNamespace(has_free_core=True, is_idle=False, cores=1, queue_seconds=0.0)
        state = AcceleratorState("gpu_0", "gpu", lambda limit=0.0: 0.0, math.inf, lambda event: 0.0)
        self.durations = durations or FunctionDurations()
        self.placement = DevicePlacement(cores, [state], self.durations)  # type: ignore[arg-type]
        for overhead in (self.placement.in_place, self.placement.hand_over, *self.placement.starting):
            overhead.seconds = 0.0
        self.disturbed = disturbed
        self.runs: Counter[str] = Counter()
        self.spent = self.best = 0.0

    def call(self, curve: Curve, size: int) -> str:
        """Place a call, run it, and return the device."""
        sizes = CallSizes(((2, "float64"),), (math.log1p(size), math.log1p(size)), 8 * size * size)
        node: Any = SimpleNamespace(
            function=curve.function, key=curve.function.key, sizes=sizes, memory=0.0, handles=[], case=None,
            trial=None, shadow=False, waiting=list, measured=True, space=0, device_class="", seconds=0.0,
        )  # fmt: skip
        decision = self.placement.choose(node)
        device = "gpu" if decision.space else ONE_CORE
        facts = self.placement.facts_of(node.key)
        node.space, node.device_class = decision.space, device
        node.seconds = self._measured(curve, size, device)
        self.spent += node.seconds
        self.best += min(curve.seconds(one, size) for one in curve.start)
        self.placement.learn(node)
        facts.trials.clear()
        if node.shadow:
            seconds = self._measured(curve, size, ONE_CORE)
            self.durations.learn(node.key, ONE_CORE, sizes, seconds)
            facts.shadow_seconds += seconds
        return device

    def _measured(self, curve: Curve, size: int, device: str) -> float:
        self.runs[device] += 1
        first = self.runs[device] <= 2
        noise = float(np.exp(curve.rng.normal(0.0, 0.05)))
        loading = 0.01 if first and device == "gpu" else 0.0
        return curve.seconds(device, size) * noise * (self.disturbed if first else 1.0) + loading


def _calls(order: str, rng: np.random.Generator) -> list[int]:
    if order == "random":
        return rng.permutation(np.repeat(SIZES, CALLS)).tolist()
    sizes = SIZES if order == "rising" else SIZES[::-1]
    return [size for size in sizes for _ in range(CALLS)]


def _ratios(machine: Machine, curve: Curve, sizes: list[int]) -> list[float]:
    """Return the seconds of the choice over those of the best device, for every size.

    The choice is the device of most of five further calls, of which one may be a trial.
    """
    found = []
    for size in sizes:
        chosen = np.median([curve.seconds(machine.call(curve, size), size) for _ in range(5)])
        found.append(float(chosen) / min(curve.seconds(device, size) for device in curve.start))
    return found


@pytest.mark.parametrize("disturbed", [1.0, 10.0])
@pytest.mark.parametrize("order", ORDERS)
def test_choice_converges_whatever_the_order_of_sizes(order: str, disturbed: float) -> None:
    ratios = []
    for number in range(FUNCTIONS):
        machine, curve = Machine(disturbed), Curve(number)
        for size in _calls(order, curve.rng):
            machine.call(curve, size)
        ratios += _ratios(machine, curve, SIZES)
    assert np.mean(np.array(ratios) <= 1.10) >= 0.95
    assert max(ratios) <= 1.5
    assert any(ratio == 1.0 for ratio in ratios)


@pytest.mark.parametrize("size", [64, 500, 3000])
def test_choice_converges_for_one_size_only(size: int) -> None:
    ratios = []
    for number in range(FUNCTIONS):
        machine, curve = Machine(), Curve(number)
        for _ in range(CALLS):
            machine.call(curve, size)
        ratios += _ratios(machine, curve, [size])
    assert np.mean(np.array(ratios) <= 1.10) >= 0.95
    assert max(ratios) <= 1.5


def test_choice_is_right_in_the_second_start() -> None:
    ratios = []
    for number in range(FUNCTIONS):
        machine, curve = Machine(), Curve(number)
        for size in _calls("random", curve.rng):
            machine.call(curve, size)
        durations = FunctionDurations()
        durations.restore(machine.durations.state())
        second = Machine(durations=durations)
        second.runs.update(machine.runs)
        ratios += _ratios(second, curve, SIZES)
    assert np.mean(np.array(ratios) <= 1.10) >= 0.95
    assert max(ratios) <= 1.5


def test_trials_lose_little_over_the_calls_of_a_function() -> None:
    spent = best = 0.0
    for number in range(FUNCTIONS):
        machine, curve = Machine(), Curve(number)
        for size in _calls("random", curve.rng):
            machine.call(curve, size)
        loading = 2 * 0.01
        spent += max(0.0, machine.spent - loading)
        best += machine.best
    assert spent / best <= 1.2
