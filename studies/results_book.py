"""Results pages: RESULTS.md, the tables of docs/results, the scheduler pages and all quoted figures, in two steps.

    python -m studies.results_book --measure --jobs 16 --out DIR    heavy: runs everything into DIR/raw.json
    python -m studies.results_book --write --out DIR                light: pages and figures from DIR/raw.json
    python -m studies.results_book --measure --write --quick        a quick look, into data/results/book

The first step needs the base package alone. It keeps every finished job, so an interrupted one goes on; `--only
cases,claims` measures some sections. The second step also draws figures from one run. Every number is from seeds
from 3000 on, by which nothing was chosen, with its 95 % interval.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hybrid_scheduler.core import Floats
from hybrid_scheduler.core.canonical_json import pretty_json
from hybrid_scheduler.experiments import FIRST_REPORTED_SEED
from hybrid_scheduler.experiments.paired_comparison import PairedComparison, PairwiseTests
from hybrid_scheduler.experiments.process_pool import cores
from hybrid_scheduler.metrics.statistics import Interval, skewed_interval
from hybrid_scheduler.reports.figure_style import with_interval

from . import learned_quality, quoted_figures
from .book_cases import BookCase, cases
from .goals import MET, Goal, device_runs, goals
from .measurements import ADVERSARIES, METRICS, RAW, Raw, measure
from .published_claims import CLAIMS_COMMAND, SHIFT_HEAD, Claim, claims, shift_runs, shift_table

FIGURES = ("average_duration", "latency_cdf", "pareto_front", "learning_curves", "gantt", "load_balance")
ROOT = quoted_figures.ROOT
_EVIDENCE = Path("docs/results/evidence")
_QUICK = Path("data/results/book")


# ------------------------------------------------------------------------------------------ writing


def write_book(raw: Raw, folder: Path, page: Path, report: Callable[[str], None]) -> None:
    """Write results.json, the page and its figures from measured runs."""
    folder.mkdir(parents=True, exist_ok=True)
    text, document = book(raw)
    (folder / "results.json").write_text(pretty_json(document), encoding="utf-8")
    page.write_text(text, encoding="utf-8")
    report("figures")
    calm = next(case for case in cases(raw.tasks) if case.key == "calm")
    _draw(folder, calm, raw.comparison(calm))


def book(raw: Raw) -> tuple[str, dict[str, Any]]:
    """Return the page and its numbers as a JSON document."""
    reached, tested = goals(raw), claims(raw)
    parts = [_head(len(raw.seeds)), "\n".join(goal_lines(reached))]
    document: dict[str, Any] = {"versions": raw.document["versions"], "seeds": raw.seeds, "cases": {}}
    for case in cases(raw.tasks):
        found = raw.comparison(case)
        judged = found.test_pairs(baseline=case.baseline)
        document["cases"][case.key] = _numbers(case, found, judged)
        parts.append(_section(case, found, judged))
    document["goals"] = [goal.as_dict() for goal in reached]
    document["claims"] = [claim.as_dict() for claim in tested]
    document["adversaries"] = raw.section("adversaries")
    parts += ["\n".join(claim_lines(tested)), "\n".join(_shift_lines(raw)), "\n".join(_adversaries(raw))]
    parts += ["\n".join(_figure_lines(raw.tasks)), _tail()]
    return "\n\n".join(part.strip() for part in parts if part) + "\n", document


def _numbers(case: BookCase, found: PairedComparison, judged: PairwiseTests) -> dict[str, Any]:
    """Return every number of a comparison: [mean, low, high], ratios to the baseline, and the verdicts."""
    rows: dict[str, Any] = {}
    for row in judged.ranking:
        numbers: dict[str, Any] = {"verdict": _word(judged, row.verdict)}
        if row.pair:
            numbers |= {"p_holm": row.pair.p_holm, "wins": row.pair.wins, "losses": row.pair.losses}
        for metric in METRICS:
            values = found.samples(metric)
            if np.isfinite(values[row.name]).all():
                numbers[metric] = _as_list(skewed_interval(values[row.name]))
                if values[case.baseline].all():  # a metric such as waiting may be zero
                    numbers[f"{metric}_ratio"] = _as_list(skewed_interval(values[row.name] / values[case.baseline]))
        rows[row.name] = numbers
    return {"title": case.title, "facts": found.spec.facts, "baseline": case.baseline, "schedulers": rows}


def _as_list(one: Interval) -> list[float]:
    return [one.mean, one.low, one.high]


def write_texts(raw: Raw, report: Callable[[str], None]) -> None:
    """Write the other tables of docs/results and of the scheduler pages, then every quoted figure."""
    results = ROOT / "docs" / "results"
    for name, text in raw.section("texts").items():
        (results / name).write_text(text, encoding="utf-8")
        report(name)
    if raw.section("quality"):
        (results / "learning" / "quality.txt").write_text(_quality(raw), encoding="utf-8")
    if raw.section("shift"):
        (results / "learning" / "shift.json").write_text(pretty_json(_shift_document(raw)), encoding="utf-8")
    (results / "h200" / "all_runs.json").write_text(pretty_json(device_runs()), encoding="utf-8")
    if raw.section("schedulers"):
        from examples import measure_schedulers as pages

        few = min(5, len(raw.seeds))
        found = {key: [raw.section("schedulers")[f"{key}/{seed}"] for seed in pages.seeds_of(key, few)]
                 for key in pages.CASES}  # fmt: skip
        text = pages.as_text(pages.summarise(found, few, raw.tasks))
        (ROOT / "docs" / "guide" / "schedulers" / "measured.json").write_text(text, encoding="utf-8")
    report("now run scripts/make_reference.py, then python -m studies.quoted_figures")


def _quality(raw: Raw) -> str:
    tables = []
    for index, case in enumerate(learned_quality.CASES):
        runs = raw.by_seed("quality", str(index))
        found = {name: learned_quality.interval(np.array([run[name] for run in runs])) for name in runs[0]}
        tables.append(learned_quality.table_text(case, len(runs), found))
    return "\n".join(tables) + "\n"


def _shift_document(raw: Raw) -> dict[str, Any]:
    from dataclasses import asdict

    from hybrid_scheduler.experiments.distribution_shift import TEST_TASKS, TRAINING_TASKS, shift_rows

    return {
        "seeds": len(raw.seeds), "first_seed": raw.seeds[0], "training_tasks": TRAINING_TASKS,
        "test_tasks": TEST_TASKS, "policies": [asdict(row) for row in shift_rows(shift_runs(raw))],
    }  # fmt: skip


# ------------------------------------------------------------------------------------------ sections


def _head(seeds: int) -> str:
    return f"""# Results

Made by `make results`: `python -m studies.results_book --measure` runs all comparisons below, and `--write` writes
this page. [raw.json](docs/results/evidence/raw.json) holds the numbers of every seed,
[results.json](docs/results/evidence/results.json) those of the tables.

The results are from {seeds} paired seeds from {FIRST_REPORTED_SEED} on, which were not used for tuning. Numbers are
means ± half of the 95 % interval, Student's widened for skew; no warm-up is cut off. The machine is the
workstation (1 CPU, 4 GPUs) with analytic physics and the objective latency.

*Better* and *worse* refer to the mean latency. They mean that the Wilcoxon test, with Holm's correction over all
pairs of a table, and the interval of the mean difference agree. Otherwise a pair is too close to call.
[METHODOLOGY.md](METHODOLOGY.md) says what is modelled and what is not."""


def _section(case: BookCase, found: PairedComparison, judged: PairwiseTests) -> str:
    rows = [
        [
            f"`{row.name}`", with_interval(row.value), _ratio(found, row.name, case.baseline),
            _mean(found, "p99_latency", row.name), _mean(found, "makespan_over_bound", row.name),
            _mean(found, "energy", row.name, 1e-3), _mean(found, "cost", row.name, 1e3),
            _mean(found, "load_balance", row.name), _word(judged, row.verdict),
        ]
        for row in judged.ranking
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
    return "1" if name == baseline else with_interval(skewed_interval(samples[name] / samples[baseline]))


def _mean(found: PairedComparison, metric: str, name: str, factor: float = 1.0) -> str:
    values: Floats = factor * found.samples(metric)[name]
    return with_interval(skewed_interval(values)) if np.isfinite(values).all() else "–"


def _word(judged: PairwiseTests, verdict: str) -> str:
    return "better" if judged.better(verdict) else "worse" if judged.worse(verdict) else verdict


def goal_lines(reached: Sequence[Goal]) -> Iterator[str]:
    yield "## Goals and results"
    yield ""
    yield (
        "*Must* and *stretch* are limits that were set beforehand. A limit is reached if the whole 95 % interval "
        "lies within it, or the whole range where one is given. Ratios are to `earliest_finish`, which knows "
        "durations."
    )
    yield ""
    must = [goal for goal in reached if goal.must is not None]
    beyond = [goal for goal in reached if goal.stretch is not None]
    held, missed = _parted(must, lambda goal: goal.must)
    far, _ = _parted(beyond, lambda goal: goal.stretch)
    yield (
        f"Of {len(must)} numbers that must hold, {len(held)} do. Of {len(beyond)} stretch goals, {len(far)} hold. "
        "The tables below have each of them."
    )
    if missed:
        yield ""
        yield "Must, not reached:"
        yield ""
        yield from (f"- {goal.group}, {goal.what}: {goal.text or with_interval(goal.measured)}" for goal in missed)
    group = ""
    for goal in reached:
        if goal.group != group:
            group = goal.group
            yield ""
            yield f"**{group}**" + (f" (`{goal.command}`)" if goal.command else "")
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


def claim_lines(tested: Sequence[Claim]) -> Iterator[str]:
    yield "## Published claims, tested as published"
    yield ""
    yield (
        "Every number of the earlier descriptions of this project, in its published meaning: whose speed, against "
        "whom, on which tasks, in which metric. Where a description leaves one of these open, each reading is a "
        "row. A claim holds if the 95 % interval lies within the claimed range, and fails if it lies outside. The "
        "intervals are not corrected for their number. Claims about a forest's error and R², warm-up, "
        "`energy_weight` and concentration on one device are from the first 5 seeds. The command *claims* is "
        f"`{CLAIMS_COMMAND}`."
    )
    yield ""
    yield from table_lines(
        ["claim", "measured here", "holds?", "command"],
        [[claim.words, f"{claim.what}: {with_interval(claim.interval)}", claim.verdict,
          "claims" if claim.command == CLAIMS_COMMAND else f"`{claim.command}`"]
         for claim in tested],
    )  # fmt: skip


def _shift_lines(raw: Raw) -> Iterator[str]:
    """Yield the published table of the shift study beside ours."""
    yield "## The published shift study"
    yield ""
    yield (
        "Published: the sum and the mean of 500 times, and a status. The published means are the sums over 500, "
        "rounded to two decimals. Ours: mean over seeds, and the range of single seeds, since the published study "
        "had one. (`hybrid-scheduler shift`)"
    )
    yield ""
    yield from table_lines(SHIFT_HEAD, shift_table(raw))
    yield ""
    yield (
        "The published forest is `frozen_forest`, trained from the 1,000 tasks before, and the published agent is "
        "`dqn`. Status: *FAILED* is a learner whose sum is above that of every baseline."
    )


def _adversaries(raw: Raw) -> Iterator[str]:
    """Yield the section on worst cases, found by a search and confirmed on other seeds."""
    found = raw.section("adversaries")
    yield "## Worst cases"
    yield ""
    yield (
        "A search finds the case of 400 tasks in which the first scheduler does worst against the second "
        "(`python -m studies.worst_case_search A:B --out DIR`). It starts from every built-in scenario at four "
        "loads. It varies sizes, intensities, memory, load, arrivals, platform, physics, noise and the mix of "
        "kinds. The ratio of mean latencies is from seeds that the search did not use."
    )
    yield ""
    rows = []
    for first, second in ADVERSARIES:
        one = found.get(f"{first}:{second}")
        if one is None:
            continue
        tasks = [
            one["scenario"], f"{one['distribution']} sizes {one['sizes'][0]:g} to {one['sizes'][1]:g}",
            f"intensities {one['intensity'][0]:g} to {one['intensity'][1]:g}",
            f"{one['memory'][0]:g} to {one['memory'][1]:g} MB", *([" ".join(one["kinds"])] if one["kinds"] else []),
        ]  # fmt: skip
        machine = [one["platform"], f"{one['physics']} physics"]
        machine += [f"noise {one['noise']:g}"] if one["noise"] else []
        machine += [f"launch overhead {one['launch_overhead']:g} s"] if one["launch_overhead"] else []
        rows.append(
            [f"`{first}` against `{second}`", with_interval(Interval(*one["ratio"])),
             f"{one['load']:g}, {one['arrivals']}", ", ".join(tasks), ", ".join(machine)]
        )  # fmt: skip
    yield from table_lines(["pair", "ratio", "load", "tasks", "machine"], rows)


def _figure_lines(tasks: int) -> Iterator[str]:
    calm = next(case for case in cases(tasks) if case.key == "calm")
    yield "## Figures"
    yield ""
    yield f"{calm.title}: {', '.join(calm.spec.facts)}. Each is also stored as SVG."
    for name in FIGURES:
        yield ""
        yield f"![{name.replace('_', ' ')}]({_EVIDENCE.as_posix()}/{name}.png)"


def _draw(folder: Path, case: BookCase, found: PairedComparison) -> None:
    """Draw the figures from one run of a case."""
    from hybrid_scheduler.experiments.evaluation import run_detailed
    from hybrid_scheduler.experiments.report_builder import figure_data
    from hybrid_scheduler.reports import figures

    data = figure_data(case.spec, found.runs[0].seed, run_detailed(case.spec, found.runs[0].seed), found)
    for name, figure in figures.draw_all(data, FIGURES).items():
        figures.save(figure, folder, name, ("png",))


def _tail() -> str:
    return """## Other results

- [Distribution shift](docs/results/learning/shift.json): `hybrid-scheduler shift`, 20 seeds; also in
  [studies of the learned schedulers](docs/guide/schedulers/learned.md#studies).
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
    """Measure, write, or both, from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="run everything that DIR does not have yet")
    parser.add_argument("--write", action="store_true", help="write the pages from DIR")
    parser.add_argument("--out", type=Path, help=f"folder of {RAW}; {_EVIDENCE} by default")
    parser.add_argument("--jobs", type=int, default=cores(), help="processes; one per core by default")
    parser.add_argument("--only", default="", help="sections to measure, separated by commas")
    parser.add_argument("--seeds", type=int, default=20, help=f"from {FIRST_REPORTED_SEED} on; at least 2")
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help=f"2 seeds of 200 tasks, all into {_QUICK}")
    options = parser.parse_args()
    if not options.measure and not options.write:
        parser.error("choose --measure, --write or both")
    folder = options.out or (_QUICK if options.quick else _EVIDENCE)
    seeds, tasks = (2, 200) if options.quick else (options.seeds, options.tasks)
    only = [name for name in options.only.split(",") if name]
    if options.quick and not only:
        only = ["cases", "claims", "shift", "alarms", "forest", "quality", "schedulers", "adversaries"]

    def report(text: str) -> None:
        print(text, flush=True)

    if options.measure:
        measure(folder, seeds=seeds, tasks=tasks, processes=options.jobs, only=only, report=report)
    if options.write:
        raw = Raw.read(folder / RAW)
        if options.quick:
            write_book(raw, folder, folder / "RESULTS.md", report)
            return
        write_book(raw, ROOT / _EVIDENCE, ROOT / "RESULTS.md", report)
        write_texts(raw, report)
        if folder.resolve() != (ROOT / _EVIDENCE).resolve():
            (ROOT / _EVIDENCE / RAW).write_text((folder / RAW).read_text(encoding="utf-8"), encoding="utf-8")


if __name__ == "__main__":
    main()
