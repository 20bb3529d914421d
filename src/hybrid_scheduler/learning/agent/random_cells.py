"""Random machines and streams of tasks on which the agent is trained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core import Device, Floats, Ints, Links, Platform, TimeTable, Workload, cpu
from ...physics import AnalyticPhysics, Physics
from ...physics.capacity import capacity
from ...workload.distributions import BoundedPareto, LogNormal, SizeDistribution, Uniform
from ...workload.random_columns import draw_chunks, join_chunks
from ...workload.scenarios import Scenario, kinds_of, scenario_named

#: Random streams of the cells of training, of selection and of checks.
TRAINING = 1
SELECTION = 2
CHECK = 3
TASKS = 2000
_CAPACITY_TASKS = 3000
_CAPACITY_SEED = 999_983
_MAX_GPUS = 16
_SCENARIOS = (
    "default", "mixed", "mixed", "mixed", "small", "transfer", "low-intensity", "lognormal", "pareto", "oom",
    "diurnal",
)  # fmt: skip
#: Shares of the cells with a random distribution of tasks, with bursts, with kinds, and with a load below `_BUSY`.
_OWN_DISTRIBUTION = 0.4
_BURSTS = 0.2
_KINDS = 0.15
_CALM = 0.25
_LEAST_LOAD = 0.3
#: In training: arrivals of other cells than those with bursts, their share, and the least load.
_OTHER_ARRIVALS = ("waves", "diurnal", "bursty")
_OTHER_SHARE = 0.15
_LEAST_TRAINING_LOAD = 0.1
_BUSY = 0.6
_MOST_LOAD = 0.975


@dataclass(frozen=True)
class KindPhysics:
    """Analytic physics where each kind of task has a factor of its own on each class of device.

    Parameters
    ----------
    factors
        By kind and class; the kinds are named k0, k1, ...
    """

    factors: Floats
    name: str = "kinds"
    concurrent: bool = True

    def columns(self, platform: Platform) -> Ints:
        """Return the column of each device."""
        return AnalyticPhysics().columns(platform)

    def times(self, workload: Workload, platform: Platform) -> TimeTable:
        """Return (whole, fixed) seconds of every task on every class of device."""
        code = np.array([int(name[1:]) for name in workload.kinds])[workload.kind]
        table: TimeTable = AnalyticPhysics().times(workload, platform) * self.factors[code][:, :, None]
        return table

    def links(self, platform: Platform) -> Links:
        """Return the links of the devices."""
        return AnalyticPhysics().links(platform)


@dataclass(frozen=True)
class TrainingCell:
    """A machine and a stream of tasks.

    Parameters
    ----------
    platform, physics
        The machine.
    scenario
        Distribution of the tasks.
    load
        Share of the machine's capacity for them.
    rate
        Tasks per second at that load.
    """

    platform: Platform
    physics: Physics
    scenario: Scenario
    load: float
    rate: float

    def workload(self, seed: int) -> Workload:
        """Return the tasks of a seed."""
        return _draw(self.scenario, self.rate, TASKS, seed)


def draw_cell(part: int, number: int) -> TrainingCell:
    """Return a cell of a part: training, selection and checks draw from different random streams.

    The machine has 1 to 16 GPUs: equal ones, two kinds, or all different. Tasks follow a built-in scenario or a
    random distribution, some come in bursts, and some are of kinds that each device runs at a speed of its own.
    Loads lie between 0.3 and 0.975, three of four above 0.6. Training also draws lower loads and other arrivals.
    """
    rng = np.random.default_rng([part, number, 11])
    platform = Platform(f"random-{number}", (cpu(), *_random_gpus(rng)))
    scenario = _random_scenario(rng)
    physics: Physics = AnalyticPhysics()
    if rng.random() < _KINDS:
        kinds = int(rng.integers(2, 9))
        scenario = replace(scenario, kinds=tuple(f"k{i}" for i in range(kinds)))
        spread = float(rng.uniform(0.3, 1.0))
        physics = KindPhysics(np.exp(spread * rng.standard_normal((kinds, len(platform.classes)))))
    calm = rng.random() < _CALM
    if part == TRAINING and rng.random() < _OTHER_SHARE:
        scenario = replace(scenario, arrivals=str(rng.choice(_OTHER_ARRIVALS)))
    least = _LEAST_TRAINING_LOAD if part == TRAINING else _LEAST_LOAD
    load = float(rng.uniform(least, _BUSY) if calm else rng.uniform(_BUSY, _MOST_LOAD))
    return cell_of(platform, physics, scenario, load)


def cell_of(platform: Platform, physics: Physics, scenario: Scenario, load: float) -> TrainingCell:
    """Return the cell of a machine and a scenario at a load."""
    scenario = replace(scenario, kinds=scenario.kinds or kinds_of(physics, platform))
    draws = _draw(scenario, 1.0, _CAPACITY_TASKS, _CAPACITY_SEED)
    return TrainingCell(platform, physics, scenario, load, load * capacity(draws, platform, physics))


def _draw(scenario: Scenario, rate: float, tasks: int, seed: int) -> Workload:
    return join_chunks(list(draw_chunks([scenario.regime(tasks, rate)], seed, tasks)))


def _random_gpus(rng: Any) -> list[Device]:
    count = int(rng.integers(1, _MAX_GPUS + 1))
    kinds = int(rng.choice([1, min(2, count), count]))
    slopes = rng.uniform(0.5, 6.0, kinds)
    links = np.exp(rng.uniform(np.log(4e3), np.log(64e3), kinds))
    if kinds == 1 and rng.random() < 0.5:
        return [Device(f"gpu_{i}") for i in range(count)]
    return [
        Device(f"gpu_{i}", speedup_slope=float(slopes[i % kinds]), bandwidth=float(links[i % kinds]))
        for i in range(count)
    ]


def _random_scenario(rng: Any) -> Scenario:
    if rng.random() < _OWN_DISTRIBUTION:
        median = float(np.exp(rng.uniform(np.log(300.0), np.log(3000.0))))
        low = median * float(rng.uniform(0.1, 0.9))
        sizes: list[SizeDistribution] = [
            Uniform(low, 2.0 * median - low),
            LogNormal(median, float(rng.uniform(0.2, 1.3)), median / 25.0, 25.0 * median),
            BoundedPareto(float(rng.uniform(1.2, 2.5)), 0.5 * median, 30.0 * median),
        ]
        size = sizes[int(rng.integers(3))]
        least, most = np.sort(rng.uniform(0.0, 1.0, 2))
        memory = (10.0, float(np.exp(rng.uniform(np.log(100.0), np.log(6000.0)))))
        scenario = Scenario("random", "", size, (float(least), float(most)), memory)
    else:
        scenario = scenario_named(str(rng.choice(_SCENARIOS)))
    return replace(scenario, arrivals="bursty") if rng.random() < _BURSTS else scenario
