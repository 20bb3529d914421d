"""The duration regression equals a dense Bayesian solve, stays a valid posterior and learns noise and changes."""

import numpy as np
import pytest

from hybrid_scheduler import Device, Platform, workstation
from hybrid_scheduler.compiled import DEVICE
from hybrid_scheduler.core import cpu
from hybrid_scheduler.learning.duration.compiled_learner import (
    add_kind_entry,
    compiled_entry,
    learn_one,
    predict_table,
)
from hybrid_scheduler.learning.duration.hierarchical_regression import condition
from hybrid_scheduler.learning.duration.learned_placement import EndedParts, LearnedTask
from hybrid_scheduler.learning.duration.learner_state import (
    MEASURED_FIT,
    RECENT,
    kind_capacity,
    new_state,
    resize_model,
)
from hybrid_scheduler.learning.duration.model import BOTH_SIDES, CPU_SIDE

#: The device of each class: its number is that of the class, and class 0 is the CPU.
DEVICES = np.zeros(3, DEVICE)
DEVICES["column"] = range(3)


def add_kind(state):
    return compiled_entry(add_kind_entry)(state)


def learn(state, size, intensity, memory, c, kind, seconds):
    """Learn from a whole task on a device of class `c`; return whether it revealed a change."""
    task = LearnedTask(float(size), intensity, memory, kind, True)
    share, on_cpu, on_gpu = (0.0, float(seconds), 0.0) if c == 0 else (1.0, 0.0, float(seconds))
    return compiled_entry(learn_one)(state, task, EndedParts(c, share, on_cpu, on_gpu, BOTH_SIDES), DEVICES)


def prediction(state, size, intensity, memory, c, kind):
    """Return mean and variance of the logarithm of the seconds."""
    out = np.empty((1, c + 1, 2))
    task = (np.array([value]) for value in (size, intensity, memory))
    compiled_entry(predict_table)(state, *task, np.array([kind]), out)
    mean, deviation = out[0, c]
    return mean, deviation**2


def learn_cpu(state, sizes, seconds, share=1.0):
    """Learn from shares of tasks on the CPU; their seconds follow from the size."""
    for size in sizes:
        task = LearnedTask(float(size), 0.5, 50.0, 0, True)
        ended = EndedParts(1, float(1.0 - share), float(seconds(size)), 0.0, CPU_SIDE)
        compiled_entry(learn_one)(state, task, ended, DEVICES)


def cliff(size):
    """Return seconds that are five times longer above a size."""
    return 1e-6 * size**1.5 * (5.0 if size > 2500 else 1.0)


def condition_on(state, index, value, innovation, noise):
    """Condition on one observation, in plain Python: compiling it takes seconds."""
    state.coordinate[: len(index)] = index
    state.value[: len(value)] = value
    records = np.dtype((np.record, state.layout.dtype))
    condition.py_func(state._replace(layout=state.layout.view(records)), len(index), innovation, noise)


@pytest.fixture
def platform():
    gpus = [Device(f"gpu_{i}", speedup_slope=slope) for i, slope in enumerate((1.0, 3.0))]
    return Platform("three classes", (cpu(), *gpus))


def started(platform, kinds=1, local=None):
    state = new_state(platform, kinds, local=local)
    for _ in range(kinds):
        add_kind(state)
    return state


def test_rank_one_updates_equal_a_dense_bayesian_solve(platform):
    """Posterior of a linear model: precision = prior precision + X'X / noise."""
    state = started(platform)
    rng = np.random.default_rng(1)
    size, noise, count = len(state.weights), 0.04, 12
    prior_mean, prior = state.weights.copy(), state.covariance.copy()
    design, target = np.zeros((count, size)), rng.normal(size=count)
    for row in range(count):
        index = rng.choice(size, 5, replace=False)
        design[row, index] = rng.normal(size=5)
        innovation = target[row] - design[row] @ state.weights
        condition_on(state, index, design[row, index], innovation, noise)
    covariance = np.linalg.inv(np.linalg.inv(prior) + design.T @ design / noise)
    mean = covariance @ (np.linalg.solve(prior, prior_mean) + design.T @ target / noise)
    np.testing.assert_allclose(state.covariance, covariance, atol=1e-8)
    np.testing.assert_allclose(state.weights, mean, atol=1e-8)


def test_one_outcome_by_hand():
    """At the centre of the features only the constants count: one per level, on a machine with a CPU alone."""
    state = started(workstation(0))
    size, memory = float(np.exp(7.0)), float(np.exp(5.0) - 1.0)
    before, variance = prediction(state, size, 0.5, memory, 0, 0)
    # Constants: 8² of all devices, 1² + 0.8² of the CPU, and a first kind with 0.3 times 0.7, 1.2 and 0.54.
    assert before == pytest.approx(-2.0 + 0.3)
    assert variance == pytest.approx(64.0 + 1.0 + 0.64 + 0.09 * (0.49 + 1.44 + 0.54**2))
    noise = state.stats["noise"][0]
    learn(state, size, 0.5, memory, 0, 0, 1.0)
    after, left = prediction(state, size, 0.5, memory, 0, 0)
    assert after == pytest.approx(before * noise / (variance + noise))
    assert left == pytest.approx(variance * noise / (variance + noise), abs=1e-6)


def test_variance_is_never_negative_and_the_covariance_stays_symmetric(platform):
    state = started(platform, 2)
    rng = np.random.default_rng(2)
    for _ in range(3000):
        size, intensity, memory = rng.uniform(1, 6000), rng.random(), rng.uniform(0, 5000)
        learn(state, size, intensity, memory, int(rng.integers(3)), int(rng.integers(2)), 1e-6 * size**1.5)
    assert np.isfinite(state.weights).all()
    assert np.linalg.eigvalsh(state.covariance).min() > -1e-8
    np.testing.assert_allclose(state.covariance, state.covariance.T, atol=1e-9)
    for _ in range(200):
        c, kind = int(rng.integers(3)), int(rng.integers(2))
        mean, variance = prediction(state, rng.uniform(1, 1e6), rng.random(), rng.uniform(0, 1e5), c, kind)
        assert np.isfinite(mean)
        assert variance >= 0.0


def test_a_class_informs_its_siblings_more_than_the_cpu(platform):
    state = started(platform)
    before = [prediction(state, 1000.0, 0.5, 100.0, c, 0)[1] for c in range(3)]
    for _ in range(5):
        learn(state, 1000.0, 0.5, 100.0, 1, 0, 0.1)
    after = [prediction(state, 1000.0, 0.5, 100.0, c, 0)[1] for c in range(3)]
    assert after[1] < after[2] < after[0] < before[0]


@pytest.mark.parametrize(("spread", "narrower"), [(0.0, True), (8.0, False)], ids=["alike", "different"])
def test_uncertainty_of_a_new_kind_follows_the_errors_of_kinds_before_it(platform, spread, narrower):
    """Where kinds are alike a new one is believed at once; where they differ more than expected it is not."""
    rng, kinds = np.random.default_rng(5), 12
    state = started(platform, kinds)
    for kind in range(kinds - 1):
        for size in rng.uniform(500, 2000, 4):
            learn(state, size, 0.5, 0.0, 0, kind, 1e-6 * size**1.5 * np.exp(spread * (kind % 2)))
    _, variance = prediction(state, 1000.0, 0.5, 0.0, 0, kinds - 1)
    state.calibration[...] = 0
    assert (variance < prediction(state, 1000.0, 0.5, 0.0, 0, kinds - 1)[1]) == narrower


def test_slower_device_is_learned_with_its_slower_link_after_a_change():
    state = started(workstation())
    rng = np.random.default_rng(6)
    seconds = np.empty((700, 2))
    for i in range(700):
        size, memory = rng.uniform(100, 5000), rng.uniform(10, 500)
        true = (1e-6 * size**1.5 + 2.0 * state.link[1] * memory) * (3.0 if i >= 500 else 1.0)
        seconds[i] = prediction(state, size, 0.5, memory, 1, 0)[0], np.log(true)
        learn(state, size, 0.5, memory, 1, 0, true)
    error = np.abs(seconds[:, 0] - seconds[:, 1])
    assert error[400:500].mean() < 0.02
    assert error[600:].mean() < 0.05


def test_first_outcomes_lose_their_weight_when_durations_turn_out_to_be_noisy(platform):
    state, rng = new_state(platform), np.random.default_rng(3)
    add_kind(state)
    for k in range(250):
        log_seconds = 1.0 if k < 6 else rng.standard_normal()
        learn(state, 2000.0, 0.5, 50.0, 0, 0, np.exp(log_seconds))
    mean, variance = prediction(state, 2000.0, 0.5, 50.0, 0, 0)
    assert abs(mean) < 0.15
    assert 1.0 / 400 < variance < 1.0 / 50  # of about 250 outcomes with a variance of 1


def test_an_abrupt_change_is_detected_once_and_learned(platform):
    state = started(platform)
    rng = np.random.default_rng(4)
    alarms = []
    for i in range(400):
        size = rng.uniform(100, 5000)
        factor = 3.0 if i >= 200 else 1.0
        if learn(state, size, 0.5, 0.0, 1, 0, factor * 1e-6 * size**1.5):
            alarms.append(i)
    assert len(alarms) >= 1
    assert all(200 <= alarm <= 210 for alarm in alarms)
    mean, _ = prediction(state, 1000.0, 0.5, 0.0, 1, 0)
    assert mean == pytest.approx(np.log(3e-6 * 1000**1.5), abs=0.1)


def few_above_the_jump(rng):
    return rng.permutation(np.concatenate([rng.uniform(100, 2500, 34), rng.uniform(2500, 5000, 6)]))


def relative_errors(state, sizes, seconds):
    means = [prediction(state, size, 0.5, 50.0, 0, 0)[0] for size in sizes]
    return np.abs(np.exp(means) / [seconds(size) for size in sizes] - 1.0)


def test_durations_that_jump_at_a_size_are_predicted_after_few_outcomes_above_it(platform):
    """Six of forty outcomes lie above the jump; a smooth law is wrong by more than 40 %."""
    state, rng = started(platform), np.random.default_rng(7)
    learn_cpu(state, few_above_the_jump(rng), cliff)
    assert relative_errors(state, [500.0, 1000.0, 2200.0, 3000.0, 4000.0, 4900.0], cliff).max() < 0.2


def test_known_jump_stays_after_more_outcomes_below_it_than_are_remembered(platform):
    state, rng = started(platform), np.random.default_rng(8)
    learn_cpu(state, few_above_the_jump(rng), cliff)
    learn_cpu(state, rng.uniform(100, 2400, RECENT + 100), cliff)
    assert (np.exp(state.recent["log_size"][0]) < 2500).all()
    assert relative_errors(state, [500.0, 2000.0, 3000.0, 4900.0], cliff).max() < 0.2


def test_jump_that_has_gone_is_forgotten(platform):
    state, rng = started(platform), np.random.default_rng(9)
    learn_cpu(state, rng.uniform(100, 5000, 60), cliff)
    assert state.stats["jump"][0] > 1.0
    learn_cpu(state, rng.uniform(100, 5000, RECENT + 60), lambda size: 1e-6 * size**1.5)
    assert state.stats["jump"][0] == 0.0


def test_noise_and_costly_parts_are_no_jump(platform):
    noisy, split, rng = started(platform), started(platform), np.random.default_rng(10)
    learn_cpu(noisy, rng.uniform(100, 5000, 300), lambda size: 1e-6 * size**1.5 * np.exp(0.3 * rng.normal()))
    assert not noisy.stats["jump"].any()
    for size in rng.uniform(100, 5000, 300):  # large tasks run in parts that cost 40 % of the whole in any case
        share = rng.uniform(0.1, 0.4) if size > 2500 or rng.random() < 0.1 else 1.0
        learn_cpu(split, [size], lambda size, s=share: 1e-6 * size**1.5 * (0.4 + 0.6 * s), share)
    assert not split.stats["jump"].any()


def test_measured_durations_have_no_jump(platform):
    """There the level of outcomes nearby corrects the law."""
    state, rng = started(platform, local=MEASURED_FIT), np.random.default_rng(11)
    learn_cpu(state, rng.uniform(100, 5000, 100), cliff)
    assert not state.stats["jump"].any()


def test_more_space_for_kinds_keeps_what_was_learned(platform):
    state = started(platform)
    for _ in range(10):
        learn(state, 1000.0, 0.5, 100.0, 1, 0, 0.1)
    wider = resize_model(state, platform, 8)
    assert kind_capacity(wider) == 8
    assert prediction(wider, 1000.0, 0.5, 100.0, 1, 0) == prediction(state, 1000.0, 0.5, 100.0, 1, 0)
    assert [add_kind(wider) for _ in range(8)] == [1, 2, 3, 4, 5, 6, 7, -1]


@pytest.fixture
def measured(platform):
    """Return a model of measured kernels that has run one size of a kind on a GPU, in a millisecond."""
    state = started(platform, local=MEASURED_FIT)
    for _ in range(4):
        learn(state, 1000.0, 0.5, 10.0, 1, 0, 1e-3)
    return state


def factor(state, size, seconds):
    return np.exp(abs(prediction(state, size, 0.5, 10.0, 1, 0)[0] - np.log(seconds)))


def test_disturbed_run_hardly_moves_a_measured_duration(measured):
    learn(measured, 1000.0, 0.5, 10.0, 1, 0, 0.02)
    assert factor(measured, 1000.0, 1e-3) < 1.25


def test_first_run_that_was_disturbed_is_forgiven(platform):
    state = started(platform, local=MEASURED_FIT)
    for seconds in (0.02, 1e-3, 1e-3):
        learn(state, 1000.0, 0.5, 10.0, 1, 0, seconds)
    assert factor(state, 1000.0, 1e-3) < 1.35


def test_faster_runs_are_believed(measured):
    for _ in range(2):
        learn(measured, 1000.0, 0.5, 10.0, 1, 0, 1e-4)
    assert factor(measured, 1000.0, 1e-4) < 1.5


def test_jump_between_two_sizes_is_learned(platform):
    state = started(platform, local=MEASURED_FIT)
    for _ in range(3):
        for size in (500.0, 700.0, 1000.0, 4000.0, 5600.0, 8000.0):
            learn(state, size, 0.5, 10.0, 1, 0, size * (1e-6 if size < 2000.0 else 1e-5))
    for size in (600.0, 850.0, 4700.0, 6700.0):
        assert factor(state, size, size * (1e-6 if size < 2000.0 else 1e-5)) < 1.5


def test_duration_is_uncertain_far_from_every_measured_size(measured):
    near, far, other_kind = (
        prediction(measured, size, 0.5, 10.0, 1, kind)[1] for size, kind in ((1000.0, 0), (8000.0, 0), (1000.0, -1))
    )
    assert near < 0.12**2 < other_kind
    assert far > np.log(8.0) ** 2


def test_measured_device_that_became_slower_is_noticed_after_several_runs(measured):
    rng = np.random.default_rng(3)

    def run(factor):
        size = rng.uniform(500.0, 2000.0)
        return learn(measured, size, 0.5, 10.0, 1, 0, factor * 1e-6 * size * rng.lognormal(0.0, 0.1))

    assert True not in [run(1.0) for _ in range(60)]
    assert True not in [run(factor) for factor in (1.0, 20.0, 20.0, 1.0)]  # disturbed runs
    changes = [run(5.0) for _ in range(12)]
    assert 3 <= changes.index(True) < 12


def test_noisy_first_outcomes_count_as_little_as_later_ones():
    """A model that has found noise predicts nearly what one predicts that knew of it from the start."""
    draw = np.random.default_rng(1)
    tasks = [(np.exp(draw.uniform(5.0, 9.0)), draw.uniform(), np.exp(draw.standard_normal())) for _ in range(64)]
    states = [new_state(workstation(1)) for _ in range(2)]
    states[1].stats["noise"] = 1.0
    states[1].stats["noise_weight"] = 60.0
    for state in states:
        kind = add_kind(state)
        for size, intensity, factor in tasks:
            learn(state, size, intensity, 50.0, 0, kind, 1e-3 * size * factor)
    errors = [
        prediction(states[0], size, 0.5, 50.0, 0, kind)[0] - prediction(states[1], size, 0.5, 50.0, 0, kind)[0]
        for size in (200.0, 1000.0, 5000.0)
    ]
    assert np.abs(errors).max() < 0.1
