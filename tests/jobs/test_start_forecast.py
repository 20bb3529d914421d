"""Forecasts of starts: coverage on queues with unknown run times, what is known when, and the command."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hybrid_scheduler.cli.app import app
from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.jobs import JobLog, forecast_start, simulate_queue

POOL = 64


def busy_log(seed: int, jobs: int = 1600, load: float = 0.85) -> JobLog:
    """Jobs of users who request far more than they need, each in a way of their own, and their simulated starts."""
    random = np.random.Generator(np.random.PCG64(seed))
    processors = 2 ** random.integers(0, 6, jobs)
    run = np.round(random.lognormal(6.0, 1.3, jobs)) + 1
    submit = np.cumsum(random.exponential(float((run * processors).mean()) / POOL / load, jobs))
    user = random.integers(0, 8, jobs)
    excess = np.exp(random.normal(1.2, 0.5, 8))[user] * np.exp(random.normal(0, 0.3, jobs))
    log = JobLog(
        np.arange(jobs),
        submit,
        run,
        np.ceil(run * np.maximum(excess, 1)),
        processors,
        [f"u{number}" for number in user],
    )
    return replace(log, start=simulate_queue(log, POOL, "fcfs", "easy").start)


JOB = JobLog([0], [0.0], [0.0], [3600.0], [16], ["u1"])


def test_intervals_cover_waits_and_errors_are_far_below_those_of_requests() -> None:
    covered, errors, requests = [], [], []
    for seed in (1, 2):
        record = forecast_start(busy_log(seed), POOL, JOB, moments=60, samples=30).record
        covered.append(record.coverage)
        errors.append(record.median_error)
        requests.append(record.median_error_of_requests)
    assert 0.82 <= np.mean(covered) <= 0.98
    assert 2 * np.mean(errors) <= np.mean(requests)


def test_nothing_after_the_moment_changes_a_forecast() -> None:
    log = busy_log(3)
    assert log.start is not None
    now = float(log.submit[1200])
    first = forecast_start(log, POOL, JOB, now=now, moments=40, samples=30)
    ended = log.start + log.run_time <= now
    later = np.where(ended, log.run_time, 1e9)
    unknown = replace(log, run_time=later, start=np.where(log.start <= now, log.start, 1e12))
    again = forecast_start(unknown, POOL, JOB, now=now, moments=40, samples=30)
    assert again.waits.tolist() == first.waits.tolist()
    assert (again.low, again.high) == (first.low, first.high)
    assert (again.running, again.waiting) == (first.running, first.waiting)


def test_a_job_starts_at_once_on_an_idle_cluster_and_after_the_queue_on_a_full_one() -> None:
    log = busy_log(4)
    assert log.start is not None
    idle = float((log.start + log.run_time).max()) + 1.0
    assert forecast_start(log, POOL, JOB, now=idle, moments=40, samples=20).waits.max() == 0
    full = JobLog([0], [0.0], [0.0], [3600.0], [POOL], ["u1"])
    busy = float(log.submit[-1])
    whole = forecast_start(log, POOL, full, now=busy, moments=40, samples=20)
    assert whole.median > forecast_start(log, POOL, JOB, now=busy, moments=40, samples=20).median
    assert whole.low <= whole.median <= whole.high
    assert whole.within(np.inf) == 1.0


def test_bad_arguments_name_the_field() -> None:
    log = busy_log(5, 200)
    with pytest.raises(InvalidInputError, match="log: must be jobs with recorded starts"):
        forecast_start(replace(log, start=None), POOL, JOB)
    with pytest.raises(InvalidInputError, match="moments: must be 20 to a quarter of the 199 jobs"):
        forecast_start(log, POOL, JOB, moments=100)
    with pytest.raises(InvalidInputError, match="samples: must be at least 20"):
        forecast_start(log, POOL, JOB, samples=1)


@pytest.fixture
def run() -> Callable[..., Any]:
    """The program in this process."""
    return lambda *arguments: CliRunner().invoke(app, arguments, prog_name="hybrid-scheduler")


def test_command_reads_jobs_that_run_and_wait(tmp_path: Path, run: Callable[..., Any]) -> None:
    log = busy_log(6, 400)
    assert log.start is not None
    now = float(np.floor(log.submit[-1]))
    lines = ["; MaxProcs: 64"]
    for row in range(len(log)):
        submit, run_time = round(float(log.submit[row])), float(log.run_time[row])
        wait = max(round(float(log.start[row])) - submit, 0)
        ended = submit + wait + run_time <= now
        waits = submit + wait > now
        fields = [row, submit, -1 if waits else wait, run_time if ended else -1, int(log.processors[row])]
        lines.append(" ".join(map(str, [*fields, -1, -1, -1, log.requested_time[row], -1, 1, row % 5, *[-1] * 6])))
    swf = tmp_path / "now.swf"
    swf.write_text("\n".join(lines) + "\n")
    job = tmp_path / "job.json"
    job.write_text('{"processors": 32, "requested_time": 7200, "user": "3"}')
    arguments = ("forecast", str(swf), "--job", str(job), "--moments", "40", "--samples", "20")
    shown = run(*arguments)
    assert shown.exit_code == 0, shown.output
    assert "90 % interval" in shown.output
    document = json.loads(run("--quiet", *arguments, "--json").stdout)
    assert document["interval"][0] <= document["interval"][1]
    assert document["running"] > 0
    job.write_text('{"processors": 65, "requested_time": 7200}')
    refused = run(*arguments)
    assert refused.exit_code == 2
    assert "processors: must be 1 to 64, the cluster's, got 65" in refused.output
    job.write_text('{"processors": 1, "requested_time": 7200, "gpus": 1}')
    assert "gpus" in run(*arguments).output
