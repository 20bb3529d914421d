"""`hybrid-scheduler sweep`: all combinations of schedulers, scenarios, loads, machines and seeds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import InvalidInputError, UnknownNameError
from ..metrics.statistics import Interval, skewed_interval
from .command_context import CommandContext, option_names
from .compare import interval
from .metric_table import named, unit_of_metric
from .options import MACHINE, Inputs, listed, parsed, with_options
from .printer import NOTHING, Column, Printer, significant

if TYPE_CHECKING:
    from ..experiments.spec import ExperimentSpec

_BACKENDS = ("local", "ray")
_BATCH = "batch"
_SEEDS = 10
#: Seconds between two lines of progress where there is no terminal.
_LINE_EVERY_S = 10.0


@with_options(
    ("trace", "tasks", "indivisible", "first_seed", "schedulers", *MACHINE[1:]),
    gone={"--adversary": (str, "python -m studies.worst_case_search {} --out DIR, in a clone of the repository")},
)
def sweep(
    command: CommandContext,
    inputs: Inputs,
    scenarios: str | None = None,
    loads: str | None = None,
    platforms: str = "workstation",
    metric: str = "mean_latency",
    backend: str = "local",
    ray_address: str | None = None,
    processes: int | None = None,
    out: Path = Path("data/results/sweep"),
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

    Parameters
    ----------
    seeds
        Number of seeds; 10 by default.
    scenarios : A,B
        Kinds of tasks, such as mixed,lu(tiles=4); default if not given.
    loads : X,Y
        Loads as shares of capacity, or batch; by default the scenario's or the trace's own.
    platforms : A,B
        Simulated machines.
    metric : NAME
        Metric of the printed table.
    backend : NAME
        Where runs execute: local or ray.
    ray_address : HOST:PORT
        Ray cluster to use, or auto; one is started here by default.
    processes : N
        Runs in parallel on this machine; one per core by default.
    out : DIR
        Folder of the results; an interrupted sweep continues there.
    """
    from ..experiments.paired_comparison import check_metric

    if backend not in _BACKENDS:
        raise UnknownNameError("--backend", backend, _BACKENDS)
    check_metric(metric)
    inputs.check(scenarios=scenarios)
    seeds = inputs.seed_range(_SEEDS)
    specs = _specs(command, inputs, scenarios or "default", loads, platforms)
    from ..experiments.sweep import TABLE, LocalBackend, RaySweepBackend, cells_of, run_sweep

    cells = cells_of(specs, seeds)
    command.after_interrupt = "finished cells are kept; run the command again to continue"
    hints = {"with KernelExecutor": "with --backend local"}
    where = RaySweepBackend(ray_address) if backend == "ray" else LocalBackend(processes)
    with (
        command.printer.progress(len(cells)) as bar,
        option_names(hints, folder="--out", address="--ray-address"),
    ):
        rows = run_sweep(cells, out, where, progress=_progress(command.printer, bar))
    table = _summary(rows, metric)
    document = {"metric": metric, "cells": len(rows), "table": str(out / TABLE), "groups": table}
    command.printer.outcome(document, lambda: _show(command.printer, table, metric, len(rows), out / TABLE))


def _specs(
    command: CommandContext, inputs: Inputs, scenarios: str, loads: str | None, platforms: str
) -> list[ExperimentSpec]:
    """Return one specification for each combination of the axes; a trace and a graph are not drawn anew."""
    from ..schedulers import split_specs
    from ..workload.task_graphs import is_graph
    from .inputs import read_experiment

    specs = []
    for scenario in [None] if inputs.trace else split_specs(scenarios):
        without_load = scenario is not None and is_graph(scenario)
        for platform in listed(platforms):
            for load in [None] if without_load or not loads else listed(loads):
                batch = load == _BATCH and not inputs.trace
                if load is not None and not batch:
                    _check_load(load)
                share = None if batch else load
                cell = replace(inputs, scenario=scenario, platform=platform, utilisation=share, batch=batch)
                specs.append(read_experiment(cell.settings(command), cell))
    return specs


def _check_load(load: str) -> None:
    if not 0 < parsed("--loads", load, "numbers or the word batch", float) < float("inf"):
        raise InvalidInputError("--loads", "finite and > 0", load)


def _progress(printer: Printer, bar: Callable[[str, int], None]) -> Callable[[str, int, int], None]:
    """Return a reporter: a bar with the time left on a terminal, elsewhere a line every ten seconds."""
    began = time.monotonic()
    last_line = time.monotonic()
    first = -1

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
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        place = (row["scenario"], _BATCH if row["batch"] else row["load"], row["platform"], row["scheduler"])
        groups.setdefault(place, []).append(row)
    found = []
    for place, group in groups.items():
        known = np.array([row[metric] for row in group], dtype=np.float64)  # None becomes NaN
        mean = float(known.mean())
        half = group[-1].get(f"{metric}_half_width")
        one = None if half is None else Interval(mean, mean - half, mean + half)
        if len(known) > 1 and np.isfinite(known).all():
            one = skewed_interval(known)
        names = ("scenario", "load", "platform", "scheduler")
        ends = {"low": one.low if one else None, "high": one.high if one else None}
        found.append({**dict(zip(names, place, strict=True)), "seeds": len(known), "mean": mean, **ends})
    return found


def _show(printer: Printer, table: list[dict[str, Any]], metric: str, cells: int, path: Path) -> None:
    size, symbol = unit_of_metric(metric, [row["mean"] for row in table])

    def cell(row: dict[str, Any]) -> str:
        if row["low"] is None:
            return significant(row["mean"] / size)
        return interval(Interval(row["mean"], row["low"], row["high"]), size)

    seeds = table[0]["seeds"]
    repeated = "one run each" if seeds == 1 else f"{seeds} seeds"
    if seeds == 1 and any(row["low"] is not None for row in table):
        repeated = "one trace; interval from batch means"
    printer.result(
        [[metric, f"{repeated}, mean ± 95 %"]],
        [
            Column("scenario", [row["scenario"] for row in table], 1, number=False),
            Column("load", [NOTHING if row["load"] is None else str(row["load"]) for row in table], 2),
            Column("machine", [row["platform"] for row in table], 3, number=False),
            Column("scheduler", [named(row["scheduler"]) for row in table], number=False),
            Column(f"{metric}\n± 95 %{symbol}", [cell(row) for row in table]),
        ],
    )
    printer.text(f"{cells:,} cells in {path}")
