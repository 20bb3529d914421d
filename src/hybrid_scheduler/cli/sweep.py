"""`hybrid-scheduler sweep`: all combinations of schedulers, scenarios, loads, machines and seeds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.text import Text

from .command_context import CommandContext, option_names
from .compare import interval, named
from .options import (
    FirstSeedOption,
    IndivisibleOption,
    JsonOption,
    NoiseOption,
    PhysicsOption,
    SchedulersOption,
)
from .printer import NOTHING, SECONDS, Column, Printer, significant, unit_for

if TYPE_CHECKING:
    from ..experiments.spec import ExperimentSpec
    from ..experiments.worst_case_search import WorstCase

_BACKENDS = ("local", "ray")
_BATCH = "batch"
_SEEDS = 10
#: Seconds between two lines of progress where there is no terminal.
_LINE_EVERY_S = 10.0


def sweep(
    context: typer.Context,
    schedulers: SchedulersOption = None,
    scenarios: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Kinds of tasks, such as mixed,lu(tiles=4); default if not given."),
    ] = None,
    loads: Annotated[
        str | None,
        typer.Option(
            metavar="X,Y",
            help="Loads as shares of capacity, or batch; by default the scenario's or the trace's own.",
        ),
    ] = None,
    trace: Annotated[
        str | None, typer.Option(metavar="FILE", help="Your own tasks from a file instead of scenarios.")
    ] = None,
    platforms: Annotated[str, typer.Option(metavar="A,B", help="Simulated machines.")] = "workstation",
    physics: PhysicsOption = None,
    tasks: Annotated[str | None, typer.Option(metavar="N", help="Tasks per run.")] = None,
    noise: NoiseOption = None,
    indivisible: IndivisibleOption = False,
    seeds: Annotated[int | None, typer.Option(metavar="N", help="Number of seeds; 10 by default.", min=1)] = None,
    first_seed: FirstSeedOption = 3000,
    metric: Annotated[str, typer.Option(metavar="NAME", help="Metric of the printed table.")] = "mean_latency",
    backend: Annotated[str, typer.Option(metavar="NAME", help="Where runs execute: local or ray.")] = "local",
    ray_address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Ray cluster to use, or auto; one is started here by default."),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(metavar="N", help="Runs in parallel on this machine; one per core by default.", min=1),
    ] = None,
    adversary: Annotated[
        str | None, typer.Option(metavar="A:B", help="Search for the case in which A is worst compared with B.")
    ] = None,
    evaluations: Annotated[
        int, typer.Option(metavar="N", help="Cases that search tries beyond the built-in scenarios.", min=1)
    ] = 120,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the results; an interrupted sweep continues there.")
    ] = Path("data/results/sweep"),
    as_json: JsonOption = False,
) -> None:
    """Run every combination and write one table (results.parquet).

    A cell is one combination with one seed, and is stored as soon as it is finished: an interrupted sweep continues
    where it stopped, and an extended one runs only the new cells. On Ray the cells run on a cluster; those of a
    failed node run again. A trace is one run per scheduler and machine, with intervals from batches of consecutive
    tasks.

    \b
    Examples:
      hybrid-scheduler sweep --scenarios mixed,transfer --loads 0.5,0.9,batch
      hybrid-scheduler sweep --trace week.csv --platforms laptop,workstation
      hybrid-scheduler sweep --backend ray --ray-address 10.0.0.5:6379
      hybrid-scheduler sweep --adversary greedy:oracle --out results/worst
    """
    command: CommandContext = context.obj
    from ..compiled.jit_cache import compile_notice
    from ..core import UnknownNameError
    from ..experiments.paired_comparison import check_metric
    from .options import check_sources

    if backend not in _BACKENDS:
        raise UnknownNameError("--backend", backend, _BACKENDS)
    check_metric(metric)
    common = {"simulation.tasks": tasks, "physics.name": physics, "physics.noise_sigma": noise}
    check_sources(trace, scenarios=scenarios, tasks=tasks, seeds=seeds, adversary=adversary)
    if adversary is not None:
        _adversary(
            command, adversary, common, metric, evaluations, seeds or _SEEDS, first_seed, processes, out, as_json
        )
        return
    common["simulation.schedulers"] = schedulers
    axes = _Axes(loads, platforms, common, indivisible)
    if trace is not None:
        specs = _trace_specs(command, trace, axes)
    else:
        specs = _specs(command, scenarios or "default", axes)
    from ..experiments.sweep import RUN_LOCALLY, TABLE, LocalBackend, RaySweepBackend, cells_of, run_sweep

    cells = cells_of(specs, range(first_seed, first_seed + (1 if trace else seeds or _SEEDS)))
    command.after_interrupt = "finished cells are kept; run the command again to continue"
    hints = {RUN_LOCALLY: "run it on this machine with --backend local"}
    where = RaySweepBackend(ray_address) if backend == "ray" else LocalBackend(processes)
    with (
        compile_notice(command.printer.note),
        command.printer.progress(len(cells)) as bar,
        option_names(hints, folder="--out", address="--ray-address"),
    ):
        rows = run_sweep(cells, out, where, progress=_progress(command.printer, bar))
    table = _summary(rows, metric)
    if as_json:
        command.printer.document({"metric": metric, "cells": len(rows), "table": str(out / TABLE), "groups": table})
    else:
        _show(command.printer, table, metric)
        command.printer.text()
        command.printer.text(f"{len(rows):,} cells in {out / TABLE}")


class _Axes(NamedTuple):
    """Axes that sweeps of scenarios and of traces share, and the options of all cells."""

    loads: str | None
    platforms: str
    common: dict[str, Any]
    indivisible: bool


def _specs(command: CommandContext, scenarios: str, axes: _Axes) -> list[ExperimentSpec]:
    from dataclasses import replace

    from ..core import InvalidInputError
    from ..schedulers import split_specs
    from .inputs import spec_from_settings

    found = []
    for scenario in split_specs(scenarios):
        for platform in _listed(axes.platforms):
            settings = command.settings(
                {**axes.common, "simulation.scenario": scenario, "simulation.platform": platform}
            )
            base = spec_from_settings(settings, indivisible=axes.indivisible)
            if base.scenario is None:  # a task graph: no arrivals, no load
                found.append(base)
                continue
            for load in _listed(axes.loads) if axes.loads else [""]:
                try:
                    share = None if load in ("", _BATCH) else float(load)
                except ValueError:
                    raise InvalidInputError("--loads", "numbers or the word batch", load) from None
                if share is not None and not 0 < share < float("inf"):
                    raise InvalidInputError("--loads", "finite and > 0", load)
                found.append(replace(base, utilisation=share, batch=load == _BATCH))
    return found


def _trace_specs(command: CommandContext, trace: str, axes: _Axes) -> list[ExperimentSpec]:
    from .inputs import spec_from_settings

    found = []
    for load in _listed(axes.loads) if axes.loads else [None]:
        for platform in _listed(axes.platforms):
            options = {**axes.common, "simulation.platform": platform, "simulation.utilisation": load}
            settings = command.settings(options)
            found.append(spec_from_settings(settings, trace=trace, trace_load=load, indivisible=axes.indivisible))
    return found


def _listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _progress(printer: Printer, bar: Callable[[str, int], None]) -> Callable[[str, int, int], None]:
    """Return a reporter: a bar with the time left on a terminal, elsewhere a line every ten seconds."""
    began, last_line, first = time.monotonic(), time.monotonic(), -1

    def report(name: str, done: int, total: int) -> None:
        nonlocal last_line, first
        bar(name, done)
        if first < 0:
            first = done
            if done:
                printer.note(f"{done} of {total} cells are already finished")
        now = time.monotonic()
        if sys.stderr.isatty() or now - last_line < _LINE_EVERY_S or done == first:
            return
        last_line = now
        left = (now - began) / (done - first) * (total - done)
        printer.note(f"{done} of {total} cells, about {left:.0f} s left")

    return report


# ------------------------------------------------------------------------------------------ table


def _summary(rows: list[dict[str, Any]], metric: str) -> list[dict[str, Any]]:
    """Return mean and interval of every combination: over seeds, or by batch means within a trace."""
    import numpy as np

    from ..metrics import Interval, t_interval

    groups: dict[tuple[Any, ...], list[float]] = {}
    halves: dict[tuple[Any, ...], float | None] = {}
    for row in rows:
        place = (row["scenario"], _BATCH if row["batch"] else row["load"], row["platform"], row["scheduler"])
        halves[place] = row.get(f"{metric}_half_width")
        groups.setdefault(place, []).append(float("nan") if row[metric] is None else float(row[metric]))
    found = []
    for place, values in groups.items():
        scenario, load, platform, scheduler = place
        known, half = np.array(values), halves[place]
        mean = float(known.mean())
        several = len(known) > 1 and bool(np.isfinite(known).all())
        one = t_interval(known) if several else None if half is None else Interval(mean, mean - half, mean + half)
        found.append(
            {
                "scenario": scenario, "load": load, "platform": platform, "scheduler": scheduler,
                "seeds": len(values), "mean": mean,
                "low": one.low if one else None, "high": one.high if one else None,
            }
        )  # fmt: skip
    return found


def _show(printer: Printer, table: list[dict[str, Any]], metric: str) -> None:
    from ..metrics import Interval

    timed = metric.endswith(("_time", "_latency", "_wait", "makespan"))
    unit = unit_for([row["mean"] for row in table], SECONDS) if timed else None
    size, symbol = (unit.size, f", {unit.symbol}") if unit else (1.0, "")

    def cell(row: dict[str, Any]) -> str:
        if row["low"] is None:
            return significant(row["mean"] / size)
        return interval(Interval(row["mean"], row["low"], row["high"]), size)

    seeds = table[0]["seeds"]
    repeated = "one run each" if seeds == 1 else f"{seeds} seeds"
    if seeds == 1 and any(row["low"] is not None for row in table):
        repeated = "one trace; interval from batch means"
    printer.facts([metric, f"{repeated}, mean ± 95 %"])
    printer.text()
    printer.table(
        [
            Column("scenario", [row["scenario"] for row in table], 1, number=False),
            Column("load", [NOTHING if row["load"] is None else str(row["load"]) for row in table], 2),
            Column("machine", [row["platform"] for row in table], 3, number=False),
            Column("scheduler", [named(row["scheduler"]) for row in table], number=False),
            Column(f"{metric}\n± 95 %{symbol}", [cell(row) for row in table]),
        ]
    )


# ------------------------------------------------------------------------------------------ worst-case search


def _adversary(
    command: CommandContext, pair: str, common: dict[str, Any], metric: str, evaluations: int, seeds: int,
    first_seed: int,
    processes: int | None, out: Path, as_json: bool,
) -> None:  # fmt: skip
    from ..compiled.jit_cache import compile_notice
    from ..core import InvalidInputError
    from ..core.canonical_json import pretty_json
    from ..experiments import run_record
    from ..experiments.exact_replay import comparison_events
    from ..experiments.worst_case_search import find_worst, ordinary_cases
    from .inputs import spec_from_settings
    from .options import check_empty

    names = [name.strip() for name in pair.split(":")]
    if len(names) != 2 or not all(names):
        raise InvalidInputError("--adversary", "two schedulers, as in greedy:oracle", pair)
    check_empty("--out", out)
    settings = command.settings({**common, "simulation.schedulers": ",".join(names)})
    spec = spec_from_settings(settings)
    if seeds < 2:
        raise InvalidInputError("--seeds", "at least 2, for an interval", seeds)
    with (
        compile_notice(command.printer.note),
        command.printer.progress(len(list(ordinary_cases(spec))) + evaluations) as bar,
        option_names(evaluations="--evaluations", confirmation_seeds="--seeds"),
    ):
        found = find_worst(
            spec, metric=metric, evaluations=evaluations, seed=settings.simulation.seed,
            confirmation_seeds=seeds, processes=processes, vary_machine=not any(_machine_options(common)),
            progress=lambda ratio, done: bar(f"worst so far {ratio:.3g}×", done),
        )  # fmt: skip
    content = _worst_document(found)
    out.mkdir(parents=True, exist_ok=True)
    (out / "adversary.json").write_text(pretty_json(content), encoding="utf-8")
    tested = [run.seed for run in found.paired.runs]
    run_record.write_run(out, run_record.COMPARE, found.spec, tested, comparison_events(found.paired.runs))
    if as_json:
        command.printer.document(content)
    else:
        _show_worst(command.printer, found, out)


def _machine_options(common: dict[str, Any]) -> list[Any]:
    """Return the options that fix the machine: with one of them the search varies only the tasks."""
    return [common["physics.name"], common["physics.noise_sigma"]]


def _worst_document(found: WorstCase) -> dict[str, Any]:
    first, second = found.spec.schedulers
    return {
        "schedulers": [first, second],
        "metric": found.metric,
        "search_seed": found.seed,
        "evaluations": found.evaluations,
        "ratio_in_the_search": found.searched_ratio,
        "ratio": [found.ratio.mean, found.ratio.low, found.ratio.high],
        "seeds": [run.seed for run in found.paired.runs],
        "configuration": found.spec.as_json(),
    }


def _show_worst(printer: Printer, found: WorstCase, out: Path) -> None:
    scenario = found.spec.required_scenario
    first, second = found.spec.schedulers
    ratio = found.ratio
    printer.text(
        Text(
            f"{first} has {ratio.mean:.3g} × the {found.metric} of {second} "
            f"(95 %: {ratio.low:.3g} to {ratio.high:.3g})",
            style="bold",
        )
    )
    size: Any = scenario.size
    printer.facts(
        [
            f"sizes {size.low:g} to {size.high:g}",
            f"intensities {scenario.intensity[0]:g} to {scenario.intensity[1]:g}",
            f"memory {scenario.memory[0]:g} to {scenario.memory[1]:g} MB",
            f"{scenario.arrivals} arrivals at load {scenario.utilisation:g}",
            f"{found.spec.tasks:,} tasks",
            f"{found.spec.machine.platform.name}, {found.spec.machine.physics.name} physics",
            *([f"noise {found.spec.machine.noise.sigma:g}"] if found.spec.machine.noise.sigma else []),
            *([f"kinds {', '.join(scenario.kinds)}"] if scenario.kinds else []),
        ]
    )
    printer.text(
        Text(
            f"found in {found.evaluations} evaluations (ratio in the search {found.searched_ratio:.3g}), confirmed "
            f"on {len(found.paired.runs)} other seeds; hybrid-scheduler replay {out} repeats the confirmation",
            style="dim",
        )
    )
