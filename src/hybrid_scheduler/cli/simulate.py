"""`hybrid-scheduler simulate`: the same tasks through several schedulers, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from .command_context import CommandContext
from .compare import GROWS, show_verdict
from .options import (
    BatchOption,
    IndivisibleOption,
    JsonOption,
    NoiseOption,
    PhysicsOption,
    PlatformOption,
    ScenarioOption,
    SeedOption,
    SlowdownOption,
    UtilisationOption,
    scheduler_names,
)
from .printer import (
    DOLLARS,
    EXTRA,
    JOULES,
    SECONDS,
    Column,
    Printer,
    percent,
    significant,
    three_decimals,
    unit_for,
    with_unit,
)

if TYPE_CHECKING:
    from ..core import Platform
    from ..engine import Comparison
    from ..metrics import Summary
    from ..schedulers import SchedulerInfo
    from .inputs import SimulationInputs


def simulate(
    context: typer.Context,
    scenario: ScenarioOption = None,
    utilisation: UtilisationOption = None,
    batch: BatchOption = False,
    trace: Annotated[
        str | None, typer.Option(metavar="FILE", help="Read tasks from a .csv, .csv.gz or .parquet file.")
    ] = None,
    tasks: Annotated[str | None, typer.Option(metavar="N", help="Number of tasks.")] = None,
    seed: SeedOption = None,
    schedulers: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Schedulers to compare, such as greedy,oracle(grid=21); or all.",
            autocompletion=scheduler_names,
        ),
    ] = None,
    platform: PlatformOption = None,
    physics: PhysicsOption = None,
    noise: NoiseOption = None,
    slowdown: SlowdownOption = None,
    indivisible: IndivisibleOption = False,
    memory_policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Handling of tasks too large for a GPU's memory: clip, to_cpu or fail."),
    ] = None,
    objective: Annotated[
        str | None, typer.Option(metavar="A=1,B=2", help="Weights of latency, energy and cost; the others are 0.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the summary, every task's result and a record to this folder."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the results of an earlier --out.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare schedulers on the same tasks.

    Each scheduler has a simulated machine of its own. Values that are not given as options come from the
    environment, config.yaml or the defaults.

    \b
    Examples:
      hybrid-scheduler simulate --scenario mixed --utilisation 0.7
      hybrid-scheduler simulate --batch --schedulers all --objective latency=1,energy=1
      hybrid-scheduler simulate --scenario "cholesky(tiles=8)" --schedulers heft,greedy
      hybrid-scheduler simulate --trace kernels.csv --physics profiled:h200
      hybrid-scheduler simulate --trace week.csv --out results/week --json
    """
    # Imported here, because --help needs neither NumPy nor the compiler.
    from functools import partial

    from ..compiled.jit_cache import compile_notice
    from .inputs import read_inputs, run_simulation
    from .options import check_sources, weights
    from .printer import uninterrupted
    from .result_files import check_folder, staged, write_record

    command: CommandContext = context.obj
    settings = command.settings_from(
        weights(objective), scenario=scenario, utilisation=utilisation, tasks=tasks, seed=seed,
        schedulers=schedulers, platform=platform, memory_policy=memory_policy, physics=physics, noise=noise,
        slowdown=slowdown,
    )  # fmt: skip
    check_sources(trace, scenario=scenario, utilisation=utilisation, tasks=tasks, batch=batch or None)
    if out is not None:
        check_folder(out, force=force)
    inputs = read_inputs(settings, batch=batch, trace=trace, trace_load=utilisation, indivisible=indivisible)
    with compile_notice(command.printer.note):
        comparison = run_simulation(inputs, command.printer)
    document = inputs.document(comparison)
    with staged(out, comparison, document, partial(write_record, inputs, comparison)) as commit, uninterrupted():
        commit()
        if as_json:
            command.printer.document(document)
        else:
            _show(command.printer, inputs, comparison)


# ------------------------------------------------------------------------------------------ table


def _show(printer: Printer, inputs: SimulationInputs, comparison: Comparison) -> None:
    summaries = dict(sorted(comparison.summaries.items(), key=lambda item: _rank(item[1])))
    growing = {name for name in comparison.results if comparison.evidence(name).growing}
    for facts in _caption(inputs, comparison):
        printer.facts(facts)
    printer.text()
    printer.table(_columns(summaries, growing, wide=bool(printer.width)))
    printer.text()
    show_verdict(printer, comparison.verdict)
    for remark in _remarks(summaries, growing):
        printer.text(Text(remark, style="dim"))


def _rank(summary: Summary) -> tuple[bool, float]:
    mean = summary.latency.mean
    return mean != mean, mean  # a run in which every task failed has no mean: last


# ------------------------------------------------------------------------------------------ caption


def _caption(inputs: SimulationInputs, comparison: Comparison) -> Iterator[list[str]]:
    """Yield the inputs of the run, in lines of facts."""
    if inputs.trace is not None:
        load = inputs.offered_load
        source = f"trace {inputs.trace}" + ("" if load is None else f", offers {load:.3g} × capacity")
    elif inputs.spec.graph is not None:
        source = inputs.spec.source
    elif inputs.batch:
        source = f"{inputs.scenario}, all at once"
    else:
        source = f"{inputs.scenario} at {inputs.utilisation:.3g} of capacity"
    yield [source, f"{len(inputs.workload):,} tasks", f"seed {inputs.settings.simulation.seed}"]
    bound, latency_bound = comparison.lower_bound, comparison.latency_bound
    yield [
        f"{inputs.platform.name} ({_devices(inputs.platform)})",
        f"{inputs.physics.name} physics",
        "no lower bound" if bound is None else f"lower bound {with_unit(bound, SECONDS)}",
        *([f"mean latency at least {with_unit(latency_bound, SECONDS)}"] if latency_bound else []),
    ]
    yield list(_unusual(inputs))


def _unusual(inputs: SimulationInputs) -> Iterator[str]:
    """Yield settings that change the meaning of the numbers, where they differ from the defaults."""
    settings = inputs.settings
    if settings.physics.noise_sigma:
        yield f"noise σ {settings.physics.noise_sigma:g}"
    if (slowdown := settings.physics.build_slowdown()) is not None:
        yield slowdown.describe()
    if not inputs.workload.divisible.any():
        yield "no task is split"
    if settings.simulation.memory_policy != "clip":
        yield f"memory policy {settings.simulation.memory_policy}"
    weights = settings.objective
    if not weights.weights().is_latency_only:
        named = (("latency", weights.latency), ("energy", weights.energy), ("cost", weights.cost))
        yield "objective " + " + ".join(f"{weight:g} {name}" for name, weight in named if weight)


def _devices(platform: Platform) -> str:
    """Return a short description, such as "1 CPU + 4 GPUs"."""
    counts = Counter(device.kind.upper() for device in platform.devices)
    return " + ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts.items())


# ------------------------------------------------------------------------------------------ table


def _columns(summaries: dict[str, Summary], growing: set[str], *, wide: bool) -> list[Column]:
    """Return the columns of the table; `wide` adds those for a large terminal."""
    rows = list(summaries.values())
    seconds = unit_for([row.latency.mean for row in rows], SECONDS)
    joules = unit_for([row.energy for row in rows], JOULES)
    dollars = unit_for([row.cost for row in rows], DOLLARS)

    def column(
        header: str,
        value: Callable[[Summary], float | None],
        show: Callable[[float | None], str],
        rank: int,
        best: str = "least",
    ) -> Column:
        values = [value(row) for row in rows]
        cells = [show(one) for one in values]
        return Column(header, cells, rank, best=_best(values, cells, best))

    s = seconds.symbol
    standard = [
        Column("scheduler", [_label(name, name in growing) for name in summaries], number=False),
        column(f"latency\nmean, {s}", lambda row: row.latency.mean, seconds.show, 0),
        column(f"p95\n{s}", lambda row: row.latency.p95, seconds.show, 6),
        column(f"p99\n{s}", lambda row: row.latency.p99, seconds.show, 1),
        column(f"time\n{s}", lambda row: row.time.mean, seconds.show, 7),
        column("mean /\nbound", lambda row: row.latency_over_bound, significant, 5),
        column("span /\nbound", lambda row: row.makespan_over_bound, significant, 2),
        column(f"energy\n{joules.symbol}", lambda row: row.energy, joules.show, 3),
        column(f"cost\n{dollars.symbol}", lambda row: row.cost, dollars.show, 4),
        column("load\nbalance", lambda row: row.load_balance, three_decimals, 8, "most"),
    ]
    if not wide:
        return standard
    return [
        *standard,
        column(f"wait\n{s}", lambda row: row.wait.mean, seconds.show, EXTRA + 1),
        column("slow-\ndown", lambda row: row.mean_slowdown, significant, EXTRA),
        column("busy", lambda row: row.average_utilization, percent, EXTRA + 2, "none"),
        column("on\nGPU", lambda row: row.mean_gpu_fraction, percent, EXTRA + 3, "none"),
        column(f"p50\n{s}", lambda row: row.latency.p50, seconds.show, EXTRA + 4),
        column(f"max\n{s}", lambda row: row.latency.max, seconds.show, EXTRA + 5),
        column("tasks\n/ s", lambda row: row.throughput, significant, EXTRA + 6, "most"),
    ]


def _best(values: Sequence[float | None], cells: Sequence[str], best: str) -> frozenset[int]:
    """Return the rows with the best value; none where all are equal."""
    known = [
        (value, cell) for value, cell in zip(values, cells, strict=True) if value is not None and value == value
    ]
    if best == "none" or not known or len(set(cells)) == 1:
        return frozenset()
    _, winner = (min if best == "least" else max)(known)
    return frozenset(row for row, cell in enumerate(cells) if cell == winner)


def _label(spec: str, growing: bool) -> Text:
    info, parameters = _info(spec)
    label = f"{info.label} ({parameters})" if parameters else info.label
    mark = (f" {GROWS}", "bold red") if growing else ""
    return Text.assemble((info.look.glyph, info.look.dark), " ", label, mark)


def _info(spec: str) -> tuple[SchedulerInfo, str]:
    from ..schedulers import schedulers as registered
    from ..workload.argument_checks import parse_spec

    name, arguments = parse_spec(spec)
    return registered()[name], ", ".join(f"{key}={value}" for key, value in arguments.items())


# ------------------------------------------------------------------------------------------ remarks


def _remarks(summaries: dict[str, Summary], growing: set[str]) -> Iterator[str]:
    if growing:
        yield f"{GROWS} queue grows: too much load for this scheduler, its latency depends on the run's length"
    for what, field in (
        ("that failed for lack of memory", "failed"),
        ("clipped to fit a GPU's memory", "clipped"),
        ("moved to the CPU for lack of memory", "moved_to_cpu"),
    ):
        counts = {name: getattr(summary, field) for name, summary in summaries.items()}
        found = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
        if found:
            yield f"tasks {what}: {found}"
