"""First wave of the default live run: idle GPUs, and how soon learners notice that GPUs slow down and recover.

    python -m studies.default_run          20 seeds, about a minute on one core

Result: docs/results/learning/default_run.txt. Idle shares are those of all GPUs over the first 60 seconds. A change
is noticed when the outcome that reveals it has come. Errors are medians of |predicted / actual - 1| over tasks by
their arrival: ten seconds before the slowdown, its first two, its last five, and the last five of the minute.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from hybrid_scheduler import LiveConfig, create
from hybrid_scheduler.config.configured_run import wave_slowdown
from hybrid_scheduler.core import Floats, Learner, Online
from hybrid_scheduler.experiments.evaluation import PredictionRecorder
from hybrid_scheduler.workload import generate

LEARNERS = ("hybrid_ml",)
SECONDS = 60.0


def default_run(seed: int) -> LiveConfig:
    """Return the configuration of `serve` without options, for one seed."""
    config = LiveConfig(seed=seed)
    return replace(config, slowdown=wave_slowdown(config.scenario, None, config.machine))


def figures(seed: int) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Return idle shares by scheduler; and by learner the seconds to notice both changes, then four errors."""
    config = default_run(seed)
    assert config.slowdown is not None
    start, until = config.slowdown.start, config.slowdown.until
    tasks = generate(config.scenario, 2_000, seed, first_id=1)
    tasks = tasks.rows(0, int(np.searchsorted(tasks.arrival_time, SECONDS)))
    idle, found = {}, {}
    for name in config.schedulers:
        scheduler = create(name)
        recorder = PredictionRecorder(scheduler) if isinstance(scheduler, Online) and name in LEARNERS else None
        result = config.machine.run(tasks, recorder or scheduler, seed=seed)
        out = result.outcomes
        ends = np.minimum(out.accelerator_start + out.accelerator_time, SECONDS)
        busy = np.nansum(np.maximum(ends - out.accelerator_start, 0.0))
        idle[name] = 1.0 - float(busy) / SECONDS / len(config.platform.accelerators)
        if recorder is not None:
            events = scheduler.take_events() if isinstance(scheduler, Learner) else []
            seen = np.sort([out.finish[event.at_task - 1] for event in events if event.kind == "drift"])
            error = np.abs(recorder.predictions(tasks) / out.time - 1.0)
            spans = ((start - 10, start), (start, start + 2), (until - 5, until), (SECONDS - 5, SECONDS))
            found[name] = [
                _first(seen, start, until) - start,
                _first(seen, until, SECONDS) - until,
                *(_median(error, tasks.arrival_time, *span) for span in spans),
            ]
    return idle, found


def _first(times: Floats, begin: float, end: float) -> float:
    """Return the first time in a span; NaN if there is none."""
    inside = times[(times >= begin) & (times < end)]
    return float(inside[0]) if len(inside) else float("nan")


def _median(values: Floats, at: Floats, begin: float, end: float) -> float:
    inside = values[(at >= begin) & (at < end)]
    return float(np.nanmedian(inside)) if len(inside) else float("nan")


def report(seeds: int) -> str:
    """Return the tables."""
    every = [figures(seed) for seed in range(1, seeds + 1)]
    lines = [f"python -m studies.default_run --seeds {seeds}", "", "GPUs idle, mean over seeds"]
    lines += [f"{name:<16} {np.mean([idle[name] for idle, _ in every]):6.1%}" for name in every[0][0]]
    lines += ["", "Seconds until a change is noticed (least, median, most; missed), and median errors"]
    lines += [f"{'':<10} {'slowdown':>26} {'recovery':>26} {'before':>8} {'begin':>8} {'end':>8} {'after':>8}"]
    for name in LEARNERS:
        values = np.array([found[name] for _, found in every])
        spans = [_span(values[:, column]) for column in (0, 1)]
        errors = [f"{value:8.2%}" for value in np.nanmedian(values[:, 2:], axis=0)]
        lines.append(f"{name:<10} {spans[0]:>26} {spans[1]:>26} {' '.join(errors)}")
    return "\n".join(lines) + "\n"


def _span(values: Floats) -> str:
    known = values[np.isfinite(values)]
    return f"{known.min():.2f}, {np.median(known):.2f}, {known.max():.2f}; {len(values) - len(known)}"


def main() -> None:
    """Print the tables, and write them with `--out`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    text = report(options.seeds)
    print(text, end="")
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
