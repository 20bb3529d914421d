"""`hybrid-scheduler heavy`: large simulations in constant memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from .command_context import CommandContext, option_names
from .options import (
    BatchOption,
    JsonOption,
    NoiseOption,
    PlatformOption,
    ScenarioOption,
    SeedOption,
    UtilisationOption,
)
from .printer import (
    DOLLARS,
    JOULES,
    NOTHING,
    SECONDS,
    Column,
    Printer,
    significant,
    three_decimals,
    unit_for,
    with_unit,
)

if TYPE_CHECKING:
    from ..experiments.heavy_simulation import HeavyResult

_REPORT, _PLOTS, _RECORD = "heavy_simulation_report.csv", "plots", "heavy_simulation"
#: Figures that can be drawn without single tasks.
_FIGURES = (
    "latency_cdf", "cost_comparison", "makespan", "average_duration", "speed_up", "load_balance", "pareto_front",
)  # fmt: skip


def heavy(
    context: typer.Context,
    tasks: Annotated[
        int, typer.Option(metavar="N", help="Number of tasks, for example 100000000.", min=1)
    ] = 10_000,
    scenario: ScenarioOption = None,
    utilisation: UtilisationOption = None,
    batch: BatchOption = False,
    seed: SeedOption = None,
    schedulers: Annotated[
        str | None, typer.Option(metavar="A,B", help="Schedulers to compare; learning ones up to 5 million tasks.")
    ] = None,
    platform: PlatformOption = None,
    noise: NoiseOption = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the report and the plots.")] = Path(
        "data/results"
    ),
    vector: Annotated[bool, typer.Option("--vector", help="Also write every plot as SVG and PDF.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a large simulation and write a table and plots.

    Schedulers that do not learn process their tasks in chunks and keep only sums, so memory does not grow with the
    number of tasks. Quantiles are exact to 0.1 %; the interval of the mean latency comes from batch means.

    \b
    Examples:
      hybrid-scheduler heavy
      hybrid-scheduler heavy --tasks 100000000 --schedulers greedy,oracle
    """
    command: CommandContext = context.obj
    settings = command.settings_from(
        scenario=scenario, utilisation=utilisation, seed=seed, schedulers=schedulers, platform=platform, noise=noise
    )
    from dataclasses import replace

    from ..compiled.jit_cache import compile_notice
    from ..experiments.heavy_simulation import run_heavy
    from .inputs import spec_from_settings
    from .options import check_sources

    check_sources(None, utilisation=utilisation, batch=batch or None)
    spec = replace(spec_from_settings(settings, batch=batch), tasks=tasks)
    _check(out)
    with (
        compile_notice(command.printer.note),
        command.printer.progress(tasks * len(spec.schedulers)) as update,
        option_names(tasks="--tasks"),
    ):
        result = run_heavy(spec, settings.simulation.seed, progress=update)
        update("drawing", tasks * len(spec.schedulers))
        written = _write(out, result, vector=vector)
    if as_json:
        command.printer.document(_document(result))
    else:
        _show(command.printer, result, written)


def _write(out: Path, result: HeavyResult, *, vector: bool) -> list[Path]:
    """Write the table, the record and the plots."""
    from ..experiments import run_record
    from ..experiments.heavy_simulation import COLUMNS
    from ..reports import figures
    from ..reports.file_formats import write_table

    out.mkdir(parents=True, exist_ok=True)
    write_table(out / _REPORT, COLUMNS, result.rows)
    run_record.write_run(out / _RECORD, run_record.HEAVY, result.spec, [result.seed], result.events())
    written = [out / _REPORT]
    formats = figures.FORMATS if vector else ("png",)
    for name, figure in figures.draw_all(_figure_data(result), _FIGURES).items():
        written += figures.save(figure, out / _PLOTS, name, formats)
    return written


def _figure_data(result: HeavyResult) -> Any:
    import numpy as np

    from ..experiments.heavy_simulation import COLUMNS
    from ..metrics import Interval
    from ..reports.figure_data import FigureData

    rows = {row["scheduler"]: row for row in result.rows}
    samples = {
        metric: {name: np.array([row[metric]], float) for name, row in rows.items()}
        for metric in COLUMNS[1:]
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
    from .. import __version__
    from ..metrics.running_statistics import RELATIVE_ERROR

    spec = result.spec
    return {
        "version": __version__,
        "scenario": spec.name,
        "batch": spec.batch,
        "utilisation": spec.load,
        "tasks": spec.tasks,
        "seed": result.seed,
        "platform": spec.machine.platform.name,
        "quantile_error": RELATIVE_ERROR,
        "lower_bound": {"makespan": result.lower_bound},
        "schedulers": {
            row["scheduler"]: {key: value for key, value in row.items() if key != "scheduler"}
            for row in result.rows
        },
    }


def _show(printer: Printer, result: HeavyResult, written: list[Path]) -> None:
    from .compare import named

    rows = sorted(result.rows, key=lambda row: row["mean_latency"])
    seconds = unit_for([row["mean_latency"] for row in rows], SECONDS)
    joules = unit_for([row["energy"] for row in rows], JOULES)
    dollars = unit_for([row["cost"] for row in rows], DOLLARS)

    def latency(row: dict[str, Any]) -> str:
        half = row["mean_latency_half_width"]
        mean = seconds.show(row["mean_latency"])
        return mean if half is None else f"{mean} ± {seconds.show(half)}"

    bound = result.lower_bound
    printer.facts(
        [
            *result.spec.facts,
            f"seed {result.seed}",
            f"lower bound {with_unit(bound, SECONDS)}" if bound else "no lower bound",
        ]
    )
    printer.text()
    s = seconds.symbol
    printer.table(
        [
            Column("scheduler", [named(row["scheduler"]) for row in rows], number=False),
            Column(f"latency\nmean ± 95 %, {s}", [latency(row) for row in rows]),
            Column(f"p99\n{s}", [seconds.show(row["p99_latency"]) for row in rows], 1),
            Column(f"time\n{s}", [seconds.show(row["mean_time"]) for row in rows], 6),
            Column("makespan\ns", [significant(row["makespan"]) for row in rows], 2),
            Column("span /\nbound", [_ratio(row["makespan_over_bound"]) for row in rows], 3),
            Column(f"energy\n{joules.symbol}", [joules.show(row["energy"]) for row in rows], 4),
            Column(f"cost\n{dollars.symbol}", [dollars.show(row["cost"]) for row in rows], 5),
            Column("load\nbalance", [three_decimals(row["load_balance"]) for row in rows], 7),
        ]
    )
    printer.text()
    printer.text(f"{written[0]} and {len(written) - 1} plots in {written[0].parent / _PLOTS}")
    printer.text(Text("± by batch means within the run; quantiles to 0.1 %", style="dim"))


def _ratio(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


def _check(out: Path) -> None:
    from ..core import InvalidInputError

    if out.exists() and not out.is_dir():
        raise InvalidInputError("--out", "a folder", str(out))
