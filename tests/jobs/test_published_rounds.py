"""Shares of jobs on unequal accelerators, the order of policies, and the commands of two published tables."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hybrid_scheduler.cli.app import app
from hybrid_scheduler.jobs.published_graphs import graph_table
from hybrid_scheduler.jobs.published_rounds import POLICIES, RULE, _least_makespan, _RoundJobs, simulate_shares


@pytest.fixture
def run() -> Callable[..., Any]:
    """The program in this process."""
    return lambda *arguments: CliRunner().invoke(app, arguments, prog_name="hybrid-scheduler")


def jobs(seed: int, count: int = 80) -> _RoundJobs:
    random = np.random.Generator(np.random.PCG64(seed))
    rates = random.uniform(1, 4, (count, 3)) * np.array([3.0, 2.0, 1.0])
    rates[: count // 10, 2] = 0.0  # does not run on the slowest kind
    return _RoundJobs(np.zeros(count), random.uniform(100, 1000, count), random.choice([1, 1, 2, 4], count), rates)


@pytest.mark.parametrize("name", POLICIES)
def test_shares_keep_to_time_and_accelerators_and_every_job_ends(name: str) -> None:
    own = jobs(1)
    shares = POLICIES[name](own.rates, own.gpus, own.steps)
    assert (shares.sum(axis=1) <= 1 + 1e-7).all()
    assert ((shares * own.gpus[:, None]).sum(axis=0) <= 36 + 1e-6).all()
    end = simulate_shares(own, POLICIES[name])
    assert (end >= own.steps / own.rates.max(axis=1) - 1e-6).all()
    assert end.max() >= _least_makespan(own) * (1 - 1e-3)


def test_policies_that_know_speeds_are_ahead() -> None:
    own = jobs(2)
    makespan = {name: simulate_shares(own, POLICIES[name]).max() for name in ("FIFO", "Gavel makespan", RULE)}
    assert makespan["Gavel makespan"] < min(makespan["FIFO"], makespan[RULE])
    mean = {name: simulate_shares(own, POLICIES[name]).mean() for name in ("Max-min", "Gavel max-min")}
    assert mean["Gavel max-min"] < mean["Max-min"]


def test_graphs_have_the_published_makespans_above_their_bounds() -> None:
    cells = list(graph_table())
    assert [cell.verdict for cell in cells] == ["equal"] * 4
    assert all(cell.bound <= cell.mean <= cell.rule for cell in cells)


def test_commands_print_both_tables(tmp_path: Path, run: Callable[..., Any]) -> None:
    shown = run("reproduce", "heft")
    assert shown.exit_code == 0, shown.output
    assert "PEFT 2014" in shown.stdout
    rates = {kind: {f"('m{job}', 1)": {"null": 1.0 + job * place} for job in range(3)} for place, kind in enumerate(
        ("k80", "p100", "v100")
    )}  # fmt: skip
    (tmp_path / "rates.json").write_text(json.dumps(rates))
    rows = [f"m{job % 3}\tpython3\tx\t-n\t0\t{3000 + job}\t1\t1\t-1\t0" for job in range(12)]
    (tmp_path / "jobs.trace").write_text("\n".join(rows) + "\n")
    files = ("--data", str(tmp_path / "jobs.trace"), "--throughputs", str(tmp_path / "rates.json"), "--seeds", "2")
    shown = run("reproduce", "gavel", *files)
    assert shown.exit_code == 0, shown.output
    assert "Gavel max-min" in shown.stdout
    assert len(json.loads(run("--quiet", "reproduce", "gavel", *files, "--json").stdout)["cells"]) == 7
    refused = run("reproduce", "gavel", "--data", str(tmp_path / "jobs.trace"))
    assert refused.exit_code == 2
    assert "--throughputs: must be a JSON file" in refused.output
