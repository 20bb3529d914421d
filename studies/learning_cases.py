"""Cases on which learned schedulers are measured: machines, physics and streams of tasks.

Every case is a function of a seed and gives a cluster and a workload, so that schedulers are compared on paired
seeds. The arrival rate is a share of the capacity that the machine has for tasks drawn like these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from hybrid_scheduler.cluster import Cluster, Noise
from hybrid_scheduler.core import Device, Floats, Platform, TimeTable, Workload, cpu
from hybrid_scheduler.core.platform import platform_named, workstation
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.physics.capacity import capacity
from hybrid_scheduler.profiling import calibrate, platform_of, profile_named
from hybrid_scheduler.workload.scenarios import generate, scenario_named

TASKS = 2000
_CAPACITY_TASKS = 20_000
#: Group of the cases that have one seed each.
RANDOM_PLATFORMS = "random platforms"


@dataclass(frozen=True)
class Case:
    """Row of the table: `make(seed)` returns a cluster and a workload."""

    name: str
    group: str
    make: Callable[[int], tuple[Cluster, Workload]]


# ------------------------------------------------------------------------------------------ physics variants


@dataclass(frozen=True)
class Modified:
    """Physics whose seconds are multiplied by `factor(workload, platform)`, one number per task and class."""

    base: Any
    factor: Callable[[Workload, Platform], Floats]
    name: str = "modified"
    concurrent: bool = True

    def columns(self, platform: Platform) -> Any:
        return self.base.columns(platform)

    def times(self, workload: Workload, platform: Platform) -> TimeTable:
        table: TimeTable = self.base.times(workload, platform) * self.factor(workload, platform)[:, :, None]
        return table

    def links(self, platform: Platform) -> Any:
        return self.base.links(platform)


def _kinds_by_class(kinds: int, seed: int, spread: float) -> Callable[[Workload, Platform], Floats]:
    """Return log-normal factors for each kind and class of device."""

    def factor(workload: Workload, platform: Platform) -> Floats:
        rng = np.random.default_rng([seed, 77])
        factors: Floats = np.exp(spread * rng.standard_normal((kinds, len(platform.classes))))
        code = np.array([int(name[1:]) for name in workload.kinds])[workload.kind]
        of_task: Floats = factors[code]
        return of_task

    return factor


def _cliff(workload: Workload, platform: Platform) -> Floats:
    factors = np.ones((len(workload), len(platform.classes)))
    for column, device in enumerate(platform.classes):
        if device.is_cpu:
            factors[workload.size > 2500, column] = 5.0
    return factors


def _slower(workload: Workload, platform: Platform) -> Floats:
    factors = np.ones((len(workload), len(platform.classes)))
    late = workload.task_id >= TASKS // 2
    for column, device in enumerate(platform.classes):
        if not device.is_cpu:
            factors[late, column] = 3.0
    return factors


def _halved(workload: Workload, platform: Platform) -> Floats:
    factors = np.ones((len(workload), len(platform.classes)))
    last = max(column for column, device in enumerate(platform.classes) if not device.is_cpu)
    factors[workload.task_id >= TASKS // 2, last] = 2.0
    return factors


@dataclass(frozen=True)
class CostlyParts:
    """Analytic physics where a part costs a share of the whole task however small it is: splitting wastes."""

    overhead: float
    name: str = "costly parts"
    concurrent: bool = True

    def columns(self, platform: Platform) -> Any:
        return AnalyticPhysics().columns(platform)

    def times(self, workload: Workload, platform: Platform) -> TimeTable:
        table = AnalyticPhysics().times(workload, platform)
        table[:, :, 1] = self.overhead * table[:, :, 0]
        table[:, :, 0] *= 1.0 - self.overhead
        return table

    def links(self, platform: Platform) -> Any:
        return AnalyticPhysics().links(platform)


# ------------------------------------------------------------------------------------------ making streams


def _with_kinds(workload: Workload, kinds: int, seed: int) -> Workload:
    code = np.random.default_rng([seed, 5]).integers(0, kinds, len(workload))
    return Workload(
        task_id=workload.task_id, size=workload.size, compute_intensity=workload.compute_intensity,
        memory_required=workload.memory_required, arrival_time=workload.arrival_time, kind=[f"k{c}" for c in code],
    )  # fmt: skip


def _at_rate(workload: Workload, rate: float, seed: int) -> Workload:
    gaps = np.random.default_rng([seed, 6]).exponential(1.0 / rate, len(workload))
    return Workload(
        task_id=workload.task_id, size=workload.size, compute_intensity=workload.compute_intensity,
        memory_required=workload.memory_required, arrival_time=np.cumsum(gaps),
        kind=[workload.kinds[c] for c in workload.kind],
    )  # fmt: skip


def _scenario_case(
    name: str, group: str, scenario: str, platform: Platform, load: float, *, tasks: int = TASKS, noise: float = 0.0
) -> Case:
    def make(seed: int) -> tuple[Cluster, Workload]:
        workload = generate(scenario_named(scenario), tasks, seed, platform=platform, utilisation=load)
        return Cluster(platform, noise=Noise(noise, seed)), workload

    return Case(name, group, make)


@lru_cache(maxsize=64)
def _mixed_draws(kinds: int) -> Workload:
    draws = generate(scenario_named("mixed"), _CAPACITY_TASKS, 999_983, batch=True)
    return _with_kinds(draws, kinds, 999_983) if kinds else draws


def _modified_case(
    name: str, group: str, platform: Platform, load: float, make_factor: Callable[[int], Any], *, kinds: int = 0,
    tasks: int = TASKS,
) -> Case:  # fmt: skip
    def make(seed: int) -> tuple[Cluster, Workload]:
        physics = Modified(AnalyticPhysics(), make_factor(seed))
        # Task ids decide whether a task comes before or after a change: the capacity is that of the late ones.
        draws = _mixed_draws(kinds)
        rate = load * capacity(draws, platform, physics)
        workload = generate(scenario_named("mixed"), tasks, seed, batch=True)
        workload = _with_kinds(workload, kinds, seed) if kinds else workload
        return Cluster(platform, physics), _at_rate(workload, rate, seed)

    return Case(name, group, make)


def _costly_case(load: float, overhead: float) -> Case:
    def make(seed: int) -> tuple[Cluster, Workload]:
        platform, physics = workstation(), CostlyParts(overhead)
        workload = generate(
            scenario_named("mixed"), TASKS, seed, platform=platform, physics=physics, utilisation=load
        )
        return Cluster(platform, physics), workload

    return Case(f"parts cost {overhead:.0%} at {load}", "costly parts", make)


def unequal_gpus(count: int = 8) -> Platform:
    """Return one CPU and GPUs that each have their own speed-up law and link."""
    rng = np.random.default_rng(1)
    slopes, links = np.linspace(0.5, 6.0, count), rng.uniform(4e3, 64e3, count)
    gpus = [
        Device(f"gpu_{i}", speedup_base=1.0, speedup_slope=float(s), bandwidth=float(b))
        for i, (s, b) in enumerate(zip(slopes, links, strict=True))
    ]
    return Platform(f"1+{count}", (cpu(), *gpus))


def random_platform(draw: int) -> Platform:
    rng = np.random.default_rng([draw, 41])
    count = int(rng.integers(1, 17))
    gpus = [
        Device(f"gpu_{i}", speedup_slope=float(rng.uniform(0.5, 6.0)), bandwidth=float(rng.uniform(4e3, 64e3)))
        for i in range(count)
    ]
    return Platform(f"random-{draw}", (cpu(), *gpus))


def _random_case(draw: int) -> Case:
    load = float(np.random.default_rng([draw, 42]).uniform(0.5, 0.9))
    return _scenario_case(
        f"random {draw:02d} at {load:.2f}", RANDOM_PLATFORMS, "mixed", random_platform(draw), load
    )


@lru_cache(maxsize=8)
def _calibrated(profile: str) -> tuple[Any, Platform]:
    read = profile_named(profile)
    return calibrate(read).physics, platform_of(read)


def _measured_tasks(profile: str, count: int, seed: int, features: str) -> Workload:
    """Return kinds in equal parts, with sizes log-uniform over what was measured.

    With `features` "real", memory follows from the size and the intensity from the kind; with "random" both say
    nothing about durations.
    """
    physics, _ = _calibrated(profile)
    rng = np.random.default_rng([seed, 8])
    names = list(physics.kinds)
    code = rng.integers(0, len(names), count)
    low = np.array([max(c.sizes[0] for c in physics.curves if c.kind == name) for name in names])
    high = np.array([min(c.sizes[-1] for c in physics.curves if c.kind == name) for name in names])
    size = np.exp(rng.uniform(np.log(low[code]), np.log(high[code])))
    if features == "real":
        memory, intensity = 12.0 * size**2 / 1e6, (code + 0.5) / len(names)
    else:
        memory, intensity = rng.uniform(10.0, 500.0, count), rng.uniform(0.0, 1.0, count)
    return Workload(
        task_id=np.arange(count), size=size, compute_intensity=intensity, memory_required=memory,
        arrival_time=np.zeros(count), kind=[names[c] for c in code],
    )  # fmt: skip


def _calibrated_case(profile: str, load: float, features: str, *, tasks: int = TASKS) -> Case:
    def make(seed: int) -> tuple[Cluster, Workload]:
        physics, platform = _calibrated(profile)
        rate = load * capacity(_measured_tasks(profile, _CAPACITY_TASKS, 999_983, features), platform, physics)
        return Cluster(platform, physics), _at_rate(_measured_tasks(profile, tasks, seed, features), rate, seed)

    return Case(f"{profile} at {load}, {features} features", "calibrated", make)


def cases() -> list[Case]:
    """Return all cases, in the order of the table."""
    work, laptop, mixed_gpus, unequal = (
        workstation(),
        platform_named("laptop"),
        platform_named("mixed-gpus"),
        unequal_gpus(),
    )
    rows = [_scenario_case(f"mixed at {load}", "presets", "mixed", work, load) for load in (0.5, 0.7, 0.95)]
    rows += [
        _scenario_case("transfer at 0.85", "presets", "transfer", work, 0.85),
        _scenario_case("small at 0.7", "presets", "small", work, 0.7),
        _scenario_case("default at 0.1", "presets", "default", work, 0.1),
        _scenario_case("laptop, mixed at 0.7", "presets", "mixed", laptop, 0.7),
        _scenario_case("laptop, mixed at 0.9", "presets", "mixed", laptop, 0.9),
        _scenario_case("mixed-gpus, mixed at 0.7", "presets", "mixed", mixed_gpus, 0.7),
        _scenario_case("mixed-gpus, mixed at 0.9", "presets", "mixed", mixed_gpus, 0.9),
        _scenario_case("1+8 unequal at 0.5", "1+8", "mixed", unequal, 0.5),
        _scenario_case("1+8 unequal at 0.9", "1+8", "mixed", unequal, 0.9),
    ]
    for kinds in (4, 8):
        for load in (0.5, 0.9):
            rows.append(
                _modified_case(
                    f"{kinds} kinds at {load}", "kinds", work, load,
                    partial(_kinds_by_class, kinds, spread=0.8), kinds=kinds,
                )
            )  # fmt: skip
    rows += [_modified_case(f"cliff at {load}", "cliff", work, load, lambda seed: _cliff) for load in (0.5, 0.9)]
    rows.append(_scenario_case("noise 30 % at 0.9", "noise", "mixed", work, 0.9, noise=0.3))
    rows += [
        _modified_case(f"GPUs 3x slower at {load}", "drift", work, load, lambda seed: _slower)
        for load in (0.5, 0.9)
    ]
    for profile in ("h200", "cpu_only", "starpu_mirage", "starpu_sirocco"):
        rows += [_calibrated_case(profile, 0.7, features) for features in ("real", "random")]
    rows += [_costly_case(load, 0.4) for load in (0.5, 0.9)]
    rows += [_random_case(draw) for draw in range(50)]
    return rows


def hard_cases() -> list[Case]:
    """Return cases in which every kind of task has its own speed on each of five classes of device, and two others.

    Nothing that was seen on one class says much about another: there are as many unknown factors as pairs of kind
    and class. Factors are log-normal with the given spread. Then there are noise with σ = 1, and a GPU that takes
    twice as long from the middle on.
    """
    platform = unequal_gpus(4)
    rows = [
        _modified_case(
            f"{kinds} kinds, 1+4 unequal, spread {spread} at {load}", "hard", platform, load,
            partial(_kinds_by_class, kinds, spread=spread), kinds=kinds,
        )
        for kinds, spread in ((4, 0.5), (4, 1.0), (16, 0.5), (8, 0.8))
        for load in (0.5, 0.9)
    ]  # fmt: skip
    rows.append(_scenario_case("noise 100 % at 0.9", "hard", "mixed", workstation(), 0.9, noise=1.0))
    halves = platform_named("mixed-gpus")
    rows.append(_modified_case("mixed-gpus, one GPU halves at 0.7", "hard", halves, 0.7, lambda seed: _halved))
    return rows
