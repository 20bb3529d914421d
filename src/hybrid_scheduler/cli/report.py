"""`hybrid-scheduler report`: one run as a self-contained HTML or PDF file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .command_context import CommandContext, option_names
from .options import (
    BatchOption,
    FirstSeedOption,
    IndivisibleOption,
    NoiseOption,
    PlatformOption,
    ProcessesOption,
    ScenarioOption,
    SchedulersOption,
    UtilisationOption,
)

if TYPE_CHECKING:
    from ..engine import Comparison
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
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="File to write; ends in .html or .pdf. [report.html]"),
    ] = None,
    evidence: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write report, record, inputs and log as one .html file to verify."),
    ] = None,
    verify: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Check an evidence file and run it again; exit 1 if it differs."),
    ] = None,
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
    indivisible: IndivisibleOption = False,
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
    diff: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Add the figure gantt_diff of two schedulers on the same tasks."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="RUN_DIR", help="Take B of that figure from another recorded run of the same tasks."),
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

    An evidence file also holds the run itself. --verify checks its digests, runs it again and compares the logs;
    with --keep it unpacks the run into a folder.

    \b
    Examples:
      hybrid-scheduler report --scenario mixed --utilisation 0.9 -o mixed.pdf
      hybrid-scheduler report --trace week.csv -o week.pdf
      hybrid-scheduler report results/tails -o tails.html
      hybrid-scheduler report results/tails --evidence tails-evidence.html
      hybrid-scheduler report --verify tails-evidence.html
      hybrid-scheduler report results/tails --diff greedy,oracle --figures gantt
    """
    command: CommandContext = context.obj
    settings = command.settings_from(
        scenario=scenario, utilisation=utilisation, tasks=tasks, schedulers=schedulers, platform=platform,
        noise=noise,
    )  # fmt: skip
    from ..compiled.jit_cache import compile_notice
    from ..core import InvalidInputError
    from ..experiments.report_builder import check_suffix, make_report, write_evidence, write_report
    from ..reports.figures import FIGURES
    from .compare import check_empty
    from .inputs import spec_from_settings
    from .options import check_sources

    if out is None and evidence is None:
        out = Path("report.html")
    if out is not None:
        with option_names(path="--out"):
            check_suffix(out)
    if evidence is not None and evidence.suffix != ".html":
        raise InvalidInputError("--evidence", "a name that ends in .html", str(evidence))
    wanted = tuple(FIGURES) if figures is None else tuple(name.strip() for name in figures.split(","))
    for name in wanted:
        _check_figure(name)
    pair = _pair(diff)
    if (pair or against) and "gantt_diff" not in wanted:
        wanted = (*wanted, "gantt_diff")
    other = None if against is None else _against(against)
    given = {"scenario": scenario, "utilisation": utilisation, "tasks": tasks, "schedulers": schedulers,
             "platform": platform, "noise": noise, "batch": batch or None, "indivisible": indivisible or None,
             "keep": keep, "trace": trace,
             "seeds": seeds, "batches": batches}  # fmt: skip
    for option, value in given.items():
        if run_dir is not None and value is not None:
            raise InvalidInputError(f"--{option}", "left out with a RUN_DIR", str(value))
        if verify is not None and value is not None and option != "keep":
            raise InvalidInputError(f"--{option}", "left out with --verify", str(value))
    check_sources(trace, scenario=scenario, utilisation=utilisation, tasks=tasks, batch=batch or None, seeds=seeds)
    if keep is not None:
        check_empty(keep)
    if verify is not None:
        if run_dir is not None or evidence is not None:
            raise InvalidInputError("--verify", "given alone or with --keep", str(verify))
        _verify(command, verify, keep, processes)
        return
    study: PairedComparison | None
    record: RunFile | None
    count = 1 if trace else seeds or _SEEDS
    with (
        tempfile.TemporaryDirectory() as temporary,
        compile_notice(command.printer.note),
        command.printer.progress(count + 1) as update,
        option_names(folder="RUN_DIR", trace="--trace"),
    ):
        if evidence is not None and run_dir is None and keep is None:
            keep = Path(temporary)
        if run_dir is not None:
            spec, seed, study, record = _stored(run_dir)
        else:
            spec = spec_from_settings(
                settings, batch=batch, trace=trace, batches=batches, trace_load=utilisation, indivisible=indivisible
            )
            seed = first_seed
            study, record = _fresh(spec, first_seed, count, keep, processes, update)
        update("drawing", count)
        content = make_report(spec, seed, paired=study, record=record, figure_names=wanted, other=other, pair=pair)
        if out is not None:
            write_report(out, content)
        folder = run_dir or keep
        if evidence is not None and folder is not None:
            write_evidence(evidence, content, folder)
    command.printer.text(content.headline)
    for path in (out, evidence):
        if path is not None:
            command.printer.text(f"{path}, {path.stat().st_size / 1e6:.1f} MB")


def _verify(command: CommandContext, path: Path, keep: Path | None, processes: int | None) -> None:
    """Check an evidence file, run it again and print whether the logs are equal."""
    from ..compiled.jit_cache import compile_notice
    from ..experiments.exact_replay import replay, unpack_evidence
    from .replay import show_replay

    with tempfile.TemporaryDirectory() as temporary, option_names(path="--verify"):
        folder = keep or Path(temporary)
        record = unpack_evidence(path, folder)
        total = len(record.seeds) if record.kind == "compare" else record.spec.tasks * len(record.spec.schedulers)
        with compile_notice(command.printer.note), command.printer.progress(total) as update:
            found = replay(folder, processes=processes, progress=update)
    show_replay(command.printer, found)


def _check_figure(name: str) -> None:
    from ..core import UnknownNameError
    from ..reports.figures import FIGURES, FIGURES_ON_REQUEST

    known = (*FIGURES, *FIGURES_ON_REQUEST)
    if name not in known:
        raise UnknownNameError("--figures", name, known)


def _pair(diff: str | None) -> tuple[str, str] | None:
    """Return the two schedulers of a Gantt diff."""
    from ..core import InvalidInputError
    from ..schedulers import create, split_specs

    if diff is None:
        return None
    names = split_specs(diff)
    if len(names) != 2:
        raise InvalidInputError("--diff", "two schedulers, as in greedy,oracle", diff)
    for name in names:
        create(name)
    return names[0], names[1]


def _against(folder: Path) -> Comparison:
    """Return the first seed of another recorded run."""
    from ..core import InvalidInputError
    from ..experiments import run_record

    with option_names(folder="--against"):
        record = run_record.read_run(folder)
    if record.kind == run_record.HEAVY:
        raise InvalidInputError("--against", "a comparison or a single run", f"{folder}, a heavy simulation")
    return record.spec.run(record.seeds[0])


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
    several = len(record.seeds) > 1 or record.spec.repeats_itself
    several = several or (record.trace is not None and record.trace.why_no_interval is None)
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
    write(keep, found, found.test_pairs())
    return found, run_record.read_run(keep)
