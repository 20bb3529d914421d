"""Tables of a device study's results, as Markdown.

    python -m studies.device_study_report docs/results/h200/study          at once

Reads summary.json of a folder that `python -m studies.device_study` wrote, and prints the tables that
docs/results/h200/README.md quotes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def report(summary: dict[str, Any]) -> str:
    """Return the tables; parts that were not run are left out."""
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
            name, f"{1e3 * _median(run, 'total_seconds'):.0f} ms", _with_range(run, "ratio"),
            _with_range(run, "choice_ratio"), _joules(run),
            f"{1e6 * _median(run, 'decision_seconds_per_task'):.0f} µs",
            f"{1e6 * _median(run, 'learning_seconds_per_task'):.0f} µs",
            f"{1e3 * _median(run, 'makespan_seconds'):.0f} ms",
        ]
        for name, run in runs.items()
    ]  # fmt: skip
    best = summary.get("yardstick", {}).get("best_total_seconds")
    head = ["scheduler", "total", "ratio", "of choices", "GPU energy per task", "decision", "learning", "wall time"]
    note = f"Best measured choice per task: {1e3 * best:.0f} ms in all." if best else ""
    times = max(len(run.get("repeats", ())) for run in runs.values())
    if times > 1:
        note += f" Medians of {times} rounds and, in brackets, their ranges."
    return f"{note.strip()}\n\n{_table(head, rows)}".strip()


def _each(run: dict[str, Any], key: str) -> list[Any]:
    """Return the value in every round, or that of the median round where the others were not kept."""
    found = [one[key] for one in run.get("repeats", ()) if one.get(key) is not None]
    return found or ([run[key]] if run.get(key) is not None else [])


def _median(run: dict[str, Any], key: str) -> float:
    return float(np.median(_each(run, key)))


def _with_range(run: dict[str, Any], key: str) -> str:
    found = _each(run, key)
    if not found:
        return "–"
    low, middle, high = (f"{end:.3f}" for end in np.quantile(found, (0.0, 0.5, 1.0)))
    return middle if low == high else f"{middle} ({low}–{high})"


def _joules(run: dict[str, Any]) -> str:
    joules = [one["gpu"] for one in _each(run, "joules_per_task") if "gpu" in one]
    return f"{np.median(joules):.2f} J" if joules else "–"


def _overhead(summary: dict[str, Any]) -> str:
    """Return the costs of deciding and learning, as shares of the time saved over each constant choice; medians."""
    runs, reference = summary.get("executions", {}), summary.get("yardstick", {})
    constants = {name.removeprefix("always_"): one for name, one in reference.items() if name.startswith("always_")}
    lines = []
    for name in ("hybrid_ml", "rl_agent"):
        run = runs.get(name, {})
        if "total_seconds" not in run:
            continue
        decided, learned = (
            run["tasks"] * _median(run, f"{what}_seconds_per_task") for what in ("decision", "learning")
        )
        constant = (
            run["tasks"] * _median(runs["gpu_only"], "decision_seconds_per_task") if "gpu_only" in runs else 0.0
        )
        total = _median(run, "total_seconds")
        for device, one in constants.items():
            saved = one["total_seconds"] - total
            if saved <= 0:
                continue
            net = f" ({100 * max(0.0, decided - constant) / saved:.1f} % more than a constant rule)"
            lines.append(
                f"Of what {name} saves over always {device}, deciding costs {100 * decided / saved:.1f} %"
                f"{net if constant else ''}, and learning, while kinds are new, {100 * learned / saved:.1f} %."
            )
    return "\n".join(lines)


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
    errors = {transfer: one.get("median_error_by_kind", one) for transfer, one in found.items()}
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
    """Print the tables of one folder."""
    if len(arguments) != 1:
        print("one folder with a summary.json", file=sys.stderr)
        return 2
    print(report(json.loads(Path(arguments[0], "summary.json").read_text(encoding="utf-8"))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
