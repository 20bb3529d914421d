"""Simulation inputs: the experiment that the settings describe, and the run of one seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from loguru import logger

from .. import __version__
from ..config import ALL_SCHEDULERS, DEFAULT_SCENARIO, DEFAULT_SCHEDULERS, Settings
from ..core import HybridSchedulerError, InvalidInputError, Platform, Workload
from ..engine import Comparison, compare
from ..experiments.spec import ExperimentSpec, TraceSource
from ..physics import Physics
from ..schedulers import schedulers as registered
from ..workload.scenarios import offered_load, stretch_arrivals
from ..workload.task_graphs import is_graph
from ..workload.trace_files import find_trace, load_workload
from .command_context import option_names
from .printer import Printer

#: A trace in this folder can be chosen by its name.
TRACE_FOLDER = Path("data/workload_traces")


def spec_from_settings(
    settings: Settings,
    *,
    batch: bool = False,
    trace: str | None = None,
    batches: int | None = None,
    trace_load: object = None,
    indivisible: bool = False,
) -> ExperimentSpec:
    """Build the experiment that the settings and the options of a command describe.

    Parameters
    ----------
    settings
        Checked settings, options of the command line included.
    batch
        All tasks arrive at time 0.
    trace
        A trace file, or the name of a trace in `TRACE_FOLDER`, instead of a scenario.
    batches
        Number of batches for the intervals of a trace.
    trace_load
        Not None if the user asked for a load: the arrivals of the trace are stretched to `simulation.utilisation`.
    indivisible
        Whether no task may be split.

    Raises
    ------
    InvalidInputError
        If the trace does not exist, or `batches` is given without a trace.
    """
    simulation, machine = settings.simulation, settings.machine()
    names = simulation.schedulers or DEFAULT_SCHEDULERS
    scenario = simulation.scenario or DEFAULT_SCENARIO
    if names == (ALL_SCHEDULERS,):  # planners know all arrivals in advance: not fair on a stream
        names = tuple(name for name, info in registered().items() if info.protocol != "static")
    if trace is not None:
        path = trace_path(trace)
        tasks, name = load_workload(path), path.name
        if indivisible:
            tasks = tasks.indivisible()
        if trace_load is not None and simulation.utilisation is not None:
            tasks = stretch_arrivals(tasks, simulation.utilisation, machine.platform, machine.physics)
            name = f"{name} at load {simulation.utilisation:g}"
        with option_names(batches="--batches"):
            source = TraceSource.of(name, tasks, batches)
        spec = ExperimentSpec.for_trace(source, names, machine)
        _warn_of_overload(spec, by_name=name)
        return spec
    if batches is not None:
        raise InvalidInputError("--batches", "left out without --trace: a scenario has seeds", batches)
    if is_graph(scenario):
        graph = ExperimentSpec.for_graph(scenario, names, machine)
        return replace(graph, indivisible=indivisible)
    return ExperimentSpec(
        settings.scenario(scenario),
        simulation.tasks,
        names,
        machine,
        None if batch else simulation.utilisation,
        batch,
        indivisible=indivisible,
    )


def trace_load_of(spec: ExperimentSpec) -> float | None:
    """Return the load that a trace offers to the machine; None for a scenario, a graph and a batch."""
    if spec.trace is None:
        return None
    return offered_load(spec.trace.workload, spec.machine.platform, spec.machine.physics)


def _warn_of_overload(spec: ExperimentSpec, by_name: str) -> None:
    """Warn of a trace whose tasks arrive faster than the machine can run them."""
    load = trace_load_of(spec)
    if load is not None and load > 1:
        logger.warning(overload_text(by_name, load, spec.machine.platform.name))


def overload_text(trace: str, load: float, platform: str) -> str:
    """Return the warning about a trace that asks for more than a machine can run."""
    return (
        f"{trace} asks for {load:.3g} times what {platform} can run: every queue grows. "
        "--utilisation 0.7 stretches its arrivals"
    )


def trace_path(trace: str) -> Path:
    """Return the file of a trace that was given as a path or as a bare name in `TRACE_FOLDER`."""
    try:
        return find_trace(trace, TRACE_FOLDER)
    except InvalidInputError as error:
        allowed = f"a file, or the name of a trace in {TRACE_FOLDER.as_posix()}"
        raise InvalidInputError("--trace", allowed, trace, hint=error.hint) from None


@dataclass(frozen=True)
class SimulationInputs:
    """One simulation before it runs: the settings and the experiment they describe."""

    settings: Settings
    spec: ExperimentSpec

    @property
    def seed(self) -> int:
        """Seed of the tasks and of the noise."""
        return self.settings.simulation.seed

    @cached_property
    def workload(self) -> Workload:
        """The tasks, generated or read at first use."""
        return self.spec.workload(self.seed)

    @property
    def platform(self) -> Platform:
        """The simulated devices."""
        return self.spec.machine.platform

    @property
    def physics(self) -> Physics:
        """The model of durations and energy."""
        return self.spec.machine.physics

    @property
    def scenario(self) -> str | None:
        """Name of the scenario or the graph, or None for a trace."""
        return None if self.spec.trace else self.spec.name

    @property
    def trace(self) -> str | None:
        """Name of the trace, or None for a scenario or a graph."""
        return None if self.spec.trace is None else self.spec.trace.name

    @property
    def utilisation(self) -> float | None:
        """Offered load as a share of the capacity, or None where it is not set."""
        return self.spec.load

    @cached_property
    def offered_load(self) -> float | None:
        """Load that a trace offers to the machine; None for a scenario, a graph and a batch."""
        return trace_load_of(self.spec)

    @property
    def batch(self) -> bool:
        """Whether all tasks arrive at time 0."""
        return self.spec.batch

    def document(self, comparison: Comparison) -> dict[str, Any]:
        """Return all inputs and all results, as `--json` prints them."""
        body = comparison.as_dict()
        settings = self.settings
        return {
            "version": __version__,
            "scenario": self.scenario,
            "trace": self.trace,
            "batch": self.batch,
            "utilisation": self.utilisation,
            "offered_load": self.offered_load if self.trace else self.utilisation,
            "tasks": body["tasks"],
            "seed": settings.simulation.seed,
            "platform": body["platform"],
            "physics": self.physics.name,
            "noise": settings.physics.noise_sigma,
            "memory_policy": settings.simulation.memory_policy,
            "objective": settings.objective.model_dump(),
            "lower_bound": body["lower_bound"],
            "schedulers": body["schedulers"],
        }


def read_inputs(
    settings: Settings,
    *,
    batch: bool = False,
    trace: str | None = None,
    trace_load: object = None,
    indivisible: bool = False,
) -> SimulationInputs:
    """Build the machine and the tasks, and warn about a load that the machine cannot sustain."""
    spec = spec_from_settings(settings, batch=batch, trace=trace, trace_load=trace_load, indivisible=indivisible)
    inputs = SimulationInputs(settings, spec)
    _ = inputs.workload  # errors in the tasks must appear before anything runs
    if inputs.utilisation is not None and inputs.utilisation >= 1:
        logger.warning(f"load {inputs.utilisation:g} exceeds the machine's capacity: every queue grows")
    return inputs


def run_simulation(inputs: SimulationInputs, printer: Printer) -> Comparison:
    """Run every scheduler on the same tasks, with a progress bar on a terminal."""
    spec = inputs.spec
    if inputs.settings.simulation.schedulers == (ALL_SCHEDULERS,):
        spec = replace(spec, schedulers=tuple(_compatible_schedulers(inputs)))
    names, total = spec.schedulers, len(inputs.workload)
    done = dict.fromkeys(names, 0)
    logger.info(f"simulating {total} tasks with {', '.join(names)}")
    with printer.progress(total * len(names)) as update:

        def advance(name: str, count: int) -> None:
            done[name] += count
            # Not every run reports its last tasks: those before this one are complete.
            update(name, list(done).index(name) * total + done[name])

        return spec.run(inputs.seed, advance)


def _compatible_schedulers(inputs: SimulationInputs) -> list[str]:
    """Return the registered schedulers that can run this workload.

    Each one is tried on a sample, because only the scheduler itself can refuse a workload.
    """
    # Two tasks are enough to find out, but a graph cannot be cut.
    tasks, machine = inputs.workload, inputs.spec.on_seed(inputs.seed)
    sample = tasks if tasks.has_dependencies else tasks.rows(0, min(2, len(tasks)))
    refusals: dict[str, HybridSchedulerError] = {}
    # Planners know all arrivals in advance: fair for a graph that is complete at the start, not on a stream.
    names = [name for name, info in registered().items() if tasks.has_dependencies or info.protocol != "static"]
    for name in names:
        try:
            compare(sample, [name], machine=machine, seed=inputs.seed)
        except HybridSchedulerError as error:
            refusals[name] = error
    if len(refusals) == len(names):  # the cause is the workload or the machine, not the schedulers
        raise next(iter(refusals.values()))
    for name, refusal in refusals.items():
        logger.warning(f"{name} is left out: {refusal}")
    return [name for name in names if name not in refusals]
