"""`hybrid-scheduler heavy`: large simulations in constant memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..metrics import Interval
from .command_context import CommandContext, option_names
from .metric_table import bound_text, metric_columns, named
from .options import MACHINE, TASKS, Inputs, check_folder, with_options
from .printer import Printer

if TYPE_CHECKING:
    from ..experiments.heavy_simulation import HeavyResult
    from ..experiments.spec import ExperimentSpec

_TASKS = 10_000
_REPORT = "heavy_simulation_report.csv"
_SUMMARY = "heavy_simulation_summary.csv"
_PLOTS = "plots"
_RECORD = "heavy_simulation"
#: Most rows of the report: about 150 bytes each.
_MOST_ROWS = 1_000_000
#: Without --utilisation, a scenario also runs at this load, at which schedulers differ.
_BUSY = 0.5
#: Figures that can be drawn without single tasks.
_FIGURES = (
    "latency_cdf", "cost_comparison", "makespan", "average_duration", "speed_up", "load_balance", "pareto_front",
)  # fmt: skip


@with_options((*TASKS, "seed", *MACHINE))
def heavy(
    command: CommandContext,
    inputs: Inputs,
    out: Path = Path("data/results"),
    vector: bool = False,
) -> None:
    """Run a large simulation and write tables and plots.

    Schedulers that do not learn process their tasks in chunks and keep only sums, so memory does not grow with the
    number of tasks. Quantiles are exact to 0.1 %; the interval of the mean latency comes from batch means. Up to a
    million rows, the report has one row per scheduler and task. Without --utilisation the tasks come at the
    scenario's own load and, in a folder of its own, at half of the machine's capacity.

    \b
    Examples:
      hybrid-scheduler heavy
      hybrid-scheduler heavy --tasks 100000000 --schedulers greedy,oracle

    Parameters
    ----------
    schedulers
        Schedulers to compare; learning ones up to 5 million tasks.
    out : DIR
        Folder of the report and the plots.
    vector
        Also write every plot as SVG and PDF.
    """
    settings, spec = inputs.experiment(command, None if inputs.tasks is not None else {"simulation.tasks": _TASKS})
    seed = settings.simulation.seed
    check_folder("--out", out)
    specs = {out: spec}
    if settings.simulation.utilisation is None and spec.load is not None and spec.load < _BUSY:
        specs[out / f"load-{_BUSY:g}"] = replace(spec, utilisation=_BUSY)
    results: dict[Path, HeavyResult] = {}
    total = spec.tasks * len(spec.schedulers)
    with (
        command.printer.progress(total * len(specs)) as update,
        option_names(tasks="--tasks"),
    ):
        for number, (folder, one) in enumerate(specs.items()):

            def advance(name: str, done: int, before: int = number * total) -> None:
                update(name, before + done)

            results[folder] = _run(one, seed, folder, advance, vector=vector)
    first, *others = map(_document, results.values())
    document = first | ({"at_other_loads": others} if others else {})
    command.printer.outcome(document, lambda: _show(command.printer, results))


def _run(
    spec: ExperimentSpec, seed: int, out: Path, update: Callable[[str, int], None], *, vector: bool
) -> HeavyResult:
    """Run the simulation and write the tables, the record and the plots."""
    from ..experiments import run_record
    from ..experiments.heavy_simulation import run_heavy
    from ..reports import figures
    from ..reports.file_formats import write_table
    from .result_files import task_log

    out.mkdir(parents=True, exist_ok=True)
    (out / _REPORT).unlink(missing_ok=True)
    total = spec.tasks * len(spec.schedulers)
    machine = spec.machine
    with ExitStack() as files:
        log = None
        if total <= _MOST_ROWS:
            log = files.enter_context(task_log(out / _REPORT, machine.platform, machine.tariff))
        result = run_heavy(spec, seed, progress=update, log=log)
    update("drawing", total)
    write_table(out / _SUMMARY, list(result.rows[0]), result.rows)
    run_record.write_run(out / _RECORD, run_record.HEAVY, spec, [seed], result.events())
    formats = figures.FORMATS if vector else ("png",)
    for name, figure in figures.draw_all(_figure_data(result), _FIGURES).items():
        figures.save(figure, out / _PLOTS, name, formats)
    return result


def _figure_data(result: HeavyResult) -> Any:
    from ..reports.figure_data import FigureData

    rows = {row["scheduler"]: row for row in result.rows}
    samples = {
        metric: {name: np.array([row[metric]], float) for name, row in rows.items()}
        for metric in list(result.rows[0])[1:]
        if all(row[metric] is not None for row in rows.values())
    }
    bands = {}
    for name, row in rows.items():
        half = row["mean_latency_half_width"]
        if half is not None:
            mean = row["mean_latency"]
            bands[name] = Interval(mean, mean - half, mean + half)
    return FigureData(
        samples,
        [*result.spec.facts, f"seed {result.seed}"],
        {"mean_latency": bands},
        result.lower_bound,
        {name: totals.latency.distribution(600) for name, totals in result.totals.items()},
    )


def _document(result: HeavyResult) -> dict[str, Any]:
    from ..metrics.running_statistics import RELATIVE_ERROR
    from .inputs import document_head

    return document_head(result.spec) | {
        "seed": result.seed,
        "quantile_error": RELATIVE_ERROR,
        "lower_bound": {"makespan": result.lower_bound},
        "schedulers": {
            row["scheduler"]: {key: value for key, value in row.items() if key != "scheduler"}
            for row in result.rows
        },
    }


def _show(printer: Printer, results: Mapping[Path, HeavyResult]) -> None:
    for folder, result in results.items():
        _show_one(printer, result, folder)


def _show_one(printer: Printer, result: HeavyResult, folder: Path) -> None:
    rows = sorted(result.rows, key=lambda row: row["mean_latency"])
    names = [named(row["scheduler"]) for row in rows]
    columns = metric_columns(names, rows, wide=bool(printer.width))
    printer.result([[*result.spec.facts, f"seed {result.seed}", bound_text(result.lower_bound)]], columns)
    plots = len(list((folder / _PLOTS).iterdir()))
    report = [str(folder / _REPORT)] if (folder / _REPORT).exists() else []
    printer.facts([*report, str(folder / _SUMMARY), f"{plots} plots in {folder / _PLOTS}"])
    if not report:
        printer.text(f"no row per task: more than {_MOST_ROWS:,}", "dim")
    printer.text("± by batch means within the run; quantiles to 0.1 %", "dim")
    printer.text()
