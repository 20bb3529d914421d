"""`hybrid-scheduler compare`: who is better on the same seeds, and how sure is that?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from .numbers import NOTHING, SECONDS, significant, unit_for
from .printer import Printer
from .session import Session
from .sheet import Column

if TYPE_CHECKING:
    from ..config import Settings
    from ..experiments.comparing import Judgement, Standing, Study
    from ..experiments.question import Question
    from ..metrics.statistics import Interval

#: Options that choose what is simulated, as settings.
SCENARIO_OPTIONS = (
    "simulation.scenario", "simulation.utilisation", "simulation.tasks", "simulation.schedulers",
    "simulation.platform", "physics.noise_sigma",
)  # fmt: skip
_SIGNIFICANT = "*"


def compare(
    context: typer.Context,
    scenario: Annotated[
        str | None, typer.Option(metavar="NAME", help="Mix of tasks, such as default, mixed or transfer.")
    ] = None,
    utilisation: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Offered load as a share of the machine's capacity.")
    ] = None,
    batch: Annotated[bool, typer.Option("--batch", help="All tasks are there at time 0.")] = False,
    tasks: Annotated[str | None, typer.Option(metavar="N", help="How many tasks per seed.")] = None,
    schedulers: Annotated[
        str | None, typer.Option(metavar="A,B", help="Who is compared, as in greedy,oracle(grid=21).")
    ] = None,
    platform: Annotated[
        str | None, typer.Option(metavar="NAME", help="Machine, such as workstation, laptop or mixed-gpus.")
    ] = None,
    noise: Annotated[
        str | None, typer.Option(metavar="SIGMA", help="Log-normal noise on execution times, 0 for none.")
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", help="How many paired seeds, at least 2.")] = 20,
    first_seed: Annotated[int, typer.Option(metavar="N", help="The first of them.")] = 3000,
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
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Compare schedulers on paired seeds, with intervals and tests.

    Every seed is one workload that all schedulers get. Different means: the Wilcoxon test, corrected for all pairs,
    and the 95 % interval of the mean difference both say so. All else is too close to call.

    \b
    Examples:
      hybrid-scheduler compare --utilisation 0.9 --schedulers greedy,price_index
      hybrid-scheduler compare --metric p99_latency --out results/tails
      hybrid-scheduler compare --baseline greedy --fail-if-slower hybrid_ml
    """
    session: Session = context.obj
    settings = session.settings(
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
    from ..experiments.comparing import baseline_of, study
    from .compiling import announced
    from .options import check_sources

    check_sources(None, utilisation=utilisation, batch=batch or None)
    if seeds < 2:
        raise InvalidInputError("--seeds", "at least 2, for an interval", seeds)
    question = question_from(settings, batch=batch)
    against = baseline_of(question, baseline)
    if fail_if_slower is not None:
        baseline_of(question, fail_if_slower)
        if fail_if_slower == against:
            raise InvalidInputError("--fail-if-slower", f"another one than the baseline {against}", fail_if_slower)
    if out is not None:
        check_empty(out)
    chosen = range(first_seed, first_seed + seeds)
    with announced(session.printer.note), session.printer.progress(seeds) as update:
        found = study(
            question, chosen, metric=metric, baseline=against, until_clear=until_clear, processes=processes,
            progress=update,
        )  # fmt: skip
    judgement = found.judge(metric, against)
    if out is not None:
        write(out, found, judgement)
    if as_json:
        session.printer.document(document(found, judgement))
    else:
        show(session.printer, found, judgement)
    _fail_if_slower(judgement, fail_if_slower)


def question_from(settings: Settings, *, batch: bool = False) -> Question:
    """The settings as a question, for all commands that run several seeds."""
    from ..cluster import Noise
    from ..config import ALL_SCHEDULERS
    from ..experiments.contest import Machine
    from ..experiments.question import Question
    from ..schedulers import schedulers as registered
    from .case import _scenario

    chosen = settings.simulation
    specs = chosen.schedulers
    if specs == (ALL_SCHEDULERS,):  # planners know all arrivals beforehand: not fair on a stream
        specs = tuple(name for name, info in registered().items() if info.protocol != "static")
    machine = Machine(
        chosen.machine(),
        settings.physics.law(),
        Noise(settings.physics.noise_sigma),
        chosen.memory_policy,
        settings.physics.tariff(),
        settings.objective.weights(),
    )
    return Question(_scenario(settings), chosen.tasks, specs, machine, None if batch else chosen.utilisation, batch)


def check_empty(folder: Path) -> None:
    """Refuse now what would mix two results later."""
    from ..core import InvalidInputError

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError("--out", "a new or empty folder", str(folder))


def write(folder: Path, found: Study, judgement: Judgement) -> None:
    """The judgement, every seed as a row, and the record that `replay` repeats."""
    from ..experiments import runs
    from ..experiments.replay import comparison_events
    from ..reports.documents import strict_json, write_table

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "comparison.json").write_text(strict_json(document(found, judgement)), encoding="utf-8")
    rows = [
        {"seed": run.seed, "scheduler": name, **numbers}
        for run in found.runs
        for name, numbers in run.metrics.items()
    ]
    write_table(folder / "seeds.csv", list(rows[0]), rows)
    seeds = [run.seed for run in found.runs]
    runs.write_run(folder, runs.COMPARE, found.question, seeds, comparison_events(found.runs))


def document(found: Study, judgement: Judgement) -> dict[str, Any]:
    from .. import __version__

    question = found.question
    return {
        "version": __version__,
        "scenario": question.scenario.name,
        "batch": question.batch,
        "utilisation": question.load,
        "tasks": question.tasks,
        "platform": question.machine.platform.name,
        "physics": question.machine.physics.name,
        "noise": question.machine.noise.sigma,
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


def show(printer: Printer, found: Study, judgement: Judgement) -> None:
    words = "more" if not judgement.less_is_better else "less"
    stopped = ", stopped when it was clear" if found.stopped_early else ""
    printer.facts([*found.question.facts, f"{judgement.seeds} paired seeds from {found.runs[0].seed} on{stopped}"])
    printer.facts([f"{judgement.metric}, {words} is better", f"baseline {judgement.baseline}"])
    printer.text()
    printer.sheet(standings(judgement))
    printer.text()
    printer.text(Text("seeds won by row against column", style="bold"))
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
        "effect r: rank-biserial, -1 when every seed is lower than the baseline's and 1 when every one is higher",
    ]
    if judgement.seeds < judgement.seeds_needed:
        found.insert(
            0,
            f"{judgement.seeds} seeds cannot tell any pair of {len(judgement.standings)} schedulers apart, "
            f"however clear: take at least {judgement.seeds_needed}",
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
