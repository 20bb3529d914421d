"""Published procedure of batch scheduling: its own rules on small logs, and figures of a made log."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hybrid_scheduler.cli.app import app
from hybrid_scheduler.core import InvalidInputError, UnknownNameError
from hybrid_scheduler.jobs import JobLog, queue_policy_named
from hybrid_scheduler.jobs.published_batch import (
    METRICS,
    PublishedCluster,
    _Sequence,
    published_name,
    published_table,
    read_published_log,
    sequence_starts,
)

POOL = 64


def made_log(jobs: int = 3000) -> JobLog:
    """A log of whole seconds near capacity; nothing of it comes from the published logs."""
    random = np.random.Generator(np.random.PCG64(11))
    processors = 2 ** random.integers(0, 6, jobs)
    run = np.round(random.lognormal(5.0, 1.5, jobs)) + 1
    gap = np.round(random.exponential(float(np.mean(run * processors)) / POOL / 0.9, jobs))
    return JobLog(np.arange(jobs), np.cumsum(gap), run, run, processors)


def starts(log: JobLog, policy: str, backfilling: bool, pool: int, published_waits: bool = True) -> list[float]:
    return (
        _Sequence(log, PublishedCluster(pool, pool), queue_policy_named(policy), published_waits)
        .run(backfilling)
        .tolist()
    )


def test_submissions_enter_only_while_the_choice_waits_or_the_queue_is_empty() -> None:
    # The wide second job is alone in the queue when it is chosen, so the short third one comes after it.
    log = JobLog([1, 2, 3], [0, 1, 2], [10, 10, 1], [10, 10, 1], [4, 4, 4])
    assert starts(log, "sjf", False, 4) == [0, 10, 20]


def test_backfilling_keeps_the_limit_that_was_computed_at_the_choice() -> None:
    # At 10 the first choice could start; jobs that would end at exactly that time do not pass.
    log = JobLog([1, 2, 3, 4], [0, 1, 2, 3], [10, 10, 8, 6], [10, 10, 8, 6], [3, 4, 1, 1])
    assert starts(log, "fcfs", True, 4) == [0, 10, 20, 3]


def test_sequences_are_those_of_the_published_seed() -> None:
    assert sequence_starts(10_000) == [1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085]
    with pytest.raises(InvalidInputError, match="jobs: must be at least 2,050"):
        sequence_starts(2049)


def test_table_has_published_and_true_waits_and_the_rule_of_one_line() -> None:
    cells = list(published_table(made_log(), PublishedCluster(POOL, POOL)))
    assert [(cell.policy, cell.published_waits) for cell in cells if cell.backfilling] == [
        ("fcfs", True), ("wfp3", True), ("wfp3", False), ("uni", True), ("uni", False),
        ("sjf", True), ("f1", True), ("saf", True),
    ]  # fmt: skip
    assert all(cell.published is None and cell.verdict == "not in the published table" for cell in cells)
    means = {(cell.policy, cell.backfilling): cell.mean for cell in cells if cell.published_waits}
    assert means["saf", True] < means["fcfs", True] < means["fcfs", False]
    assert all(len(cell.values) == 10 and cell.half_width > 0 for cell in cells)


def test_jobs_hold_whole_nodes() -> None:
    # Three processors on nodes of two take both nodes, so the second job waits.
    log = JobLog([1, 2], [0, 1], [10, 10], [10, 10], [3, 1])
    run = _Sequence(log, PublishedCluster(4, 2), queue_policy_named("fcfs"), True).run(False)
    assert run.tolist() == [0, 10]


def test_file_is_read_by_the_published_conventions(tmp_path: Path) -> None:
    rest = "-1 -1 -1 -1 -1 1" + " -1" * 7
    lines = ["2 5 -1 -1 2 " + rest, "1 5 -1 7 3 " + rest, "3 6 -1 0 1 " + rest]
    path = tmp_path / "HPC2N-made.swf"
    path.write_text("; MaxNodes: 2\n; MaxProcs: 4\n" + "\n".join(lines))
    log, cluster = read_published_log(path)
    assert cluster == (4, 2)
    # Job 3 does not run and is left out; job 2 has no run time and takes 10 seconds.
    assert log.job_id.tolist() == [1, 2]
    assert log.run_time.tolist() == [7, 10]
    assert read_published_log(path, 64)[1] == (64, 64)
    assert published_name(path, "") == "HPC2N"
    assert published_name("made.swf", "") is None
    path.write_text("1 2 3\n")
    with pytest.raises(InvalidInputError, match="line 1: row: must be 18 fields"):
        read_published_log(path)


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_is_finite_and_not_better_than_its_bound(metric: str) -> None:
    cell = next(published_table(made_log(), PublishedCluster(POOL, POOL), metric=metric))
    assert np.isfinite(cell.values).all()
    assert cell.mean <= cell.bound if metric == "utilization" else cell.mean >= cell.bound
    with pytest.raises(UnknownNameError, match="metric"):
        next(published_table(made_log(), PublishedCluster(POOL, POOL), metric="slowness"))


@pytest.fixture
def run() -> Callable[..., Any]:
    """The program in this process."""
    return lambda *arguments: CliRunner().invoke(app, arguments, prog_name="hybrid-scheduler")


def test_commands_print_tables_and_json(tmp_path: Path, run: Callable[..., Any]) -> None:
    log = made_log()
    columns = zip(log.job_id, log.submit, log.run_time, log.processors, strict=True)
    lines = [
        f"{job} {at:.0f} -1 {run:.0f} {width}" + " -1" * 5 + " 1" + " -1" * 7 for job, at, run, width in columns
    ]
    path = tmp_path / "made.swf"
    path.write_text(f"; MaxProcs: {POOL}\n" + "\n".join(lines) + "\n")
    table = run("jobs", str(path), "--policies", "fcfs,saf", "--backfilling", "none,easy")
    assert table.exit_code == 0, table.output
    assert "Smallest area first" in table.stdout
    document = json.loads(run("jobs", str(path), "--policies", "saf", "--json").stdout)
    assert [row["backfilling"] for row in document["policies"]] == ["none", "easy", "conservative"]
    assert document["processor_seconds"] == document["processor_seconds_in_file"] == log.processor_seconds
    again = run("reproduce", "rlscheduler", "--data", str(path))
    assert again.exit_code == 0, again.output
    assert "WFP3, true waits" in again.stdout
    assert len(json.loads(run("reproduce", "rlscheduler", "--data", str(path), "--json").stdout)["cells"]) == 16


def test_commands_name_what_is_missing(run: Callable[..., Any]) -> None:
    assert run("reproduce", "rlscheduler").exit_code == 2
    assert "published table" in run("reproduce", "nothing").output
    assert run("jobs", "missing.swf").exit_code == 2
