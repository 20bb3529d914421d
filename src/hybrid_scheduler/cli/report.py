"""`hybrid-scheduler report`: one run as a self-contained HTML or PDF file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .command_context import CommandContext
from .options import (
    BatchOption,
    FirstSeedOption,
    NoiseOption,
    PlatformOption,
    ProcessesOption,
    ScenarioOption,
    SchedulersOption,
    UtilisationOption,
)

if TYPE_CHECKING:
    from ..experiments.paired_comparison import PairedComparison
    from ..experiments.run_record import RunFile
    from ..experiments.spec import ExperimentSpec

_SEEDS = 10


def report(
    context: typer.Context,
    run_dir: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUN_DIR]", help="Folder of a recorded run; without it the options below choose a new run."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="File to write; ends in .html or .pdf.")
    ] = Path("report.html"),
    scenario: ScenarioOption = None,
    utilisation: UtilisationOption = None,
    batch: BatchOption = False,
    trace: Annotated[
        str | None, typer.Option(metavar="FILE", help="Your own tasks from a file instead of a scenario.")
    ] = None,
    tasks: Annotated[str | None, typer.Option(metavar="N", help="Tasks per seed.")] = None,
    schedulers: SchedulersOption = None,
    platform: PlatformOption = None,
    noise: NoiseOption = None,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of paired seeds, 10 by default; 1 for a single run.", min=1),
    ] = None,
    first_seed: FirstSeedOption = 3000,
    batches: Annotated[
        int | None, typer.Option(metavar="N", help="Batches to cut a trace into, for its intervals.")
    ] = None,
    figures: Annotated[
        str | None, typer.Option(metavar="A,B", help="Figures to draw, such as latency_cdf,gantt; all by default.")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the run and its record in this folder, for replay and trace."),
    ] = None,
    processes: ProcessesOption = None,
) -> None:
    """Write a self-contained report as HTML or PDF.

    It holds the verdicts, tables, figures, method and environment of a recorded run, or of a new one. A trace is
    one run: its intervals come from batches of consecutive tasks, where there are enough that arrive over time.

    \b
    Examples:
      hybrid-scheduler report --scenario mixed --utilisation 0.9 -o mixed.pdf
      hybrid-scheduler report --trace week.csv -o week.pdf
      hybrid-scheduler report results/tails -o tails.html
    """
    command: CommandContext = context.obj
    settings = command.settings(
        {
            "simulation.scenario": scenario,
            "simulation.utilisation": utilisation,
            "simulation.tasks": tasks,
            "simulation.schedulers": schedulers,
            "simulation.platform": platform,
            "physics.noise_sigma": noise,
        }
    )
    from ..core import InvalidInputError
    from ..experiments.report_builder import check_suffix, make_report, write_report
    from ..reports.figures import FIGURES
    from .compare import check_empty
    from .compile_notice import compile_notice
    from .inputs import spec_from_settings
    from .options import check_sources

    check_suffix(out)
    wanted = tuple(FIGURES) if figures is None else tuple(name.strip() for name in figures.split(","))
    for name in wanted:
        _check_figure(name)
    given = {"scenario": scenario, "utilisation": utilisation, "tasks": tasks, "schedulers": schedulers,
             "platform": platform, "noise": noise, "batch": batch or None, "keep": keep, "trace": trace,
             "seeds": seeds, "batches": batches}  # fmt: skip
    for option, value in given.items():
        if run_dir is not None and value is not None:
            raise InvalidInputError(f"--{option}", "left out with a RUN_DIR", str(value))
    check_sources(trace, scenario=scenario, utilisation=utilisation, tasks=tasks, batch=batch or None, seeds=seeds)
    if keep is not None:
        check_empty(keep)
    study: PairedComparison | None
    record: RunFile | None
    count = 1 if trace else seeds or _SEEDS
    with compile_notice(command.printer.note), command.printer.progress(count + 1) as update:
        if run_dir is not None:
            spec, seed, study, record = _stored(run_dir)
        else:
            spec = spec_from_settings(settings, batch=batch, trace=trace, batches=batches, trace_load=utilisation)
            seed = first_seed
            study, record = _fresh(spec, first_seed, count, keep, processes, update)
        update("drawing", count)
        content = make_report(spec, seed, paired=study, record=record, figure_names=wanted)
        write_report(out, content)
    command.printer.text(content.headline)
    command.printer.text(f"{out}, {out.stat().st_size / 1e6:.1f} MB")


def _check_figure(name: str) -> None:
    from ..core import UnknownNameError
    from ..reports.figures import FIGURES

    if name not in FIGURES:
        raise UnknownNameError("--figures", name, FIGURES)


def _stored(folder: Path) -> tuple[ExperimentSpec, int, PairedComparison | None, RunFile]:
    from ..core import InvalidInputError
    from ..experiments import run_record
    from ..experiments.report_builder import stored_comparison

    record = run_record.read_run(folder)
    if record.kind == run_record.HEAVY:
        hint = "its own plots and table are beside it"
        raise InvalidInputError(
            "RUN_DIR", "a comparison or a single run", f"{folder}, a heavy simulation", hint=hint
        )
    several = len(record.seeds) > 1 or (record.trace is not None and record.trace.why_no_interval is None)
    study = stored_comparison(folder, record) if record.kind == run_record.COMPARE and several else None
    return record.spec, record.seeds[0], study, record


def _fresh(
    spec: ExperimentSpec,
    first: int,
    seeds: int,
    keep: Path | None,
    processes: int | None,
    update: Callable[[str, int], None],
) -> tuple[PairedComparison | None, RunFile | None]:
    from ..experiments import run_record
    from ..experiments.paired_comparison import compare_seeds as judge_seeds
    from ..experiments.paired_comparison import compare_trace
    from .compare import write

    trace = spec.trace
    judged = trace is not None and trace.why_no_interval is None
    if seeds == 1 and not judged:
        record = None
        if keep is not None:
            events = run_record.simulation_events(spec.run(first))
            record = run_record.write_run(keep, run_record.SIMULATION, spec, [first], events)
        return None, record
    if judged:
        found = compare_trace(spec, first)
    else:
        found = judge_seeds(spec, range(first, first + seeds), processes=processes, progress=update)
    if keep is None:
        return found, None
    write(keep, found, found.judge())
    return found, run_record.read_run(keep)
