"""What is simulated: the settings turned into a workload, a machine and a list of schedulers, and their run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loguru import logger

from .. import __version__
from ..cluster import Noise
from ..config import ALL_SCHEDULERS, Settings
from ..core import HybridSchedulerError, InvalidInputError, Platform, Workload
from ..engine import Comparison, compare
from ..physics import Physics
from ..schedulers import schedulers as registered
from ..workload.files import load, trace_named
from ..workload.scenarios import Scenario, default_scenario, generate, scenario_named
from .printer import Printer

#: A trace in here can be chosen by its name.
TRACES = Path("data/workload_traces")


@dataclass(frozen=True)
class Case:
    """One comparison before it is run: tasks from a scenario at some utilisation, in a batch, or from a trace."""

    settings: Settings
    workload: Workload
    platform: Platform
    physics: Physics
    scenario: str | None = None
    utilisation: float | None = None
    trace: str | None = None

    @property
    def batch(self) -> bool:
        return self.scenario is not None and self.utilisation is None

    def document(self, comparison: Comparison) -> dict[str, Any]:
        """All inputs and all results, as --json prints them."""
        body = comparison.as_dict()
        settings = self.settings
        return {
            "version": __version__,
            "scenario": self.scenario,
            "trace": self.trace,
            "batch": self.batch,
            "utilisation": self.utilisation,
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


def make_case(settings: Settings, *, batch: bool = False, trace: str | None = None) -> Case:
    """Build the machine and the tasks."""
    platform, physics = settings.simulation.machine(), settings.physics.law()
    if trace is not None:
        path = trace_file(trace)
        return Case(settings, load(path), platform, physics, trace=path.name)
    chosen = settings.simulation
    scenario = _scenario(settings)
    utilisation = None if batch else chosen.utilisation or scenario.utilisation
    workload = generate(
        scenario,
        chosen.tasks,
        chosen.seed,
        platform=platform,
        physics=physics,
        utilisation=utilisation,
        batch=batch,
    )
    if utilisation is not None and utilisation >= 1:
        logger.warning(f"load {utilisation:g} is more than the machine can ever do: every queue grows")
    return Case(settings, workload, platform, physics, scenario.name, utilisation)


def run_case(case: Case, printer: Printer) -> Comparison:
    """Run every scheduler, with a progress bar where somebody looks."""
    specs = case.settings.simulation.schedulers
    if specs == (ALL_SCHEDULERS,):
        specs = tuple(_able(case))
    total = len(case.workload)
    done = dict.fromkeys(specs, 0)
    logger.info(f"simulating {total} tasks with {', '.join(specs)}")
    with printer.progress(total * len(specs)) as update:

        def advance(spec: str, count: int) -> None:
            done[spec] += count
            # Not every run reports its last tasks: those before this one are complete.
            update(spec, list(done).index(spec) * total + done[spec])

        return _compare(case, case.workload, specs, progress=advance)


def _compare(case: Case, workload: Workload, specs: Sequence[str], **more: Any) -> Comparison:
    settings = case.settings
    return compare(
        workload,
        specs,
        platform=case.platform,
        physics=case.physics,
        noise=Noise(settings.physics.noise_sigma, settings.simulation.seed),
        memory_policy=settings.simulation.memory_policy,
        tariff=settings.physics.tariff(),
        objective=settings.objective.weights(),
        seed=settings.simulation.seed,
        **more,
    )


def _able(case: Case) -> list[str]:
    """The registered schedulers that can run this kind of workload: tried out, since only they know."""
    # Two tasks are enough to find out, but a graph cannot be cut.
    tasks = case.workload
    sample = tasks if tasks.has_dependencies else tasks.rows(0, min(2, len(tasks)))
    refusals: dict[str, HybridSchedulerError] = {}
    # Planners know all arrivals beforehand: fair for a graph that is there as a whole, not on a stream.
    names = [name for name, info in registered().items() if tasks.has_dependencies or info.protocol != "static"]
    for name in names:
        try:
            _compare(case, sample, [name])
        except HybridSchedulerError as error:
            refusals[name] = error
    if len(refusals) == len(names):  # then it is not the schedulers' fault
        raise next(iter(refusals.values()))
    for name, refusal in refusals.items():
        logger.warning(f"{name} is left out: {refusal}")
    return [name for name in names if name not in refusals]


def _scenario(settings: Settings) -> Scenario:
    scenario, ranges = scenario_named(settings.simulation.scenario), settings.workload
    if scenario.name not in ("default", "rush-hour"):
        return scenario
    configured = default_scenario(ranges.size_range, ranges.intensity_range, ranges.memory_range)
    return replace(scenario, size=configured.size, intensity=configured.intensity, memory=configured.memory)


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
