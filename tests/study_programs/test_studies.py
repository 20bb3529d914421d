"""Small runs of the studies behind the documented figures, and the quoted numbers."""

import numpy as np
import pytest

from hybrid_scheduler import AnalyticPhysics, InvalidInputError, create, workstation
from hybrid_scheduler.compiled import PRICE_COEFFICIENTS
from hybrid_scheduler.engine.stability import stability_limit
from hybrid_scheduler.experiments import distribution_shift
from hybrid_scheduler.schedulers import schedulers
from hybrid_scheduler.workload.argument_checks import parse_spec
from hybrid_scheduler.workload.scenarios import generate, scenario_named
from studies import (
    default_run,
    false_alarms,
    forest_noise,
    learned_quality,
    price_study,
    published_claims,
    time_energy_pareto,
    tune_prices,
)
from studies.stability_limits import TASKS


def limit_on_mixed(spec):
    return stability_limit(spec, scenario_named("mixed"), workstation(), AnalyticPhysics(), tasks=TASKS)


@pytest.mark.parametrize(
    ("strategy", "quoted"), [("round_robin", 0.15), ("greedy", 0.19), ("random", 0.22), ("gpu_only", 0.81)]
)
def test_stability_limits_equal_the_quoted_ones(strategy, quoted):
    assert limit_on_mixed(strategy) == pytest.approx(quoted, abs=0.01)


def test_queues_are_stable_below_the_limit_and_grow_above():
    from hybrid_scheduler import Cluster

    limit = limit_on_mixed("round_robin")
    for load, grows in ((0.7 * limit, False), (1.5 * limit, True)):
        workload = generate(scenario_named("mixed"), 40_000, 1, utilisation=load)
        latency = Cluster().run(workload, create("round_robin")).outcomes.latency
        first, last = latency[:10_000].mean(), latency[-10_000:].mean()
        assert (last > 2 * first) == grows


def test_price_study_row_has_all_columns():
    row = price_study.ratios("mixed", 0.9, 1000, 1000)
    assert row.shape == (len(price_study.COLUMNS),)
    assert (row[3:] >= 1).all()


def test_tuning_improves_a_bad_start(monkeypatch, capsys):
    monkeypatch.setattr(tune_prices, "CASES", (("mixed", 0.9, 500),))
    monkeypatch.setattr(tune_prices, "START", (5.0, 0.01, 0.001, 0.3, 0.3, 1.0, 1.0))
    cases = tune_prices.make_cases(range(1))
    before = tune_prices.loss(np.array(tune_prices.START), cases)
    best, after = tune_prices.evolve(cases, population=8, generations=4, seed=0)
    assert after < before
    assert after == tune_prices.loss(best, cases)
    assert "generation   4" in capsys.readouterr().out


def test_shipped_coefficients_beat_earliest_finish(monkeypatch):
    monkeypatch.setattr(tune_prices, "CASES", (("mixed", 0.95, 2000), ("mixed", None, 1000)))
    assert tune_prices.loss(np.array(PRICE_COEFFICIENTS), tune_prices.make_cases(range(2))) < 0


def test_objective_trades_latency_for_energy():
    ends = [time_energy_pareto.figures(weight, 1000, 200) for weight in (0.0, 1.0)]
    for name in time_energy_pareto.SCHEDULERS:
        (fast, dear, _), (slow, cheap, on_cpu) = ends[0][name], ends[1][name]
        assert fast < slow
        assert cheap < dear
        assert 0.2 < on_cpu < 0.5


def test_hybrid_ml_comes_near_earliest_finish_that_knows_durations():
    """A small case of the quality study: one seed, with the models that ship."""
    mean, half = learned_quality.study(
        learned_quality.QualityCase("mixed", 0.7, 500, learned_quality.LEARNED), (1000, 1001)
    )["hybrid_ml"]
    assert mean[0] < 1.05
    assert mean[3] > 0.9
    assert half.shape == (len(learned_quality.COLUMNS),)


def test_after_a_shift_the_forest_trained_once_fails_and_learners_recover():
    runs = distribution_shift.shift_seed(1)
    rows = {row.name: row for row in distribution_shift.shift_rows([runs, runs])}
    assert list(rows) == ["optimal", *(parse_spec(spec)[0] for spec in distribution_shift.SPECS)]
    assert rows["frozen_forest"].ratio > 5
    assert rows["frozen_forest"].recovery_worst is None
    assert [rows[name].status for name in ("greedy", "frozen_forest", "random_forest")] == [
        "Baseline", "FAILED", "SUCCESS",
    ]  # fmt: skip
    for name in ("random_forest", "hybrid_ml"):
        assert runs[name].ratio < 5
        assert runs[name].recovery is not None
    assert runs["hybrid_ml"].ratio < 1.05
    assert published_claims.speedup_over_frozen([runs])[0] > 1
    with pytest.raises(InvalidInputError, match="seeds: must be at least 2, for an interval, got 1"):
        distribution_shift.shift_study(1)


def test_shift_study_runs_schedulers_of_the_registry():
    for spec in distribution_shift.SPECS:
        assert parse_spec(spec)[0] in schedulers()
    assert {*distribution_shift.PUBLISHED} <= {"optimal", *schedulers()}


def test_stationary_stream_raises_no_alarm(pytestconfig):
    tasks = 1500 if pytestconfig.getoption("--all") else 500
    alarms, cost = false_alarms.alarms_and_cost("mixed", 0.5, 0.1, tasks, 1000)
    assert alarms == 0
    assert cost < 1.02


def test_noisy_forest_predicts_exact_labels_better_than_noisy_ones():
    exact, noisy = (forest_noise.figures("times", sigma, 300, 1000) for sigma in forest_noise.SIGMAS)
    assert exact[0] == pytest.approx(exact[1])
    assert 0.85 < noisy[1] < noisy[0] < exact[0]
    assert 0 < exact[2] < noisy[2] < 10


def test_batch_is_placed_by_what_is_known_before_it():
    schedulers = ("greedy", "hybrid_ml")
    found = forest_noise.cold_batch(learned_quality.QualityCase("mixed", None, 200, schedulers), (1000, 1001))
    assert found["hybrid_ml"][0] < 0.5 * found["greedy"][0]


def test_learners_notice_the_slowdown_of_the_default_run_and_its_end():
    idle, found = default_run.figures(1)
    assert idle["round_robin"] > idle["hybrid_ml"] > 0.8
    for name in default_run.LEARNERS:
        slowdown, recovery, before, begin, end, after = found[name]
        assert 0 < slowdown < 3
        assert 0 < recovery < 3
        assert max(before, end, after) < 0.05 < begin
