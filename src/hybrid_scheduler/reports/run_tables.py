"""Tables of the stored results of a run, and of the verdict on any comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..metrics.statistics import Interval
from ..metrics.verdict import seconds_text, times_text
from .figure_style import label_of, three_digits, with_interval
from .report_documents import TableBlock

#: Columns of the stored results besides the mean latency, with their headings.
_COLUMNS = {
    "p99_latency": "p99\ns",
    "mean_time": "time\ns",
    "latency_over_bound": "mean /\nbound",
    "makespan": "makespan\ns",
    "mean_energy": "energy\nJ",
    "mean_cost": "cost\n$",
    "load_balance": "load\nbalance",
}


@dataclass(frozen=True, slots=True)
class StoredResults:
    """Comparison and verdict of a whole run, as the REST interface has them."""

    rows: Sequence[Mapping[str, Any]]
    verdict: Mapping[str, Any]


def results_table(stored: StoredResults) -> TableBlock:
    """Return one row per scheduler with the means over all tasks of the run, the fastest first."""
    known = {row["name"]: row for row in stored.rows}
    ranked = [known[row["name"]] for row in stored.verdict["rows"]]
    rows = [[label_of(row["name"]), _mean(row), *(_number(row[name]) for name in _COLUMNS)] for row in ranked]
    note = (
        f"Means of {stored.verdict['tasks']:,} tasks ± half of the 95 % interval, by batch means. "
        f"p99 is of the newest {max(row['window'] for row in stored.rows):,} tasks. Energy and cost are per task."
    )
    return TableBlock(["scheduler", "latency\nmean, s", *_COLUMNS.values()], rows, note, strong=frozenset({0}))


def _mean(row: Mapping[str, Any]) -> str:
    mean = row["mean_latency"]
    half = row["latency_ci95"]
    return _number(mean) if half is None else with_interval(Interval(mean, mean - half, mean + half))


def _number(value: float | None) -> str:
    return "–" if value is None else three_digits(value)


def verdict_table(verdict: Mapping[str, Any]) -> TableBlock:
    """Return one row per scheduler: its distance to the leader and to the lower bound, and why it loses.

    Parameters
    ----------
    verdict
        A verdict as `Verdict.as_dict` writes it.
    """
    rows = [
        [
            row["label"],
            seconds_text(row["mean_latency"]),
            "–" if row["over_floor"] is None else times_text(row["over_floor"]),
            "leads" if row["name"] == verdict["leader"] else row["latency"]["text"],
            "; ".join(f"it {reason['text']}" for reason in row["reasons"]) or "–",
        ]
        for row in verdict["rows"]
    ]
    bound = verdict["floor"]
    lowest = "" if bound is None else f" The lower bound is {seconds_text(bound)}."
    header = ["scheduler", "latency", "mean /\nbound", "against\nthe leader", "why"]
    return TableBlock(header, rows, f"Mean latency against the leader.{lowest}", words=frozenset({3, 4}))
