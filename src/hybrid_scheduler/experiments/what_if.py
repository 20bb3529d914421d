"""What-if analysis: the same tasks on the present and on a changed machine, seed by seed.

Tasks are drawn once per seed; a different utilisation moves only their arrivals. The arrival rate is measured
against the capacity of the present machine, so that more GPUs get the same stream and not a denser one. The seeds
are paired, which takes the variation between workloads out of the difference: its interval is a t interval over the
pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..cluster import Machine
from ..core import Device, Floats, InvalidInputError, Objective, Platform
from ..engine import compare
from ..metrics.statistics import t_interval
from ..schedulers import schedulers as known_schedulers
from ..workload.scenarios import Scenario, generate, scenario_named
from . import FIRST_REPORTED_SEED

SCHEDULERS = ("round_robin", "random", "greedy", "earliest_finish", "price_index", "hybrid_ml", "oracle")


@dataclass(frozen=True, slots=True)
class WhatIfChange:
    """Differences from the present machine. None: as it is."""

    num_gpus: int | None = None
    #: Multiplies how much faster than the reference CPU the accelerators are.
    gpu_speed: float = 1.0
    #: MB/s between host and accelerators.
    bandwidth: float | None = None
    utilisation: float | None = None
    #: 0: only latency counts, 1: only energy.
    energy_weight: float = 0.0

    def __post_init__(self) -> None:
        if self.num_gpus is not None and self.num_gpus < 1:
            raise InvalidInputError("num_gpus", ">= 1", self.num_gpus)
        if not 0 < self.gpu_speed < np.inf:
            raise InvalidInputError("gpu_speed", "finite and > 0", self.gpu_speed)
        if not 0 <= self.energy_weight <= 1:
            raise InvalidInputError("energy_weight", "a number in [0, 1]", self.energy_weight)

    def platform(self, present: Platform) -> Platform:
        """Return the platform with the change made to it. Additional GPUs are copies of the present ones, in turn.

        Raises
        ------
        InvalidInputError
            If the number of GPUs cannot be changed on this platform.
        """
        accelerators = [device for device in present.devices if not device.is_cpu]
        devices = present.devices
        count = len(accelerators) if self.num_gpus is None else self.num_gpus
        if count != len(accelerators):
            if not accelerators or len(set(present.node.tolist())) > 1:
                raise InvalidInputError("num_gpus", "left out where there is no GPU or more than one node", count)
            copies = [accelerators[index % len(accelerators)] for index in range(count)]
            named = [replace(device, name=f"{device.kind}_{index}") for index, device in enumerate(copies)]
            devices = (*(device for device in present.devices if device.is_cpu), *named)
        return replace(present, devices=tuple(map(self._device, devices)))

    def _device(self, device: Device) -> Device:
        if device.is_cpu:
            return device
        return replace(
            device,
            speedup_base=device.speedup_base * self.gpu_speed,
            speedup_slope=device.speedup_slope * self.gpu_speed,
            bandwidth=device.bandwidth if self.bandwidth is None else self.bandwidth,
        )


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Two means, and the mean of the pairwise differences with its 95 % interval."""

    baseline: float
    changed: float
    difference: float
    low: float
    high: float

    @classmethod
    def of(cls, baseline: Floats, changed: Floats) -> PairedDifference:
        """Compute the difference of paired values."""
        interval = t_interval(changed - baseline)
        return cls(float(baseline.mean()), float(changed.mean()), interval.mean, interval.low, interval.high)


@dataclass(frozen=True, slots=True)
class WhatIfResult:
    """One scheduler on both machines, per task: seconds, joules, dollars."""

    name: str
    latency: PairedDifference
    energy: PairedDifference
    cost: PairedDifference
    n: int
    #: Lower bound on the mean latency of any scheduler; None where tasks can fail.
    latency_bound: PairedDifference | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def what_if(
    change: WhatIfChange,
    *,
    machine: Machine | None = None,
    load: float | None = None,
    scenario: str | Scenario = "default",
    schedulers: Sequence[str] | None = None,
    tasks: int = 300,
    seeds: int = 8,
    first_seed: int = FIRST_REPORTED_SEED,
    baseline: Floats | None = None,
) -> list[WhatIfResult]:
    """Run every scheduler on the present and on the changed machine, over the same seeds.

    Learned schedulers use the model that ships with them, and do not learn if that is slow: the result should come
    within a second, and 300 tasks are too few to train a network on.

    Parameters
    ----------
    change
        Differences from the present machine.
    machine
        The present machine; the workstation if left out.
    load
        Present load; None is the scenario's own.
    scenario
        Scenario, or its name.
    schedulers
        Names of schedulers; `SCHEDULERS` if left out.
    tasks
        Tasks per seed.
    seeds
        Number of paired seeds, at least 2.
    first_seed
        The first of them.
    baseline
        Result of `baseline_figures` for the same arguments, if it was kept: that saves half of the work.

    Raises
    ------
    InvalidInputError
        If there are fewer than 2 seeds, or the machine cannot be changed so.
    """
    if seeds < 2:
        raise InvalidInputError("seeds", ">= 2, or there is no interval", seeds)
    present = machine or Machine()
    known_scenario = scenario_named(scenario) if isinstance(scenario, str) else scenario
    names = tuple(schedulers or SCHEDULERS)
    drawn = _Drawn(known_scenario, names, tasks, seeds, first_seed)
    before = baseline_figures(present, load, *drawn) if baseline is None else baseline
    weights = Objective(latency=1.0 - change.energy_weight, energy=change.energy_weight)
    changed = replace(present, platform=change.platform(present.platform), objective=weights)
    after = _by_seed(changed, present, load if change.utilisation is None else change.utilisation, drawn)
    bounded = not (np.isnan(before[:, :, 3]).any() or np.isnan(after[:, :, 3]).any())
    results = []
    for index, name in enumerate(names):
        latency, energy, cost, bound = map(PairedDifference.of, before[:, index].T, after[:, index].T)
        results.append(WhatIfResult(name, latency, energy, cost, seeds, bound if bounded else None))
    return results


def baseline_figures(
    machine: Machine,
    load: float | None,
    scenario: Scenario,
    schedulers: tuple[str, ...],
    tasks: int,
    seeds: int,
    first_seed: int,
) -> Floats:
    """Return the figures of the present machine, which every change is compared with: (seeds, schedulers, 4)."""
    plain = replace(machine, objective=Objective())
    return _by_seed(plain, plain, load, _Drawn(scenario, schedulers, tasks, seeds, first_seed))


class _Drawn(NamedTuple):
    """Tasks that are drawn, and the schedulers that place them."""

    scenario: Scenario
    schedulers: tuple[str, ...]
    tasks: int
    seeds: int
    first_seed: int


def _by_seed(machine: Machine, present: Machine, load: float | None, drawn: _Drawn) -> Floats:
    """Return mean latency, joules and dollars per task, and the bound on the former: (seeds, schedulers, 4)."""
    scenario, schedulers, tasks, seeds, first_seed = drawn
    names = tuple(_not_learning(name) for name in schedulers)
    figures = np.empty((seeds, len(names), 4))
    for row, seed in enumerate(range(first_seed, first_seed + seeds)):
        # Arrivals are those of the present machine, also on the changed one.
        workload = generate(
            scenario, tasks, seed, platform=present.platform, physics=present.physics, utilisation=load
        )
        # Each seed draws its own noise: with one draw for all, the interval would leave its variation out.
        runs = compare(workload, names, machine=machine.with_noise_seed(seed), seed=seed)
        figures[row, :, :3] = [(s.latency.mean, s.energy / tasks, s.cost / tasks) for s in runs.summaries.values()]
        figures[row, :, 3] = np.nan if runs.latency_bound is None else runs.latency_bound
    return figures


def _not_learning(spec: str) -> str:
    """Return the scheduler with its training switched off, if that is slow and no other parameters are given."""
    info = known_schedulers().get(spec)
    slow = info is not None and "learn" in info.parameters and not getattr(info.factory, "learns_quickly", False)
    return f"{spec}(learn=False)" if slow else spec
