"""Construction of a report from runs: tables, figures and text, ready to be rendered as HTML or PDF."""

from __future__ import annotations

import json
import math
import platform
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..core import HybridSchedulerError, InvalidInputError
from ..core.atomic_files import write_atomically
from ..engine import Comparison
from ..metrics.statistics import Interval
from ..reports import figures
from ..reports.figure_data import FigureData
from ..reports.figure_style import label_of, three_digits, with_interval
from ..reports.report_documents import (
    CAPTIONS,
    METHOD,
    TRACE_METHOD,
    FigureBlock,
    ReportContent,
    Section,
    TableBlock,
    TextBlock,
    as_html,
    as_pdf,
)
from ..reports.run_tables import StoredResults, results_table, verdict_table
from . import run_record
from .evaluation import DetailedRun, run_detailed
from .exact_replay import RUN_FILES, add_evidence
from .paired_comparison import BATCHES, PairedComparison, PairwiseTests, SeedRun, seed_run
from .run_record import RunFile
from .spec import MEANS, SUMS, ExperimentSpec, TraceSource

SUFFIXES = (".html", ".pdf")
_OVERVIEW = {
    "mean_latency": "latency\nmean, s",
    "p99_latency": "p99\ns",
    "mean_time": "time\ns",
    "latency_over_bound": "mean /\nbound",
    "makespan_over_bound": "span /\nbound",
    "energy": "energy\nJ",
    "cost": "cost\n$",
    "load_balance": "load\nbalance",
}


def write_report(path: Path, report: ReportContent) -> None:
    """Write a report as HTML or PDF, by the ending of the name.

    Raises
    ------
    InvalidInputError
        If the name has another ending.
    HybridSchedulerError
        If the file cannot be written.
    """
    check_suffix(path)
    with run_record.writing(path):
        if path.suffix == ".pdf":
            path.write_bytes(as_pdf(report))
        else:
            path.write_text(as_html(report), encoding="utf-8")


def write_evidence(path: Path, report: ReportContent, folder: Path) -> None:
    """Write a report with its run inside, as one HTML file that can be verified.

    Parameters
    ----------
    path
        File to write; ends in .html.
    report
        The report.
    folder
        Folder of the recorded run.

    Raises
    ------
    HybridSchedulerError
        If the file cannot be written.
    """
    record = run_record.read_run(folder)
    rows = [
        ["run id", record.run_id],
        ["configuration sha256", record.configuration_hash],
        ["log sha256", record.events_sha256],
        ["inside", ", ".join(name for name in RUN_FILES if (folder / name).exists())],
        ["verify", f"hybrid-scheduler report --verify {path.name}"],
        ["unpack and replay", f"hybrid-scheduler report --verify {path.name} --keep run"],
    ]
    note = (
        "This file holds the record, the inputs and the log of the run. Verification checks the digests, runs "
        "everything again and compares the logs byte for byte. It detects changes; it is not a signature."
    )
    evidence = Section("Evidence", [TableBlock(["what", "value"], rows, note, words=frozenset({1}))])
    html = as_html(replace(report, sections=[*report.sections, evidence]))
    with run_record.writing(path):
        write_atomically(path, add_evidence(html, folder))


def evidence_of(spec: ExperimentSpec, seed: int, *, title: str, figure_names: Sequence[str] = ("gantt",)) -> str:
    """Run a specification once and return the report with the run inside.

    Parameters
    ----------
    spec
        Tasks, machine and schedulers.
    seed
        Seed of noise and of schedulers that draw.
    title
        Heading of the report.
    figure_names
        Figures to draw.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "run"
        events = run_record.simulation_events(spec.run(seed))
        record = run_record.write_run(folder, run_record.SIMULATION, spec, [seed], events)
        report = make_report(spec, seed, record=record, title=title, figure_names=figure_names)
        path = Path(temporary) / "evidence.html"
        write_evidence(path, report, folder)
        return path.read_text(encoding="utf-8")


def check_suffix(path: Path) -> None:
    """Refuse a file name that is neither HTML nor PDF."""
    if path.suffix not in SUFFIXES:
        raise InvalidInputError("path", f"a name that ends in {' or '.join(SUFFIXES)}", str(path))


# ------------------------------------------------------------------------------------------ from a folder


def stored_comparison(folder: Path, record: RunFile) -> PairedComparison:
    """Return the seeds of a recorded comparison, from its log.

    Raises
    ------
    HybridSchedulerError
        If the log is missing or damaged, or holds other seeds than the record.
    """
    log = folder / run_record.EVENTS
    runs: dict[int, SeedRun] = {}
    try:
        for line in log.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            seed = event["seed"]
            run = runs.setdefault(seed, SeedRun(seed, event["lower_bound"], {}, {}, {}))
            run.metrics[event["scheduler"]] = event["summary"]
            run.digests[event["scheduler"]] = event["outcomes"]
            if "batches" in event:
                run.batches[event["scheduler"]] = event["batches"]
    except FileNotFoundError:
        raise HybridSchedulerError(f"{log} is missing: the run has no results") from None
    except (OSError, ValueError, KeyError) as error:
        raise HybridSchedulerError(f"{log} cannot be read: {error}") from None
    if tuple(runs) != record.seeds:
        raise HybridSchedulerError(f"{log} does not hold the seeds of its record")
    return PairedComparison(record.spec, tuple(runs.values()))


# ------------------------------------------------------------------------------------------ the content


def make_report(
    spec: ExperimentSpec,
    seed: int,
    *,
    paired: PairedComparison | None = None,
    record: RunFile | None = None,
    title: str = "Scheduler comparison",
    other: Comparison | None = None,
    pair: tuple[str, str] | None = None,
    figure_names: Sequence[str] = tuple(figures.FIGURES),
    progress: Callable[[str, int], None] | None = None,
    stored: StoredResults | None = None,
) -> ReportContent:
    """Run one seed in detail, and add the comparison of several seeds where there is one.

    Parameters
    ----------
    spec
        Tasks, machine and schedulers.
    seed
        Seed of the detailed run.
    paired
        Comparison over several seeds, or over the batches of a trace.
    record
        Record that the comparison comes from.
    title
        Heading of the report.
    other, pair
        Second run of the same tasks, and the two schedulers, for the figure ``gantt_diff``.
    figure_names
        Figures to draw; all if left out.
    progress
        Called with the scheduler's name and the tasks done.
    stored
        Results of the whole run whose newest tasks the specification has. They are reported, and only the figures
        come from simulating the tasks again.
    """
    for name in figure_names:
        if name not in {**figures.FIGURES, **figures.FIGURES_ON_REQUEST}:
            figures.draw(name, FigureData({}))  # raises the error for an unknown name
    detailed = run_detailed(spec, seed, progress)
    data = replace(figure_data(spec, seed, detailed, paired), other=other, pair=pair)
    if "gantt_diff" in figure_names:
        data.schedules()  # wrong names and other tasks are refused before anything is drawn
    # The oracle is the baseline where it takes part, else the first scheduler.
    tests = paired.test_pairs(baseline="oracle" if "oracle" in spec.schedulers else None) if paired else None
    verdict = paired.verdict(tests, detailed.comparison) if paired and tests else None
    judged = stored.verdict if stored else (verdict or detailed.comparison.verdict).as_dict()
    drawn = TextBlock(f"The newest {spec.tasks:,} tasks of the run, simulated again on empty machines.")
    sections = [
        Section("Results", [results_table(stored)] if stored else _results(data, tests)),
        *([Section("Why", [verdict_table(judged)])] if judged["rows"] else []),
        *([Section("Comparison", _verdicts(tests))] if tests else []),
        Section("Figures", [*([drawn] if stored else []), *_pictures(data, figure_names)]),
        Section("Method", [TextBlock(text) for text in (METHOD if spec.trace is None else TRACE_METHOD)]),
        Section("Configuration", [_configuration(spec, paired, seed)]),
        Section("Environment", [_environment(record)]),
    ]
    about = [f"{judged['tasks']:,} tasks", *spec.facts[2:]] if stored else spec.facts
    facts = [*about, _repetitions(paired, seed)]
    foot = f"run {record.run_id} · log sha256 {record.events_sha256[:16]}…" if record else "hybrid-scheduler"
    exact = " Every seed repeats this run, so that its numbers are exact." if spec.repeats_itself else ""
    return ReportContent(title, facts, judged["sentence"] + exact, sections, foot)


def figure_data(
    spec: ExperimentSpec, seed: int, detailed: DetailedRun, paired: PairedComparison | None
) -> FigureData:
    """Return the data of the figures: means over seeds, and single tasks of one seed."""
    runs = paired or PairedComparison(spec, (seed_run(spec, seed, detailed.comparison),))
    samples = {metric: runs.by_seed(metric) for metric in runs.metrics}
    bounds = [run.lower_bound for run in runs.runs if run.lower_bound is not None]
    bands = {metric: _bands(runs, metric) for metric in (*MEANS, *SUMS)} if paired and runs.one_run else {}
    several = paired is not None and not runs.one_run
    repetitions = _repetitions(paired, seed) + (f"; single tasks: seed {seed}" if several else "")
    return FigureData(
        samples,
        [*spec.facts, repetitions],
        bands,
        lower_bound=float(np.mean(bounds)) if bounds else None,
        comparison=detailed.comparison,
        predicted=detailed.predicted,
        versions=detailed.versions,
        importances=detailed.importances,
    )


def _bands(paired: PairedComparison, metric: str) -> dict[str, Interval]:
    intervals = {name: paired.interval(metric, name) for name in paired.spec.schedulers}
    # A queue that grows has a value and no interval.
    return {
        name: interval
        for name, interval in intervals.items()
        if interval is not None and math.isfinite(interval.half_width)
    }


def _repetitions(paired: PairedComparison | None, seed: int) -> str:
    """Return what the intervals are computed from."""
    if paired is None:
        return f"seed {seed}"
    trace = paired.spec.trace
    return trace.label if trace else f"{len(paired.runs)} seeds"


def _results(data: FigureData, tests: PairwiseTests | None) -> list[TextBlock | TableBlock]:
    known = [
        metric
        for metric in _OVERVIEW
        if any(np.isfinite(values).all() for values in data.samples.get(metric, {}).values())
    ]
    columns = {metric: data.intervals(metric) for metric in known}
    names = list(columns["mean_latency"])
    rows = [
        [label_of(name), *(with_interval(column[name]) if name in column else "–" for column in columns.values())]
        for name in names
    ]
    seeds = data.seeds
    note = f"Means of {seeds} seeds ± half of the 95 % interval." if seeds > 1 else "One run: no intervals."
    if tests is not None and tests.unit == BATCHES:
        note = (
            f"One trace; interval from batch means over {tests.seeds} batches. What belongs to the run as a "
            "whole has one value and no interval."
        )
    header = ["scheduler", *(_OVERVIEW[metric] for metric in columns)]
    return [TableBlock(header, rows, note, strong=frozenset({0}))]


def _verdicts(tests: PairwiseTests) -> list[TextBlock | TableBlock]:
    rows = [
        [
            label_of(rank.name),
            with_interval(rank.value),
            "–" if rank.pair is None else with_interval(rank.pair.difference),
            "–" if rank.pair is None else three_digits(rank.ratio),
            *rank.test_cells,
            "baseline" if rank.pair is None else tests.verdict_text(rank.pair),
        ]
        for rank in tests.ranking
    ]
    header = [
        "scheduler", "mean, s", "difference, s", "times\nbaseline", "p\n(Holm)", "effect\nr", "won /\nlost",
        "verdict",
    ]  # fmt: skip
    table = TableBlock(
        header, rows,
        f"Mean latency against {label_of(tests.baseline)} over {tests.seeds} paired {tests.unit}. "
        f"Effect r: rank-biserial, from -1 (lower in all {tests.unit}) to 1.",
        words=frozenset({7}),
    )  # fmt: skip
    names = [rank.name for rank in tests.ranking]
    wins = [[f"{number} {label_of(row)}", *tests.won_cells(row)] for number, row in enumerate(names, 1)]
    matrix = TableBlock(
        [f"{tests.unit} won by row", *(str(number) for number in range(1, len(names) + 1))], wins,
        "A star marks a significant difference.",
    )  # fmt: skip
    blocks: list[TextBlock | TableBlock] = [table, matrix]
    if tests.exact:
        return [table]
    if tests.seeds < tests.seeds_needed:
        words = (
            f"{tests.seeds} {tests.unit} are too few to tell any pair apart: take at least {tests.seeds_needed}."
        )
        blocks.insert(0, TextBlock(words))
    return blocks


def _pictures(data: FigureData, figure_names: Sequence[str]) -> list[TextBlock | FigureBlock]:
    drawn = figures.draw_all(data, figure_names)
    blocks: list[TextBlock | FigureBlock] = [
        FigureBlock(name, figure, CAPTIONS[name]) for name, figure in drawn.items()
    ]
    missing = [name for name in figure_names if name not in drawn]
    if missing:
        blocks.append(TextBlock(f"Not drawn, because these runs lack the data: {', '.join(missing)}."))
    return blocks


def _configuration(spec: ExperimentSpec, paired: PairedComparison | None, seed: int) -> TableBlock:
    machine = spec.machine
    devices = ", ".join(device.name for device in machine.platform.devices[:12])
    more = len(machine.platform.devices) - 12
    seeds = f"{paired.runs[0].seed} to {paired.runs[-1].seed}" if paired and len(paired.runs) > 1 else str(seed)
    rows = [
        *(_trace_rows(spec.trace, seed) if spec.trace else _scenario_rows(spec, seeds)),
        ["schedulers", ", ".join(spec.schedulers)],
        ["machine", f"{machine.platform.name}: {devices}" + (f" and {more} more" if more > 0 else "")],
        ["physics", f"{machine.physics.name}, noise {machine.noise.sigma:g}, memory: {machine.memory_policy}"],
        ["tariff", f"{machine.tariff.dollars_per_kwh:g} $/kWh" + (" and rent" if machine.tariff.rent else "")],
        ["objective", f"latency {machine.objective.latency:g}, energy {machine.objective.energy:g}, "
                      f"cost {machine.objective.cost:g}"],
    ]  # fmt: skip
    return TableBlock(["what", "value"], rows, words=frozenset({1}))


def _scenario_rows(spec: ExperimentSpec, seeds: str) -> list[list[str]]:
    if spec.graph is not None:
        return [["graph", spec.graph], ["tasks and seeds", f"{spec.tasks:,} tasks at time 0, seeds {seeds}"]]
    scenario = spec.required_scenario
    return [
        ["scenario", f"{scenario.name}: {scenario.description}"],
        ["sizes, intensities, memory", f"{scenario.size}; {scenario.intensity}; {scenario.memory} MB"],
        ["arrivals", "all at time 0" if spec.batch else f"{scenario.arrivals}, load {spec.load:g} of capacity"],
        ["tasks and seeds", f"{spec.tasks:,} tasks, seeds {seeds}"],
    ]


def _trace_rows(trace: TraceSource, seed: int) -> list[list[str]]:
    tasks = trace.workload
    ranges = "; ".join(
        f"{three_digits(float(column.min()))} to {three_digits(float(column.max()))}"
        for column in (tasks.size, tasks.compute_intensity, tasks.memory_required)
    )
    why = trace.why_no_interval
    return [
        ["trace", f"{trace.name}, sha256 of its columns {trace.sha256[:16]}…"],
        ["sizes, intensities, memory", f"{ranges} MB"],
        ["arrivals", f"as in the trace, over {three_digits(float(np.ptp(tasks.arrival_time)))} s"],
        ["tasks", f"{len(tasks):,}, seed {seed} for noise and for schedulers that draw"],
        ["intervals", f"none: {why}" if why else trace.label],
    ]


def _environment(record: RunFile | None) -> TableBlock:
    installed = record.versions if record else run_record.versions()
    rows = [[name, version] for name, version in installed.items()]
    if record:
        rows = [
            ["run id", record.run_id],
            ["made at", record.created_at],
            ["configuration sha256", record.configuration_hash],
            ["log sha256", record.events_sha256],
            *rows,
        ]
    else:
        rows.append(["system release", platform.release()])
    return TableBlock(
        ["what", "value"], rows, "hybrid-scheduler replay repeats a recorded run.", words=frozenset({1})
    )
