"""Score of policies: ratios to the lower bound, disqualification, worst cases and sealed seeds."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hybrid_scheduler.cli.app import app
from hybrid_scheduler.cluster import Machine
from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.experiments import policy_score
from hybrid_scheduler.experiments.policy_sandbox import PolicySandbox
from hybrid_scheduler.experiments.policy_score import ScoreCase, ScoreSet, built_in, score_policy, sealed_seeds
from hybrid_scheduler.workload import load_workload

SMALL = (ScoreCase("mixed", 0.7, tasks=60), ScoreCase("mixed", 0.9, "laptop", tasks=60))
GPU = "def decide(task, view): return 1 + int(view.free_at[1:].argmin()), 1.0"
posix = pytest.mark.skipif(sys.platform == "win32", reason="policies are scored on Linux and macOS")


def test_score_is_the_geometric_mean_of_bound_over_mean_latency() -> None:
    chosen = ScoreSet([1000, 1001], SMALL)
    found = chosen.score("earliest_finish", built_in("earliest_finish"))
    assert [run.seed for run in found.runs] == [1000, 1000, 1001, 1001]
    by_seed = [np.sqrt(a.score * b.score) for a, b in (found.runs[:2], found.runs[2:])]
    assert found.interval.mean == pytest.approx(np.mean(by_seed))
    assert found.interval.low < found.interval.mean < found.interval.high
    assert all(0.0 < run.score <= 1.0 for run in found.runs)
    assert found.figures()["mean_over_earliest_finish"] == pytest.approx(1.0)
    assert dict(found.by_case()).keys() == {"mixed at 0.7", "mixed at 0.9, laptop"}


@posix
def test_disqualified_policy_scores_zero_and_the_next_one_is_scored() -> None:
    chosen = ScoreSet([1000], SMALL)
    with PolicySandbox() as sandbox:
        bad = score_policy("bad", "def decide(task, view): return 1, 2.0", chosen, sandbox)
        good = score_policy("good", GPU, chosen, sandbox, show_worst=False)
    document = bad.as_dict()
    assert document["combined_score"] == 0.0
    assert document["artifacts"]["disqualified"].startswith("mixed at 0.7, at task 0: fraction must be in [0, 1]")
    assert good.disqualified is None
    assert 0.0 < good.interval.mean < 1.0


def test_worst_case_is_a_small_trace_with_the_stated_ratio(tmp_path: Path) -> None:
    chosen = ScoreSet([1000], SMALL[:1])
    found = chosen.score("cpu_only", built_in("cpu_only"), show_worst=True)
    (worst,) = found.worst
    file = tmp_path / "worst.csv"
    file.write_text(worst.trace, encoding="utf-8")
    workload = load_workload(file)
    assert len(workload) == worst.tasks <= 60
    mine, other = (built_in(name)(Machine(), workload).mean() for name in ("cpu_only", worst.reference))
    assert mine / other == pytest.approx(worst.ratio)


@pytest.mark.parametrize(
    "content", ["", "[]", "[3000]", "[1, 1]", "[1, -1]", "[1, 2.5]", '{"seed": [1, 2]}', "[1, true]"]
)
def test_sealed_file_without_seeds_is_refused_without_repeating_it(tmp_path: Path, content: str) -> None:
    file = tmp_path / "sealed.json"
    file.write_text(content)
    with pytest.raises(InvalidInputError, match=r"path: must be a JSON file .*, got '/"):
        sealed_seeds(file)


@posix
def test_command_scores_files_and_exits_with_1_if_one_is_disqualified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small: Callable[[Any], ScoreSet] = lambda seeds: ScoreSet(seeds, SMALL)  # noqa: E731
    monkeypatch.setattr(policy_score, "ScoreSet", small)
    Path("good.py").write_text(GPU)
    Path("bad.py").write_text("1 / 0")
    Path("sealed.json").write_text('{"seeds": [77001, 77002]}')

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ("score", *arguments), prog_name="hybrid-scheduler")

    result = run("good.py", "bad.py", "--seeds", "2", "--out", "worst")
    assert result.exit_code == 1
    assert "bad: disqualified, mixed at 0.7, before the first task: ZeroDivisionError" in result.stdout
    assert "good: score 0." in result.stdout
    assert re.search(r"first result: good.py has \d\.\d+ on .*, after \d+\.\d s of CPU time", result.stderr)
    assert sorted(path.name for path in Path("worst").iterdir()) == ["good-1.csv", "good-2.csv"]
    document = json.loads(run("good.py", "--sealed", "sealed.json", "--json").stdout)
    assert document["metrics"]["combined_score"] == document["combined_score"] > 0.0
    assert all(type(value) is float for value in document["metrics"].values())
    assert document["artifacts"]["worst_cases"] == []
    assert "7700" not in json.dumps(document)
    assert run("missing.py").exit_code == 2
    Path("rude.py").write_text("raise Exception('[/x] [red]\\x1b[2J\\x1b]0;owned\\x07')")
    result = run("rude.py", "good.py", "--seeds", "1")
    assert result.exit_code == 1
    assert "Exception: [/x] [red]␛[2J␛]0;owned␇" in result.stdout
    assert "good: score 0." in result.stdout
