"""`hybrid-scheduler pipeline`: profiling, task generation, training, scheduling and evaluation in one run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .command_context import CommandContext, option_names
from .metric_table import bound_text, metric_columns, named
from .options import Inputs, with_options
from .printer import Printer

if TYPE_CHECKING:
    from ..config import Settings
    from ..experiments.pipeline import PhaseResult, PipelineReport, PipelineStudy

_PHASES = 5
#: Steps of the progress bar per phase.
_STEPS = 1000


@with_options(("seed",), out={"show_default": False})
def pipeline(
    command: CommandContext,
    inputs: Inputs,
    quick: bool = False,
    out: Path = Path(),
    force: bool = False,
) -> None:
    """Run all phases: profile, generate, train, schedule, evaluate.

    Baselines and newly trained learners schedule the same tasks close to the capacity of the simulated machine; no
    learner has seen these tasks in training. A phase runs again only if its inputs have changed, so an interrupted
    run continues where it stopped. The machine and the ranges of the tasks come from config.yaml.

    \b
    Examples:
      hybrid-scheduler pipeline --quick
      hybrid-scheduler pipeline --trace week.csv --out results/week

    Parameters
    ----------
    trace
        Schedule the tasks of this file, and train on similar ones.
    quick
        Use 500 tasks and short training: under a minute.
    out : DIR
        Folder for data/ and models/; the current one by default.
    force
        Repeat finished phases.
    """
    command.keeps_log = True
    settings = inputs.settings(command)
    from loguru import logger

    from ..experiments.pipeline import run_pipeline

    study = _study(settings, inputs.trace, quick=quick)
    command.after_interrupt = "finished phases are kept; run the command again to continue"
    printer = command.printer

    def finished(phase: int, done: PhaseResult) -> None:
        # The log comes first, so that it contains what the terminal shows.
        logger.info(_line(phase, done))
        printer.note(_line(phase, done))

    logger.info(f"pipeline in {out.resolve()}, seed {study.seed}")
    with command.printer.progress(_PHASES * _STEPS) as update, option_names(folder="--out"):
        report = run_pipeline(
            study,
            out,
            force=force,
            progress=lambda phase, words, share: update(words, int((phase + share) * _STEPS)),
            finished=finished,
        )
    document = _document(study, report, inputs.trace, quick=quick)
    printer.outcome(document, lambda: _show(printer, study, report, out))


def _study(settings: Settings, trace: str | None, *, quick: bool) -> PipelineStudy:
    """Build the study; bad input raises here, before anything is written."""
    from dataclasses import replace

    from ..experiments.pipeline import QUICK, USUAL, PipelineStudy, like_trace
    from ..workload.scenarios import default_scenario, scenario_named
    from ..workload.trace_files import load_workload
    from .inputs import trace_path

    seed = settings.simulation.seed
    ranges = settings.workload
    machine = settings.machine(noise_seed=seed)
    tasks = None if trace is None else load_workload(trace_path(trace))
    everyday = default_scenario(ranges.size_range, ranges.intensity_range, ranges.memory_range)
    busy = replace(
        scenario_named("rush-hour"), size=everyday.size, intensity=everyday.intensity, memory=everyday.memory
    )
    return PipelineStudy(
        machine, like_trace(tasks) if tasks is not None else busy, seed, QUICK if quick else USUAL, tasks
    )


def _line(number: int, done: PhaseResult) -> str:
    """Return the line of a finished phase: ``2/5 generate   0.3 s   data/…/workload_train.csv``."""
    state = "kept" if done.skipped else f"{done.seconds:.1f} s"
    why = "nothing it depends on has changed" if done.skipped else done.phase.outputs[0]
    return f"{number + 1}/{_PHASES} {done.phase.name:<9} {state:>7}   {why}"


def _document(study: PipelineStudy, report: PipelineReport, trace: str | None, *, quick: bool) -> dict[str, Any]:
    from .. import __version__

    return {
        "version": __version__,
        "seed": study.seed,
        "quick": quick,
        "trace": None if trace is None else Path(trace).name,
        "scenario": study.scenario.name,
        "platform": study.machine.platform.name,
        "physics": study.machine.physics.name,
        "phases": [
            {
                "name": done.phase.name,
                "skipped": done.skipped,
                "seconds": done.seconds,
                "fingerprint": done.fingerprint,
                "outputs": list(done.phase.outputs),
            }
            for done in report.phases
        ],
        "training": report.training,
        "lower_bound": {"makespan": report.lower_bound},
        "schedulers": {
            row["scheduler"]: {name: value for name, value in row.items() if name != "scheduler"}
            for row in report.rows
        },
    }


def _show(printer: Printer, study: PipelineStudy, report: PipelineReport, out: Path) -> None:
    from ..engine.comparison import label_of
    from ..experiments.pipeline import FIGURE

    rows = sorted(report.rows, key=lambda row: row["mean_latency"])
    names = [named(row["scheduler"], label_of(row["scheduler"])) for row in rows]
    printer.result([[*study.caption, bound_text(report.lower_bound)]], metric_columns(names, rows, wide=True))
    forest = report.training["random_forest"]
    printer.text(
        f"forest: test R² {forest['test_r2']:.3f}, mean absolute error {forest['mae']:.3f}, "
        f"{forest['regret_percent']:.2f} % over the best shares"
    )
    printer.text(f"figure: {out / FIGURE}")
