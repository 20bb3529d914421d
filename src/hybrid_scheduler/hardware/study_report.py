"""The tables of `scripts/device_study.py`'s results, as Markdown.

python -m hybrid_scheduler.hardware.study_report docs/results/h200
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def report(summary: dict[str, Any]) -> str:
    """What the study found; parts that were not run are left out."""
    sections = (_machine, _executions, _overhead, _comparisons, _calibration)
    return "\n\n".join(text for section in sections if (text := section(summary)))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def _machine(summary: dict[str, Any]) -> str:
    found = summary.get("machine")
    if not found:
        return ""
    machine, stream = found["machine"], found["stream"]
    gpu = machine["gpu"]["name"] if machine["gpu"] else "no GPU"
    devices = ", ".join(f"{device['name']} ({device['threads']} host threads)" for device in found["devices"])
    return (
        f"{machine['cores']} cores of an {machine['cpu']}, {gpu}; torch {machine['torch']}. Devices: {devices}. "
        f"Stream: {stream['evaluation']} kernels of {len(stream['kinds'])} kinds, sizes {stream['sizes'][0]} to "
        f"{stream['sizes'][1]} (sort to {stream['limits']['sort']}), seed {stream['seed']}; learners had seen "
        f"{stream['learning']} kernels at other sizes."
    )


def _executions(summary: dict[str, Any]) -> str:
    runs = {name: run for name, run in summary.get("executions", {}).items() if "ratio" in run}
    if not runs:
        return ""
    rows = [
        [
            name, f"{1e3 * _middle(run, 'total_seconds'):.0f} ms", _among(run, "ratio"),
            _among(run, "choice_ratio"), _joules(run), f"{1e6 * _middle(run, 'decision_seconds_per_task'):.0f} µs",
        ]
        for name, run in runs.items()
    ]  # fmt: skip
    best = summary.get("yardstick", {}).get("best_total_seconds")
    head = ["scheduler", "total", "ratio", "of choices", "GPU energy per task", "decision"]
    told = f"Best measured choice per task: {1e3 * best:.0f} ms in all." if best else ""
    times = max(len(run.get("repeats", ())) for run in runs.values())
    if times > 1:
        told += f" Medians of {times} rounds and, in brackets, their ranges."
    return f"{told.strip()}\n\n{_table(head, rows)}".strip()


def _each(run: dict[str, Any], key: str) -> list[Any]:
    """The value in every round."""
    return [one[key] for one in run.get("repeats") or [run] if one.get(key) is not None]


def _middle(run: dict[str, Any], key: str) -> float:
    return float(np.median(_each(run, key)))


def _among(run: dict[str, Any], key: str) -> str:
    found = _each(run, key)
    if not found:
        return "–"
    low, middle, high = (f"{end:.3f}" for end in np.quantile(found, (0.0, 0.5, 1.0)))
    return middle if low == high else f"{middle} ({low}–{high})"


def _joules(run: dict[str, Any]) -> str:
    joules = [one["gpu"] for one in _each(run, "joules_per_task") if "gpu" in one]
    return f"{np.median(joules):.2f} J" if joules else "–"


def _overhead(summary: dict[str, Any]) -> str:
    """What deciding costs, as a share of what was saved over each constant: totals and decisions in the median."""
    runs, yardstick = summary.get("executions", {}), summary.get("yardstick", {})
    constants = {name.removeprefix("always_"): one for name, one in yardstick.items() if name.startswith("always_")}
    lines = []
    for name in ("hybrid_ml", "rl_agent"):
        run = runs.get(name, {})
        if "total_seconds" not in run:
            continue
        decided, total = run["tasks"] * _middle(run, "decision_seconds_per_task"), _middle(run, "total_seconds")
        saved = {device: one["total_seconds"] - total for device, one in constants.items()}
        known = [
            f"{100 * decided / seconds:.1f} % of what it saves over always {device}"
            for device, seconds in saved.items()
            if seconds > 0
        ]
        if known:
            lines.append(f"Deciding costs {name} " + " and ".join(known) + _beyond_asking(runs, name, saved) + ".")
    return "\n".join(lines)


def _beyond_asking(runs: dict[str, Any], name: str, saved: dict[str, float]) -> str:
    """A constant rule is asked, too: what learning adds to that, as a share of the least that is saved."""
    if "gpu_only" not in runs:
        return ""
    floor, own = (_middle(runs[one], "decision_seconds_per_task") for one in ("gpu_only", name))
    least = min(seconds for seconds in saved.values() if seconds > 0)
    net = runs[name]["tasks"] * max(0.0, own - floor) / least
    return f"; beyond what asking a constant rule costs ({1e6 * floor:.0f} µs), {100 * net:.1f} % of the latter"


def _comparisons(summary: dict[str, Any]) -> str:
    found = {name: one for name, one in summary.get("comparisons", {}).items() if "error" in one}
    rows = []
    for name, one in found.items():
        scheduler, _, stream = name.rpartition(", ")
        low, high = (f"{100 * end:+.0f}" for end in one["spread_of_real"])
        makespans = (f"{1e3 * one[f'{which}_makespan_seconds']:.0f} ms" for which in ("real", "simulated"))
        rows.append([scheduler, stream, *makespans, f"{100 * one['error']:+.1f} %", f"{low} .. {high} %"])
    head = ["scheduler", "stream", "real makespan", "simulated", "error", "real runs among themselves"]
    return _table(head, rows) if rows else ""


def _calibration(summary: dict[str, Any]) -> str:
    found = summary.get("profile", {})
    errors = {road: one.get("median_error_by_kind", one) for road, one in found.items()}
    if not errors:
        return ""
    kinds = list(next(iter(errors.values())))
    rows = [
        [
            kind,
            *(f"{100 * by_kind[kind]:.1f} %" if by_kind[kind] is not None else "–" for by_kind in errors.values()),
        ]
        for kind in kinds
    ]
    return _table(["held-out median error", *errors], rows)


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("one folder with a summary.json", file=sys.stderr)
        return 2
    print(report(json.loads(Path(arguments[0], "summary.json").read_text(encoding="utf-8"))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
