"""Search for the case in which one scheduler does worst against another."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hybrid_scheduler import InvalidInputError
from hybrid_scheduler.cli.app import app
from hybrid_scheduler.experiments.paired_comparison import run_seeds
from hybrid_scheduler.experiments.spec import ExperimentSpec
from hybrid_scheduler.workload.scenarios import SCENARIOS, scenario_named
from studies import worst_case_search
from studies.worst_case_search import DIMENSIONS, case_at, find_worst, main, ordinary_cases


def make_spec(*schedulers, tasks=80):
    return ExperimentSpec(scenario_named("mixed"), tasks, schedulers)


@pytest.mark.slow
def test_search_finds_the_same_bad_workload_with_any_number_of_processes(monkeypatch):
    """At one load per scenario. `test_paired_comparison.py` runs the seeds that confirm it in several processes."""
    monkeypatch.setattr(worst_case_search, "ORDINARY_LOADS", (0.3,))
    monkeypatch.setattr(
        worst_case_search, "run_seeds", lambda spec, seeds, **_: run_seeds(spec, seeds, processes=1)
    )
    spec = make_spec("greedy", "oracle", tasks=30)
    found, again = (
        find_worst(spec, evaluations=4, confirmation_seeds=2, processes=processes) for processes in (1, 2)
    )
    assert found.spec == again.spec
    assert found.ratio == again.ratio
    assert found.evaluations == 4 + len(list(ordinary_cases(spec)))
    assert found.ratio.mean > 2
    assert [run.seed for run in found.paired.runs] == [3000, 3001]  # not those of the search


def test_search_is_at_least_as_bad_as_every_ordinary_scenario():
    spec = make_spec("price_index", "earliest_finish")
    found = find_worst(spec, evaluations=1, confirmation_seeds=2)
    mixed = next(one for _, one in ordinary_cases(spec) if (one.name, one.load) == ("mixed", 0.3))
    latencies = [run.metrics for run in run_seeds(mixed, range(1000, 1003), processes=1)]
    usual = [seen["price_index"]["mean_latency"] / seen["earliest_finish"]["mean_latency"] for seen in latencies]
    assert found.searched_ratio >= np.exp(np.log(usual).mean()) - 1e-12
    assert {one.name for _, one in ordinary_cases(spec)} == set(SCENARIOS)


def test_every_point_gives_a_workload():
    rng = np.random.default_rng(0)
    machines, kinds, noisy = set(), set(), 0
    for point in (np.zeros(DIMENSIONS), np.ones(DIMENSIONS), *rng.random((14, DIMENSIONS))):
        found = case_at(make_spec("greedy", "oracle"), point)
        assert len(found.workload(1)) == 80
        assert ExperimentSpec.from_json(found.as_json()).scenario == found.scenario
        machines.add((found.machine.platform.name, found.machine.physics.name))
        kinds.add(found.required_scenario.kinds)
        noisy += found.machine.noise.sigma > 0
    assert len(machines) > 3
    assert len(kinds) > 3
    assert noisy > 2


def test_machine_stays_where_it_is_not_varied():
    spec = make_spec("greedy", "oracle")
    assert case_at(spec, np.ones(DIMENSIONS), vary_machine=False).machine == spec.machine


def test_search_refuses_bad_arguments():
    with pytest.raises(InvalidInputError, match="two schedulers"):
        find_worst(make_spec("greedy"))
    with pytest.raises(InvalidInputError, match="at least 2, for an interval"):
        find_worst(make_spec("greedy", "oracle"), confirmation_seeds=1)
    with pytest.raises(InvalidInputError, match="evaluations"):
        find_worst(make_spec("greedy", "oracle"), evaluations=0)


def test_found_case_is_written_and_can_be_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "worst"
    sizes = ("--tasks", "40", "--evaluations", "4", "--seeds", "2", "--processes", "1")
    main(["greedy:oracle", *sizes, "--out", str(folder)])
    found = json.loads((folder / "adversary.json").read_text(encoding="utf-8"))
    assert found["schedulers"] == ["greedy", "oracle"]
    assert found["ratio"][1] <= found["ratio"][0] <= found["ratio"][2]
    assert capsys.readouterr().out.startswith("greedy has ")
    assert CliRunner().invoke(app, ["replay", str(folder), "--processes", "1"]).exit_code == 0
    with pytest.raises(InvalidInputError, match="--out: must be a new or empty folder"):
        main(["greedy:oracle", "--out", str(folder)])
