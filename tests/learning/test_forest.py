"""Features, the flattened forest and the predictors."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("skops")
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from hybrid_scheduler import Cluster, Device, InvalidInputError, OnlineScheduler, Platform, create, workstation
from hybrid_scheduler.core import MissingExtraError, cpu
from hybrid_scheduler.learning.duration.features import FEATURE_NAMES, features
from hybrid_scheduler.learning.duration.flat_forest import FlatForest
from hybrid_scheduler.learning.model_files import ModelFileError, load, save
from hybrid_scheduler.learning.offline_trainer import OfflineTrainer, implied_fraction, labels_for, regret
from hybrid_scheduler.learning.predictors import PREDICTORS, RandomForestPredictor
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.schedulers import HybridML
from hybrid_scheduler.testing import small_workload
from hybrid_scheduler.workload.scenarios import generate, scenario_named


@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesRegressor])
@pytest.mark.parametrize("outputs", [1, 3])
def test_flat_forest_equals_scikit_learn(kind, outputs):
    draw = np.random.default_rng(1)
    rows, labels = draw.normal(size=(400, 5)), draw.normal(size=(400, outputs))
    forest = kind(30, max_depth=15, random_state=2).fit(rows.astype(np.float32), labels.squeeze())
    flat = FlatForest.of(forest.estimators_, 5)
    fresh = draw.normal(size=(200, 5)).astype(np.float32)
    mean, spread = flat.predict(fresh)
    single = np.array([tree.predict(fresh).reshape(200, outputs) for tree in forest.estimators_])
    assert np.array_equal(mean, forest.predict(fresh).reshape(200, outputs))
    np.testing.assert_allclose(spread, single.std(axis=0), atol=1e-12)
    assert flat.structure_error() is None


def test_flat_forest_refuses_the_wrong_number_of_features():
    forest = RandomForestRegressor(2, random_state=0).fit(np.eye(5), np.arange(5))
    with pytest.raises(InvalidInputError, match=r"of shape \(n, 5\)"):
        FlatForest.of(forest.estimators_, 5).predict(np.zeros((1, 4)))


@pytest.fixture(scope="module")
def labelled():
    work = generate(scenario_named("mixed"), 600, 3)
    seconds = AnalyticPhysics().times(work, __import__("hybrid_scheduler").workstation())[:, :, 0]
    return features(work), seconds


@pytest.mark.parametrize("name", sorted(PREDICTORS))
def test_predictors_learn_and_load_unchanged(name, labelled, tmp_path):
    if name == "xgboost":
        pytest.importorskip("xgboost")
    inputs, seconds = labelled
    predictor = PREDICTORS[name](seed=1)
    metrics = predictor.fit(inputs[:200], labels_for("times", seconds[:200]))
    assert set(metrics) == {"train_r2", "test_r2", "mae", "cv_r2"}
    assert metrics["test_r2"] > 0.7
    importance = predictor.feature_importance()
    assert set(importance) == set(FEATURE_NAMES)
    assert sum(importance.values()) == pytest.approx(1.0)
    predictor.save(tmp_path / "model.skops")
    loaded = PREDICTORS[name].load(tmp_path / "model.skops")
    assert np.array_equal(loaded.predict(inputs), predictor.predict(inputs))
    assert loaded.feature_importance() == importance
    assert loaded.metrics_ == metrics


@pytest.mark.parametrize(
    ("inputs", "labels", "complaint"),
    [
        (np.ones((5, 5)), np.arange(5.0), "at least 10 rows"),
        (np.ones((20, 5)), np.ones(20), "constant labels"),
        (np.full((20, 5), np.nan), np.arange(20.0), "finite"),
        (np.ones((20, 5)), np.arange(19.0), "one label per row"),
    ],
)
def test_predictors_refuse_bad_data_with_a_reason(inputs, labels, complaint):
    with pytest.raises(InvalidInputError, match=complaint):
        RandomForestPredictor().fit(inputs, labels)


def test_trainer_reports_importances_metrics_and_regret(tmp_path):
    work = generate(scenario_named("mixed"), 1500, 11)
    report = OfflineTrainer().run_full_pipeline(work, tmp_path / "scheduler_model.skops")
    assert report["metrics"]["test_r2"] > 0.97
    assert report["metrics"]["regret_percent"] < 1.5
    assert next(iter(report["feature_importances"].values())) > 0.2
    assert (tmp_path / "scheduler_model.skops").exists()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("random_forest", {"n_estimators": 8, "max_depth": 6}),
        ("xgboost", {"n_estimators": 60, "max_depth": 4}),
        ("gradient_boosting", {"n_estimators": 60, "learning_rate": 0.2}),
        ("svm", {"C": 5.0}),
        ("neural_network", {"hidden_layer_sizes": (16, 16)}),
    ],
)
def test_trained_predictors_drive_hybrid_ml(name, options, tmp_path):
    if name == "xgboost":
        pytest.importorskip("xgboost")
    path = tmp_path / "model.skops"
    trainer = OfflineTrainer(name, **options)
    trainer.run_full_pipeline(generate(scenario_named("mixed"), 800, 11), path)
    assert {k: trainer.predictor_.options[k] for k in options} == options
    work = generate(scenario_named("mixed"), 400, 2000, platform=workstation(), utilisation=0.7)
    reference = Cluster().run(work, create("price_index")).outcomes.latency.mean()
    scheduler = HybridML(model=path)
    first = Cluster()
    first.start_scheduler(scheduler, work)
    assert scheduler.state == "learned"
    assert Cluster().run(work, scheduler).outcomes.latency.mean() < 1.1 * reference


def test_model_for_another_gpu_is_a_prior_that_outcomes_correct(tmp_path):
    path = tmp_path / "model.skops"
    OfflineTrainer(n_estimators=20).run_full_pipeline(generate(scenario_named("mixed"), 800, 11), path)
    slow = Platform("slow", (cpu(), Device("gpu_0", speedup_slope=0.2), Device("gpu_1", speedup_slope=0.2)))
    work = generate(scenario_named("mixed"), 1000, 2000, platform=slow, utilisation=0.6)
    reference = Cluster(slow).run(work, create("price_index")).outcomes.latency.mean()
    scheduler = HybridML(model=path)
    assert Cluster(slow).run(work, scheduler).outcomes.latency.mean() < 1.15 * reference


def test_online_scheduler_takes_a_model_file(tmp_path):
    path = tmp_path / "model.skops"
    OfflineTrainer(n_estimators=5).run_full_pipeline(generate(scenario_named("mixed"), 200, 11), path)
    for given in (path, str(path)):
        queue = OnlineScheduler(given, num_gpus=2)
        for task in small_workload(20):
            queue.submit_task(task)
        assert len(queue.process_queue()) == 20
        assert isinstance(queue.scheduler, HybridML)
        assert queue.scheduler.state == "learned"
    with pytest.raises(ModelFileError, match="no readable manifest"):
        OnlineScheduler(tmp_path / "missing.skops")


def test_a_model_of_fractions_is_no_model_of_durations(tmp_path):
    path = tmp_path / "model.skops"
    trainer = OfflineTrainer(target="fraction", n_estimators=5)
    trainer.run_full_pipeline(generate(scenario_named("mixed"), 200, 11), path)
    with pytest.raises(ModelFileError, match="train it with target=times"):
        OnlineScheduler(path)


def test_unknown_and_invalid_options_are_refused():
    with pytest.raises(InvalidInputError, match="option of random_forest: must be one of") as caught:
        OfflineTrainer(n_estimator=5)
    assert caught.value.hint == "did you mean 'n_estimators'?"
    with pytest.raises(InvalidInputError, match="options of random_forest: must be valid, got 'n_estimators=-3"):
        OfflineTrainer(n_estimators=-3).run_full_pipeline(small_workload(50))


def test_missing_xgboost_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingExtraError, match=r"xgboost: pip install 'hybrid-scheduler\[learning\]'"):
        OfflineTrainer("xgboost").run_full_pipeline(small_workload(50))


def saved(name, path):
    OfflineTrainer(name).run_full_pipeline(generate(scenario_named("mixed"), 60, 11), path)
    predictor = PREDICTORS[name].load(path)
    return predictor, load(path, name, trusted=predictor.trusted)[1]


def with_boosted_trees(change):
    def spoil(path):
        predictor, manifest = saved("xgboost", path)
        text = json.loads(predictor.packed()["model"])
        change(text["learner"]["gradient_booster"]["model"]["trees"][0])
        save({"model": json.dumps(text)}, path, manifest)

    return spoil


def with_nested_brackets(path):
    _, manifest = saved("xgboost", path)
    save({"model": "[" * 100_000 + "]" * 100_000}, path, manifest)


def with_too_few_support_vectors(path):
    predictor, manifest = saved("svm", path)
    machine = predictor.model_.steps[1][1].estimators_[0]
    machine._n_support = np.array([10**6, 10**6], dtype=np.int32)
    save(predictor.model_, path, manifest)


def with_nan_weights(path):
    predictor, manifest = saved("neural_network", path)
    predictor.model_.steps[1][1].coefs_[1][3] = np.nan
    save(predictor.model_, path, manifest)


def with_an_endless_range(path):
    predictor, manifest = saved("random_forest", path)
    save(predictor.model_, path, replace(manifest, high=(1e308,) * 5))


@pytest.mark.parametrize(
    "spoil",
    [
        with_boosted_trees(lambda tree: tree["left_children"].__setitem__(0, 10**6)),
        with_boosted_trees(lambda tree: tree["right_children"].__setitem__(0, 0)),
        with_boosted_trees(lambda tree: tree["split_indices"].__setitem__(0, 99)),
        with_boosted_trees(lambda tree: tree["split_conditions"].__setitem__(-1, float("nan"))),
        with_nested_brackets,
        with_too_few_support_vectors,
        with_nan_weights,
        with_an_endless_range,
    ],
)
def test_hostile_predictors_are_refused(spoil, tmp_path):
    pytest.importorskip("xgboost")
    path = tmp_path / "model.skops"
    spoil(path)
    scheduler = HybridML()
    work = small_workload(20)
    Cluster().run(work, scheduler)
    model, scheduler.model = scheduler.duration_model_, path
    with pytest.raises(ModelFileError):
        Cluster().run(work, scheduler)
    assert scheduler.duration_model_ is model


def test_trainer_refuses_a_platform_without_an_accelerator(tmp_path):
    trainer = OfflineTrainer(platform=workstation(0))
    with pytest.raises(InvalidInputError, match="platform: must be one with an accelerator, got 'workstation'"):
        trainer.run_full_pipeline(small_workload(50), tmp_path / "scheduler_model.skops")
    assert not list(tmp_path.iterdir())


def test_perfect_predictions_have_no_regret(labelled):
    _, seconds = labelled
    for target in ("times", "fraction"):
        share = implied_fraction(target, labels_for(target, seconds))
        assert regret(share, seconds) == pytest.approx(0.0, abs=1e-9)
