"""The command `jobs`: formats, operation of the cluster, own policies, and jobs that do not fit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hybrid_scheduler.cli.app import app
from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.jobs import (
    JobLog,
    check_policy,
    placement_policies,
    queue_policies,
    queue_policy,
    with_learned_requests,
)


@pytest.fixture
def run() -> Callable[..., Any]:
    """The program in this process."""
    return lambda *arguments: CliRunner().invoke(app, arguments, prog_name="hybrid-scheduler")


def swf(folder: Path, jobs: int = 200) -> Path:
    random = np.random.Generator(np.random.PCG64(5))
    lines = ["; MaxProcs: 16"]
    for job in range(1, jobs + 1):
        seconds = int(random.integers(1, 200))
        before = job - 1 if job % 20 == 0 else -1
        fields = [
            job,
            10 * job,
            -1,
            seconds,
            int(random.integers(1, 9)),
            -1,
            -1,
            -1,
            2 * seconds,
            -1,
            1,
            job % 3,
            -1,
            -1,
            -1,
            -1,
        ]
        lines.append(" ".join(map(str, [*fields, before, -1])))
    path = folder / "log.swf"
    path.write_text("\n".join(lines) + "\n")
    return path


def document(result: Any) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def test_failures_quotas_and_preemption_are_counted(tmp_path: Path, run: Callable[..., Any]) -> None:
    log = str(swf(tmp_path))
    failures = tmp_path / "failures.csv"
    failures.write_text("node,down,up\ncluster,500,600\n")
    quotas = tmp_path / "quotas.json"
    quotas.write_text('{"1": {"processors": 8}}')
    options = (
        "--failures",
        str(failures),
        "--quotas",
        str(quotas),
        "--preempt",
        "--dependencies",
        "--checkpoint",
        "60",
    )
    shown = run("jobs", log, "--policies", "fcfs,fair_share", *options)
    assert shown.exit_code == 0, shown.output
    assert "stopped" in shown.stdout
    rows = document(run("--quiet", "jobs", log, "--policies", "las", *options, "--json"))["policies"]
    assert all(row["stops"] > 0 and row["lost_processor_seconds"] > 0 for row in rows)


def test_processors_spread_over_named_hosts_as_in_a_pool(tmp_path: Path, run: Callable[..., Any]) -> None:
    log = str(swf(tmp_path))
    hosts = tmp_path / "hosts.csv"
    hosts.write_text("sn,cpu_milli,memory_mib,gpu\n" + "".join(f"host{row},1000,0,0\n" for row in range(16)))
    ways = ("--policies", "fcfs", "--backfilling", "none,easy", "--json")
    pool = document(run("--quiet", "jobs", log, *ways))["policies"]
    spread = document(run("--quiet", "jobs", log, "--nodes", str(hosts), "--placements", "best_fit", *ways))[
        "policies"
    ]
    assert [row["mean_wait"] for row in pool] == [row["mean_wait"] for row in spread]
    assert [row["utilization"] for row in pool] == pytest.approx([row["utilization"] for row in spread])


def test_backfilling_uses_learned_or_known_run_times(tmp_path: Path, run: Callable[..., Any]) -> None:
    log = str(swf(tmp_path))
    waits = {}
    for estimates in ("requested", "learned", "known"):
        options = ("--policies", "sjf", "--backfilling", "easy", "--estimates", estimates, "--json")
        waits[estimates] = document(run("--quiet", "jobs", log, *options))["policies"][0]["mean_wait"]
    assert len(set(waits.values())) > 1
    assert "estimates" in run("jobs", log, "--estimates", "guessed").output


def test_estimates_are_learned_from_jobs_that_ended_before() -> None:
    count = 200
    seconds = np.where(np.arange(count) % 2, 10.0, 500.0)
    log = JobLog(range(count), 600.0 * np.arange(count), seconds, [3600] * count, [1] * count, ["ann", "bob"] * 100)
    requested = with_learned_requests(log).requested_time
    assert requested[0] == 3600
    assert (requested <= 3600).all()
    assert 500 <= requested[-2] <= 1000
    assert 10 <= requested[-1] <= 20
    changed = np.where(np.arange(count) >= 150, 1.0, seconds)
    again = with_learned_requests(JobLog(range(count), log.submit, changed, [3600] * count, [1] * count, log.user))
    assert again.requested_time[:150].tolist() == requested[:150].tolist()


def test_jobs_larger_than_the_cluster_are_listed(tmp_path: Path, run: Callable[..., Any]) -> None:
    log = str(swf(tmp_path))
    found = document(run("--quiet", "jobs", log, "--policies", "fcfs", "--processors", "7", "--json"))
    assert len(found["larger_than_the_cluster"]) > 0
    assert found["jobs"] == 200
    assert "do not fit on the empty cluster" in run("jobs", log, "--policies", "fcfs", "--processors", "7").stdout


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--failures", "node,down,up\nx,5,4\n", "file, line 2: row: must be node, down, a later up"),
        ("--failures", "node,down,up\nx,4,5\n", "node"),
        ("--quotas", '{"1": {"cores": 8}}', "quotas.1: must be processors and gpus"),
        ("--quotas", "[]", "quotas: must be an object by user"),
    ],
)
def test_bad_operation_files_are_named(
    tmp_path: Path, run: Callable[..., Any], option: str, text: str, message: str
) -> None:
    (tmp_path / "file").write_text(text)
    refused = run("jobs", str(swf(tmp_path)), "--policies", "fcfs", option, str(tmp_path / "file"))
    assert refused.exit_code == 2
    assert message in refused.output


@pytest.mark.parametrize(
    "policy", [*queue_policies().values(), *placement_policies().values()], ids=lambda own: own.name
)
def test_every_policy_keeps_the_contract(policy: Any) -> None:
    check_policy(policy)


def test_a_policy_that_does_not_compile_is_named() -> None:
    @queue_policy("not_a_number_test", "Text")
    def text_score(submit, requested, processors, wait):  # type: ignore[no-untyped-def]
        return "soon"

    with pytest.raises(InvalidInputError, match="not_a_number_test: must be a function of numbers"):
        check_policy(queue_policies()["not_a_number_test"])
