"""Quantitative goals of the product, each with its measurement, for the results page.

A goal is a number with a limit that must hold and, mostly, a stretch limit beyond it. It is met if the whole 95 %
interval, or the whole range over runs, lies on the right side of the limit; if only the mean does, the table says
so. Goals of scheduling come from the measured runs of the page. Goals of speed, storage, stream and hardware come
from committed outputs of the benchmarks, whose command is beside each.

    python -m studies.results_book --write --out DIR

Result: the goals of RESULTS.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from hybrid_scheduler.experiments.distribution_shift import ShiftRow, shift_rows
from hybrid_scheduler.experiments.paired_comparison import PairedComparison
from hybrid_scheduler.metrics.statistics import Interval, skewed_interval

from .book_cases import LATE, cases
from .published_claims import shift_runs
from .quoted_figures import lookup

if TYPE_CHECKING:
    from .measurements import Raw

MET, BARELY, MISSED, REPORTED = "yes", "by the mean; the interval crosses", "no", "reported"
REFERENCE = "earliest_finish"
_DEVICE = Path("docs/results/h200")


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
    #: Where the number comes from, if not from the runs of the page.
    command: str | None = None

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
            "stretch": self.stretch, "stretch_met": self.verdict(self.stretch), "command": self.command,
        }  # fmt: skip


def goals(raw: Raw) -> list[Goal]:
    """Test all goals on measured runs and on the committed outputs of the benchmarks."""
    studies = {case.key: raw.comparison(case) for case in cases(raw.tasks)}
    rows = {row.name: row for row in shift_rows(shift_runs(raw))}
    return [
        *_shift(rows), _false_alarms(raw), *_batch(studies["batch"], raw.tasks // 2), *_loaded(studies, raw.tasks),
        *_forest(raw), *_speed(), *_services(), *_hardware(),
    ]  # fmt: skip


def _ratio(found: PairedComparison, metric: str, name: str) -> Interval:
    samples = found.samples(metric)
    return skewed_interval(samples[name] / samples[REFERENCE])


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

    # Tasks that run alone leave nothing for rl_agent to adapt: there it is hybrid_ml.
    return [ratio("hybrid_ml", 1.05, 1.03), recovery("hybrid_ml", 10, 3)]


def _false_alarms(raw: Raw) -> Goal:
    """Test the worst stream; beside it the exact upper limit of a Poisson rate with so many alarms in all."""
    counts = list(raw.section("alarms").values())
    total, streams, worst = sum(counts), len(counts), float(max(counts))
    high = float(stats.chi2.ppf(0.975, 2 * (total + 1))) / 2 / streams
    return Goal(
        "Drift", f"hybrid_ml: false alarms in {10 * raw.tasks:,} stationary tasks, judged by the worst stream",
        Interval(worst, worst, worst), 1, 0,
        text=f"{total} in {streams} streams: a rate of at most {high:.2f} with 97.5 % confidence",
    )  # fmt: skip


# ------------------------------------------------------------------------------------------ queues


def _batch(found: PairedComparison, tasks: int) -> list[Goal]:
    group = f"Mixed batch, {tasks:,} tasks"
    spans = {name: skewed_interval(values) for name, values in found.samples("makespan_over_bound").items()}
    learned = min(("hybrid_ml", LATE, "rl_agent"), key=lambda name: spans[name].mean)
    return [
        Goal(group, f"best learned online ({learned}): makespan / bound", spans[learned], 1.06, 1.03),
        Goal(group, "best static (fluid_plan): makespan / bound", spans["fluid_plan"], 1.02, 1.01),
    ]


def _loaded(studies: dict[str, PairedComparison], tasks: int) -> list[Goal]:
    """Test mean latency and tails as ratios to earliest finish, which knows durations."""
    found = []

    def add(key: str, group: str, name: str, metric: str, must: float | None, stretch: float | None) -> None:
        label = metric.replace("_", " ")
        found.append(
            Goal(group, f"{name}: {label} / {REFERENCE}", _ratio(studies[key], metric, name), must, stretch)
        )

    calm = f"Mixed at 0.7 of capacity, {tasks:,} tasks"
    add("calm", calm, "hybrid_ml", "mean_latency", 1.02, 0.99)
    add("calm", calm, "hybrid_ml", "p99_latency", 1.10, 1.03)
    add("calm", calm, "rl_agent", "mean_latency", 1.02, 1.00)
    add("calm", calm, "rl_agent", "p99_latency", 1.10, 1.03)
    for name in ("hybrid_ml", "rl_agent"):
        balance = skewed_interval(studies["calm"].samples("load_balance")[name])
        found.append(Goal(calm, f"{name}: load balance over all devices", balance, 0.95, 0.985, at_least=True))
    near = f"Mixed at 0.95 of capacity, {5 * tasks:,} tasks"
    for name in ("price_index", "hybrid_ml"):
        add("near, long", near, name, "mean_latency", 0.60, 0.45)
        add("near, long", near, name, "p99_latency", 1.0, None)
        add("near, long", near, name, "makespan", 1.0, None)
    moved = f"Transfer at 0.85 of capacity, {5 * tasks:,} tasks"
    for name in ("price_index", "hybrid_ml"):
        add("transfer", moved, name, "mean_latency", 0.65, 0.58)
    short = f"Mixed at 0.95 of capacity, {tasks:,} tasks"
    add("near", short, "rl_agent", "mean_latency", None, 0.80)
    add("near", short, "rl_agent", "p99_latency", None, 1.0)
    return found


def _forest(raw: Raw) -> list[Goal]:
    group = "Random forest, exact labels of 3,000 mixed tasks"
    found = []
    for target in ("times", "fraction"):
        table = np.array(raw.by_seed("forest", target))
        score, regret = skewed_interval(table[:, 0]), skewed_interval(table[:, 2])
        found += [
            Goal(group, f"target {target}: R² on held-out tasks", score, 0.98, 0.99, at_least=True),
            Goal(group, f"target {target}: regret of the implied fraction, %", regret, 1.0, 0.5),
        ]
    return found


# ------------------------------------------------------------------------------------------ benchmarks


def _value(source: str) -> Interval:
    value = lookup(source)[0]
    return Interval(value, value, value)


def _speed() -> list[Goal]:
    group = "Speed, one core of a shared machine"
    engine, agent = "docs/results/benchmarks.txt", "docs/results/learning/agent_speed.txt"
    command, bench = "python benchmarks", "python benchmarks/agent_bench.py"
    million = lookup(f"{engine}#tasks per CPU second > earliest_finish")[0] / 1e6
    return [
        Goal(group, "simulation: million tasks per CPU second, split earliest finish on 5 devices",
             Interval(million, million, million), 5.0, 12.0, at_least=True, command=command),
        Goal(group, "hybrid_ml: CPU µs per decision, with its prediction",
             _value(f"{agent}#hybrid_ml, load 0.7"), 60.0, 15.0, command=bench),
        Goal(group, "rl_agent: CPU µs per decision, 100 tasks waiting",
             _value(f"{agent}#rl_agent, 100 waiting"), 60.0, 25.0, command=bench),
    ]  # fmt: skip


def _services() -> list[Goal]:
    group = "Storage and stream, ratios to the bare library in one run"
    stored, sent = "docs/results/storage.json", "docs/results/stream.txt"
    command = "python benchmarks/storage_bench.py"
    return [
        Goal(group, "rows per second stored in SQLite / executemany", _value(f"{stored}#storage > 0 > ratio"), 0.5,
             0.8, at_least=True, command=command),
        Goal(group, "rows per second stored in PostgreSQL / COPY", _value(f"{stored}#storage > 1 > ratio"), 0.5,
             0.8, at_least=True, command=command),
        Goal(group, "WebSocket server CPU per message, 200 clients / broadcast of websockets",
             _value(f"{sent}#ratio"), 2.0, 1.1, command="python benchmarks/stream_bench.py"),
    ]  # fmt: skip


def device_runs(folder: Path = _DEVICE) -> dict[str, Any]:
    """Return the figures of every run on the H200, from the summaries of all of them, as [least, mean, largest]."""
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("study*/summary.json"))]
    found: dict[str, Any] = {"runs": len(runs)}
    for name in ("hybrid_ml", "rl_agent", "hybrid_ml split", "rl_agent split", "gpu_only", "cpu_only"):
        rounds = [one for run in runs for one in run["executions"][name]["repeats"]]
        table = np.array([[one["ratio"], one["choice_ratio"]] for one in rounds])
        found[name] = {"rounds": len(rounds), "total": _range(table[:, 0]), "choices": _range(table[:, 1])}
    errors = [100.0 * abs(one["error"]) for run in runs for one in run.get("comparisons", {}).values()]
    found["makespan_error_percent"] = {"streams": len(errors), "range": _range(np.array(errors))}
    return found


def _range(values: Any) -> list[float]:
    return [round(float(value), 3) for value in (values.min(), values.mean(), values.max())]


def _hardware() -> list[Goal]:
    group = "Real execution on an H200 with 16 cores, all runs"
    runs = device_runs()

    def goal(what: str, row: Sequence[float], count: str, must: float, stretch: float) -> Goal:
        low, mean, high = row
        text = f"{low:.4g} to {high:.4g}, mean {mean:.4g} ({count})"
        return Goal(group, what, Interval(mean, low, high), must, stretch, text=text,
                    command="python -m studies.device_study OUT")  # fmt: skip

    mine, error = runs["hybrid_ml"], runs["makespan_error_percent"]
    return [
        goal("hybrid_ml: time of its choices / best choice per kernel, judged by the worst round", mine["choices"],
             f"{mine['rounds']} rounds of {runs['runs']} runs", 1.10, 1.03),
        goal("simulated against real makespan, %, judged by the worst stream", error["range"],
             f"{error['streams']} streams of {runs['runs']} runs", 10.0, 3.0),
    ]  # fmt: skip
