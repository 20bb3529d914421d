"""Training of the agent's policy: cells, imitation, and what training takes as input."""

import numpy as np
import pytest

from hybrid_scheduler import AnalyticPhysics, workstation
from hybrid_scheduler.compiled.regime import FEATURES, MULTIPLIED
from hybrid_scheduler.learning.agent.policy import Policy
from hybrid_scheduler.learning.agent.random_cells import TASKS, KindPhysics, cell_of, draw_cell
from hybrid_scheduler.learning.agent.training import (
    CHECK,
    SHIFTS,
    SHRINK,
    TRAINING,
    TuningBudget,
    imitate,
    ratios,
    train_policy,
    tune_cell,
)
from hybrid_scheduler.schedulers.rl_agent import KnownAgent
from hybrid_scheduler.workload.scenarios import offered_load, scenario_named

TINY = TuningBudget(seeds=1, candidates=4, rounds=2)


def test_cells_are_reproducible_and_differ():
    drawn = [draw_cell(TRAINING, number) for number in range(40)]
    assert [cell.rate for cell in drawn] == [draw_cell(TRAINING, number).rate for number in range(40)]
    assert drawn[0].platform != draw_cell(CHECK, 0).platform
    counts = {len(cell.platform) - 1 for cell in drawn}
    assert min(counts) <= 2
    assert max(counts) >= 14
    assert all(0.3 <= cell.load <= 0.975 for cell in drawn)
    assert any(isinstance(cell.physics, KindPhysics) for cell in drawn)
    assert {cell.scenario.arrivals for cell in drawn} >= {"poisson", "bursty"}


def test_tasks_of_a_cell_offer_its_load():
    cell = cell_of(workstation(), AnalyticPhysics(), scenario_named("mixed"), 0.8)
    tasks = cell.workload(3)
    assert len(tasks) == TASKS
    assert offered_load(tasks, cell.platform, cell.physics) == pytest.approx(0.8, rel=0.1)


def test_ratio_of_a_policy_of_zeros_is_one():
    cell = draw_cell(CHECK, 2)
    found = ratios(KnownAgent, cell, [1], [Policy.zeros().numbers, None])  # type: ignore[list-item]
    assert found.shape == (2, 3)
    assert np.abs(found).max() == 0.0


def test_imitation_recovers_a_linear_map():
    rng = np.random.default_rng(4)
    features = rng.normal(size=(3000, len(FEATURES)))
    weights = 0.2 * rng.normal(size=(MULTIPLIED, len(FEATURES)))
    policy = imitate(features, features @ weights.T + 0.1)
    assert policy.linear[:, 1:] / policy.deviation == pytest.approx(SHRINK * weights, abs=0.02)
    constants = SHRINK * (features.mean(axis=0) @ weights.T + 0.1)
    constants[list(SHIFTS)] += list(SHIFTS.values())
    assert policy.linear[:, 0] == pytest.approx(constants, abs=0.02)


def test_tuned_cell_has_features_and_limited_logarithms():
    features, logs = tune_cell(KnownAgent, draw_cell(TRAINING, 1), 1, TINY)
    assert features.shape == (len(FEATURES),)
    assert logs.shape == (MULTIPLIED,)
    assert np.abs(logs).max() <= 1.5
    assert np.abs(logs).max() > 0.0


def test_training_is_reproducible_and_stops_in_time():
    shares: list[float] = []
    first, count = train_policy(KnownAgent, 2, 1, budget=TINY, progress=shares.append)
    assert (count, shares) == (2, [0.5, 1.0])
    again, _ = train_policy(KnownAgent, 2, 1, budget=TINY)
    assert np.array_equal(first.numbers, again.numbers)
    _, least = train_policy(KnownAgent, 5, 1, budget=TINY, minutes=1e-9)
    assert least == 1


def test_training_on_one_machine_lowers_its_latency_on_the_tasks_of_training():
    cell = cell_of(workstation(), AnalyticPhysics(), scenario_named("pareto"), 0.9)
    policy, _ = train_policy(KnownAgent, [cell], budget=TuningBudget(seeds=2, candidates=8, rounds=8))
    assert ratios(KnownAgent, cell, [0, 1], [policy.numbers])[0, 0] < -0.02
