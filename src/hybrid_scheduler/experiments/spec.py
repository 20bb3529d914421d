"""Specification of an experiment, without a seed: tasks, a machine and schedulers.

A specification is plain data: it crosses process borders, is written into the record of a run, and is read back.

A scenario gives as many workloads as there are seeds; a trace is one. So the run is cut into batches of consecutive
tasks, and every scheduler is compared with every other batch by batch. The spread of the batches gives the
intervals: they say what a longer trace of the same kind would show. A number of the whole run, such as its
makespan, has no batches and gets no interval.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..cluster import Machine
from ..core import Floats, InvalidInputError, Workload
from ..core.canonical_json import content_hash
from ..engine import Comparison, compare
from ..metrics import batch_means
from ..physics import EnergyAndCost, SlowedPhysics
from ..schedulers import create
from ..schedulers import schedulers as known_schedulers
from ..workload.argument_checks import parse_spec
from ..workload.scenarios import Scenario, generate, offered_load, scenario_from_json, scenario_to_json
from ..workload.task_graphs import graph_of, needs_seed

_SHIPPED_MODELS = Path(__file__).parent.parent / "models"

BATCHES = 20
#: Fewest tasks of a batch: smaller batches depend too much on their neighbours.
_TASKS_PER_BATCH = 10
#: Metrics that batches of a run have: means over tasks, and sums over them.
MEANS = ("mean_latency", "mean_time", "mean_wait", "mean_slowdown", "mean_regret", "mean_gpu_fraction")
SUMS = ("energy", "cost")


@dataclass(frozen=True)
class TraceSource:
    """Tasks and the name they came under. `sha256` is over all their columns and identifies the trace."""

    name: str
    workload: Workload = field(compare=False, repr=False)
    sha256: str
    batches: int

    @classmethod
    def of(cls, name: str, workload: Workload, batches: int | None = None) -> TraceSource:
        """Return the source of these tasks.

        Parameters
        ----------
        name
            Name for captions.
        workload
            The tasks.
        batches
            Number of batches; chosen by the number of tasks if left out.

        Raises
        ------
        InvalidInputError
            If the trace is too short for that many batches.
        """
        most = len(workload) // _TASKS_PER_BATCH
        if batches is not None and not 2 <= batches <= most:
            allowed = (
                f"from 2 to {most}, for {len(workload):,} tasks" if most >= 2 else "left out: the trace is short"
            )
            raise InvalidInputError("batches", allowed, batches)
        return cls(name, workload, workload_digest(workload), batches or min(BATCHES, most))

    @property
    def why_no_interval(self) -> str | None:
        """Reason why batches of this trace give no interval; None if they do."""
        if self.workload.has_dependencies:
            return "its tasks depend on each other, so that it is one piece"
        if self.workload.arrival_time[0] == self.workload.arrival_time[-1]:
            return "all its tasks arrive at once, so that it is one piece"
        if self.batches < 2:
            return f"it has {len(self.workload)} tasks, and two batches need {2 * _TASKS_PER_BATCH}"
        return None

    @property
    def label(self) -> str:
        """Text that says how its intervals come about."""
        return f"one trace; interval from batch means over {self.batches} batches"


def workload_digest(workload: Workload) -> str:
    """Return the SHA-256 over all columns of a workload."""
    digest = hashlib.sha256()
    columns = [*workload.columns().values(), workload.kind, workload.parent_start, workload.parent_rows]
    for column in [*columns, workload.parent_data]:
        digest.update(np.ascontiguousarray(column, column.dtype.newbyteorder("<")).tobytes())
    digest.update("\0".join(workload.kinds).encode())
    if not workload.divisible.all():  # otherwise left out, so that older records keep their digest
        digest.update(workload.divisible.tobytes())
    return digest.hexdigest()


def batch_values(comparison: Comparison, batches: int) -> dict[str, dict[str, list[float]]]:
    """Return one value per batch for every scheduler and metric, over the tasks that all schedulers completed."""
    results = comparison.results
    done = np.logical_and.reduce([result.outcomes.completed for result in results.values()])
    if done.sum() < 2 * batches:
        return {}
    oracle = results["oracle"].outcomes.latency if "oracle" in results else None
    values: dict[str, dict[str, list[float]]] = {}
    for name, result in results.items():
        outcomes = result.outcomes
        charges = EnergyAndCost(result.outcomes, result.platform, result.tariff)
        columns: dict[str, Floats] = {
            "mean_latency": outcomes.latency,
            "mean_time": outcomes.time,
            "mean_wait": outcomes.wait,
            "mean_slowdown": outcomes.latency / comparison.isolated,
            "mean_gpu_fraction": outcomes.fraction,
            "energy": charges.energy,
            "cost": charges.cost,
        }
        if oracle is not None:
            columns["mean_regret"] = outcomes.latency - oracle
        values[name] = {
            metric: (batch_means(column[done], batches) * (done.sum() if metric in SUMS else 1)).tolist()
            for metric, column in columns.items()
        }
    return values


@dataclass(frozen=True)
class ExperimentSpec:
    """Some schedulers on tasks of a scenario, of a trace or of a task graph.

    Parameters
    ----------
    scenario
        Scenario that generates the tasks; None for a trace or a graph.
    tasks
        Number of tasks.
    schedulers
        Names of schedulers, with parameters in brackets.
    machine
        The machine; the workstation with analytic physics if left out.
    utilisation
        Load; None is the scenario's own. A batch, a trace and a graph have none.
    batch
        Whether all tasks arrive at time 0.
    trace
        Tasks of a trace.
    graph
        Name of a task graph with its parameters, such as ``"cholesky(tiles=8)"``.
    indivisible
        Whether no task of the scenario or graph may be split.

    Raises
    ------
    InvalidInputError
        If there is not exactly one of scenario, trace and graph, or scheduler names are missing or repeated.
    UnknownNameError
        If a scheduler is unknown.
    """

    scenario: Scenario | None
    tasks: int
    schedulers: tuple[str, ...]
    machine: Machine = field(default_factory=Machine)
    utilisation: float | None = None
    batch: bool = False
    trace: TraceSource | None = None
    graph: str | None = None
    indivisible: bool = False

    def __post_init__(self) -> None:
        given = [source for source in (self.scenario, self.trace, self.graph) if source is not None]
        if len(given) != 1:
            raise InvalidInputError("spec", "about one scenario, trace or graph", f"{len(given)} of them")
        if not self.schedulers:
            raise InvalidInputError("schedulers", "at least one name", "none")
        if len(set(self.schedulers)) < len(self.schedulers):
            raise InvalidInputError("schedulers", "different names", list(self.schedulers))
        for name in self.schedulers:
            create(name)  # a wrong name fails here, not later in another process

    @classmethod
    def for_trace(cls, trace: TraceSource, schedulers: tuple[str, ...], machine: Machine) -> ExperimentSpec:
        """Return the specification of a trace's tasks as they are."""
        return cls(None, len(trace.workload), schedulers, machine, trace=trace)

    @classmethod
    def for_graph(cls, graph: str, schedulers: tuple[str, ...], machine: Machine | None = None) -> ExperimentSpec:
        """Return the specification of a task graph by its name.

        Examples
        --------
        >>> from hybrid_scheduler.experiments.paired_comparison import compare_seeds
        >>> from hybrid_scheduler.experiments.spec import ExperimentSpec
        >>> spec = ExperimentSpec.for_graph("cholesky(tiles=4)", ("heft", "cpu_only"))
        >>> compare_seeds(spec, range(2)).test_pairs("makespan").ranking[0].name
        'heft'
        """
        return cls(None, len(graph_of(graph)), schedulers, machine or Machine(), graph=graph)

    @property
    def load(self) -> float | None:
        """Share of capacity at which tasks arrive; None in a batch, for a trace and for a graph."""
        return None if self.batch or self.scenario is None else self.utilisation or self.scenario.utilisation

    @property
    def required_scenario(self) -> Scenario:
        """The scenario, for callers that cannot use a trace or a graph."""
        if self.scenario is None:
            raise InvalidInputError("spec", "about a scenario", f"the {self.source}")
        return self.scenario

    @property
    def repeats_itself(self) -> bool:
        """Whether every seed gives the same result: a fixed graph without noise, and nothing that learns.

        Only schedulers that draw random numbers can still differ.
        """
        fixed = self.graph is not None and not needs_seed(self.graph)
        return fixed and not self.machine.noise.sigma and not any(create(name).learns for name in self.schedulers)

    @property
    def name(self) -> str:
        """Name of the scenario, the trace or the graph."""
        return self.graph or (self.trace.name if self.trace else self.required_scenario.name)

    @property
    def source(self) -> str:
        """Scenario, trace or graph, and load."""
        if self.graph:
            return f"graph {self.graph}"
        if self.trace:
            return f"trace {self.name}"
        return f"{self.name}, all at once" if self.batch else f"{self.name} at load {self.load:g}"

    def workload(self, seed: int) -> Workload:
        """Return the tasks of a seed; a trace and a fixed graph have the same for every one."""
        if self.graph:
            tasks = graph_of(self.graph, seed)
        elif self.trace:
            tasks = self.trace.workload
        else:
            tasks = generate(
                self.required_scenario, self.tasks, seed, platform=self.machine.platform,
                physics=self.machine.physics, utilisation=self.load, batch=self.batch,
            )  # fmt: skip
        return tasks.indivisible() if self.indivisible else tasks

    def run(self, seed: int, progress: Callable[[str, int], None] | None = None) -> Comparison:
        """Run all schedulers on the same tasks, each on a cluster of its own."""
        machine = self.on_seed(seed)
        with single_threaded(self.schedulers):
            return compare(self.workload(seed), self.schedulers, machine=machine, seed=seed, progress=progress)

    def on_seed(self, seed: int) -> Machine:
        """Return the machine with the noise of a seed."""
        return self.machine.with_noise_seed(seed)

    @property
    def offered_load(self) -> float | None:
        """Load that the tasks offer to the machine; for a trace its own. None for a graph and a batch."""
        if self.trace is None:
            return self.load
        return offered_load(self.trace.workload, self.machine.platform, self.machine.physics)

    @property
    def facts(self) -> list[str]:
        """Short facts for captions."""
        machine = self.machine
        return [
            self.source,
            f"{self.tasks:,} tasks",
            machine.platform.name,
            f"{machine.physics.name} physics",
            *self.unusual,
        ]

    @property
    def unusual(self) -> list[str]:
        """Short facts that change the meaning of the numbers, where they differ from the defaults."""
        machine = self.machine
        weights = asdict(self.machine.objective)
        facts = []
        if machine.noise.sigma:
            facts.append(f"noise σ {machine.noise.sigma:g}")
        if isinstance(machine.physics, SlowedPhysics):
            facts.append(machine.physics.slowdown.describe())
        if self.indivisible or (self.trace is not None and not self.trace.workload.divisible.any()):
            facts.append("no task is split")
        if machine.memory_policy != "clip":
            facts.append(f"memory policy {machine.memory_policy}")
        if not machine.objective.is_latency_only:
            goals = " + ".join(f"{weight:g} {name}" for name, weight in weights.items() if weight)
            facts.append(f"objective {goals}")
        return facts

    # ---------------------------------------------------------------- as JSON

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON: everything that results depend on besides the seed and the code.

        Raises
        ------
        InvalidInputError
            If the physics cannot be recorded.
        """
        machine = self.machine
        trace = self.trace
        # Without a trace or a graph there is no such key, so that older records keep their hash.
        source: dict[str, Any] = {"graph": self.graph} if self.graph else {}
        if trace:
            source = {"trace": {"name": trace.name, "sha256": trace.sha256, "batches": trace.batches}}
        if self.indivisible:
            source["indivisible"] = True
        digests = model_digests(self.schedulers)
        models = {"models": digests} if digests else {}
        return {
            "scenario": scenario_to_json(self.scenario) if self.scenario else None,
            **source,
            **models,
            "tasks": self.tasks,
            "schedulers": list(self.schedulers),
            "utilisation": self.load,
            "batch": self.batch,
            **machine.as_json(),
            "noise": machine.noise.sigma,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any], trace: TraceSource | None = None) -> ExperimentSpec:
        """Return the specification that `as_json` wrote; the tasks of a trace come from elsewhere."""
        graph = data.get("graph")
        return cls(
            None if trace or graph else scenario_from_json(data["scenario"]),
            data["tasks"],
            tuple(data["schedulers"]),
            Machine.from_json(data),
            data["utilisation"],
            data["batch"],
            trace,
            graph,
            data.get("indivisible", False),
        )


def model_digests(names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of the model files that schedulers start from, by specification of the scheduler.

    A path alone does not identify a model: it may be trained again.
    """
    digests = {}
    for spec in names:
        name, arguments = parse_spec(spec)
        paths = [Path(value) for value in arguments.values() if isinstance(value, str)]
        if "model" in known_schedulers()[name].parameters and arguments.get("model", "default") == "default":
            paths += sorted(_SHIPPED_MODELS.iterdir())
        files = [path for path in paths if path.is_file()]
        if files:
            digests[spec] = content_hash([_file_digest(path, path.stat().st_mtime_ns) for path in files])
    return digests


@cache
def _file_digest(path: Path, _modified: int) -> str:
    """Return the SHA-256 of a file; the time of its last change is part of the cache's key."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def single_threaded(schedulers: Iterable[str]) -> Iterator[None]:
    """Limit libraries to one thread, so that the result of learning depends on the seed alone.

    Libraries that share a sum among threads add it up in another order elsewhere.
    """
    with ExitStack() as limits:
        # Schedulers that do not learn use none of these libraries, which take long to import.
        if any(create(name).learns for name in schedulers) and find_spec("threadpoolctl"):
            from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

            limits.enter_context(threadpool_limits(1))
        yield
