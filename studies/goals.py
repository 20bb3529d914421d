"""Quantitative goals of the schedulers, tested for the results page.

A goal is a number with a limit that must hold and, mostly, a stretch limit beyond it. It is met if the whole 95 %
interval lies on the right side of the limit; if only the mean does, the table says so.

    python -m studies.goals          about ten minutes on two cores

Result: printed; `python -m studies.results_book` writes it into RESULTS.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from hybrid_scheduler.experiments.distribution_shift import ShiftRow, shift_study
from hybrid_scheduler.experiments.paired_comparison import PairedComparison
from hybrid_scheduler.metrics.statistics import Interval, t_interval

from .false_alarms import STREAM_TASKS, STREAMS, alarms
from .forest_noise import figures as forest_figures

MET, BARELY, MISSED, REPORTED = "yes", "by the mean; the interval crosses", "no", "reported"
REFERENCE = "earliest_finish"
_FOREST_TASKS = 3000


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal; `must` and `stretch` are limits from above, or from below if `at_least`. None: no limit."""

    group: str
    what: str
    measured: Interval
    must: float | None = None
    stretch: float | None = None
    at_least: bool = False
    #: Printed instead of the interval where a range over seeds says more.
    text: str | None = None

    def verdict(self, limit: float | None) -> str:
        """Return whether the limit is met."""
        if limit is None:
            return REPORTED
        sign = -1.0 if self.at_least else 1.0
        edge = max(sign * self.measured.low, sign * self.measured.high)
        if edge <= sign * limit:
            return MET
        return BARELY if sign * self.measured.mean <= sign * limit else MISSED

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        one = self.measured
        return {
            "group": self.group, "what": self.what, "measured": [one.mean, one.low, one.high],
            "shown": self.text, "at_least": self.at_least, "must": self.must, "must_met": self.verdict(self.must),
            "stretch": self.stretch, "stretch_met": self.verdict(self.stretch),
        }  # fmt: skip


def goals(
    studies: dict[str, PairedComparison], *, seeds: Sequence[int], report: Callable[[str], None]
) -> list[Goal]:
    """Test all goals; `studies` are the comparisons of the results page by their key."""
    report("goals: shift")
    rows = {row.name: row for row in shift_study(len(seeds), first_seed=seeds[0])}
    report("goals: false alarms")
    false_alarms = _false_alarms(seeds)
    report("goals: forest")
    return [*_shift(rows), false_alarms, *_batch(studies["batch"]), *_loaded(studies), *_forest(seeds)]


def _ratio(found: PairedComparison, metric: str, name: str) -> Interval:
    samples = found.samples(metric)
    return t_interval(samples[name] / samples[REFERENCE])


# ------------------------------------------------------------------------------------------ shift


def _shift(rows: dict[str, ShiftRow]) -> list[Goal]:
    group = "Distribution shift, serial physics, 500 tasks"

    def ratio(name: str, must: float | None = None, stretch: float | None = None) -> Goal:
        row = rows[name]
        seen = Interval(row.ratio, row.ratio - row.ratio_interval, row.ratio + row.ratio_interval)
        return Goal(group, f"{name}: sum of times / optimum", seen, must, stretch)

    def recovery(name: str, must: float, stretch: float | None = None) -> Goal:
        row = rows[name]
        worst = math.inf if row.recovery_worst is None else float(row.recovery_worst)
        text = "not on every seed" if math.isinf(worst) else f"{row.recovery_median:g}, worst seed {worst:g}"
        what = f"{name}: tasks until recovered, judged by the worst seed"
        return Goal(group, what, Interval(worst, worst, worst), must, stretch, text=text)

    return [
        ratio("hybrid_ml", 1.05, 1.03),
        recovery("hybrid_ml", 10, 3),
        ratio("rl_agent", 1.20, 1.05),
        recovery("rl_agent", 20),
        ratio("rl_agent, bandit"),
    ]


def _false_alarms(seeds: Sequence[int]) -> Goal:
    """Test the worst stream; beside it the exact upper limit of a Poisson rate with so many alarms in all."""
    per_stream = max(1, len(seeds) // len(STREAMS))
    counts = [alarms(*stream, STREAM_TASKS, seed) for stream in STREAMS for seed in seeds[:per_stream]]
    total, streams, worst = sum(counts), len(counts), float(max(counts))
    high = float(stats.chi2.ppf(0.975, 2 * (total + 1))) / 2 / streams
    return Goal(
        "Drift", f"hybrid_ml: false alarms in {STREAM_TASKS:,} stationary tasks, judged by the worst stream",
        Interval(worst, worst, worst), 1, 0,
        text=f"{total} in {streams} streams: a rate of at most {high:.2f} with 97.5 % confidence",
    )  # fmt: skip


# ------------------------------------------------------------------------------------------ queues


def _batch(found: PairedComparison) -> list[Goal]:
    group = "Mixed batch, 1,000 tasks"
    spans = {name: t_interval(values) for name, values in found.samples("makespan_over_bound").items()}
    learned = min(("hybrid_ml", "rl_agent"), key=lambda name: spans[name].mean)
    return [
        Goal(group, f"best learned online ({learned}): makespan / bound", spans[learned], 1.06, 1.03),
        Goal(group, "best static (fluid_plan): makespan / bound", spans["fluid_plan"], 1.02, 1.01),
    ]


def _loaded(studies: dict[str, PairedComparison]) -> list[Goal]:
    """Test mean latency and tails as ratios to earliest finish, which knows durations."""
    found = []

    def add(key: str, group: str, name: str, metric: str, must: float | None, stretch: float | None) -> None:
        label = metric.replace("_", " ")
        found.append(
            Goal(group, f"{name}: {label} / {REFERENCE}", _ratio(studies[key], metric, name), must, stretch)
        )

    calm = "Mixed at 0.7 of capacity, 2,000 tasks"
    add("calm", calm, "hybrid_ml", "mean_latency", 1.02, 0.99)
    add("calm", calm, "hybrid_ml", "p99_latency", 1.10, 1.03)
    add("calm", calm, "rl_agent", "mean_latency", 1.02, 1.00)
    add("calm", calm, "rl_agent", "p99_latency", 1.10, 1.03)
    for name in ("hybrid_ml", "rl_agent"):
        balance = t_interval(studies["calm"].samples("load_balance")[name])
        found.append(Goal(calm, f"{name}: load balance over all devices", balance, 0.95, 0.985, at_least=True))
    near = "Mixed at 0.95 of capacity, 10,000 tasks"
    for name in ("price_index", "hybrid_ml"):
        add("near, long", near, name, "mean_latency", 0.60, 0.45)
        add("near, long", near, name, "p99_latency", 1.0, None)
        add("near, long", near, name, "makespan", 1.0, None)
    moved = "Transfer at 0.85 of capacity, 10,000 tasks"
    for name in ("price_index", "hybrid_ml"):
        add("transfer", moved, name, "mean_latency", 0.65, 0.58)
    short = "Mixed at 0.95 of capacity, 2,000 tasks"
    add("near", short, "rl_agent", "mean_latency", None, 0.80)
    add("near", short, "rl_agent", "p99_latency", None, 1.0)
    return found


def _forest(seeds: Sequence[int]) -> list[Goal]:
    group = f"Random forest, exact labels of {_FOREST_TASKS:,} mixed tasks"
    found = []
    for target in ("times", "fraction"):
        table = np.array([forest_figures(target, 0.0, _FOREST_TASKS, seed) for seed in seeds])
        score, regret = t_interval(table[:, 0]), t_interval(table[:, 2])
        found += [
            Goal(group, f"target {target}: R² on held-out tasks", score, 0.98, 0.99, at_least=True),
            Goal(group, f"target {target}: regret of the implied fraction, %", regret, 1.0, 0.5),
        ]
    return found


def main() -> None:
    """Test all goals from the command line."""
    from .results_book import goal_lines, parse_options, run_cases

    tasks, seeds = parse_options(__doc__)
    reached = goals(run_cases(tasks, seeds), seeds=seeds, report=lambda text: print(text, flush=True))
    print("\n".join(goal_lines(reached)))


if __name__ == "__main__":
    main()
