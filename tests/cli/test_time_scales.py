"""Every command that reads a trace ends, at any offset of the arrivals and for any ratio of durations."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import Result

Run = Callable[..., Result]

DAY = 86_400.0
SCHEDULERS = "greedy,price_index,late_binding,shortest_first,hybrid_ml,oracle"


def write(name: str, arrival: NDArray[np.float64], seconds: NDArray[np.float64]) -> None:
    """Write a trace of tasks that take about these seconds on a CPU."""
    lines = ["task_id,size,compute_intensity,memory_required,arrival_time"]
    for row, (at, work) in enumerate(zip(np.sort(arrival).tolist(), (2500.0 * seconds).tolist(), strict=True)):
        lines.append(f"{row},{work!r},0.5,{100 * (row % 5)},{at!r}")
    Path(name).write_text("\n".join(lines) + "\n")


def traces() -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    rng = np.random.default_rng(35)
    many, few = rng.random(300), rng.random(60)
    gaps = rng.exponential(0.05, 200).cumsum()
    every = np.exp(rng.uniform(np.log(1e-9), np.log(1e6), 60))
    return {
        "short tasks over a day": (DAY * many, rng.uniform(0.01, 0.02, 300)),
        "Unix times": (1.7e9 + gaps, rng.uniform(0.01, 1.0, 200)),
        "a month late": (30 * DAY + few, rng.uniform(0.01, 1.0, 60)),
        "nanoseconds at Unix times": (1.7e9 + DAY * few, np.full(60, 1e-9)),
        "from nanoseconds to weeks": (few, every),
        "from nanoseconds to weeks, a day late": (DAY + DAY * few, every),
        "all at once, a day late": (np.full(60, DAY), every),
    }


TRACES = traces()


@pytest.mark.parametrize("name", TRACES)
def test_simulate_and_import_end(run: Run, name: str) -> None:
    write("tasks.csv", *TRACES[name])
    done = run("simulate", "--trace", "tasks.csv", "--schedulers", SCHEDULERS, "--json")
    assert done.exit_code == 0, done.stderr
    done = run("import", "tasks.csv", "--name", "known")
    assert done.exit_code == 0, done.stderr
    done = run("simulate", "--trace", "known", "--schedulers", "greedy", "--noise", "0.3", "--json")
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("name", TRACES)
def test_compare_and_report_end(run: Run, name: str) -> None:
    write("tasks.csv", *TRACES[name])
    for command in (["compare"], ["report", "-o", "report.html"]):
        done = run(*command, "--trace", "tasks.csv", "--schedulers", "greedy,late_binding")
        assert done.exit_code in (0, 2), done.stderr  # too few batches for an interval are refused
        assert done.exit_code == 0 or "error: " in done.stderr


def test_jobs_with_one_of_zero_seconds_end(run: Run) -> None:
    jobs = [(1, 0, 30, 1), (2, 10, 60, 2), (3, 3600, 0, 1), (4, 7200, 45, 4)]
    lines = [
        f"{job} {at} 0 {run_time} {cores} -1 -1 {cores} -1 -1 1 1 1 1 1 1 -1 -1"
        for job, at, run_time, cores in jobs
    ]
    Path("jobs.swf").write_text("; UnixStartTime: 0\n" + "\n".join(lines) + "\n")
    assert run("import", "jobs.swf", "--skip-bad").exit_code == 0
    done = run("simulate", "--trace", "jobs", "--schedulers", SCHEDULERS, "--json")
    assert done.exit_code == 0, done.stderr


@pytest.mark.slow
def test_pipeline_ends_on_unix_times(run: Run) -> None:
    write("tasks.csv", *TRACES["Unix times"])
    done = run("pipeline", "--quick", "--trace", "tasks.csv", "--out", "results", "--json")
    assert done.exit_code == 0, done.stderr
