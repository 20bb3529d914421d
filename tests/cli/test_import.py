"""`hybrid-scheduler import`: a foreign trace becomes one that `simulate --trace` knows by name."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
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
    Path("jobs.swf").write_text((TRACES / "jobs.swf").read_text().replace("3 30 0 0", "3 30 0 -1"))
    result = run("import", "jobs.swf")
    assert result.exit_code == 2
    assert "jobs.swf, line 7: field 4, run time: must be >= 0" in result.stderr
    assert "--skip-bad" in result.stderr
    assert not Path("data").exists()
    result = run("import", "jobs.swf", "--skip-bad")
    assert result.exit_code == 0
    assert "3 of 4 tasks kept as data/workload_traces/jobs.csv" in result.stdout
    assert "line 7: field 4, run time must be >= 0: the job ran, got '-1'" in result.stdout


def test_used_or_unsafe_name_is_refused(run: Run) -> None:
    trace = str(TRACES / "gavel_small.trace")
    assert run("import", trace, "--name", "x").exit_code == 0
    assert "must be one that is not taken" in run("import", trace, "--name", "x").stderr
    assert run("import", trace, "--name", "x", "--force").exit_code == 0
    for name in ("../x", "a/b", ".x"):
        result = run("import", trace, "--name", name)
        assert result.exit_code == 2
        assert "--name: must be a bare name, without folders" in result.stderr


def test_overload_is_printed_with_its_figure_and_can_be_rescaled(run: Run) -> None:
    pods = ("import", str(TRACES / "alibaba_pods.csv"), "--skip-bad", "--name")
    plain = run(*pods, "pods")
    assert "times the capacity of workstation" in plain.stdout
    assert "pods asks for " in plain.stderr
    rescaled = run(*pods, "calm", "--load", "0.6", "--json")
    assert json.loads(rescaled.stdout)["offered_load"] == pytest.approx(0.6)
    assert run(*pods, "wrong", "--load", "0").exit_code == 2
    assert not Path("data/workload_traces/wrong.csv").exists()


def test_both_sums_of_parallel_jobs_are_printed(run: Run) -> None:
    result = run("import", str(TRACES / "jobs.swf"))
    assert "480 processor seconds in the file, 480 in the trace, from 170 s of run time" in result.stdout


def test_compressed_trace_gets_the_bare_name(run: Run) -> None:
    Path("jobs.swf.gz").write_bytes(gzip.compress((TRACES / "jobs.swf").read_bytes()))
    assert run("import", "jobs.swf.gz").exit_code == 0
    assert Path("data/workload_traces/jobs.csv").exists()


OWN = """Job ID,Submit Time,Start,End,Req Mem MB
a,2024-01-01 00:00:00,2024-01-01 00:00:10,2024-01-01 00:01:10,200
b,2024-01-01 00:05:00,2024-01-01 00:05:10,2024-01-01 00:06:00,100
c,2024-01-01 00:07:00,,,1
"""


def test_columns_of_another_table_are_guessed(run: Run) -> None:
    Path("own.csv").write_text(OWN)
    result = run("import", "own.csv", "--skip-bad", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert (document["format"], document["rows_kept"], document["ignored_columns"]) == (None, 2, ["Job ID"])
    assert document["mapping"] == {
        "arrival_time": "Submit Time", "seconds": "End - Start", "memory_required": "Req Mem MB",
        "compute_intensity": "0.5 for all",
    }  # fmt: skip
    assert document["rejected"] == [
        {"line": 4, "field": "End", "allowed": "finite and >= 0, as seconds", "got": " - "}
    ]


def test_given_sources_replace_guesses(run: Run) -> None:
    Path("own.csv").write_text(OWN)
    mapped = ("--map", "size=Req Mem MB * 2", "--map", "memory_required=7")
    result = run("import", "own.csv", *mapped, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["mapping"] == {
        "arrival_time": "Submit Time", "size": "Req Mem MB times 2", "memory_required": "7.0 for all",
        "compute_intensity": "0.5 for all",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--map seconds", "--map: must be VALUE=SOURCE, such as seconds=run_time, got 'seconds'"),
        (
            "--map second=End",
            "--map: must be one of arrival_time, compute_intensity, memory_required, seconds, size",
        ),
        ("--map seconds=Ende", "hint: did you mean 'End'?"),
        ("--map seconds=End --format swf", "--map: must be left out with --format"),
        ("--load much", "--load: must be a number > 0, got 'much'"),
    ],
)
def test_wrong_mapping_is_named(arguments: str, message: str, run: Run) -> None:
    Path("own.csv").write_text(OWN)
    result = run("import", "own.csv", *arguments.split())
    assert result.exit_code == 2
    assert message in result.stderr
    assert not Path("data").exists()
