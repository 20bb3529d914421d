"""`hybrid-scheduler compare`: schedulers on paired seeds, with intervals and significance tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ..core import InvalidInputError
from .command_context import CommandContext, option_names
from .options import (
    BatchOption,
    IndivisibleOption,
    JsonOption,
    NoiseOption,
    PhysicsOption,
    PlatformOption,
    ProcessesOption,
    ScenarioOption,
    SchedulersOption,
    UtilisationOption,
    check_empty,
    check_sources,
)
from .printer import NOTHING, SECONDS, Column, Printer, significant, unit_for, with_unit

if TYPE_CHECKING:
    from ..experiments.paired_comparison import PairedComparison, PairwiseTests, SchedulerRank
    from ..experiments.spec import ExperimentSpec
    from ..metrics.statistics import Interval
    from ..metrics.verdict import Verdict

_SIGNIFICANT = "*"
GROWS = "↗"
#: Mark of a mean whose interval the trace is too short for.
_TOO_SHORT = "±?"
_SEEDS = 20
#: Correlation of neighbouring batches from which a remark is shown.
_ALIKE = 0.3


def compare(
    context: typer.Context,
    scenario: ScenarioOption = None,
    utilisation: UtilisationOption = None,
    batch: BatchOption = False,
    trace: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Your own tasks from a file: one run, compared batch by batch."),
    ] = None,
    tasks: Annotated[str | None, typer.Option(metavar="N", help="Tasks per seed.")] = None,
    schedulers: SchedulersOption = None,
    platform: PlatformOption = None,
    physics: PhysicsOption = None,
    noise: NoiseOption = None,
    indivisible: IndivisibleOption = False,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", help="Number of paired seeds, at least 2; 20 by default.")
    ] = None,
    first_seed: Annotated[
        int, typer.Option(metavar="N", help="First seed; with --trace the seed of noise and random choices.")
    ] = 3000,
    batches: Annotated[
        int | None,
        typer.Option(metavar="N", help="Batches to cut a trace into; 20 by default if it is long enough."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Metric by its name in simulate --json: mean_latency, or makespan for a graph."
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="Scheduler to compare the others with; the first by default.")
    ] = None,
    until_clear: Annotated[
        bool,
        typer.Option(
            "--until-clear",
            help="Stop once all differences from the baseline are clear; p-values allow for the interim checks.",
        ),
    ] = False,
    fail_if_slower: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Exit 1 if it is significantly worse than the baseline, by 1 % or more; 2 if seeds are too few.",
        ),
    ] = None,
    processes: ProcessesOption = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the result, every seed and a record for replay to this folder."),
    ] = None,
    real: Annotated[
        bool,
        typer.Option("--real", help="Run real kernels on this machine, and simulate the same tasks beside them."),
    ] = False,
    store: Annotated[bool, typer.Option("--store", help="With --real: store the run in the history.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare schedulers on paired seeds, with intervals and tests.

    Every seed is one workload that all schedulers get. A difference is significant if the Wilcoxon test, corrected
    for all pairs, and the 95 % interval of the mean difference agree. Otherwise it is too close to call. It is
    relevant if it is also at least 1 % of the baseline's mean.

    A trace is one run: it is cut into batches of consecutive tasks, which are compared pair by pair. Where
    neighbouring batches are correlated, the intervals are widened.

    A task graph such as layered is drawn anew for each seed. A fixed one such as cholesky varies by noise alone;
    without noise every seed repeats the same run, and differences are exact.

    \b
    Examples:
      hybrid-scheduler compare --utilisation 0.9 --schedulers greedy,price_index
      hybrid-scheduler compare --metric p99_latency --out results/tails
      hybrid-scheduler compare --trace week.csv --schedulers greedy,price_index
      hybrid-scheduler compare --scenario "lu(tiles=8)" --schedulers heft,greedy
      hybrid-scheduler compare --baseline greedy --fail-if-slower hybrid_ml
      hybrid-scheduler compare --real --schedulers hybrid_ml,earliest_finish
    """
    command: CommandContext = context.obj
    if real or store:
        from .execute import compare_real

        compare_real(context, real=real, tasks=tasks, schedulers=schedulers, out=out, store=store, as_json=as_json)
        return
    settings = command.settings_from(
        scenario=scenario, utilisation=utilisation, tasks=tasks, schedulers=schedulers, platform=platform,
        physics=physics, noise=noise,
    )  # fmt: skip
    from .inputs import spec_from_settings

    check_sources(
        trace, scenario=scenario, utilisation=utilisation, tasks=tasks, batch=batch or None, seeds=seeds,
        until_clear=until_clear or None,
    )  # fmt: skip
    if seeds is not None and seeds < 2:
        raise InvalidInputError("--seeds", "at least 2, for an interval", seeds)
    spec = spec_from_settings(
        settings, batch=batch, trace=trace, batches=batches, trace_load=utilisation, indivisible=indivisible
    )
    chosen = range(first_seed, first_seed + (seeds or _SEEDS))
    metric, baseline = _metric_and_baseline(spec, metric, baseline)
    if fail_if_slower is not None:
        _check_gate(spec, fail_if_slower, baseline, len(chosen))
    if out is not None:
        check_empty("--out", out)
    found = _run(command.printer, spec, chosen, metric, baseline, until_clear=until_clear, processes=processes)
    judgement = found.test_pairs(metric, baseline)
    if fail_if_slower is not None and not judgement.exact:
        # A graph without noise counts as exact before the run; seeds differ if a scheduler draws random numbers.
        _check_power(spec, len(chosen))
    if out is not None:
        write(out, found, judgement)
    if as_json:
        command.printer.document(_document(found, judgement))
    else:
        _show(command.printer, found, judgement)
    raise_if_slower(judgement, fail_if_slower)


def _metric_and_baseline(spec: ExperimentSpec, metric: str | None, baseline: str | None) -> tuple[str, str]:
    """Return the checked metric and baseline, with defaults for those that were not given."""
    from ..experiments.paired_comparison import DEFAULT_METRIC, baseline_of, check_metric

    metric = metric or ("makespan" if spec.graph else DEFAULT_METRIC)
    check_metric(metric, one_run=spec.trace is not None)
    return metric, baseline_of(spec, baseline)


def _check_gate(spec: ExperimentSpec, name: str, baseline: str, seeds: int) -> None:
    """Raise an error if `--fail-if-slower` names no scheduler of the comparison, or has too few seeds."""
    from ..experiments.paired_comparison import baseline_of

    baseline_of(spec, name)
    if name == baseline:
        raise InvalidInputError("--fail-if-slower", f"another one than the baseline {baseline}", name)
    if not spec.repeats_itself:
        _check_power(spec, seeds)


def _run(
    printer: Printer,
    spec: ExperimentSpec,
    seeds: range,
    metric: str,
    baseline: str,
    *,
    until_clear: bool,
    processes: int | None,
) -> PairedComparison:
    """Run all seeds, or the trace once, and show the progress."""
    from ..compiled.jit_cache import compile_notice
    from ..experiments.paired_comparison import compare_seeds, compare_trace

    total = spec.tasks * len(spec.schedulers) if spec.trace else len(seeds)
    with compile_notice(printer.note), printer.progress(total) as update, option_names(trace="--trace"):
        if spec.trace is not None:
            return compare_trace(spec, seeds[0], _added_up(update))
        return compare_seeds(
            spec, seeds, metric=metric, baseline=baseline, until_clear=until_clear, processes=processes,
            progress=update,
        )  # fmt: skip


def _added_up(update: Callable[[str, int], None]) -> Callable[[str, int], None]:
    """Turn reports of single steps into reports of the total."""
    done = 0

    def advance(name: str, count: int) -> None:
        nonlocal done
        done += count
        update(name, done)

    return advance


def write(folder: Path, found: PairedComparison, judgement: PairwiseTests) -> None:
    """Write the judgement, every seed as a row, and the record that `replay` repeats."""
    from ..core.canonical_json import pretty_json
    from ..experiments import run_record
    from ..experiments.exact_replay import comparison_events
    from ..reports.file_formats import write_table

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "comparison.json").write_text(pretty_json(_document(found, judgement)), encoding="utf-8")
    rows = [
        {"seed": run.seed, "scheduler": name, **numbers}
        for run in found.runs
        for name, numbers in run.metrics.items()
    ]
    write_table(folder / "seeds.csv", list(rows[0]), rows)
    seeds = [run.seed for run in found.runs]
    run_record.write_run(folder, run_record.COMPARE, found.spec, seeds, comparison_events(found.runs))


def _document(found: PairedComparison, judgement: PairwiseTests) -> dict[str, Any]:
    from .. import __version__
    from .inputs import trace_load_of

    spec, verdict = found.spec, found.verdict(judgement)
    return {
        "version": __version__,
        "scenario": None if spec.trace else spec.name,
        "trace": None if spec.trace is None else {"name": spec.trace.name, "sha256": spec.trace.sha256},
        "batch": spec.batch,
        "utilisation": spec.load,
        "offered_load": trace_load_of(spec) if spec.trace else spec.load,
        "tasks": spec.tasks,
        "platform": spec.machine.platform.name,
        "physics": spec.machine.physics.name,
        "noise": spec.machine.noise.sigma,
        "first_seed": found.runs[0].seed,
        "stopped_early": found.stopped_early,
        "seeds_needed": judgement.seeds_needed,
        "latency_bound": found.latency_bound,
        "verdict": verdict.as_dict() if verdict else None,
        **judgement.as_dict(),
    }


def _check_power(spec: ExperimentSpec, seeds: int) -> None:
    """Refuse fewer seeds or batches than any significant difference needs: such a gate could not fail."""
    from ..metrics.statistics import fewest_seeds

    schedulers = len(spec.schedulers)
    needed = fewest_seeds(max(1, schedulers * (schedulers - 1) // 2))
    option, given = ("--batches", spec.trace.batches) if spec.trace else ("--seeds", seeds)
    if given < needed:
        hint = f"a longer trace, of {10 * needed} tasks or more" if spec.trace else f"--seeds {needed}"
        raise InvalidInputError(
            option, f"at least {needed} for --fail-if-slower among {schedulers} schedulers", given, hint=hint
        )


def raise_if_slower(judgement: PairwiseTests, name: str | None) -> None:
    """Raise an error if a scheduler is significantly slower than the baseline; without a name, do nothing."""
    from ..core import HybridSchedulerError
    from ..metrics.statistics import RELEVANT_SHARE

    if name is None:
        return
    standing = judgement.rank_of(name)
    pair = standing.pair
    assert pair is not None
    share = standing.ratio - 1 if judgement.less_is_better else 1 - standing.ratio
    if judgement.worse(pair.verdict) and judgement.relevant(pair):
        grade = "exactly" if judgement.exact else f"p {significant(pair.p_holm)}"
        raise HybridSchedulerError(
            f"{name} is worse than {judgement.baseline}: {judgement.metric} by {100 * share:.3g} % ({grade})"
        )
    if share >= RELEVANT_SHARE and not judgement.better(pair.verdict):
        reach = pair.difference.half_width / abs(pair.difference.mean)
        needed = max(math.ceil(judgement.seeds * reach**2), judgement.seeds + 1) if math.isfinite(reach) else None
        more = f"about {needed} {judgement.unit}" if needed else "a longer trace"
        raise InvalidInputError(
            "--fail-if-slower",
            f"decided by more runs: {more}",
            f"{name} worse by {100 * share:.3g} %, too close to call on {judgement.seeds} {judgement.unit}",
        )


# ------------------------------------------------------------------------------------------ table


def _show(printer: Printer, found: PairedComparison, judgement: PairwiseTests) -> None:
    from .inputs import trace_load_of

    words = "more" if not judgement.less_is_better else "less"
    stopped = ", stopped when it was clear" if found.stopped_early else ""
    trace = found.spec.trace
    load = trace_load_of(found.spec)
    offered = [] if load is None else [f"offers {load:.3g} × capacity"]
    repeated = trace.label if trace else f"{judgement.seeds} paired seeds from {found.runs[0].seed} on{stopped}"
    if judgement.exact:
        repeated = "every seed repeats this run: differences are exact"
    printer.facts([*found.spec.facts, *offered, repeated])
    latency_bound = found.latency_bound
    bound = [] if latency_bound is None else [f"mean latency at least {with_unit(latency_bound, SECONDS)}"]
    printer.facts([f"{judgement.metric}, {words} is better", f"baseline {judgement.baseline}", *bound])
    printer.text()
    printer.table(_standings(judgement))
    printer.text()
    if not judgement.exact:
        printer.text(Text(f"{judgement.unit} won by row against column", style="bold"))
        printer.table(_matrix(judgement))
        printer.text()
    verdict = found.verdict(judgement)
    if verdict is not None:
        show_verdict(printer, verdict)
        printer.text()
    for remark in _remarks(judgement):
        printer.text(Text(remark, style="dim"))


def _standings(judgement: PairwiseTests) -> list[Column]:
    rows = judgement.ranking
    timed = judgement.metric.endswith(("_time", "_latency", "_wait", "makespan", "_regret"))
    unit = unit_for([row.value.mean for row in rows], SECONDS) if timed else None
    size, symbol = (unit.size, f", {unit.symbol}") if unit else (1.0, "")

    def difference(row: SchedulerRank) -> str:
        return NOTHING if row.pair is None else interval(row.pair.difference, size)

    def mean(row: SchedulerRank) -> str:
        if row.name in judgement.tasks_needed:
            return f"{significant(row.value.mean / size)} {_TOO_SHORT}"
        return interval(row.value, size)

    if judgement.exact:
        gaps = [NOTHING if row.pair is None else significant(row.pair.difference.mean / size) for row in rows]
        return [
            Column("scheduler", [named(row.name) for row in rows], number=False),
            Column(f"{judgement.metric}{symbol}", [significant(row.value.mean / size) for row in rows]),
            Column("times\nbaseline", [_ratio(row.ratio) for row in rows], 1),
            Column(f"difference{symbol}", gaps, 2),
            Column("mean /\nbound", [_bound(row.latency_over_bound) for row in rows], 4),
            Column("span /\nbound", [_bound(row.over_bound) for row in rows], 7),
            Column("verdict", [_verdict(judgement, row) for row in rows], 0, number=False),
        ]
    return [
        Column("scheduler", [named(row.name) for row in rows], number=False),
        Column(f"mean\n± 95 %{symbol}", [mean(row) for row in rows]),
        Column("times\nbaseline", [_ratio(row.ratio) for row in rows], 1),
        Column(f"difference\n± 95 %{symbol}", [difference(row) for row in rows], 2),
        Column("p\n(Holm)", [_p(row) for row in rows], 3),
        Column("effect\nr", [_effect(row) for row in rows], 5),
        Column("won /\nlost", [_wins(row) for row in rows], 6),
        Column("regret\ns", [NOTHING if row.regret is None else significant(row.regret.mean) for row in rows], 8),
        Column("mean /\nbound", [_bound(row.latency_over_bound) for row in rows], 4),
        Column("span /\nbound", [_bound(row.over_bound) for row in rows], 7),
        Column("verdict", [_verdict(judgement, row) for row in rows], 0, number=False),
    ]


def _matrix(judgement: PairwiseTests) -> list[Column]:
    names = [row.name for row in judgement.ranking]
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


def _remarks(judgement: PairwiseTests) -> list[str]:
    if judgement.exact:
        return ["span / bound: makespan over a lower bound that counts the data between tasks"]
    found = [
        f"{_SIGNIFICANT} significantly better: Wilcoxon (Holm, all pairs) and the interval of the difference agree",
        "relevant: significant, and at least 1 % of the baseline's mean",
        f"effect r: rank-biserial, -1 if all {judgement.unit} are lower than the baseline's, 1 if all are higher",
    ]
    if judgement.unit == "batches":
        found.append(
            "on these tasks the numbers are exact; intervals are for more tasks of the same kind, and do not cover "
            "what the trace does not contain, such as rare congestion"
        )
    if judgement.tasks_needed:
        needs = ", ".join(f"{name} about {count:,}" for name, count in judgement.tasks_needed.items())
        found.append(
            f"{_TOO_SHORT} no interval: this trace is too short for its queues or heavy tail. Tasks needed: {needs}"
        )
    unbounded = {row.name for row in judgement.ranking if math.isinf(row.value.half_width)}
    if unbounded - judgement.tasks_needed.keys():
        found.append(f"{GROWS} keeps changing throughout the trace: the mean depends on its length, no interval")
    elif judgement.neighbour_correlation > _ALIKE:
        found.append(
            f"neighbouring batches are correlated (up to {judgement.neighbour_correlation:.2f}): intervals are "
            "widened, and may still be too narrow; use a longer trace, or fewer --batches"
        )
    if judgement.seeds < judgement.seeds_needed:
        found.insert(
            0,
            f"{judgement.seeds} {judgement.unit} are too few to separate any pair of {len(judgement.ranking)} "
            f"schedulers: use at least {judgement.seeds_needed}",
        )
    return found


def show_verdict(printer: Printer, verdict: Verdict) -> None:
    """Print the headline, and one line for each cause of a loss."""
    printer.text(Text(verdict.sentence, style="bold"))
    for cause in verdict.why:
        printer.text(Text(cause.sentence + (f" {cause.also}." if cause.also else "")))


def named(spec: str) -> Text:
    """Return a scheduler's glyph in its colour, and its name as it is typed."""
    from ..schedulers import schedulers
    from ..workload.argument_checks import parse_spec

    known = schedulers().get(parse_spec(spec)[0])
    mark = (known.look.glyph, known.look.dark) if known else ("·", "dim")
    return Text.assemble(mark, " ", spec)


def interval(one: Interval, size: float = 1.0) -> str:
    """Return ``mean ± half width`` in units of `size`."""
    if math.isinf(one.half_width):  # a queue that grows: its mean depends on the run's length
        return f"{significant(one.mean / size)} {GROWS}"
    return f"{significant(one.mean / size)} ± {significant(one.half_width / size)}"


def _ratio(ratio: float) -> str:
    return NOTHING if ratio != ratio else f"{ratio:.3f}" if ratio < 10 else significant(ratio)


def _p(row: SchedulerRank) -> str:
    if row.pair is None:
        return NOTHING
    return "<0.0001" if row.pair.p_holm < 1e-4 else f"{row.pair.p_holm:.4f}"


def _effect(row: SchedulerRank) -> str:
    return NOTHING if row.pair is None else f"{row.pair.rank_biserial:+.2f}"


def _wins(row: SchedulerRank) -> str:
    return NOTHING if row.pair is None else f"{row.pair.wins}/{row.pair.losses}"


def _bound(one: Interval | None) -> str:
    return NOTHING if one is None else f"{one.mean:.3f}"


def _verdict(judgement: PairwiseTests, row: SchedulerRank) -> Text:
    if row.pair is None:
        return Text("baseline", style="dim")
    text = judgement.verdict_text(row.pair)
    if not judgement.relevant(row.pair):
        return Text(text, style="yellow")
    return Text(text, style="green" if judgement.better(row.pair.verdict) else "red")
