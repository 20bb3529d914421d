"""`hybrid-scheduler compare`: who is better on the same seeds, and how sure is that?"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from .command_context import CommandContext
from .number_format import NOTHING, SECONDS, significant, unit_for
from .options import BatchOption, NoiseOption, PlatformOption, ScenarioOption, UtilisationOption
from .printer import Printer
from .table import Column

if TYPE_CHECKING:
    from ..experiments.paired_comparison import Judgement, PairedComparison, Standing
    from ..metrics.statistics import Interval

_SIGNIFICANT = "*"
GROWS = "↗"
_SEEDS = 20
#: Neighbouring batches that are more alike than this are worth a word.
_ALIKE = 0.3


def compare(
    context: typer.Context,
    scenario: ScenarioOption = None,
    utilisation: UtilisationOption = None,
    batch: BatchOption = False,
    trace: Annotated[
        str | None, typer.Option(metavar="FILE", help="Your own tasks: one run, judged batch by batch.")
    ] = None,
    tasks: Annotated[str | None, typer.Option(metavar="N", help="How many tasks per seed.")] = None,
    schedulers: Annotated[
        str | None, typer.Option(metavar="A,B", help="Who is compared, as in greedy,oracle(grid=21).")
    ] = None,
    platform: PlatformOption = None,
    noise: NoiseOption = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", help="How many paired seeds, at least 2; 20 if not given.")
    ] = None,
    first_seed: Annotated[
        int, typer.Option(metavar="N", help="The first of them; with --trace that of noise and draws.")
    ] = 3000,
    batches: Annotated[
        int | None, typer.Option(metavar="N", help="Into how many batches a trace is cut; 20 if it is long enough.")
    ] = None,
    metric: Annotated[
        str, typer.Option(metavar="NAME", help="What is judged, as in simulate --json.")
    ] = "mean_latency",
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whom all are measured against; the first if not given.")
    ] = None,
    until_clear: Annotated[
        bool,
        typer.Option("--until-clear", help="Stop as soon as all are told from the baseline; looks are paid for."),
    ] = False,
    fail_if_slower: Annotated[
        str | None, typer.Option(metavar="NAME", help="Exit 1 if this one is worse than the baseline, surely.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(metavar="N", help="Seeds at a time; one per core if not given.", min=1)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the judgement, every seed and a record to replay.")
    ] = None,
    real: Annotated[
        bool, typer.Option("--real", help="Run kernels on this machine at once, and simulate the same beside it.")
    ] = False,
    store: Annotated[bool, typer.Option("--store", help="With --real: put the run into the history.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Compare schedulers on paired seeds, with intervals and tests.

    Every seed is one workload that all schedulers get. Different means: the Wilcoxon test, corrected for all pairs,
    and the 95 % interval of the mean difference both say so. All else is too close to call.

    A trace is one run: it is cut into batches of consecutive tasks, which are compared pair by pair; where
    neighbouring batches are alike, intervals are widened.

    \b
    Examples:
      hybrid-scheduler compare --utilisation 0.9 --schedulers greedy,price_index
      hybrid-scheduler compare --metric p99_latency --out results/tails
      hybrid-scheduler compare --trace week.csv --schedulers greedy,price_index
      hybrid-scheduler compare --baseline greedy --fail-if-slower hybrid_ml
      hybrid-scheduler compare --real --schedulers hybrid_ml,earliest_finish
    """
    command: CommandContext = context.obj
    if real or store:
        from .execute import compare_real

        compare_real(context, real=real, tasks=tasks, schedulers=schedulers, out=out, store=store, as_json=as_json)
        return
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
    from ..experiments.paired_comparison import baseline_of, check_metric, compare_seeds, compare_trace
    from .compile_notice import announced
    from .inputs import spec_from_settings
    from .options import check_sources

    check_sources(
        trace, scenario=scenario, utilisation=utilisation, tasks=tasks, batch=batch or None, seeds=seeds,
        until_clear=until_clear or None,
    )  # fmt: skip
    if seeds is not None and seeds < 2:
        raise InvalidInputError("--seeds", "at least 2, for an interval", seeds)
    spec = spec_from_settings(settings, batch=batch, trace=trace, batches=batches)
    check_metric(metric, one_run=trace is not None)
    against = baseline_of(spec, baseline)
    if fail_if_slower is not None:
        baseline_of(spec, fail_if_slower)
        if fail_if_slower == against:
            raise InvalidInputError("--fail-if-slower", f"another one than the baseline {against}", fail_if_slower)
    if out is not None:
        check_empty(out)
    chosen = range(first_seed, first_seed + (seeds or _SEEDS))
    total = spec.tasks * len(spec.schedulers) if trace else len(chosen)
    with announced(command.printer.note), command.printer.progress(total) as update:
        if trace is not None:
            found = compare_trace(spec, first_seed, added_up(update))
        else:
            found = compare_seeds(
                spec, chosen, metric=metric, baseline=against, until_clear=until_clear, processes=processes,
                progress=update,
            )  # fmt: skip
    judgement = found.judge(metric, against)
    if out is not None:
        write(out, found, judgement)
    if as_json:
        command.printer.document(document(found, judgement))
    else:
        show(command.printer, found, judgement)
    _fail_if_slower(judgement, fail_if_slower)


def added_up(update: Callable[[str, int], None]) -> Callable[[str, int], None]:
    """Progress of single steps as progress of all together."""
    done = 0

    def advance(name: str, count: int) -> None:
        nonlocal done
        done += count
        update(name, done)

    return advance


def check_empty(folder: Path) -> None:
    """Refuse now what would mix two results later."""
    from ..core import InvalidInputError

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError("--out", "a new or empty folder", str(folder))


def write(folder: Path, found: PairedComparison, judgement: Judgement) -> None:
    """The judgement, every seed as a row, and the record that `replay` repeats."""
    from ..core.canonical_json import pretty_json
    from ..experiments import run_record
    from ..experiments.replay import comparison_events
    from ..reports.table_files import write_table

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "comparison.json").write_text(pretty_json(document(found, judgement)), encoding="utf-8")
    rows = [
        {"seed": run.seed, "scheduler": name, **numbers}
        for run in found.runs
        for name, numbers in run.metrics.items()
    ]
    write_table(folder / "seeds.csv", list(rows[0]), rows)
    seeds = [run.seed for run in found.runs]
    run_record.write_run(folder, run_record.COMPARE, found.spec, seeds, comparison_events(found.runs))


def document(found: PairedComparison, judgement: Judgement) -> dict[str, Any]:
    from .. import __version__

    spec = found.spec
    return {
        "version": __version__,
        "scenario": None if spec.scenario is None else spec.scenario.name,
        "trace": None if spec.trace is None else {"name": spec.trace.name, "sha256": spec.trace.sha256},
        "batch": spec.batch,
        "utilisation": spec.load,
        "tasks": spec.tasks,
        "platform": spec.machine.platform.name,
        "physics": spec.machine.physics.name,
        "noise": spec.machine.noise.sigma,
        "first_seed": found.runs[0].seed,
        "stopped_early": found.stopped_early,
        "seeds_needed": judgement.seeds_needed,
        **judgement.as_dict(),
    }


def _fail_if_slower(judgement: Judgement, name: str | None) -> None:
    from ..core import HybridSchedulerError

    if name is None:
        return
    pair = judgement.standing(name).pair
    assert pair is not None
    if judgement.worse(pair.verdict):
        percent = 100 * abs(judgement.standing(name).ratio - 1)
        raise HybridSchedulerError(
            f"{name} is worse than {judgement.baseline}: {judgement.metric} by {percent:.3g} % "
            f"(p {significant(pair.p_holm)})"
        )


# ------------------------------------------------------------------------------------------ for people


def show(printer: Printer, found: PairedComparison, judgement: Judgement) -> None:
    words = "more" if not judgement.less_is_better else "less"
    stopped = ", stopped when it was clear" if found.stopped_early else ""
    trace = found.spec.trace
    repeated = trace.label if trace else f"{judgement.seeds} paired seeds from {found.runs[0].seed} on{stopped}"
    printer.facts([*found.spec.facts, repeated])
    printer.facts([f"{judgement.metric}, {words} is better", f"baseline {judgement.baseline}"])
    printer.text()
    printer.sheet(standings(judgement))
    printer.text()
    printer.text(Text(f"{judgement.unit} won by row against column", style="bold"))
    printer.sheet(matrix(judgement))
    printer.text()
    for remark in remarks(judgement):
        printer.text(Text(remark, style="dim"))


def standings(judgement: Judgement) -> list[Column]:
    rows = judgement.standings
    timed = judgement.metric.endswith(("_time", "_latency", "_wait", "makespan", "_regret"))
    unit = unit_for([row.value.mean for row in rows], SECONDS) if timed else None
    size, symbol = (unit.size, f", {unit.symbol}") if unit else (1.0, "")

    def difference(row: Standing) -> str:
        return NOTHING if row.pair is None else interval(row.pair.difference, size)

    return [
        Column("scheduler", [named(row.name) for row in rows], number=False),
        Column(f"mean\n± 95 %{symbol}", [interval(row.value, size) for row in rows]),
        Column("times\nbaseline", [_ratio(row.ratio) for row in rows], 1),
        Column(f"difference\n± 95 %{symbol}", [difference(row) for row in rows], 2),
        Column("p\n(Holm)", [_p(row) for row in rows], 3),
        Column("effect\nr", [_effect(row) for row in rows], 5),
        Column("won /\nlost", [_wins(row) for row in rows], 6),
        Column("regret\ns", [NOTHING if row.regret is None else significant(row.regret.mean) for row in rows], 8),
        Column("span /\nbound", [_bound(row) for row in rows], 7),
        Column("verdict", [_verdict(judgement, row) for row in rows], 0, number=False),
    ]


def matrix(judgement: Judgement) -> list[Column]:
    names = [row.name for row in judgement.standings]
    columns = [Column("", [named(name) for name in names], number=False)]
    for number, column in enumerate(names, 1):
        cells = []
        for row in names:
            pair = judgement.pairs.get((row, column))
            if pair is None:
                cells.append("·")
                continue
            won = pair.wins if judgement.less_is_better else pair.losses
            cells.append(f"{won}{_SIGNIFICANT if judgement.better(pair.verdict) else ' '}")
        columns.append(Column(f"{number}", cells, number))
    columns[0] = Column("", [Text.assemble(f"{i} ", named(name)) for i, name in enumerate(names, 1)], number=False)
    return columns


def remarks(judgement: Judgement) -> list[str]:
    found = [
        f"{_SIGNIFICANT} surely better: Wilcoxon (Holm, all pairs) and the interval of the difference agree",
        f"effect r: rank-biserial, -1 if all {judgement.unit} are lower than the baseline's, 1 if all are higher",
    ]
    if judgement.unit == "batches":
        found.append(
            "on these tasks the numbers are exact; intervals are about more of the same kind, and know nothing of "
            "what the trace has not seen, such as rare congestion"
        )
    if any(math.isinf(row.value.half_width) for row in judgement.standings):
        found.append(f"{GROWS} keeps changing throughout the trace: the mean depends on its length, no interval")
    elif judgement.neighbour_correlation > _ALIKE:
        found.append(
            f"neighbouring batches are alike (correlation up to {judgement.neighbour_correlation:.2f}): "
            "intervals are widened for it, and may still be too narrow; trust a longer trace, or fewer --batches"
        )
    if judgement.seeds < judgement.seeds_needed:
        found.insert(
            0,
            f"{judgement.seeds} {judgement.unit} cannot tell any pair of {len(judgement.standings)} schedulers "
            f"apart, however clear: take at least {judgement.seeds_needed}",
        )
    return found


def named(spec: str) -> Text:
    """The scheduler's glyph in its colour, and its name as it is typed."""
    from ..schedulers import schedulers
    from ..schedulers.registry import parse_spec

    known = schedulers().get(parse_spec(spec)[0])
    mark = (known.look.glyph, known.look.dark) if known else ("·", "dim")
    return Text.assemble(mark, " ", spec)


def interval(one: Interval, size: float = 1.0) -> str:
    if math.isinf(one.half_width):  # a queue that grows: its mean depends on the run's length
        return f"{significant(one.mean / size)} {GROWS}"
    return f"{significant(one.mean / size)} ± {significant(one.half_width / size)}"


def _ratio(ratio: float) -> str:
    return NOTHING if ratio != ratio else f"{ratio:.3f}" if ratio < 10 else significant(ratio)


def _p(row: Standing) -> str:
    if row.pair is None:
        return NOTHING
    return "<0.0001" if row.pair.p_holm < 1e-4 else f"{row.pair.p_holm:.4f}"


def _effect(row: Standing) -> str:
    return NOTHING if row.pair is None else f"{row.pair.rank_biserial:+.2f}"


def _wins(row: Standing) -> str:
    return NOTHING if row.pair is None else f"{row.pair.wins}/{row.pair.losses}"


def _bound(row: Standing) -> str:
    return NOTHING if row.over_bound is None else f"{row.over_bound.mean:.3f}"


def _verdict(judgement: Judgement, row: Standing) -> Text:
    if row.pair is None:
        return Text("baseline", style="dim")
    if judgement.better(row.pair.verdict):
        return Text("better", style="green")
    if judgement.worse(row.pair.verdict):
        return Text("worse", style="red")
    return Text(row.pair.verdict, style="yellow")
