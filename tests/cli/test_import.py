"""`hybrid-scheduler import`: a foreign trace becomes one that `simulate --trace` knows by name."""

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

Run = Callable[..., Result]

TRACES = Path(__file__).parents[1] / "workload" / "foreign_traces"


def test_imported_trace_can_be_simulated(run: Run) -> None:
    result = run("import", str(TRACES / "azure_llm.csv"), "--name", "requests", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["format"] == "azure"
    assert document["rows_kept"] == 100
    again = run("simulate", "--trace", "requests", "--schedulers", "greedy,oracle", "--json")
    assert json.loads(again.stdout)["tasks"] == 100


def test_bad_row_rejects_the_file(run: Run) -> None:
    result = run("import", str(TRACES / "jobs.swf"))
    assert result.exit_code == 2
    assert "jobs.swf, line 7: run time: must be > 0" in result.stderr
    assert not Path("data").exists()
    result = run("import", str(TRACES / "jobs.swf"), "--skip-bad")
    assert result.exit_code == 0
    assert "3 of 4 tasks kept as data/workload_traces/jobs.csv" in result.stdout
    assert "line 7: run time must be > 0: the job ran, got '0'" in result.stdout


def test_used_or_unsafe_name_is_refused(run: Run) -> None:
    trace = str(TRACES / "gavel_small.trace")
    assert run("import", trace, "--name", "x").exit_code == 0
    assert "must be one that is not taken" in run("import", trace, "--name", "x").stderr
    assert run("import", trace, "--name", "x", "--force").exit_code == 0
    for name in ("../x", "a/b", ".x"):
        result = run("import", trace, "--name", name)
        assert result.exit_code == 2
        assert "--name: must be a bare name, without folders" in result.stderr
