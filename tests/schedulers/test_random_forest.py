"""The published random forest: features, labels, window, refits, the choice of a GPU, and models to start from."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hybrid_scheduler import Cluster, InvalidInputError, OfflineTrainer, Setting, Task, View, create, workstation
from hybrid_scheduler.core import Outcome, platform_named
from hybrid_scheduler.learning import ModelFileError
from hybrid_scheduler.learning.duration.retraining import BackgroundRetraining, InlineTrainingWorker
from hybrid_scheduler.physics import AnalyticPhysics, isolated_time, optimal_fraction
from hybrid_scheduler.schedulers.random_forest import FEATURES, TREES, WINDOW, ForestFit, best_share, features
from hybrid_scheduler.workload.scenarios import generate, scenario_named

TASK = Task(0, size=2500, compute_intensity=0.5, memory_required=100)


def made(spec: str) -> Any:
    return create(spec)


def mixed(tasks, seed=5, load=0.2):
    return generate(scenario_named("mixed"), tasks, seed, utilisation=load)


def feed(scheduler, workload, platform):
    """Let the scheduler decide and observe each task on an idle machine."""
    table = AnalyticPhysics().times(workload, platform)
    for row, task in enumerate(workload):
        view = View(task.arrival_time, np.full(len(platform), task.arrival_time), platform)
        decision = scheduler.decide(task, view)
        scheduler.observe(
            Outcome(task.task_id, decision.device, decision.fraction, 0.0, 0.0, 1.0, 0.0, 1.0, labels=table[row])
        )


def test_features_are_the_five_published_ones():
    assert FEATURES == ("size", "intensity", "memory", "memory_per_size", "intensity_per_memory")
    assert features(TASK) == [2500, 0.5, 100, 0.04, 0.005]
    assert np.isfinite(features(Task(0, size=1.0, compute_intensity=0.0, memory_required=0.0))).all()


def test_label_is_the_best_of_eleven_shares_of_the_task_alone():
    platform = workstation()
    workload = mixed(200)
    seconds = AnalyticPhysics().times(workload, platform)
    for row, task in enumerate(workload):
        cpu, gpu = seconds[row, :, 0]
        label = best_share(task, seconds[row], platform)
        assert label in np.linspace(0.0, 1.0, 11)
        assert abs(label - optimal_fraction(cpu, gpu)) <= 0.1
        tried = [isolated_time(share, cpu, gpu) for share in np.linspace(0.0, 1.0, 11)]
        assert isolated_time(label, cpu, gpu) == min(tried)


def test_label_of_an_indivisible_task_is_zero_or_one():
    task = Task(0, size=2500, compute_intensity=0.5, memory_required=100, divisible=False)
    assert best_share(task, np.array([[0.5, 0.0], [0.2, 0.0]]), workstation()) == 1.0
    assert best_share(task, np.array([[0.5, 0.0], [0.6, 0.0]]), workstation()) == 0.0


def test_first_fit_comes_after_fifty_tasks_and_the_published_heuristic_before():
    scheduler = made("random_forest")
    result = Cluster().run(mixed(160), scheduler)
    greedy = Cluster().run(mixed(160), made("greedy"))
    first = scheduler.versions[0].at_task
    before = result.outcomes.workload.task_id < first
    assert before.sum() >= 49
    assert np.array_equal(result.outcomes.fraction[:40], greedy.outcomes.fraction[:40])
    assert np.array_equal(result.outcomes.device[:40], greedy.outcomes.device[:40])
    assert [version.samples for version in scheduler.versions] == [50, 100, 150]
    assert not np.array_equal(result.outcomes.fraction[-40:], greedy.outcomes.fraction[-40:])


def test_forest_is_a_scaler_and_a_hundred_trees_fitted_to_the_labels():
    rows = np.array([features(task) for task in mixed(80)])
    labels = np.linspace(0.0, 1.0, 80)
    fitted = ForestFit(rows, labels, 3, "test").fit()
    reference = make_pipeline(StandardScaler(), RandomForestRegressor(n_estimators=100, random_state=3))
    reference.fit(rows, labels)
    assert len(fitted.trees) == TREES == 100
    for row in rows[:10]:
        assert fitted.predict(row.tolist()) == pytest.approx(reference.predict(row[None])[0], abs=1e-12)


def test_window_holds_the_newest_thousand_labels():
    scheduler, platform = made("random_forest(retrain_interval=1050)"), workstation()
    scheduler.start(Setting(platform))
    workload = mixed(1050)
    feed(scheduler, workload, platform)
    assert WINDOW == 1000
    assert [version.samples for version in scheduler.versions] == [1000]
    assert scheduler.duration_model_._rows[0] == features(workload[50])


def test_idle_gpus_take_turns_and_the_shortest_queue_is_chosen():
    platform = workstation()
    scheduler = made("random_forest")
    scheduler.start(Setting(platform))
    assert scheduler.decide(TASK, View(5.0, np.array([0.0, 9.0, 7.0, 6.0, 8.0]), platform)).device == 3
    assert scheduler.decide(TASK, View(5.0, np.array([0.0, 4.0, 3.0, 5.0, 2.0]), platform)).device == 4


def test_of_unequal_gpus_the_one_with_the_least_weighted_seconds_and_joules_is_chosen():
    platform = platform_named("mixed-gpus")
    scheduler = made("random_forest")
    scheduler.start(Setting(platform))
    feed(scheduler, mixed(120), platform)
    idle = View(0.0, np.zeros(len(platform)), platform)
    chosen = scheduler.decide(TASK, idle).device
    fast = max(platform.accelerators, key=lambda device: platform.devices[device].speedup_base)
    assert platform.class_of[chosen] == platform.class_of[fast]


@pytest.mark.parametrize("target", ["times", "fraction"])
def test_model_of_the_offline_trainer_decides_until_the_first_fit(tmp_path, target):
    path = tmp_path / "forest.skops"
    OfflineTrainer("random_forest", target=target).run_full_pipeline(mixed(600, seed=1), path)
    scheduler, platform = made(f"random_forest(model={path})"), workstation()
    scheduler.start(Setting(platform))
    assert scheduler.state == "learned"
    workload = mixed(40, seed=9)
    cpu, gpu = AnalyticPhysics().times(workload, platform)[:, :, 0].T
    idle = View(0.0, np.zeros(len(platform)), platform)
    shares = np.array([scheduler.decide(task, idle).fraction for task in workload])
    assert np.abs(shares - optimal_fraction(cpu, gpu)).mean() < 0.03


def test_model_of_another_kind_is_refused_with_the_file_name(tmp_path):
    path = tmp_path / "boosted.skops"
    OfflineTrainer("gradient_boosting").run_full_pipeline(mixed(100, seed=1), path)
    with pytest.raises(ModelFileError, match=r"boosted\.skops"):
        made(f"random_forest(model={path})").start(Setting(workstation()))


def test_forest_trained_once_is_never_fitted_again():
    scheduler = made("frozen_forest(tasks=60)")
    Cluster().run(mixed(300), scheduler)
    assert [version.samples for version in scheduler.versions] == [60]
    assert not scheduler.duration_model_.request_training()
    scheduler.duration_model_.refresh = 50  # as a live run sets it
    Cluster().run(mixed(300), scheduler)
    assert [version.samples for version in scheduler.versions] == [60]


def test_forest_without_learning_stays_untrained():
    scheduler = made("random_forest(learn=false)")
    assert not scheduler.learns
    assert not scheduler.wants_labels
    Cluster().run(mixed(120), scheduler)
    assert scheduler.versions == []


def test_background_training_gives_the_same_forest_later():
    scheduler, platform = made("random_forest"), workstation()
    scheduler.start(Setting(platform))
    retraining = BackgroundRetraining(InlineTrainingWorker())
    retraining.adopt(scheduler)
    feed(scheduler, mixed(50), platform)
    assert scheduler.versions == []
    retraining.start(scheduler)
    retraining.collect(51)
    assert [(version.samples, version.at_task) for version in scheduler.versions] == [(50, 51)]
    own = made("random_forest")
    own.start(Setting(platform))
    feed(own, mixed(50), platform)
    row = features(TASK)
    assert scheduler.duration_model_.forest.predict(row) == own.duration_model_.forest.predict(row)
    assert sum(scheduler.feature_importance().values()) == pytest.approx(1.0)


@pytest.mark.parametrize("spec", ["random_forest(retrain_interval=0)", "frozen_forest(tasks=0)"])
def test_numbers_out_of_range_are_refused(spec):
    with pytest.raises(InvalidInputError, match="must be"):
        made(spec)


def test_scikit_learn_is_loaded_by_the_first_fit_only():
    program = (
        "import sys\n"
        "from hybrid_scheduler import Cluster, create, generate, scenario_named\n"
        "Cluster().run(generate(scenario_named('mixed'), 49, seed=1), create('random_forest'))\n"
        "assert 'sklearn' not in sys.modules\n"
        "Cluster().run(generate(scenario_named('mixed'), 60, seed=1), create('random_forest'))\n"
        "assert 'sklearn' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
