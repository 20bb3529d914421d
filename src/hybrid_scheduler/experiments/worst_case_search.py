"""Search for the workload on which one scheduler does worst against another.

A workload is a point: sizes, intensities, memory, load and the kind of arrivals. An evolutionary search begins with
random points and varies the best of them, with smaller steps the longer nothing improves, and fresh random points
in between. The result was selected for its ratio, so the reported ratio comes from other seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..core import Floats, InvalidInputError
from ..metrics.statistics import Interval, t_interval
from ..workload.distributions import Uniform
from ..workload.scenarios import Scenario
from .paired_comparison import DEFAULT_METRIC, FIRST_REPORTED_SEED, PairedComparison, run_seeds
from .spec import ExperimentSpec

ARRIVALS = ("poisson", "bursty")
_DIMENSIONS = 8
_SIZES, _MEMORY, _LOADS = (50.0, 20_000.0), (1.0, 8000.0), (0.05, 0.95)
#: Seeds of the search; the report uses others.
_SEARCH_SEEDS = range(1000, 1003)
_PARENTS = 4


@dataclass(frozen=True)
class WorstCase:
    """The workload that was found. `ratio` is A's metric over B's on seeds the search has not seen."""

    spec: ExperimentSpec
    searched_ratio: float
    ratio: Interval
    paired: PairedComparison
    evaluations: int
    seed: int
    metric: str


#: Called with (best ratio so far, evaluations done).
Progress = Callable[[float, int], None]


def find_worst(
    spec: ExperimentSpec,
    *,
    metric: str = DEFAULT_METRIC,
    evaluations: int = 120,
    seed: int = 0,
    confirmation_seeds: int = 20,
    processes: int | None = 1,
    progress: Progress | None = None,
) -> WorstCase:
    """Search for the workload with the largest ratio of A's metric to B's.

    Parameters
    ----------
    spec
        The two schedulers, A first, and everything that stays as it is.
    metric
        Number of the summary.
    evaluations
        Workloads to try.
    seed
        Seed of the search.
    confirmation_seeds
        Number of seeds for the reported ratio, at least 2.
    processes
        Processes for the confirmation.
    progress
        Called with the best ratio so far and the evaluations done.

    Raises
    ------
    InvalidInputError
        If there are not two schedulers, no evaluations, or fewer than 2 confirmation seeds.
    """
    if len(spec.schedulers) != 2:
        raise InvalidInputError("--adversary", "two schedulers, as in greedy:oracle", list(spec.schedulers))
    if evaluations < 1:
        raise InvalidInputError("--evaluations", "at least 1", evaluations)
    if confirmation_seeds < 2:
        raise InvalidInputError("--seeds", "at least 2, for an interval", confirmation_seeds)
    rng = np.random.default_rng([seed, 6])
    best: list[tuple[float, Floats]] = []
    step, stale = 0.25, 0
    for done in range(evaluations):
        # Random points at first, and now and then to leave a local optimum.
        if done < max(_PARENTS, evaluations // 4) or done % 6 == 0:
            point = rng.random(_DIMENSIONS)
        else:
            parent = best[int(rng.integers(len(best)))][1]
            point = np.clip(parent + step * rng.standard_normal(_DIMENSIONS), 0.0, 1.0)
        value = _log_ratio(workload_at(spec, point), metric)
        improved = not best or value > best[0][0]
        stale = 0 if improved else stale + 1
        if stale and stale % 12 == 0:
            step = max(0.02, 0.7 * step)
        best = sorted([*best, (value, point)], key=lambda entry: -entry[0])[:_PARENTS]
        if progress:
            progress(float(np.exp(best[0][0])), done + 1)
    chosen = workload_at(spec, best[0][1])
    seeds = range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + confirmation_seeds)
    paired = PairedComparison(chosen, tuple(run_seeds(chosen, seeds, processes=processes)))
    samples = paired.samples(metric)
    ratios = samples[chosen.schedulers[0]] / samples[chosen.schedulers[1]]
    return WorstCase(chosen, float(np.exp(best[0][0])), t_interval(ratios), paired, evaluations, seed, metric)


def workload_at(spec: ExperimentSpec, point: Floats) -> ExperimentSpec:
    """Return the specification for a point of the unit cube; numbers are rounded so that they can be retyped."""

    def between(range_: tuple[float, float], share: float, *, log: bool) -> float:
        low, high = range_
        value = low * (high / low) ** share if log else low + (high - low) * share
        return float(f"{value:.3g}")

    sizes = sorted(between(_SIZES, share, log=True) for share in point[:2])
    intensity = sorted(round(float(share), 2) for share in point[2:4])
    memory = sorted(between(_MEMORY, share, log=True) for share in point[4:6])
    load = between(_LOADS, float(point[6]), log=False)
    scenario = Scenario(
        "adversary",
        "Found by a search for tasks on which one scheduler does worst against another",
        Uniform(sizes[0], max(sizes[1], 1.01 * sizes[0])),
        (intensity[0], intensity[1]),
        (memory[0], memory[1]),
        ARRIVALS[int(point[7] * len(ARRIVALS)) % len(ARRIVALS)],
        utilisation=load,
    )
    return replace(spec, scenario=scenario, utilisation=None, batch=False)


def _log_ratio(spec: ExperimentSpec, metric: str) -> float:
    first, second = spec.schedulers
    values = []
    for run in run_seeds(spec, _SEARCH_SEEDS, processes=1):
        a, b = run.metrics[first][metric], run.metrics[second][metric]
        if a is None or b is None or not a > 0 or not b > 0:
            return -np.inf
        values.append(np.log(a / b))
    return float(np.mean(values))
