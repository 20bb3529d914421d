"""Search for the case in which one scheduler does worst against another.

A case is a point: sizes and their distribution, intensities, memory, load and arrivals; the machine (built-in
platforms with analytic physics, or shipped profiles with their measured kinds of tasks), launch overhead, noise and
the mix of kinds. The search begins with every built-in scenario at several loads and with random points, and varies
the best of them. The result was selected for its ratio, so the reported ratio comes from other seeds.

    python -m studies.worst_case_search greedy:oracle --out results/worst

The folder holds `adversary.json`, the case, and a record that `hybrid-scheduler replay` repeats.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from hybrid_scheduler.cluster import Machine, Noise
from hybrid_scheduler.core import Floats, InvalidInputError, platform_named
from hybrid_scheduler.core.canonical_json import pretty_json
from hybrid_scheduler.experiments import FIRST_DEVELOPMENT_SEED, FIRST_REPORTED_SEED, run_record
from hybrid_scheduler.experiments.exact_replay import comparison_events
from hybrid_scheduler.experiments.paired_comparison import DEFAULT_METRIC, PairedComparison, run_seeds
from hybrid_scheduler.experiments.process_pool import cores
from hybrid_scheduler.experiments.spec import ExperimentSpec
from hybrid_scheduler.metrics.statistics import Interval, t_interval
from hybrid_scheduler.physics import AnalyticPhysics, ProfiledPhysics
from hybrid_scheduler.profiling import calibrate, platform_of, profile_named
from hybrid_scheduler.workload.distributions import DISTRIBUTIONS, Uniform, size_distribution
from hybrid_scheduler.workload.scenarios import SCENARIOS, Scenario, kinds_of

_ARRIVALS = ("poisson", "bursty")
_PLATFORMS = ("workstation", "laptop", "mixed-gpus", "accelerators", "cluster-16")
_PROFILES = ("h200", "starpu_mirage", "starpu_sirocco")
#: Loads at which every built-in scenario is tried.
ORDINARY_LOADS = (0.1, 0.3, 0.7, 0.95)
_SIZES, _MEMORY, _LOADS = (50.0, 20_000.0), (1.0, 8000.0), (0.05, 0.95)
_OVERHEADS, _NOISE = (1e-5, 0.05), 0.5
#: Coordinates of the tasks; then those of the machine: which one, launch overhead, noise, and one per kind.
_OF_TASKS, _OF_MACHINE = 9, 3
_MAX_KINDS = 8
DIMENSIONS = _OF_TASKS + _OF_MACHINE + _MAX_KINDS
#: Seeds of the search; the report uses others.
_SEARCH_SEEDS = range(FIRST_DEVELOPMENT_SEED, FIRST_DEVELOPMENT_SEED + 3)
_PARENTS = 4
#: Points per generation, however many processes there are: the result does not depend on them.
_GENERATION = 16


@dataclass(frozen=True)
class WorstCase:
    """The case that was found. `ratio` is A's metric over B's on seeds the search has not seen."""

    spec: ExperimentSpec
    searched_ratio: float
    ratio: Interval
    paired: PairedComparison
    evaluations: int
    seed: int
    metric: str


@dataclass(frozen=True)
class _Tried:
    """One case with its logarithmic ratio. `point` is where variations start."""

    value: float
    point: Floats
    spec: ExperimentSpec


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
    vary_machine: bool = True,
    progress: Progress | None = None,
) -> WorstCase:
    """Search for the case with the largest ratio of A's metric to B's.

    Parameters
    ----------
    spec
        The two schedulers, A first, the number of tasks, and the machine where it is not varied.
    metric
        Number of the summary.
    evaluations
        Cases to try beyond the built-in scenarios.
    seed
        Seed of the search.
    confirmation_seeds
        Number of seeds for the reported ratio, at least 2.
    processes
        Processes of search and confirmation; one per core if None. The result does not depend on them.
    vary_machine
        Whether platform, physics, noise and kinds of tasks are varied as well.
    progress
        Called with the best ratio so far and the evaluations done.

    Raises
    ------
    InvalidInputError
        If there are not two schedulers, no evaluations, or fewer than 2 confirmation seeds.
    """
    if len(spec.schedulers) != 2:
        raise InvalidInputError("schedulers", "two schedulers, A and B of the ratio A / B", list(spec.schedulers))
    if evaluations < 1:
        raise InvalidInputError("evaluations", "at least 1", evaluations)
    if confirmation_seeds < 2:
        raise InvalidInputError("confirmation_seeds", "at least 2, for an interval", confirmation_seeds)
    with _Pool(processes or cores()) as tried:
        best, done = _search(spec, metric, evaluations, seed, vary_machine, tried, progress or (lambda *_: None))
    seeds = range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + confirmation_seeds)
    paired = PairedComparison(best.spec, tuple(run_seeds(best.spec, seeds, processes=processes)))
    samples = paired.samples(metric)
    ratios = samples[spec.schedulers[0]] / samples[spec.schedulers[1]]
    return WorstCase(best.spec, float(np.exp(best.value)), t_interval(ratios), paired, done, seed, metric)


_Evaluate = Callable[[Callable[[ExperimentSpec], float], Iterable[ExperimentSpec]], Iterator[float]]


class _Pool:
    """Map over cases in as many processes, in order; without processes where one is enough."""

    def __init__(self, processes: int) -> None:
        self._executor: ProcessPoolExecutor | None = None
        if processes > 1:
            # Spawned, not forked: a fork would copy threads' locks in an undefined state.
            self._executor = ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"))

    def __enter__(self) -> _Evaluate:
        return map if self._executor is None else self._executor.map

    def __exit__(self, *_: object) -> None:
        if self._executor:
            self._executor.shutdown(wait=True, cancel_futures=True)


def _search(
    spec: ExperimentSpec, metric: str, evaluations: int, seed: int, vary_machine: bool, evaluate: _Evaluate,
    progress: Progress,
) -> tuple[_Tried, int]:  # fmt: skip
    rng = np.random.default_rng([seed, 6])
    free = DIMENSIONS if vary_machine else _OF_TASKS
    best: list[_Tried] = []
    done, step = 0, 0.25

    def try_all(points: list[Floats], specs: list[ExperimentSpec]) -> bool:
        nonlocal best, done
        before = best[0].value if best else -np.inf
        for point, one, value in zip(
            points, specs, evaluate(partial(_log_ratio, metric=metric), specs), strict=True
        ):
            best = sorted([*best, _Tried(value, point, one)], key=lambda entry: -entry.value)[:_PARENTS]
            done += 1
            progress(float(np.exp(best[0].value)), done)
        return best[0].value > before

    ordinary = list(ordinary_cases(spec))
    try_all([point for point, _ in ordinary], [one for _, one in ordinary])
    left = evaluations
    while left > 0:
        points = []
        for index in range(min(left, _GENERATION)):
            # Random points at first, and some always, to leave a local optimum.
            if left > 3 * evaluations // 4 or index % 6 == 0:
                point = rng.random(DIMENSIONS)
            else:
                parent = best[int(rng.integers(len(best)))].point
                # A few coordinates at a time: most mixtures of good points are not good.
                moved = rng.random(DIMENSIONS) < 0.4
                point = np.clip(parent + step * moved * rng.standard_normal(DIMENSIONS), 0.0, 1.0)
            points.append(np.where(np.arange(DIMENSIONS) < free, point, 0.0))
        left -= len(points)
        if not try_all(points, [case_at(spec, point, vary_machine=vary_machine) for point in points]):
            step = max(0.02, 0.7 * step)
    return best[0], done


def ordinary_cases(spec: ExperimentSpec) -> Iterator[tuple[Floats, ExperimentSpec]]:
    """Yield every built-in scenario at several loads, as it is, with the nearest point to vary it from."""
    for scenario in SCENARIOS.values():
        for load in ORDINARY_LOADS:
            one = replace(scenario, utilisation=load)
            yield _nearest_point(one), replace(spec, scenario=one, utilisation=None, batch=False)


def _nearest_point(scenario: Scenario) -> Floats:
    point = np.zeros(DIMENSIONS)
    size = scenario.size
    laws = list(DISTRIBUTIONS)
    law = next((i for i, name in enumerate(laws) if isinstance(size, type(DISTRIBUTIONS[name](1.0, 2.0)))), 0)
    high = size.high if isinstance(size, Uniform) else 30_000.0
    point[:2] = [_share(_SIZES, size.low, log=True), _share(_SIZES, high, log=True)]
    point[2:4] = scenario.intensity
    point[4:6] = [_share(_MEMORY, value, log=True) for value in scenario.memory]
    point[6] = _share(_LOADS, scenario.utilisation, log=False)
    point[7] = 0.75 if scenario.arrivals == "bursty" else 0.25
    point[8] = (law + 0.5) / len(laws)
    return point


def _share(range_: tuple[float, float], value: float, *, log: bool) -> float:
    low, high = range_
    share = np.log(max(value, low) / low) / np.log(high / low) if log else (value - low) / (high - low)
    return float(np.clip(share, 0.0, 1.0))


def _between(range_: tuple[float, float], share: float, *, log: bool) -> float:
    """Return the value at a share of a range, rounded so that it can be retyped."""
    low, high = range_
    value = low * (high / low) ** share if log else low + (high - low) * share
    return float(f"{value:.3g}")


def case_at(spec: ExperimentSpec, point: Floats, *, vary_machine: bool = True) -> ExperimentSpec:
    """Return the specification for a point of the unit cube."""
    machine, kinds = _machine_at(spec.machine, point[_OF_TASKS:]) if vary_machine else (spec.machine, ())
    sizes = sorted(_between(_SIZES, share, log=True) for share in point[:2])
    if kinds:
        sizes = _measured_sizes(machine.physics, kinds, sorted(float(share) for share in point[:2]))
    intensity = sorted(round(float(share), 2) for share in point[2:4])
    memory = sorted(_between(_MEMORY, share, log=True) for share in point[4:6])
    laws = tuple(DISTRIBUTIONS)
    scenario = Scenario(
        "adversary",
        "Found by a search for tasks on which one scheduler does worst against another",
        size_distribution(_chosen(laws, point[8]), sizes[0], max(sizes[1], 1.01 * sizes[0])),
        (intensity[0], intensity[1]),
        (memory[0], memory[1]),
        _chosen(_ARRIVALS, point[7]),
        utilisation=_between(_LOADS, float(point[6]), log=False),
        kinds=kinds,
    )
    return replace(spec, scenario=scenario, utilisation=None, batch=False, machine=machine)


def _chosen(names: tuple[str, ...], share: float) -> str:
    return names[min(int(share * len(names)), len(names) - 1)]


def _machine_at(machine: Machine, point: Floats) -> tuple[Machine, tuple[str, ...]]:
    """Return the machine of a point, and the kinds of its tasks; no kinds with analytic physics."""
    # The lower half is no noise and no overhead, as on the ordinary machines.
    noise = Noise(round(max(0.0, 2.0 * float(point[2]) - 1.0) * _NOISE, 2))
    name = _chosen((*_PLATFORMS, *_PROFILES), point[0])
    if name in _PLATFORMS:
        share = max(0.0, 2.0 * float(point[1]) - 1.0)
        overhead = _between(_OVERHEADS, share, log=True) if share else 0.0
        return replace(
            machine, platform=platform_named(name), physics=AnalyticPhysics(launch_overhead=overhead), noise=noise
        ), ()
    measured = _profiled(name)
    wanted = point[_OF_MACHINE:] >= 0.5
    known = kinds_of(measured.physics, measured.platform)
    kinds = tuple(kind for kind, chosen in zip(known, wanted, strict=False) if chosen) or known
    return replace(machine, platform=measured.platform, physics=measured.physics, noise=noise), kinds


@cache
def _profiled(name: str) -> Machine:
    profile = profile_named(name)
    return Machine(replace(platform_of(profile), name=name), calibrate(profile).physics)


def _measured_sizes(physics: object, kinds: tuple[str, ...], shares: list[float]) -> list[float]:
    """Return the sizes at two shares of the range that was measured for all these kinds."""
    assert isinstance(physics, ProfiledPhysics)
    curves = [curve for curve in physics.curves if curve.kind in kinds]
    low, high = max(curve.sizes[0] for curve in curves), min(curve.sizes[-1] for curve in curves)
    return [_between((low, max(high, 1.01 * low)), share, log=True) for share in shares]


def _log_ratio(spec: ExperimentSpec, metric: str) -> float:
    first, second = spec.schedulers
    values = []
    for run in run_seeds(spec, _SEARCH_SEEDS, processes=1):
        a, b = run.metrics[first][metric], run.metrics[second][metric]
        if a is None or b is None or not a > 0 or not b > 0:
            return -np.inf
        values.append(np.log(a / b))
    return float(np.mean(values))


# ------------------------------------------------------------------------------------------ command line


def document(found: WorstCase) -> dict[str, Any]:
    """Return a case as a JSON document."""
    return {
        "schedulers": list(found.spec.schedulers),
        "metric": found.metric,
        "search_seed": found.seed,
        "evaluations": found.evaluations,
        "ratio_in_the_search": found.searched_ratio,
        "ratio": [found.ratio.mean, found.ratio.low, found.ratio.high],
        "seeds": [run.seed for run in found.paired.runs],
        "configuration": found.spec.as_json(),
    }


def summary(found: WorstCase) -> str:
    """Return a case in words."""
    scenario, machine, ratio = found.spec.required_scenario, found.spec.machine, found.ratio
    first, second = found.spec.schedulers
    size: Any = scenario.size
    return (
        f"{first} has {ratio.mean:.3g} × the {found.metric} of {second} (95 %: {ratio.low:.3g} to "
        f"{ratio.high:.3g} on {len(found.paired.runs)} seeds; {found.searched_ratio:.3g} in the "
        f"search of {found.evaluations} cases)\n"
        f"sizes {size.low:g} to {size.high:g}, intensities {scenario.intensity[0]:g} to {scenario.intensity[1]:g}, "
        f"memory {scenario.memory[0]:g} to {scenario.memory[1]:g} MB, {scenario.arrivals} arrivals at load "
        f"{scenario.utilisation:g}, {found.spec.tasks:,} tasks, kinds {', '.join(scenario.kinds) or 'all'}, "
        f"{machine.platform.name}, {machine.physics.name} physics, noise {machine.noise.sigma:g}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description="Search for the case in which A is worst compared with B.")
    parser.add_argument("pair", metavar="A:B", help="two schedulers, as in greedy:oracle")
    parser.add_argument("--tasks", type=int, default=400, help="tasks of each case")
    parser.add_argument("--evaluations", type=int, default=120, help="cases beyond the built-in scenarios")
    parser.add_argument("--seeds", type=int, default=20, help="seeds of the confirmation")
    parser.add_argument("--seed", type=int, default=0, help="seed of the search")
    parser.add_argument("--metric", default=DEFAULT_METRIC)
    parser.add_argument("--tasks-only", action="store_true", help="keep the machine, and vary only the tasks")
    parser.add_argument("--processes", type=int, default=None)
    parser.add_argument("--out", type=Path, required=True, help="a new or empty folder")
    options = parser.parse_args(arguments)
    names = tuple(options.pair.split(":"))
    if options.out.exists() and any(options.out.iterdir()):
        raise InvalidInputError("--out", "a new or empty folder", str(options.out))
    found = find_worst(
        ExperimentSpec(SCENARIOS["mixed"], options.tasks, names),
        metric=options.metric, evaluations=options.evaluations, seed=options.seed, confirmation_seeds=options.seeds,
        processes=options.processes, vary_machine=not options.tasks_only,
    )  # fmt: skip
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "adversary.json").write_text(pretty_json(document(found)), encoding="utf-8")
    tested = [run.seed for run in found.paired.runs]
    run_record.write_run(options.out, run_record.COMPARE, found.spec, tested, comparison_events(found.paired.runs))
    print(summary(found))


if __name__ == "__main__":
    main()
