"""Online duration model: learning, drift detection and failed retraining."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from hybrid_scheduler import Decision, InvalidInputError, UnknownNameError, platform_named, workstation
from hybrid_scheduler.core import Outcome, Workload
from hybrid_scheduler.learning.duration import online_duration_model
from hybrid_scheduler.learning.duration.drift import DETECTORS, Cusum, detector_named
from hybrid_scheduler.learning.duration.duration_model import compiled_prediction
from hybrid_scheduler.learning.duration.online_duration_model import OnlineDurationModel
from hybrid_scheduler.learning.fallback_guard import FallbackGuard
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.workload.scenarios import generate, scenario_named

HALF = Decision(1, 0.5)


def feed(model, work, *, factor=1.0, noise=0.0, seed=0, decision=HALF):
    """Let the model learn every task of the workload; returns the events."""
    platform = model.platform
    table = AnalyticPhysics().times(work, platform)
    draw, events = np.random.default_rng(seed), []
    for row, task in enumerate(work):
        labels = table[row] * factor
        labels[:, 0] *= np.exp(noise * draw.standard_normal(len(labels)))
        share, device = decision.fraction, decision.device
        cpu, accelerator = labels[platform.class_of[0], 0], labels[platform.class_of[device], 0]
        outcome = Outcome(
            task.task_id, device, share, 0.0, 0.0, (1 - share) * cpu, 0.0, share * accelerator, labels=labels
        )
        events += model.learn(task, outcome)
    return events


def started(**options):
    model = OnlineDurationModel(**options)
    model.start(workstation(), 7)
    return model


def error(model, work):
    truth = AnalyticPhysics().times(work, model.platform)[:, :, 0]
    return np.sqrt((np.log(model.table(work)[:, :, 0] / truth) ** 2).mean(axis=0)).max()


@pytest.fixture(scope="module")
def mixed():
    return generate(scenario_named("mixed"), 400, 5)


@pytest.mark.parametrize("feedback", ["oracle", "bandit"])
def test_durations_are_learned_and_rows_equal_the_table(feedback, mixed):
    model = started(feedback=feedback, trees=20)
    assert not model.ready
    with pytest.raises(InvalidInputError, match="not ready"):
        model.row(mixed[0])
    events = feed(model, mixed)
    fresh = generate(scenario_named("mixed"), 50, 6)
    assert model.ready
    assert error(model, fresh) < 0.03
    rows = np.array([model.row(task) for task in fresh])
    np.testing.assert_allclose(rows, model.table(fresh), rtol=1e-12)
    assert (model.confidence >= 0).all()
    assert {event.kind for event in events} == {"retrained"}
    assert [version.version for version in model.versions] == list(range(1, len(model.versions) + 1))
    assert model.versions[-1].r2 > 0.99
    assert len(model.model_.forest) == 20


def test_noisy_outcomes_keep_the_error_small(mixed):
    model = started(trees=20)
    feed(model, mixed, noise=0.1)
    assert error(model, generate(scenario_named("mixed"), 200, 6)) < 0.05


def test_same_seed_gives_the_same_model_after_restart(mixed):
    first = started(trees=10)
    feed(first, mixed.rows(0, 150))
    believed = first.table(mixed)
    first.start(workstation(), 7)
    assert not first.ready
    feed(first, mixed.rows(0, 150))
    assert np.array_equal(first.table(mixed), believed)


def test_several_classes_of_device_are_learned_from_bandit_feedback():
    work = generate(scenario_named("mixed"), 300, 9)
    model = OnlineDurationModel(feedback="bandit", trees=10)
    model.start(platform_named("accelerators"), 1)
    for row in range(0, 300, 3):
        for offset in range(3):
            part = work.rows(row + offset, row + offset + 1)
            feed(model, part, decision=Decision(1 + offset, 0.5))
    assert error(model, generate(scenario_named("mixed"), 50, 8)) < 0.1


def test_drift_is_detected_within_three_tasks_and_relearned(mixed):
    model = started(trees=10)
    feed(model, mixed)
    events = feed(model, mixed.rows(0, 30), factor=4.0)
    drift = [event for event in events if event.kind == "drift"]
    assert len(drift) == 1
    assert drift[0].at_task <= 3
    truth = 4.0 * AnalyticPhysics().times(mixed, model.platform)[:, :, 0]
    assert np.sqrt(np.mean(np.log(model.table(mixed)[:, :, 0] / truth) ** 2)) < 0.1


def test_out_of_range_tasks_are_left_to_the_fit(mixed):
    model = started(trees=10)
    feed(model, mixed)
    huge = Workload(
        task_id=[1], size=[20000.0], compute_intensity=[0.5], memory_required=[300.0], arrival_time=[0.0]
    )
    assert error(model, huge) < 0.1
    classes = len(model.platform.classes)
    prediction, times = np.zeros((4, classes)), np.zeros((classes, 2))
    compiled_prediction()(20000.0, 0.5, 300.0, *model.model_.arrays, prediction, times)
    assert (prediction[3] == 0).all()


def test_failed_retraining_keeps_the_old_model(mixed, monkeypatch):
    model = started(trees=10)
    feed(model, mixed.rows(0, 200))
    believed = model.table(mixed)

    def broken(*_, **__):
        raise MemoryError("out of memory")

    monkeypatch.setattr(online_duration_model, "fit_durations", broken)
    events = feed(model, mixed.rows(200, 300))
    assert {event.kind for event in events} == {"retrain_failed"}
    assert "out of memory" in events[0].message
    assert np.array_equal(model.table(mixed), believed)


def test_deferred_fits_give_the_synchronous_model(mixed):
    here, live = started(trees=10), started(trees=10)
    live.synchronous = False
    for row in range(200):
        feed(here, mixed.rows(row, row + 1))
        feed(live, mixed.rows(row, row + 1))
        if live.pending_request:
            request, live.pending_request = live.pending_request, None
            live.swap(request.fit(), row, whole=request.whole, trigger=request.trigger)
    assert np.array_equal(here.table(mixed), live.table(mixed))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"feedback": "orcale"}, "did you mean|one of"),
        ({"drift": "adwim"}, "one of"),
        ({"window": 3}, "at least"),
        ({"refresh": 0}, "at least 1"),
    ],
)
def test_bad_options_are_refused(options, complaint):
    with pytest.raises((InvalidInputError, UnknownNameError), match=complaint):
        OnlineDurationModel(**options)


def test_cusum_follows_its_formula():
    detector = Cusum()
    detector.calibrate(np.full(50, 0.1))  # s = 0.1, mean of x = 1
    assert not detector.update(1.0)  # x is capped at 6: m = 4
    assert not detector.update(0.0)  # m = 2
    assert not detector.update(0.6)  # m = 6
    assert detector.update(0.6)  # m = 10


@pytest.mark.parametrize("name", sorted(DETECTORS))
def test_detectors_raise_no_false_alarm_and_detect_a_change(name):
    if name != "cusum":
        pytest.importorskip("river")
    draw = np.random.default_rng(4)
    residuals = np.abs(draw.normal(0, 0.1, 3000))
    detector = detector_named(name)
    detector.calibrate(residuals[:200])
    assert not any(detector.update(residual) for residual in residuals[200:].tolist())
    assert any(detector.update(residual) for residual in (residuals[:100] + 1.0).tolist())


def test_fallback_guard_trips_once_and_recovers_later():
    guard, draw = FallbackGuard(), np.random.default_rng(0)

    def turns(ratio, count):
        noise = np.exp(0.3 * draw.standard_normal(count))
        return [k for k in range(count) if guard.update(ratio * noise[k], 1.0)]

    assert turns(0.7, 300) == []
    assert turns(1.0, 300) == []
    tripped = turns(1.5, 99)
    assert len(tripped) == 1
    assert guard.active
    assert turns(1.2, 300) == []  # still behind: greedy goes on
    assert len(turns(0.8, 200)) == 1
    assert not guard.active
