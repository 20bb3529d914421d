"""Named mixes of tasks and arrivals: what the experiments run on.

A scenario says how sizes, intensities and memory are spread, how tasks arrive, and at which utilisation: the
arrival rate as a share of the capacity mu* that this machine has for these tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from ..core import InvalidInputError, Platform, UnknownNameError, Workload, workstation
from ..physics import PHYSICS, Physics, capacity, physics_named
from .argument_checks import Range, number_range, positive_number, whole_number
from .arrivals import ARRIVALS
from .column_source import Regime, draw_chunks, join_chunks
from .distributions import BoundedPareto, LogNormal, SizeDistribution, Uniform

_CAPACITY_DRAWS = 200_000
_CAPACITY_SEED = 0


@dataclass(frozen=True)
class Scenario:
    """A mix of tasks. `dataclasses.replace(scenario, memory=(10, 50))` gives a variant of it.

    `then` is the regime that takes over for the last `then_tasks` tasks (half of them in a workload too short
    for that); `physics` names the physics the scenario is meant for; `episode_length` how many tasks a
    learner should see between two restarts.
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

    def __post_init__(self) -> None:
        if not self.size.low > 0:
            raise InvalidInputError("scenario.size", "a law of values > 0", self.size)
        # As tuples: a list would make the scenario unhashable, and its capacity could not be remembered.
        object.__setattr__(self, "intensity", number_range("scenario.intensity", self.intensity, most=1.0))
        object.__setattr__(self, "memory", number_range("scenario.memory", self.memory))
        positive_number("scenario.utilisation", self.utilisation)
        whole_number("scenario.then_tasks", self.then_tasks, 1)
        if self.episode_length is not None:
            whole_number("scenario.episode_length", self.episode_length, 1)
        if self.arrivals not in ARRIVALS:
            raise UnknownNameError("scenario.arrivals", self.arrivals, ARRIVALS)
        if self.physics not in PHYSICS:
            raise UnknownNameError("scenario.physics", self.physics, PHYSICS)

    def regime(self, count: int, rate: float) -> Regime:
        """So many tasks of this scenario's own mix."""
        return Regime(count, self.size, Uniform(*self.intensity), Uniform(*self.memory), self.arrivals, rate)


def default_scenario(
    size_range: Range = (500.0, 1500.0),
    intensity_range: Range = (0.1, 0.9),
    memory_range: Range = (50.0, 150.0),
) -> Scenario:
    """The everyday mix; configuration may move its ranges."""
    return Scenario(
        "default",
        "The ranges of the configuration, at a load every scheduler survives",
        Uniform(*number_range("size_range", size_range, open_below=True)),
        number_range("intensity_range", intensity_range, most=1.0),
        number_range("memory_range", memory_range),
        utilisation=0.10,
    )


def shift_regimes() -> tuple[Scenario, Scenario]:
    """Before and after the shift: large compute-bound tasks, then small ones that carry much data."""
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


def _shift() -> Scenario:
    train, test = shift_regimes()
    return replace(train, name="shift", description="The mix changes for the last 500 tasks", then=test)


_MIXED = Scenario("mixed", "Small to large tasks of every intensity")

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        default_scenario(),
        _MIXED,
        replace(_MIXED, name="small", description="Small tasks only", size=Uniform(500.0, 1500.0)),
        replace(_MIXED, name="transfer", description="Tasks that carry much data", memory=(100.0, 4000.0)),
        replace(
            _MIXED,
            name="low-intensity",
            description="Tasks that gain little from a GPU and carry much data",
            intensity=(0.0, 0.3),
            memory=(100.0, 4000.0),
        ),
        replace(
            _MIXED,
            name="lognormal",
            description="Log-normal sizes: a few tasks are much larger than the rest",
            size=LogNormal(1200.0, 0.8, 50.0, 30000.0),
        ),
        replace(
            _MIXED,
            name="pareto",
            description="Heavy-tailed sizes: many small tasks and a few very large ones",
            size=BoundedPareto(1.8, 400.0, 30000.0),
        ),
        replace(
            _MIXED,
            name="oom",
            description="Half of the tasks need more memory than a GPU of 8000 MB has",
            memory=(10.0, 16000.0),
        ),
        replace(_MIXED, name="bursty", description="Mixed tasks that arrive in bursts", arrivals="bursty"),
        replace(_MIXED, name="diurnal", description="Mixed tasks by day and by night", arrivals="diurnal"),
        replace(
            default_scenario(),
            name="rush-hour",
            description="The default tasks close to capacity, in episodes of 2,000",
            utilisation=0.9,
            episode_length=2000,
        ),
        _shift(),
    )
}


def scenario_named(name: str) -> Scenario:
    """The built-in scenario of that name."""
    if name not in SCENARIOS:
        raise UnknownNameError("scenario", name, SCENARIOS)
    return SCENARIOS[name]


def capacity_of(scenario: Scenario, platform: Platform, physics: Physics) -> float:
    """mu*: how many tasks a second of this mix the machine can do at most, from 200,000 fixed draws.

    A scenario with a second regime answers for its first one; ask for ``scenario.then`` to learn the other.
    """
    return _capacity(scenario.regime(_CAPACITY_DRAWS, 0.0), platform, physics)


@lru_cache(maxsize=256)
def _capacity(regime: Regime, platform: Platform, physics: Physics) -> float:
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
    """`num_tasks` tasks of the scenario; with `batch` all of them are there at time 0.

    The machine defaults to a workstation and the physics to the scenario's own; `utilisation` replaces the
    scenario's. After a shift the rate follows the capacity for the new tasks, so the utilisation stays the
    same.
    """
    regimes = _regimes(scenario, num_tasks, seed, platform, physics, utilisation, batch, first_id)
    return join_chunks(list(draw_chunks(regimes, seed, num_tasks)), first_id)


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
    """The same tasks as `generate`, bit for bit, at most `chunk` at a time and never all in memory."""
    whole_number("chunk", chunk, 1)
    regimes = _regimes(scenario, num_tasks, seed, platform, physics, utilisation, batch, first_id)

    def chunks() -> Iterator[Workload]:
        next_id = first_id
        for piece in draw_chunks(regimes, seed, chunk):
            yield join_chunks([piece], next_id)
            next_id += len(piece.size)

    return chunks()  # a function of its own, so that bad arguments are refused now and not at the first chunk


def _regimes(
    scenario: Scenario,
    num_tasks: int,
    seed: int,
    platform: Platform | None,
    physics: Physics | None,
    utilisation: float | None,
    batch: bool,
    first_id: int,
) -> list[Regime]:
    whole_number("num_tasks", num_tasks, 1)
    whole_number("seed", seed, 0)
    whole_number("first_id", first_id, 0, 2**63 - num_tasks)
    if utilisation is not None:
        if batch:
            raise InvalidInputError(
                "utilisation", "left out of a batch, where every task is there at time 0", utilisation
            )
        positive_number("utilisation", utilisation)
    load = scenario.utilisation if utilisation is None else utilisation
    machine = platform or workstation()
    laws = physics or physics_named(scenario.physics)

    def part(mix: Scenario, count: int) -> Regime:
        return mix.regime(count, 0.0 if batch else load * capacity_of(mix, machine, laws))

    if scenario.then is None:
        return [part(scenario, num_tasks)]
    after = min(scenario.then_tasks, num_tasks // 2)
    return [part(scenario, num_tasks - after), part(scenario.then, after)]


# -------------------------------------------------------------------- JSON

_LAWS: dict[str, type[Any]] = {law.__name__: law for law in (Uniform, LogNormal, BoundedPareto)}


def scenario_to_json(scenario: Scenario) -> dict[str, Any]:
    """Plain values only."""
    law: Any = scenario.size
    if type(law).__name__ not in _LAWS:
        raise InvalidInputError("scenario.size", "one of " + ", ".join(_LAWS), type(law).__name__)
    return {
        "name": scenario.name,
        "description": scenario.description,
        "size": {"law": type(law).__name__, **asdict(law)},
        "intensity": list(scenario.intensity),
        "memory": list(scenario.memory),
        "arrivals": scenario.arrivals,
        "utilisation": scenario.utilisation,
        "physics": scenario.physics,
        "episode_length": scenario.episode_length,
        "then": None if scenario.then is None else scenario_to_json(scenario.then),
        "then_tasks": scenario.then_tasks,
    }


def scenario_from_json(data: dict[str, Any]) -> Scenario:
    """What `scenario_to_json` wrote; anything else is refused by the scenario's own checks."""
    values = dict(data)
    size = dict(values.pop("size"))
    law: SizeDistribution = _LAWS[size.pop("law")](**size)
    then = values.pop("then")
    intensity, memory = tuple(values.pop("intensity")), tuple(values.pop("memory"))
    return Scenario(
        size=law,
        intensity=intensity,
        memory=memory,
        then=None if then is None else scenario_from_json(then),
        **values,
    )
