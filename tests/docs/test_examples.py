"""Example programs: each runs and prints output."""

import runpy
import sys
from pathlib import Path

import pytest

from hybrid_scheduler.schedulers import schedulers, unregister

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
LONG = "measure_schedulers.py"
#: Loaded with --plugin, executed by the tests of the README.
PLUGINS = ("my_scheduler.py", "score_policy.py")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = set(schedulers())
    yield
    for name in set(schedulers()) - before:
        unregister(name)


@pytest.mark.parametrize("example", sorted(p.name for p in EXAMPLES.glob("*.py") if p.name not in (LONG, *PLUGINS)))
def test_example_runs_and_prints_lines(example, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [example])
    runpy.run_path(str(EXAMPLES / example), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 3


def test_scheduler_measurement_runs_with_few_tasks(capsys):
    module = runpy.run_path(str(EXAMPLES / LONG))
    cases = module["CASES"]
    for case in set(cases) - {"batch", "cholesky"}:
        del cases[case]
    document = module["measure"](2, 60, lambda words: None)
    measured = document["cases"]["batch"]["schedulers"]
    assert set(measured) == set(schedulers())
    assert measured["earliest_finish"]["mean_latency_ratio"] == [1.0, 0.0]
    assert measured["cpu_only"]["makespan_over_bound"][0] > measured["fluid_plan"]["makespan_over_bound"][0]
    assert document["cases"]["cholesky"]["schedulers"]["heft"]["mean_latency"][1] is None


def test_every_example_is_listed():
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [p.name for p in EXAMPLES.glob("*.py") if f"`{p.name}`" not in listed] == []
