"""Features, the flattened forest and the predictors."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("skops")
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from hybrid_scheduler import InvalidInputError, workstation
from hybrid_scheduler.learning.duration.features import FEATURE_NAMES, features, features_row
from hybrid_scheduler.learning.duration.flat_forest import FlatForest, join_forests
from hybrid_scheduler.learning.duration.log_linear import Frame, _quantiles, terms, terms_row
from hybrid_scheduler.learning.offline_trainer import OfflineTrainer, implied_fraction, labels_for, regret
from hybrid_scheduler.learning.predictors import PREDICTORS, RandomForestPredictor
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.testing import small_workload
from hybrid_scheduler.workload.scenarios import generate, scenario_named


def test_compiled_row_equals_the_table_of_features_and_terms():
    work = small_workload(50)
    table, out = features(work), np.zeros(5)
    frame = Frame.of(table, np.log(work.duration_estimate))
    columns, line = terms(table, frame.knees), np.zeros(13)
    assert table.shape == (50, len(FEATURE_NAMES))
    for row, task in enumerate(work):
        features_row(task.size, task.compute_intensity, task.memory_required, out)
        terms_row(out, frame.knees, line)
        np.testing.assert_allclose(out, table[row], rtol=1e-14)
        np.testing.assert_allclose(line, columns[row], rtol=1e-12)


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
    assert flat.flaw() is None
    again = join_forests([flat.last(10), flat.last(20)])
    assert len(again) == 30
    np.testing.assert_allclose(
        again.predict(fresh)[0], (single[-10:].sum(axis=0) + single[-20:].sum(axis=0)) / 30, atol=1e-12
    )


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


def test_quantiles_equal_those_of_numpy():
    rng = np.random.default_rng(0)
    for count in (1, 2, 3, 5, 10, 11, 57, 1000):
        values = rng.normal(size=count)
        np.testing.assert_array_equal(_quantiles(values, (0.1, 0.5, 0.9)), np.quantile(values, (0.1, 0.5, 0.9)))
