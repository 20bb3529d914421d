"""The studies behind the documentation's figures run, and say what is quoted."""

import numpy as np
import pytest

from hybrid_scheduler.experiments import price_study, stability, tune_prices
from hybrid_scheduler.kernels import PRICE_COEFFICIENTS


@pytest.mark.parametrize(
    ("strategy", "quoted"), [("round_robin", 0.15), ("greedy", 0.19), ("random", 0.22), ("gpu_only", 0.81)]
)
def test_stability_limits_are_those_quoted(strategy, quoted):
    assert stability.stability_limit("mixed", strategy) == pytest.approx(quoted, abs=0.01)


def test_a_strategy_is_stable_below_its_limit_and_not_above():
    from hybrid_scheduler import Cluster, create
    from hybrid_scheduler.workload.scenarios import generate, scenario_named

    limit = stability.stability_limit("mixed", "round_robin")
    for load, grows in ((0.7 * limit, False), (1.5 * limit, True)):
        workload = generate(scenario_named("mixed"), 40_000, 1, utilisation=load)
        latency = Cluster().run(workload, create("round_robin")).outcomes.latency
        first, last = latency[:10_000].mean(), latency[-10_000:].mean()
        assert (last > 2 * first) == grows


def test_price_study_row():
    row = price_study.ratios("mixed", 0.9, 1000, 1000)
    assert row.shape == (len(price_study.COLUMNS),)
    assert (row[3:] >= 1).all()


def test_evolution_improves_on_a_bad_start(monkeypatch, capsys):
    monkeypatch.setattr(tune_prices, "CASES", (("mixed", 0.9, 500),))
    monkeypatch.setattr(tune_prices, "START", (5.0, 0.01, 0.001, 0.3, 0.3, 1.0, 1.0))
    cases = tune_prices.make_cases(range(1))
    before = tune_prices.loss(np.array(tune_prices.START), cases)
    best, after = tune_prices.evolve(cases, population=8, generations=4, seed=0)
    assert after < before
    assert after == tune_prices.loss(best, cases)
    assert "generation   4" in capsys.readouterr().out


def test_the_shipped_coefficients_beat_earliest_finish_on_the_tuning_cases(monkeypatch):
    monkeypatch.setattr(tune_prices, "CASES", (("mixed", 0.95, 2000), ("mixed", None, 1000)))
    assert tune_prices.loss(np.array(PRICE_COEFFICIENTS), tune_prices.make_cases(range(2))) < 0
