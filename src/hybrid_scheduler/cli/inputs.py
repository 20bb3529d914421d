"""One comparison: the settings turned into a question about one seed, and its run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from loguru import logger

from .. import __version__
from ..config import ALL_SCHEDULERS, Settings
from ..core import HybridSchedulerError, Platform, Workload
from ..engine import Comparison, compare
from ..experiments.spec import ExperimentSpec
from ..physics import Physics
from ..schedulers import schedulers as registered
from .asking import question_from
from .printer import Printer


@dataclass(frozen=True)
class SimulationInputs:
    """One comparison before it is run: tasks from a scenario at some utilisation, in a batch, or from a trace."""

    settings: Settings
    question: ExperimentSpec

    @property
    def seed(self) -> int:
        return self.settings.simulation.seed

    @cached_property
    def workload(self) -> Workload:
        return self.question.workload(self.seed)

    @property
    def platform(self) -> Platform:
        return self.question.machine.platform

    @property
    def physics(self) -> Physics:
        return self.question.machine.physics

    @property
    def scenario(self) -> str | None:
        return None if self.question.scenario is None else self.question.scenario.name

    @property
    def trace(self) -> str | None:
        return None if self.question.trace is None else self.question.trace.name

    @property
    def utilisation(self) -> float | None:
        return self.question.load

    @property
    def batch(self) -> bool:
        return self.question.batch

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


def read_inputs(settings: Settings, *, batch: bool = False, trace: str | None = None) -> SimulationInputs:
    """Build the machine and the tasks."""
    case = SimulationInputs(settings, question_from(settings, batch=batch, trace=trace))
    _ = case.workload  # a mistake in it shows here, before anything runs
    if case.utilisation is not None and case.utilisation >= 1:
        logger.warning(f"load {case.utilisation:g} is more than the machine can ever do: every queue grows")
    return case


def run_simulation(case: SimulationInputs, printer: Printer) -> Comparison:
    """Run every scheduler, with a progress bar where somebody looks."""
    question = case.question
    if case.settings.simulation.schedulers == (ALL_SCHEDULERS,):
        question = replace(question, schedulers=tuple(_able(case)))
    specs, total = question.schedulers, len(case.workload)
    done = dict.fromkeys(specs, 0)
    logger.info(f"simulating {total} tasks with {', '.join(specs)}")
    with printer.progress(total * len(specs)) as update:

        def advance(spec: str, count: int) -> None:
            done[spec] += count
            # Not every run reports its last tasks: those before this one are complete.
            update(spec, list(done).index(spec) * total + done[spec])

        return question.run(case.seed, advance)


def _able(case: SimulationInputs) -> list[str]:
    """The registered schedulers that can run this kind of workload: tried out, since only they know."""
    # Two tasks are enough to find out, but a graph cannot be cut.
    tasks, machine = case.workload, case.question.on_seed(case.seed)
    sample = tasks if tasks.has_dependencies else tasks.rows(0, min(2, len(tasks)))
    refusals: dict[str, HybridSchedulerError] = {}
    # Planners know all arrivals beforehand: fair for a graph that is there as a whole, not on a stream.
    names = [name for name, info in registered().items() if tasks.has_dependencies or info.protocol != "static"]
    for name in names:
        try:
            compare(
                sample,
                [name],
                platform=machine.platform,
                physics=machine.physics,
                noise=machine.noise,
                memory_policy=machine.memory_policy,
                tariff=machine.tariff,
                objective=machine.objective,
                seed=case.seed,
            )
        except HybridSchedulerError as error:
            refusals[name] = error
    if len(refusals) == len(names):  # then it is not the schedulers' fault
        raise next(iter(refusals.values()))
    for name, refusal in refusals.items():
        logger.warning(f"{name} is left out: {refusal}")
    return [name for name in names if name not in refusals]
