"""Results page: RESULTS.md with all its tables and figures.

    python -m studies.results_book            about twenty minutes on two cores
    python -m studies.results_book --quick    a quick look: few seeds, small runs, into data/results/book

Results: RESULTS.md, and docs/results/evidence with results.json and the figures. Every number comes from a run made
here, on seeds from 3000 on by which nothing was chosen, with its 95 % interval. A tested claim holds if the
interval lies within the claimed range.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hybrid_scheduler.core import Floats
from hybrid_scheduler.core.canonical_json import pretty_json
from hybrid_scheduler.experiments import FIRST_REPORTED_SEED, run_record
from hybrid_scheduler.experiments.evaluation import run_detailed
from hybrid_scheduler.experiments.paired_comparison import Judgement, PairedComparison, compare_seeds
from hybrid_scheduler.experiments.report_builder import figure_data
from hybrid_scheduler.experiments.spec import ExperimentSpec
from hybrid_scheduler.experiments.worst_case_search import find_worst
from hybrid_scheduler.metrics.statistics import t_interval
from hybrid_scheduler.reports import figures
from hybrid_scheduler.reports.figures.figure_layout import with_interval
from hybrid_scheduler.workload.scenarios import scenario_named

from .goals import MET, Goal, goals
from .published_claims import claims

PUBLISHED = ("round_robin", "random", "greedy", "hybrid_ml", "rl_agent", "oracle")
FIGURES = ("average_duration", "latency_cdf", "pareto_front", "learning_curves", "gantt", "load_balance")
#: So many times the tasks where queues need long to fill.
LONG = 5
_ADVERSARIES = (
    ("earliest_finish", "price_index"),
    ("price_index", "earliest_finish"),
    ("hybrid_ml", "earliest_finish"),
)


@dataclass(frozen=True, slots=True)
class BookCase:
    """One comparison of the page, with the key by which claims and goals find it."""

    key: str
    title: str
    spec: ExperimentSpec
    baseline: str
    why: str


def cases(tasks: int) -> list[BookCase]:
    """Return the comparisons of the page."""

    def make(scenario: str, specs: Sequence[str], load: float | None, count: int) -> ExperimentSpec:
        return ExperimentSpec(scenario_named(scenario), count, tuple(specs), utilisation=load, batch=load is None)

    fast = ("earliest_finish", "price_index", "hybrid_ml", "rl_agent")
    many = LONG * tasks
    return [
        BookCase("low", "The six published schedulers, where all are stable",
             make("default", PUBLISHED, 0.10, tasks), "oracle",
             "The default of the live run: a tenth of capacity."),
        BookCase("calm", "At 0.7 of capacity", make("mixed", (*fast, "gpu_only"), 0.7, tasks), "earliest_finish",
             "The naive schedulers are unstable here and left out."),
        BookCase("near", "At 0.95 of capacity", make("mixed", fast, 0.95, tasks), "earliest_finish",
             "Near capacity ratios depend on the number of tasks: they hold for this number."),
        BookCase("near, long", "At 0.95 of capacity, five times as many tasks",
             make("mixed", fast[:3], 0.95, many), "earliest_finish",
             "The same with five times as many tasks: the cost of splitting adds up."),
        BookCase("transfer", "Large transfers, at 0.85 of capacity", make("transfer", fast[:3], 0.85, many),
             "earliest_finish", "Tasks carry up to 4 GB, so the transfer to a GPU often costs more than it saves."),
        BookCase("batch", "A batch", make("mixed", (*fast, "fluid_plan"), None, tasks // 2), "earliest_finish",
             "All tasks arrive at time 0, so makespans differ. fluid_plan knows all tasks beforehand."),
    ]  # fmt: skip


def parse_options(description: str | None) -> tuple[int, range]:
    """Return the number of tasks and the seeds from the command line of one part of the page."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help=f"from {FIRST_REPORTED_SEED} on; at least 2")
    parser.add_argument("--tasks", type=int, default=2000, help="per seed; at least 200")
    options = parser.parse_args()
    return options.tasks, range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + options.seeds)


def run_cases(tasks: int, seeds: Sequence[int], only: Sequence[str] | None = None) -> dict[str, PairedComparison]:
    """Run the comparisons of the page, or some of them, by their key."""
    chosen = [case for case in cases(tasks) if only is None or case.key in only]
    return {case.key: compare_seeds(case.spec, seeds) for case in chosen}


def write_book(folder: Path, page: Path, *, seeds: int, tasks: int, report: Callable[[str], None]) -> None:
    """Run all comparisons; write their JSON and figures into `folder`, and the page."""
    began = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    chosen = range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + seeds)
    parts = [_head(seeds)]
    document: dict[str, Any] = {"versions": run_record.versions(), "seeds": list(chosen), "cases": []}
    studies: dict[str, PairedComparison] = {}
    for case in cases(tasks):
        report(case.title)
        found = compare_seeds(case.spec, chosen)
        studies[case.key] = found
        judged = found.judge(baseline=case.baseline)
        document["cases"].append({"title": case.title, **found.spec.as_json(), **judged.as_dict()})
        parts.append(_section(case, found, judged))
    reached = goals(studies, seeds=chosen, report=report)
    document["goals"] = [goal.as_dict() for goal in reached]
    parts.insert(1, "\n".join(goal_lines(reached)))
    report("claims")
    tested = claims(studies, seeds=chosen, tasks=tasks)
    document["claims"] = [claim.as_dict() for claim in tested]
    parts.append("\n".join(claim_lines(tested)))
    report("worst cases")
    parts.append("\n".join(_adversaries(document, min(20, max(4, seeds)), 24 if tasks < 1000 else 60)))
    report("figures")
    calm = next(case for case in cases(tasks) if case.key == "calm")
    parts.append("\n".join(_figures(folder, page, calm, studies[calm.key])))
    parts.append(_tail())
    (folder / "results.json").write_text(pretty_json(document), encoding="utf-8")
    page.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")
    report(f"{page} and {folder}, {time.perf_counter() - began:.0f} s")


def _head(seeds: int) -> str:
    return f"""# Results

Made by `make results` (`python -m studies.results_book`), which runs all comparisons below and
writes this page. [results.json](docs/results/evidence/results.json) holds all numbers.

The results are from {seeds} paired seeds from {FIRST_REPORTED_SEED} on, which were not used for tuning. Numbers are
means ± half of the 95 % Student interval; no warm-up is cut off. The machine is the workstation (1 CPU, 4 GPUs)
with analytic physics and the objective latency.

*Better* and *worse* refer to the mean latency. They mean that the Wilcoxon test, with Holm's correction over all
pairs of a table, and the interval of the mean difference agree. Otherwise a pair is too close to call.
[METHODOLOGY.md](METHODOLOGY.md) says what is modelled and what is not."""


def _section(case: BookCase, found: PairedComparison, judged: Judgement) -> str:
    rows = [
        [
            f"`{row.name}`", with_interval(row.value), _ratio(found, row.name, case.baseline),
            _mean(found, "p99_latency", row.name), _mean(found, "makespan_over_bound", row.name),
            _mean(found, "energy", row.name, 1e-3), _mean(found, "cost", row.name, 1e3),
            _mean(found, "load_balance", row.name), _word(judged, row.verdict),
        ]
        for row in judged.standings
    ]  # fmt: skip
    head = [
        "scheduler",
        "latency, s",
        "ratio",
        "p99, s",
        "span / bound",
        "energy, kJ",
        "cost, m$",
        "balance",
        "verdict",
    ]
    facts = ", ".join(found.spec.facts)
    return "\n".join(
        [f"## {case.title}", "", f"{case.why} {facts}; ratio of mean latencies to `{case.baseline}`.", "",
         *table_lines(head, rows)]
    )  # fmt: skip


def _ratio(found: PairedComparison, name: str, baseline: str) -> str:
    samples = found.samples("mean_latency")
    return "1" if name == baseline else with_interval(t_interval(samples[name] / samples[baseline]))


def _mean(found: PairedComparison, metric: str, name: str, factor: float = 1.0) -> str:
    values: Floats = factor * found.samples(metric)[name]
    return with_interval(t_interval(values)) if np.isfinite(values).all() else "–"


def _word(judged: Judgement, verdict: str) -> str:
    return "better" if judged.better(verdict) else "worse" if judged.worse(verdict) else verdict


def goal_lines(reached: Sequence[Goal]) -> Iterator[str]:
    yield "## Goals and results"
    yield ""
    yield (
        "*Must* and *stretch* are limits that were set beforehand. A limit is reached if the whole 95 % interval "
        "lies within it. Ratios are to `earliest_finish`, which knows durations."
    )
    yield ""
    must = [goal for goal in reached if goal.must is not None]
    beyond = [goal for goal in reached if goal.stretch is not None]
    held, missed = _parted(must, lambda goal: goal.must)
    far, near = _parted(beyond, lambda goal: goal.stretch)
    yield f"Of {len(must)} numbers that must hold, {len(held)} do. Of {len(beyond)} stretch goals, {len(far)} hold."
    for words, ones in (("Must, not reached", missed), ("Stretch, not reached", near)):
        if ones:
            yield ""
            yield f"{words}:"
            yield ""
            yield from (
                f"- {goal.group}, {goal.what}: {goal.text or with_interval(goal.measured)}" for goal in ones
            )
    group = ""
    for goal in reached:
        if goal.group != group:
            group = goal.group
            yield ""
            yield f"**{group}**"
            yield ""
            yield from table_lines(["number", "measured", "must", "reached", "stretch", "reached"], [])
        yield _row(
            [goal.what, goal.text or with_interval(goal.measured), *_limit(goal, goal.must),
             *_limit(goal, goal.stretch)]
        )  # fmt: skip


def _parted(ones: Sequence[Goal], limit: Callable[[Goal], float | None]) -> tuple[list[Goal], list[Goal]]:
    """Return the goals that hold, and the others."""
    held = [goal for goal in ones if goal.verdict(limit(goal)) == MET]
    return held, [goal for goal in ones if goal not in held]


def _limit(goal: Goal, limit: float | None) -> tuple[str, str]:
    if limit is None:
        return "–", "–"
    return f"{'≥' if goal.at_least else '≤'} {limit:g}", goal.verdict(limit)


def claim_lines(tested: Sequence[Any]) -> Iterator[str]:
    yield "## Claims, tested"
    yield ""
    yield (
        "Published or common claims with the measured number. A claim holds if the 95 % interval lies within the "
        "claimed range, and fails if it lies outside. The intervals are not corrected for their number. The four "
        "claims about learning (a forest's error and R², warm-up, concentration on one device) are from the first "
        "5 seeds."
    )
    yield ""
    yield from table_lines(
        ["claim", "measured here", "holds?"],
        [[claim.words, f"{claim.what}: {with_interval(claim.interval)}", claim.verdict] for claim in tested],
    )


def _adversaries(document: dict[str, Any], seeds: int, evaluations: int) -> Iterator[str]:
    """Yield the section on worst cases, found by a search and confirmed on other seeds."""
    rows, document["adversaries"] = [], []
    for first, second in _ADVERSARIES:
        spec = ExperimentSpec(scenario_named("mixed"), 400, (first, second))
        steps = evaluations if first != "hybrid_ml" else evaluations // 5
        found = find_worst(spec, evaluations=steps, confirmation_seeds=seeds)
        scenario: Any = found.spec.required_scenario
        document["adversaries"].append(
            {"first": first, "second": second, "ratio": [found.ratio.mean, found.ratio.low, found.ratio.high],
             "configuration": found.spec.as_json()}
        )  # fmt: skip
        rows.append(
            [f"`{first}` against `{second}`", with_interval(found.ratio),
             f"{scenario.size.low:g} to {scenario.size.high:g}",
             f"{scenario.intensity[0]:g} to {scenario.intensity[1]:g}",
             f"{scenario.memory[0]:g} to {scenario.memory[1]:g}",
             f"{scenario.utilisation:g}, {scenario.arrivals}"]
        )  # fmt: skip
    yield "## Worst cases"
    yield ""
    yield (
        "A search over sizes, intensities, memory, load and arrivals finds the 400 tasks on which the first "
        "scheduler does worst against the second (`hybrid-scheduler sweep --adversary A:B`). The ratio of "
        "mean latencies is from seeds that the search did not use."
    )
    yield ""
    yield from table_lines(["pair", "ratio", "sizes", "intensities", "memory, MB", "load"], rows)


def _figures(folder: Path, page: Path, case: BookCase, found: PairedComparison) -> Iterator[str]:
    spec, seed = case.spec, found.runs[0].seed
    data = figure_data(spec, seed, run_detailed(spec, seed), found)
    yield "## Figures"
    yield ""
    yield f"{case.title}: {', '.join(spec.facts)}. Each is also stored as SVG."
    for name, figure in figures.draw_all(data, FIGURES).items():
        figures.save(figure, folder, name, ("png", "svg"))
        yield ""
        place = folder.resolve().relative_to(page.resolve().parent).as_posix()
        yield f"![{name.replace('_', ' ')}]({place}/{name}.png)"


def _tail() -> str:
    return """## Other results

- [Distribution shift](docs/results/learning/shift.json): `hybrid-scheduler shift`, 20 seeds; also in
  [the learned schedulers](docs/learning.md).
- [Learned schedulers by case](docs/results/learning/quality.txt): `python -m studies.learned_quality`.
- [Prices against earliest finish](docs/results/prices.txt): `python -m studies.price_study`.
- [Time against energy](docs/results/pareto.txt): `python -m studies.time_energy_pareto`.
- [Exact optima of small batches](docs/results/evidence/exact.txt): `python -m studies.exact_makespan`.
- [Intervals within one trace](docs/results/evidence/trace_coverage.txt): how often they hold,
  `python -m studies.trace_coverage`.
- [Speed of the simulation](docs/results/benchmarks.txt): `python benchmarks`."""


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield _row(row)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main() -> None:
    """Write the page from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="at least 2")
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="2 seeds of 200 tasks, into data/results/book")
    options = parser.parse_args()
    if options.quick:
        folder = Path("data/results/book")
        write_book(folder, folder / "RESULTS.md", seeds=2, tasks=200, report=lambda text: print(text, flush=True))
        return
    write_book(
        Path("docs/results/evidence"), Path("RESULTS.md"), seeds=options.seeds, tasks=options.tasks,
        report=lambda text: print(text, flush=True),
    )  # fmt: skip


if __name__ == "__main__":
    main()
