"""Training of the agent's policy: cells, gradient, and what training takes as input."""

from dataclasses import replace

import numpy as np
import pytest

from hybrid_scheduler import AnalyticPhysics, workstation
from hybrid_scheduler.compiled.regime import FEATURES, MAX_FEATURE, MULTIPLIED
from hybrid_scheduler.learning.agent.policy import Policy
from hybrid_scheduler.learning.agent.random_cells import (
    CHECK,
    SELECTION,
    TASKS,
    TRAINING,
    KindPhysics,
    cell_of,
    draw_cell,
)
from hybrid_scheduler.learning.agent.training import (
    PolicyTraining,
    TrainingBudget,
    Trial,
    ratios,
    train_policy,
    try_shifts,
)
from hybrid_scheduler.schedulers.rl_agent import KnownAgent
from hybrid_scheduler.workload.scenarios import offered_load, scenario_named

TINY = TrainingBudget(steps=2, cells=2, seeds=1)


def test_cells_are_reproducible_and_differ():
    drawn = [draw_cell(TRAINING, number) for number in range(40)]
    assert [cell.rate for cell in drawn] == [draw_cell(TRAINING, number).rate for number in range(40)]
    platforms = [draw_cell(part, 0).platform for part in (TRAINING, SELECTION, CHECK)]
    assert platforms[0] != platforms[1] != platforms[2]
    counts = {len(cell.platform) - 1 for cell in drawn}
    assert min(counts) <= 2
    assert max(counts) >= 14
    assert all(0.1 <= cell.load <= 0.975 for cell in drawn)
    assert any(isinstance(cell.physics, KindPhysics) for cell in drawn)
    assert {cell.scenario.arrivals for cell in drawn} >= {"poisson", "bursty", "diurnal"}


def test_tasks_of_a_cell_offer_its_load():
    cell = cell_of(workstation(), AnalyticPhysics(), scenario_named("mixed"), 0.8)
    tasks = cell.workload(3)
    assert len(tasks) == TASKS
    assert offered_load(tasks, cell.platform, cell.physics) == pytest.approx(0.8, rel=0.1)


def test_ratio_of_a_policy_of_zeros_is_one():
    cell = draw_cell(CHECK, 2)
    found = ratios(KnownAgent, cell, [1, 2], [Policy.zeros().numbers, None])  # type: ignore[list-item]
    assert found.shape == (2, 2, 3)
    assert np.abs(found).max() == 0.0


def test_inputs_are_standardised_and_limited():
    policy = replace(Policy.zeros(), mean=np.full(len(FEATURES), 1.0), deviation=np.full(len(FEATURES), 2.0))
    inputs = policy.inputs(np.array([np.full(len(FEATURES), 2.0), np.full(len(FEATURES), 99.0)]))
    assert inputs[0].tolist() == [1.0, *[0.5] * len(FEATURES)]
    assert inputs[1].tolist() == [1.0, *[MAX_FEATURE] * len(FEATURES)]


def made_trials(policy, best, rng, count=64):
    """Return trials of a made-up latency that is least at these logarithms, whose tail is always longer."""
    trials = []
    for _ in range(count):
        features = rng.standard_normal(len(FEATURES))
        logs = policy.linear @ policy.inputs(features[None])[0]
        shifts = 0.15 * rng.standard_normal((2, MULTIPLIED))
        slopes = np.zeros((2, 3))
        slopes[:, 0] = shifts @ (logs - best) / 0.15**2
        trials.append(Trial(features, shifts, slopes, np.array([0.0, 0.1, 0.1])))
    return trials


def test_steps_lead_to_the_best_logarithms_and_raise_the_weight_of_long_tails():
    rng = np.random.default_rng(4)
    best = 0.3 * rng.standard_normal(MULTIPLIED)
    training = PolicyTraining(Policy.zeros(), np.zeros(64, bool))
    begun = training.tail_weights.copy()
    for step in range(200):
        training.step(np.arange(64), made_trials(training.policy, best, rng), 0.03 * (1 - step / 200))
    assert training.policy.linear[:, 0] == pytest.approx(best, abs=0.05)
    assert (training.tail_weights[0] > begun[0] + 1.0).all()
    assert (training.tail_weights[1] == begun[1]).all()


def test_cells_that_are_worse_than_the_rule_weigh_more():
    training = PolicyTraining(Policy.zeros(), np.zeros(4, bool))
    trials = made_trials(training.policy, np.zeros(MULTIPLIED), np.random.default_rng(1), 4)
    trials[0] = replace(trials[0], level=np.array([0.05, 0.0, 0.0]))
    before = training.cell_weights[0]
    training.step(np.arange(4), trials, 0.0)
    weights = training._weights_of(np.arange(4), np.zeros((4, 3)))[:, 0]
    assert weights[0] > weights[1] + 0.5 * before
    assert training.cell_weights[0] > before


def test_trial_has_features_shifts_and_slopes():
    trial = try_shifts(KnownAgent, Policy.zeros(), TINY, (draw_cell(TRAINING, 1), 1))
    assert trial.features.shape == (len(FEATURES),)
    assert trial.shifts.shape == (1, MULTIPLIED)
    assert trial.slopes.shape == (1, 3)
    assert np.abs(trial.slopes).max() > 0.0


def test_training_is_reproducible_and_stops_in_time():
    shares: list[float] = []
    curve: list[list[float]] = []
    first, count = train_policy(KnownAgent, 2, 1, budget=TINY, progress=shares.append, curve=curve)
    assert (count, shares, len(curve)) == (2, [0.5, 1.0], 2)
    again, _ = train_policy(KnownAgent, 2, 1, budget=TINY)
    assert np.array_equal(first.numbers, again.numbers)
    shares.clear()
    train_policy(KnownAgent, 2, 1, budget=TINY, minutes=1e-9, progress=shares.append)
    assert shares == [1.0]


def test_training_on_one_machine_lowers_its_latency():
    cell = cell_of(workstation(), AnalyticPhysics(), scenario_named("pareto"), 0.9)
    policy, _ = train_policy(KnownAgent, [cell], budget=TrainingBudget(60, 1, 4))
    assert ratios(KnownAgent, cell, range(8), [policy.numbers]).mean(axis=0)[0, 0] < -0.01
