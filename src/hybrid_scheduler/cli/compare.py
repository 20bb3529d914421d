"""`hybrid-scheduler compare`: schedulers on paired seeds, with intervals and significance tests."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ..core import HybridSchedulerError, InvalidInputError
from ..metrics.statistics import RELEVANT_SHARE, Interval, fewest_seeds
from .command_context import CommandContext, option_names
from .metric_table import named, unit_of_metric
from .options import MACHINE, TASKS, Inputs, check_empty, with_options
from .printer import NOTHING, SECONDS, Column, Printer, significant, with_unit

if TYPE_CHECKING:
    from ..experiments.paired_comparison import PairedComparison, PairwiseTests, SchedulerRank
    from ..experiments.spec import ExperimentSpec
    from ..metrics.verdict import Verdict

_SIGNIFICANT = "*"
GROWS = "↗"
#: Mark of a mean whose interval the trace is too short for.
_TOO_SHORT = "±?"
_SEEDS = 20
_EXECUTE = "hybrid-scheduler execute --compare --batch runs real kernels and simulates the same tasks"
#: Correlation of neighbouring batches from which a remark is shown.
_ALIKE = 0.3


@with_options(
    (*TASKS, "trace", "batches", "schedulers", *MACHINE),
    gone={"--real": (bool, _EXECUTE), "--store": (bool, _EXECUTE)},
)
def compare(
    command: CommandContext,
    inputs: Inputs,
    metric: str | None = None,
    baseline: str | None = None,
    until_clear: bool = False,
    fail_if_slower: str | None = None,
    processes: int | None = None,
    out: Path | None = None,
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

    Parameters
    ----------
    seeds
        Number of paired seeds, at least 2; 20 by default.
    first_seed
        First seed; with --trace the seed of noise and random choices.
    metric : NAME
        Metric by its name in simulate --json: mean_latency, or makespan for a graph.
    baseline : NAME
        Scheduler to compare the others with; the first by default.
    until_clear
        Stop once all differences from the baseline are clear; p-values allow for the interim checks.
    fail_if_slower : NAME
        Exit 1 if it is significantly worse than the baseline, by 1 % or more; 2 if seeds are too few.
    out : DIR
        Write the result, every seed and a record for replay to this folder.
    """
    _, spec = inputs.experiment(command, until_clear=until_clear or None)
    chosen = inputs.seed_range(_SEEDS, least=2)
    metric, baseline = _metric_and_baseline(spec, metric, baseline)
    if fail_if_slower is not None:
        _check_gate(spec, fail_if_slower, baseline, len(chosen))
    if out is not None:
        check_empty("--out", out)
    found = _run(command, spec, chosen, metric, baseline, until_clear=until_clear, processes=processes)
    judgement = found.test_pairs(metric, baseline)
    if fail_if_slower is not None and not judgement.exact:
        # A graph without noise counts as exact before the run; seeds differ if a scheduler draws random numbers.
        _check_power(spec, len(chosen))
    if out is not None:
        write(out, found, judgement)
    command.printer.outcome(_document(found, judgement), lambda: _show(command.printer, found, judgement))
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
    command: CommandContext,
    spec: ExperimentSpec,
    seeds: range,
    metric: str,
    baseline: str,
    *,
    until_clear: bool,
    processes: int | None,
) -> PairedComparison:
    """Run all seeds, or the trace once, and show the progress."""
    from ..experiments.paired_comparison import compare_seeds, compare_trace
    from .inputs import total_progress

    total = spec.tasks * len(spec.schedulers) if spec.trace else len(seeds)
    with command.printer.progress(total) as update, option_names(trace="--trace"):
        if spec.trace is not None:
            return compare_trace(spec, seeds[0], total_progress(spec, update))
        return compare_seeds(
            spec, seeds, metric=metric, baseline=baseline, until_clear=until_clear, processes=processes,
            progress=update,
        )  # fmt: skip


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
    from .inputs import document_head

    spec = found.spec
    verdict = found.verdict(judgement)
    return {
        **document_head(spec),
        "trace": None if spec.trace is None else {"name": spec.trace.name, "sha256": spec.trace.sha256},
        "first_seed": found.runs[0].seed,
        "stopped_early": found.stopped_early,
        "seeds_needed": judgement.seeds_needed,
        "latency_bound": found.latency_bound,
        "verdict": verdict.as_dict() if verdict else None,
        **judgement.as_dict(),
    }


def _check_power(spec: ExperimentSpec, seeds: int) -> None:
    """Refuse fewer seeds or batches than any significant difference needs: such a gate could not fail."""
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
    words = "more" if not judgement.less_is_better else "less"
    stopped = ", stopped when it was clear" if found.stopped_early else ""
    trace = found.spec.trace
    load = found.spec.offered_load if trace else None
    offered = [] if load is None else [f"offers {load:.3g} × capacity"]
    repeated = trace.label if trace else f"{judgement.seeds} paired seeds from {found.runs[0].seed} on{stopped}"
    if judgement.exact:
        repeated = "every seed repeats this run: differences are exact"
    latency_bound = found.latency_bound
    bound = [] if latency_bound is None else [f"mean latency at least {with_unit(latency_bound, SECONDS)}"]
    measure = [f"{judgement.metric}, {words} is better", f"baseline {judgement.baseline}", *bound]
    printer.result([[*found.spec.facts, *offered, repeated], measure], _standings(judgement))
    if not judgement.exact:
        printer.text(f"{judgement.unit} won by row against column", "bold")
        printer.table(_matrix(judgement))
        printer.text()
    verdict = found.verdict(judgement)
    if verdict is not None:
        show_verdict(printer, verdict)
        printer.text()
    for remark in _remarks(judgement):
        printer.text(remark, "dim")


def _standings(judgement: PairwiseTests) -> list[Column]:
    rows = judgement.ranking
    size, symbol = unit_of_metric(judgement.metric, [row.value.mean for row in rows])

    def difference(row: SchedulerRank) -> str:
        if judgement.exact and row.pair is not None:
            return significant(row.pair.difference.mean / size)
        return NOTHING if row.pair is None else interval(row.pair.difference, size)

    def mean(row: SchedulerRank) -> str:
        if row.name in judgement.tasks_needed:
            return f"{significant(row.value.mean / size)} {_TOO_SHORT}"
        return significant(row.value.mean / size) if judgement.exact else interval(row.value, size)

    exact = judgement.exact
    tests = [
        Column("p\n(Holm)", [row.test_cells[0] for row in rows], 3),
        Column("effect\nr", [row.test_cells[1] for row in rows], 5),
        Column("won /\nlost", [row.test_cells[2] for row in rows], 6),
        Column("regret\ns", [NOTHING if row.regret is None else significant(row.regret.mean) for row in rows], 8),
    ]
    spread = "" if exact else "\n± 95 %"
    return [
        Column("scheduler", [named(row.name) for row in rows], number=False),
        Column(f"{judgement.metric if exact else 'mean'}{spread}{symbol}", [mean(row) for row in rows]),
        Column("times\nbaseline", [_ratio(row.ratio) for row in rows], 1),
        Column(f"difference{spread}{symbol}", [difference(row) for row in rows], 2),
        *([] if exact else tests),
        Column("mean /\nbound", [_bound(row.latency_over_bound) for row in rows], 4),
        Column("span /\nbound", [_bound(row.over_bound) for row in rows], 7),
        Column("verdict", [_verdict(judgement, row) for row in rows], 0, number=False),
    ]


def _matrix(judgement: PairwiseTests) -> list[Column]:
    names = [row.name for row in judgement.ranking]
    wins = [judgement.won_cells(name) for name in names]
    labels = [Text.assemble(f"{number} ", named(name)) for number, name in enumerate(names, 1)]
    columns = [Column(f"{number}", cells, number) for number, cells in enumerate(zip(*wins, strict=True), 1)]
    return [Column("", labels, number=False), *columns]


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
    shown = [row.value for row in judgement.ranking if row.name not in judgement.tasks_needed]
    shown += [row.pair.difference for row in judgement.ranking if row.pair is not None]
    if any(math.isinf(value.half_width) for value in shown):
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
    printer.text(verdict.sentence, "bold")
    for cause in verdict.why:
        printer.text(cause.sentence + (f" {cause.also}." if cause.also else ""))


def interval(one: Interval, size: float = 1.0) -> str:
    """Return ``mean ± half width`` in units of `size`."""
    if math.isinf(one.half_width):  # a queue that grows: its mean depends on the run's length
        return f"{significant(one.mean / size)} {GROWS}"
    return f"{significant(one.mean / size)} ± {significant(one.half_width / size)}"


def _ratio(ratio: float) -> str:
    return NOTHING if ratio != ratio else f"{ratio:.3f}" if ratio < 10 else significant(ratio)


def _bound(one: Interval | None) -> str:
    return NOTHING if one is None else f"{one.mean:.3f}"


def _verdict(judgement: PairwiseTests, row: SchedulerRank) -> Text:
    if row.pair is None:
        return Text("baseline", style="dim")
    text = judgement.verdict_text(row.pair)
    if not judgement.relevant(row.pair):
        return Text(text, style="yellow")
    return Text(text, style="green" if judgement.better(row.pair.verdict) else "red")
