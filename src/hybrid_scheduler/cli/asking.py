"""The settings as a question: which tasks, on which machine, and who takes part."""

from __future__ import annotations

from pathlib import Path

from ..cluster import Noise
from ..config import ALL_SCHEDULERS, Settings
from ..core import InvalidInputError
from ..experiments.evaluation import Machine
from ..experiments.spec import ExperimentSpec
from ..experiments.trace_source import TraceSource
from ..schedulers import schedulers as registered
from ..workload.trace_files import load, trace_named

#: A trace in here can be chosen by its name.
TRACES = Path("data/workload_traces")


def question_from(
    settings: Settings, *, batch: bool = False, trace: str | None = None, batches: int | None = None
) -> ExperimentSpec:
    """For all commands that run something."""
    chosen, machine = settings.simulation, machine_of(settings)
    specs = chosen.schedulers
    if specs == (ALL_SCHEDULERS,):  # planners know all arrivals beforehand: not fair on a stream
        specs = tuple(name for name, info in registered().items() if info.protocol != "static")
    if trace is not None:
        path = trace_file(trace)
        return ExperimentSpec.about(TraceSource.of(path.name, load(path), batches), specs, machine)
    if batches is not None:
        raise InvalidInputError("--batches", "left out without --trace: a scenario has seeds", batches)
    return ExperimentSpec(
        settings.scenario(chosen.scenario),
        chosen.tasks,
        specs,
        machine,
        None if batch else chosen.utilisation,
        batch,
    )


def machine_of(settings: Settings) -> Machine:
    chosen = settings.simulation
    return Machine(
        chosen.machine(),
        settings.physics.law(),
        Noise(settings.physics.noise_sigma),
        chosen.memory_policy,
        settings.physics.tariff(),
        settings.objective.weights(),
    )


def trace_file(trace: str) -> Path:
    """A file, or a bare name that stands for a file in the folder of traces."""
    path = Path(trace)
    if path.exists() or len(path.parts) > 1:
        return path
    try:
        return trace_named(trace, TRACES)
    except InvalidInputError as error:
        allowed = f"a file, or the name of a trace in {TRACES.as_posix()}"
        raise InvalidInputError("--trace", allowed, trace, hint=error.hint) from None
