"""`hybrid-scheduler report`: one run as a self-contained HTML or PDF file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import InvalidInputError, UnknownNameError
from .command_context import CommandContext, option_names
from .options import MACHINE, TASKS, Inputs, check_empty, listed, option_of, with_options
from .replay import read_tasks_of_run, repeat

if TYPE_CHECKING:
    from ..engine import Comparison
    from ..experiments.paired_comparison import PairedComparison
    from ..experiments.run_record import RunFile
    from ..experiments.spec import ExperimentSpec

_SEEDS = 10
_HEAVY_HINT = "its own plots and table are beside it"


@with_options(
    (*TASKS, "trace", "batches", "first_seed", "schedulers", *MACHINE), json=False, out={"names": ("-o",)}
)
def report(
    command: CommandContext,
    inputs: Inputs,
    run_dir: Path | None = None,
    /,
    out: Path | None = None,
    evidence: Path | None = None,
    verify: Path | None = None,
    figures: str | None = None,
    diff: str | None = None,
    against: Path | None = None,
    keep: Path | None = None,
    processes: int | None = None,
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

    Parameters
    ----------
    seeds
        Number of paired seeds, 10 by default; 1 for a single run.
    run_dir : [RUN_DIR]
        Folder of a recorded run; without it the options below choose a new run.
    out : FILE
        File to write; ends in .html or .pdf. [report.html]
    evidence : FILE
        Write report, record, inputs and log as one .html file to verify.
    verify : FILE
        Check an evidence file and run it again; exit 1 if it differs.
    figures : A,B
        Figures to draw, such as latency_cdf,gantt; all by default.
    diff : A,B
        Add the figure gantt_diff of two schedulers on the same tasks.
    against : RUN_DIR
        Take B of that figure from another recorded run of the same tasks.
    keep : DIR
        Keep the run and its record in this folder, for replay and trace.
    """
    settings = inputs.settings(command)
    from .inputs import read_experiment

    if out is None and evidence is None:
        out = Path("report.html")
    _check_files(out, evidence)
    figures_to_draw = _figures_to_draw(figures, diff, against)
    _check_left_out(run_dir, verify, inputs.given | ({} if keep is None else {"keep": keep}))
    inputs.check()
    if keep is not None:
        check_empty("--keep", keep)
    if verify is not None:
        if run_dir is not None or evidence is not None:
            raise InvalidInputError("--verify", "given alone or with --keep", str(verify))
        _verify(command, verify, keep, processes)
        return
    seeds = inputs.seed_range(_SEEDS)
    with (
        _temporary_folder(evidence) as temporary,
        command.printer.progress(len(seeds) + 1) as update,
        option_names(folder="RUN_DIR", trace="--trace"),
    ):
        folder = run_dir or keep or temporary
        if run_dir is not None:
            run = _stored_run(run_dir)
        else:
            run = _new_run(read_experiment(settings, inputs), seeds, folder, processes, update)
        update("drawing", len(seeds))
        headline = _write_outputs(run, figures_to_draw, out, evidence, folder)
    command.printer.text(headline)
    for path in (out, evidence):
        if path is not None:
            command.printer.text(f"{path}, {path.stat().st_size / 1e6:.1f} MB")


@dataclass(frozen=True, slots=True)
class _ReportedRun:
    """A run to report: its first seed, the comparison if it has several, and the record if it was kept."""

    spec: ExperimentSpec
    seed: int
    paired: PairedComparison | None
    record: RunFile | None


@dataclass(frozen=True, slots=True)
class _FiguresToDraw:
    """Names of figures, and for a Gantt diff the two schedulers and the other run."""

    names: tuple[str, ...]
    pair: tuple[str, str] | None
    other: Comparison | None


# ------------------------------------------------------------------------------------------ options


def _check_files(out: Path | None, evidence: Path | None) -> None:
    from ..experiments.report_builder import check_suffix

    if out is not None:
        with option_names(path="--out"):
            check_suffix(out)
    if evidence is not None and evidence.suffix != ".html":
        raise InvalidInputError("--evidence", "a name that ends in .html", str(evidence))


def _check_left_out(run_dir: Path | None, verify: Path | None, given: dict[str, Any]) -> None:
    """Raise `InvalidInputError` for an option of new runs, if a recorded run or an evidence file is given."""
    for name, value in given.items():
        if run_dir is not None:
            raise InvalidInputError(option_of(name), "left out with a RUN_DIR", str(value))
        if verify is not None and name != "keep":
            raise InvalidInputError(option_of(name), "left out with --verify", str(value))


def _figures_to_draw(figures: str | None, diff: str | None, against: Path | None) -> _FiguresToDraw:
    from ..reports.figures import FIGURES, FIGURES_ON_REQUEST

    names = tuple(FIGURES if figures is None else listed(figures))
    known = (*FIGURES, *FIGURES_ON_REQUEST)
    for name in names:
        if name not in known:
            raise UnknownNameError("--figures", name, known)
    pair = None if diff is None else _scheduler_pair(diff)
    if (pair or against) and "gantt_diff" not in names:
        names = (*names, "gantt_diff")
    other = None if against is None else _other_run(against)
    return _FiguresToDraw(names, pair, other)


def _scheduler_pair(diff: str) -> tuple[str, str]:
    """Return the two schedulers of a Gantt diff."""
    from ..schedulers import create, split_specs

    names = split_specs(diff)
    if len(names) != 2:
        raise InvalidInputError("--diff", "two schedulers, as in greedy,oracle", diff)
    for name in names:
        create(name)
    return names[0], names[1]


def _other_run(folder: Path) -> Comparison:
    """Return the first seed of another recorded run."""
    record = read_tasks_of_run(folder, "--against", _HEAVY_HINT)
    return record.spec.run(record.seeds[0])


# ------------------------------------------------------------------------------------------ run and report


@contextmanager
def _temporary_folder(evidence: Path | None) -> Iterator[Path | None]:
    """Make a folder for a run that only an evidence file contains; None without an evidence file."""
    if evidence is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield Path(temporary)


def _stored_run(folder: Path) -> _ReportedRun:
    from ..experiments import run_record
    from ..experiments.report_builder import stored_comparison

    record = read_tasks_of_run(folder, "RUN_DIR", _HEAVY_HINT)
    several = len(record.seeds) > 1 or record.spec.repeats_itself
    several = several or (record.trace is not None and record.trace.why_no_interval is None)
    paired = stored_comparison(folder, record) if record.kind == run_record.COMPARE and several else None
    return _ReportedRun(record.spec, record.seeds[0], paired, record)


def _new_run(
    spec: ExperimentSpec,
    seeds: range,
    folder: Path | None,
    processes: int | None,
    update: Callable[[str, int], None],
) -> _ReportedRun:
    """Run one seed or compare several; keep the run if there is a folder for it."""
    from ..experiments import run_record
    from ..experiments.paired_comparison import compare_seeds, compare_trace
    from .compare import write

    trace = spec.trace
    batched = trace is not None and trace.why_no_interval is None
    first = seeds[0]
    if len(seeds) == 1 and not batched:
        record = None
        if folder is not None:
            events = run_record.simulation_events(spec.run(first))
            record = run_record.write_run(folder, run_record.SIMULATION, spec, [first], events)
        return _ReportedRun(spec, first, None, record)
    if batched:
        paired = compare_trace(spec, first)
    else:
        paired = compare_seeds(spec, seeds, processes=processes, progress=update)
    if folder is None:
        return _ReportedRun(spec, first, paired, None)
    write(folder, paired, paired.test_pairs())
    return _ReportedRun(spec, first, paired, run_record.read_run(folder))


def _write_outputs(
    run: _ReportedRun, figures: _FiguresToDraw, out: Path | None, evidence: Path | None, folder: Path | None
) -> str:
    """Write the report, the evidence file or both, and return the headline."""
    from ..experiments.report_builder import make_report, write_evidence, write_report

    content = make_report(
        run.spec, run.seed, paired=run.paired, record=run.record, figure_names=figures.names, other=figures.other,
        pair=figures.pair,
    )  # fmt: skip
    if out is not None:
        write_report(out, content)
    if evidence is not None and folder is not None:
        write_evidence(evidence, content, folder)
    return content.headline


def _verify(command: CommandContext, path: Path, keep: Path | None, processes: int | None) -> None:
    """Check an evidence file, run it again and print whether the logs are equal."""
    from ..experiments.exact_replay import unpack_evidence

    with tempfile.TemporaryDirectory() as temporary, option_names(path="--verify"):
        folder = keep or Path(temporary)
        unpack_evidence(path, folder)
        repeat(command, folder, "--verify", processes)
