"""Experiments that the options of a command describe, and the run of one seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loguru import logger

from .. import __version__
from ..config import ALL_SCHEDULERS, DEFAULT_SCENARIO, Settings
from ..core import HybridSchedulerError, InvalidInputError
from ..engine import Comparison, compare
from ..experiments.spec import ExperimentSpec, TraceSource
from ..schedulers import schedulers as registered
from ..schedulers.registry import LINE_UP
from ..workload.scenarios import stretch_arrivals
from ..workload.task_graphs import is_graph
from ..workload.trace_files import find_trace, load_workload
from .command_context import option_names

if TYPE_CHECKING:
    from ..cluster import Machine
    from .command_context import CommandContext
    from .options import Inputs

#: A trace in this folder can be chosen by its name.
TRACE_FOLDER = Path("data/workload_traces")


def read_experiment(settings: Settings, inputs: Inputs) -> ExperimentSpec:
    """Return the experiment that the settings and the options of a command describe.

    The settings include the options that stand for one. A load that the machine cannot sustain is a warning.

    Raises
    ------
    InvalidInputError
        If the trace does not exist, or cannot be cut into that many batches.
    """
    simulation = settings.simulation
    machine = settings.machine()
    names = simulation.schedulers or LINE_UP
    if names == (ALL_SCHEDULERS,):  # planners know all arrivals in advance: not fair on a stream
        names = tuple(name for name, info in registered().items() if info.protocol != "static")
    if inputs.trace is not None:
        stretched_to = simulation.utilisation if inputs.utilisation is not None else None
        source = _read_trace(inputs, stretched_to, machine)
        spec = ExperimentSpec.for_trace(source, names, machine)
        if (load := spec.offered_load) is not None and load > 1:
            logger.warning(overload_text(source.name, load, machine.platform.name))
        return spec
    scenario = simulation.scenario or DEFAULT_SCENARIO
    if is_graph(scenario):
        graph = ExperimentSpec.for_graph(scenario, names, machine)
        return replace(graph, indivisible=inputs.indivisible)
    load = None if inputs.batch else simulation.utilisation
    if load is not None and load >= 1:
        logger.warning(f"load {load:g} exceeds the machine's capacity: every queue grows")
    return ExperimentSpec(
        settings.scenario(scenario),
        simulation.tasks,
        names,
        machine,
        load,
        inputs.batch,
        indivisible=inputs.indivisible,
    )


def _read_trace(inputs: Inputs, load: float | None, machine: Machine) -> TraceSource:
    """Read the trace of `inputs`, and stretch its arrivals to a load if one is given."""
    path = trace_path(str(inputs.trace))
    with option_names(path="--trace"):
        tasks = load_workload(path)
    name = path.name
    if inputs.indivisible:
        tasks = tasks.indivisible()
    with option_names(batches="--batches", load="--utilisation"):
        if load is not None:
            tasks = stretch_arrivals(tasks, load, machine.platform, machine.physics)
            name = f"{name} at load {load:g}"
        return TraceSource.of(name, tasks, inputs.batches)


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


def document_head(spec: ExperimentSpec) -> dict[str, Any]:
    """Return what every JSON document of a run says about its tasks and its machine."""
    machine = spec.machine
    return {
        "version": __version__,
        "scenario": None if spec.trace else spec.name,
        "trace": None if spec.trace is None else spec.trace.name,
        "batch": spec.batch,
        "utilisation": spec.load,
        "offered_load": spec.offered_load,
        "tasks": spec.tasks,
        "platform": machine.platform.name,
        "physics": machine.physics.name,
        "noise": machine.noise.sigma,
        "memory_policy": machine.memory_policy,
        "objective": asdict(machine.objective),
    }


def run_simulation(
    spec: ExperimentSpec, seed: int, command: CommandContext, *, compatible_only: bool
) -> Comparison:
    """Run every scheduler on the same tasks and show the progress.

    Parameters
    ----------
    spec
        Tasks, machine and schedulers.
    seed
        Seed of the tasks and of the noise.
    command
        Context of the command.
    compatible_only
        Leave out schedulers that refuse the workload, and say so.
    """
    if compatible_only:
        spec = replace(spec, schedulers=tuple(_compatible_schedulers(spec, seed)))
    logger.info(f"simulating {spec.tasks} tasks with {', '.join(spec.schedulers)}")
    with command.printer.progress(spec.tasks * len(spec.schedulers)) as update:
        return spec.run(seed, total_progress(spec, update))


def total_progress(spec: ExperimentSpec, update: Callable[[str, int], None]) -> Callable[[str, int], None]:
    """Turn counts of finished tasks by scheduler into the number of all finished tasks."""
    done = dict.fromkeys(spec.schedulers, 0)

    def advance(name: str, count: int) -> None:
        done[name] += count
        # Not every run reports its last tasks: those before this one are complete.
        update(name, spec.schedulers.index(name) * spec.tasks + done[name])

    return advance


def _compatible_schedulers(spec: ExperimentSpec, seed: int) -> list[str]:
    """Return the registered schedulers that can run this workload.

    Each one is tried on a sample, because only the scheduler itself can refuse a workload.
    """
    # Two tasks are enough to find out, but a graph cannot be cut.
    tasks = spec.workload(seed)
    machine = spec.on_seed(seed)
    sample = tasks if tasks.has_dependencies else tasks.rows(0, min(2, len(tasks)))
    refusals: dict[str, HybridSchedulerError] = {}
    # Planners know all arrivals in advance: fair for a graph that is complete at the start, not on a stream.
    names = [name for name, info in registered().items() if tasks.has_dependencies or info.protocol != "static"]
    for name in names:
        try:
            compare(sample, [name], machine=machine, seed=seed)
        except HybridSchedulerError as error:
            refusals[name] = error
    if len(refusals) == len(names):  # the cause is the workload or the machine, not the schedulers
        raise next(iter(refusals.values()))
    for name, refusal in refusals.items():
        logger.warning(f"{name} is left out: {refusal}")
    return [name for name in names if name not in refusals]
