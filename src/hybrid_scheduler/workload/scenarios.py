"""Scenarios: named distributions of tasks and arrivals for experiments.

A scenario defines the distributions of sizes, intensities and memory, the arrival process and the utilisation. The
utilisation is the arrival rate as a share of the capacity mu* of the platform for these tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from ..core import InvalidInputError, Platform, UnknownNameError, Workload, workstation
from ..core.workload import MAX_VALUE
from ..physics import PHYSICS, Physics, ProfiledPhysics, capacity, full_speed, physics_named
from .argument_checks import Range, number_range, positive_number, whole_number
from .arrivals import ARRIVALS
from .distributions import BoundedPareto, LogNormal, SizeDistribution, Uniform
from .random_columns import Regime, draw_chunks, join_chunks, joined_tasks

_CAPACITY_DRAWS = 200_000
_CAPACITY_SEED = 0


@dataclass(frozen=True)
class Scenario:
    """Distribution of tasks and arrivals. `dataclasses.replace` gives variants.

    Parameters
    ----------
    name, description
        Name and one-line description.
    size
        Distribution of sizes.
    intensity, memory
        Lowest and highest compute intensity, and memory in MB; both uniform.
    arrivals
        Arrival process: ``"poisson"``, ``"bursty"``, ``"diurnal"`` or ``"waves"``.
    utilisation
        Arrival rate as a share of the platform's capacity.
    physics
        Name of the physics that the scenario is meant for.
    episode_length
        Tasks between two resets of a live run; None for no resets.
    then, then_tasks
        Second scenario, and the number of last tasks drawn from it (at most half of a workload).
    kinds
        Kinds of tasks, drawn in equal parts, for physics that tell kinds apart. If left out, tasks are of all kinds
        that a profile measured, and generic with other physics.

    Raises
    ------
    InvalidInputError
        If a range, a rate or a number of tasks is not positive, or a name is unknown.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from hybrid_scheduler import scenario_named
    >>> replace(scenario_named("mixed"), name="small-memory", memory=(10.0, 50.0)).memory
    (10.0, 50.0)
    """

    name: str
    description: str
    size: SizeDistribution = Uniform(100.0, 5000.0)  # noqa: RUF009 - immutable
    intensity: Range = (0.0, 1.0)
    memory: Range = (10.0, 500.0)
    arrivals: str = "poisson"
    utilisation: float = 0.7
    physics: str = "analytic"
    episode_length: int | None = None
    then: Scenario | None = None
    then_tasks: int = 500
    kinds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.size.low > 0:
            raise InvalidInputError("scenario.size", "a distribution of values > 0", self.size)
        # As tuples: a list would make the scenario unhashable, and its capacity could not be cached.
        object.__setattr__(self, "intensity", number_range("scenario.intensity", self.intensity, most=1.0))
        object.__setattr__(self, "memory", number_range("scenario.memory", self.memory))
        object.__setattr__(self, "kinds", tuple(self.kinds))
        positive_number("scenario.utilisation", self.utilisation)
        whole_number("scenario.then_tasks", self.then_tasks, 1)
        if self.episode_length is not None:
            whole_number("scenario.episode_length", self.episode_length, 1)
        if self.arrivals not in ARRIVALS:
            raise UnknownNameError("scenario.arrivals", self.arrivals, ARRIVALS)
        if self.physics not in PHYSICS:
            raise UnknownNameError("scenario.physics", self.physics, PHYSICS)

    def regime(self, count: int, rate: float, kinds: tuple[str, ...] = ()) -> Regime:
        """Return `count` tasks of this scenario at `rate` tasks per second, without its second scenario.

        The `kinds` are for a scenario that names none.
        """
        chosen = self.kinds or kinds
        return Regime(
            count, self.size, Uniform(*self.intensity), Uniform(*self.memory), self.arrivals, rate, chosen
        )


def default_scenario(
    size_range: Range = (500.0, 1500.0),
    intensity_range: Range = (0.1, 0.9),
    memory_range: Range = (50.0, 150.0),
) -> Scenario:
    """Return the default scenario with these ranges of size, intensity and memory in MB."""
    return Scenario(
        "default",
        "The ranges of the configuration, at a load every scheduler survives",
        Uniform(*number_range("size_range", size_range, open_below=True)),
        number_range("intensity_range", intensity_range, most=1.0),
        number_range("memory_range", memory_range),
        utilisation=0.10,
    )


def shift_scenarios() -> tuple[Scenario, Scenario]:
    """Return the scenarios before and after the shift: large compute-bound tasks, then small data-bound ones."""
    train = Scenario(
        "shift-train",
        "Before the shift: large, intense tasks with little data, at home on the GPU",
        Uniform(1000.0, 5000.0),
        (0.6, 1.0),
        (10.0, 100.0),
        physics="serial",
    )
    test = Scenario(
        "shift-test",
        "After the shift: small tasks of low intensity with much data, at home on the CPU",
        Uniform(100.0, 360.0),
        (0.0, 0.1),
        (2000.0, 5000.0),
        physics="serial",
    )
    return train, test


def _variants() -> Iterator[Scenario]:
    default = default_scenario()
    mixed = Scenario("mixed", "Small to large tasks of every intensity")

    def variant(of: Scenario, name: str, description: str, **changes: Any) -> Scenario:
        return replace(of, name=name, description=description, **changes)

    train, test = shift_scenarios()
    yield from (
        default,
        mixed,
        variant(mixed, "small", "Small tasks only", size=Uniform(500.0, 1500.0)),
        variant(mixed, "transfer", "Tasks that carry much data", memory=(100.0, 4000.0)),
        variant(
            mixed, "low-intensity", "Tasks that gain little from a GPU and carry much data", intensity=(0.0, 0.3),
            memory=(100.0, 4000.0),
        ),
        variant(
            mixed, "lognormal", "Log-normal sizes: a few tasks are much larger than the rest",
            size=LogNormal(1200.0, 0.8, 50.0, 30000.0),
        ),
        variant(
            mixed, "pareto", "Heavy-tailed sizes: many small tasks and a few very large ones",
            size=BoundedPareto(1.8, 400.0, 30000.0),
        ),
        variant(
            mixed, "oom", "Half of the tasks need more memory than a GPU of 8000 MB has", memory=(10.0, 16000.0)
        ),
        variant(mixed, "bursty", "Mixed tasks that arrive in bursts", arrivals="bursty"),
        variant(mixed, "diurnal", "Mixed tasks by day and by night", arrivals="diurnal"),
        variant(
            default, "rush-hour", "The default tasks close to capacity, in episodes of 2,000", utilisation=0.9,
            episode_length=2000,
        ),
        variant(
            default, "waves", "The default tasks in waves: calm, then a rush that overloads simple schedulers",
            arrivals="waves", utilisation=0.125,
        ),
        variant(train, "shift", "The mix changes for the last 500 tasks", then=test),
    )  # fmt: skip


#: Built-in scenarios by name.
SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in _variants()}

#: Scenario of a live run that names none. Its load is below 0.144, so that even round robin catches up in the calm.
LIVE_SCENARIO = "waves"


def scenario_named(name: str) -> Scenario:
    """Return the built-in scenario of this name.

    Parameters
    ----------
    name
        For example ``"default"``, ``"mixed"`` or ``"bursty"``; `SCENARIOS` lists all.

    Raises
    ------
    UnknownNameError
        If there is no such scenario; the hint names the nearest one.

    Examples
    --------
    >>> from hybrid_scheduler import scenario_named
    >>> scenario_named("pareto").size
    BoundedPareto(alpha=1.8, low=400.0, high=30000.0)
    """
    if name not in SCENARIOS:
        raise UnknownNameError("scenario", name, SCENARIOS)
    return SCENARIOS[name]


def capacity_of(scenario: Scenario, platform: Platform, physics: Physics) -> float:
    """Return the capacity mu*: the highest rate in tasks per second, from 200,000 fixed-seed draws.

    Parameters
    ----------
    scenario
        Scenario; its second scenario is not counted (pass ``scenario.then`` for that).
    platform, physics
        Devices and durations.

    Examples
    --------
    >>> from hybrid_scheduler import AnalyticPhysics, capacity_of, scenario_named, workstation
    >>> 5 < capacity_of(scenario_named("mixed"), workstation(), AnalyticPhysics()) < 50
    True
    """
    return capacity_of_regime(scenario.regime(_CAPACITY_DRAWS, 0.0, kinds_of(physics, platform)), platform, physics)


def kinds_of(physics: Physics, platform: Platform) -> tuple[str, ...]:
    """Return the kinds of tasks that scenarios draw for a physics, in equal parts; none for generic tasks.

    For a profiled physics these are the kernels that were measured on every class of device.

    Parameters
    ----------
    physics, platform
        Durations and devices.

    Raises
    ------
    InvalidInputError
        If no kernel was measured on every class of device.
    """
    physics = full_speed(physics)
    if not isinstance(physics, ProfiledPhysics):
        return ()
    measured = {(curve.kind, curve.device) for curve in physics.curves}
    classes = list(dict.fromkeys(device.kind for device in platform.classes))
    found = tuple(kind for kind in physics.kinds if all((kind, name) in measured for name in classes))
    if not found:
        known = ", ".join(dict.fromkeys(curve.device for curve in physics.curves))
        raise InvalidInputError(
            "physics", f"a profile with a kernel measured on all of {', '.join(classes)}", f"one of {known}",
            hint="another --platform, or another profile",
        )  # fmt: skip
    return found


def offered_load(workload: Workload, platform: Platform, physics: Physics) -> float | None:
    """Return the load that tasks offer to a machine: their rate of arrival over its capacity for them.

    Above 1 the tasks arrive faster than any scheduler can run them. A graph has no rate, nor have tasks that all
    arrive at once: the result is None.

    Parameters
    ----------
    workload
        Tasks with their arrival times.
    platform, physics
        Devices and durations.

    Examples
    --------
    >>> from hybrid_scheduler import AnalyticPhysics, Workload, offered_load, workstation
    >>> n = 1001
    >>> tasks = Workload(
    ...     task_id=range(n),
    ...     size=[2500] * n,
    ...     compute_intensity=[0.5] * n,
    ...     memory_required=[0] * n,
    ...     arrival_time=[0.1 * i for i in range(n)],
    ... )
    >>> round(offered_load(tasks, workstation(1), AnalyticPhysics()), 3)  # 10 tasks per second, capacity 7
    1.429
    """
    span = float(workload.arrival_time[-1] - workload.arrival_time[0])
    if workload.has_dependencies or span <= 0:
        return None
    return (len(workload) - 1) / span / capacity(workload, platform, physics)


def stretch_arrivals(workload: Workload, load: float, platform: Platform, physics: Physics) -> Workload:
    """Return the same tasks with arrivals stretched or compressed, so that they offer this load to a machine.

    Parameters
    ----------
    workload
        Tasks with their arrival times.
    load
        Rate of arrival over the machine's capacity for these tasks, above 0.
    platform, physics
        Devices and durations.

    Raises
    ------
    InvalidInputError
        If the tasks have no rate of arrival, or `load` is not above 0.
    """
    wanted = positive_number("load", load)
    offered = offered_load(workload, platform, physics)
    if offered is None:
        raise InvalidInputError("load", "left out: the tasks are a graph, or all arrive at once", load)
    stretched = copy(workload)
    arrival = workload.arrival_time * (offered / wanted)
    if arrival[-1] > MAX_VALUE:
        raise InvalidInputError("load", f"one with arrivals of at most {MAX_VALUE:g} s", load)
    arrival.flags.writeable = False
    stretched.arrival_time = arrival
    return stretched


@lru_cache(maxsize=256)
def capacity_of_regime(regime: Regime, platform: Platform, physics: Physics) -> float:
    """Return the capacity of a platform for tasks of one regime, computed once per process."""
    return capacity(join_chunks(list(draw_chunks([regime], _CAPACITY_SEED, regime.count))), platform, physics)


def generate(
    scenario: Scenario,
    num_tasks: int,
    seed: int,
    *,
    platform: Platform | None = None,
    physics: Physics | None = None,
    utilisation: float | None = None,
    batch: bool = False,
    first_id: int = 0,
) -> Workload:
    """Return a workload drawn from a scenario.

    After a shift to the second scenario the rate follows the capacity for the new tasks, so the utilisation stays
    the same. For a profiled physics every task is of a measured kind, see `kinds_of`.

    Parameters
    ----------
    scenario
        Scenario to draw from.
    num_tasks, seed
        Number of tasks, and seed of the random numbers.
    platform, physics
        Devices and durations; by default `workstation` and the scenario's physics.
    utilisation
        Load; by default the scenario's.
    batch
        Whether all tasks arrive at time 0.
    first_id
        Id of the first task; the others follow.

    Returns
    -------
    Workload
        The tasks, ordered by arrival.

    Raises
    ------
    InvalidInputError
        If an argument is out of range.

    Examples
    --------
    >>> from hybrid_scheduler import generate, scenario_named
    >>> workload = generate(scenario_named("mixed"), num_tasks=100, seed=1, batch=True)
    >>> len(workload), float(workload.arrival_time.max())
    (100, 0.0)
    """
    whole_number("num_tasks", num_tasks, 1)
    parts = stream(
        scenario, num_tasks, seed, chunk=num_tasks, platform=platform, physics=physics, utilisation=utilisation,
        batch=batch, first_id=first_id,
    )  # fmt: skip
    return joined_tasks(list(parts))


def stream(
    scenario: Scenario,
    num_tasks: int,
    seed: int,
    *,
    chunk: int = 100_000,
    platform: Platform | None = None,
    physics: Physics | None = None,
    utilisation: float | None = None,
    batch: bool = False,
    first_id: int = 0,
) -> Iterator[Workload]:
    """Yield the tasks of `generate`, bit for bit, at most `chunk` at a time.

    Parameters
    ----------
    chunk
        Largest number of tasks in memory. The other parameters are those of `generate`.
    """
    whole_number("chunk", chunk, 1)
    whole_number("num_tasks", num_tasks, 1)
    whole_number("seed", seed, 0)
    whole_number("first_id", first_id, 0, 2**63 - num_tasks)
    if utilisation is not None:
        if batch:
            raise InvalidInputError(
                "utilisation", "left out of a batch, where every task arrives at time 0", utilisation
            )
        positive_number("utilisation", utilisation)
    load = scenario.utilisation if utilisation is None else utilisation
    devices = platform or workstation()
    durations = physics or physics_named(scenario.physics)

    def part(drawn: Scenario, count: int) -> Regime:
        rate = 0.0 if batch else load * capacity_of(drawn, devices, durations)
        return drawn.regime(count, rate, kinds_of(durations, devices))

    after = 0 if scenario.then is None else min(scenario.then_tasks, num_tasks // 2)
    regimes = [part(scenario, num_tasks - after)]
    if scenario.then is not None:
        regimes.append(part(scenario.then, after))

    def chunks() -> Iterator[Workload]:
        next_id = first_id
        for columns in draw_chunks(regimes, seed, chunk):
            yield join_chunks([columns], next_id)
            next_id += len(columns.size)

    return chunks()  # an inner function, so that bad arguments raise now instead of at the first chunk


# -------------------------------------------------------------------- JSON

_SIZE_DISTRIBUTIONS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Uniform, LogNormal, BoundedPareto)}


def scenario_to_json(scenario: Scenario) -> dict[str, Any]:
    """Return a scenario as plain values, so that a run can resume with it after a restart."""
    size: Any = scenario.size
    name = type(size).__name__
    if name not in _SIZE_DISTRIBUTIONS:
        raise InvalidInputError("scenario.size", "one of " + ", ".join(_SIZE_DISTRIBUTIONS), name)
    plain = vars(scenario) | {
        "size": {"law": name, **asdict(size)},
        "intensity": list(scenario.intensity),
        "memory": list(scenario.memory),
        "kinds": list(scenario.kinds),
        "then": None if scenario.then is None else scenario_to_json(scenario.then),
    }
    # Without kinds there is no such key, so that older JSON objects keep their hash.
    return {key: value for key, value in plain.items() if key != "kinds" or value}


def scenario_from_json(data: dict[str, Any]) -> Scenario:
    """Return the scenario that `scenario_to_json` described."""
    size = dict(data["size"])
    distribution: SizeDistribution = _SIZE_DISTRIBUTIONS[size.pop("law")](**size)
    then = None if data["then"] is None else scenario_from_json(data["then"])
    return Scenario(**{**data, "size": distribution, "then": then})
