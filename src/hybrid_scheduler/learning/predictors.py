"""Interchangeable predictors: random forest, boosted trees, support vector machine, small neural network.

All have one interface: `fit` (with held-out test and cross-validation), `predict`, `feature_importance`, `save`,
`load`. Labels may have several columns. The fitted estimator is `model_`; libraries load when first used.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core import (
    Floats,
    Ints,
    InvalidInputError,
    MissingExtraError,
    UnknownNameError,
    Workload,
    require,
    workstation,
)
from .duration.features import FEATURE_NAMES, evenly_spread, features, tasks_of
from .duration.flat_forest import FlatForest
from .model_files import Manifest, ModelFileError, data_digest, load, read_manifest, save

_MIN_ROWS = 10
_FOLDS = 5
#: Compiled, and it trusts its indices: `_check_trees` looks at them before the first prediction.
_TREE = "sklearn.tree._tree.Tree"
#: Size, intensity and memory; the other features follow from them.
_RANGE_FEATURES = 3
#: Columns of a data frame from which a predictor of durations predicts.
_RAW = ["compute_intensity", "memory_required", "size"]
#: Classes of device of a predictor that learned one duration per task from those columns.
_OWN_LABELS = ("cpu", "gpu")
#: Tasks whose predictions are checked before a scheduler learns from others.
_CHECKED = 64
#: Limit of the logarithm of anything that a duration model takes or predicts.
_MAX_LOG = 50.0


class Predictor(ABC):
    """Base class; subclasses make the estimator and list the types its file may hold.

    Parameters
    ----------
    seed
        Seed of the split, the folds and the estimator.
    options
        Parameters of the estimator, such as ``n_estimators`` and ``max_depth``; see `defaults`.

    Raises
    ------
    UnknownNameError
        If the estimator has no such parameter.
    """

    name: ClassVar[str]
    #: Types a saved model may hold beside those skops trusts by itself.
    trusted: ClassVar[tuple[str, ...]] = ()
    #: Parameters of the estimator that can be set, and their defaults.
    defaults: ClassVar[dict[str, Any]] = {}
    #: Target of the labels, see `OfflineTrainer`; empty if they are the caller's own.
    target = ""
    #: Classes of device whose seconds the labels are.
    device_classes: tuple[str, ...] = ()

    def __init__(self, seed: int = 0, **options: Any) -> None:
        for name in options:
            if name not in self.defaults:
                raise UnknownNameError(f"option of {self.name}", name, self.defaults)
        self.seed = seed
        self.options = {**self.defaults, **options}

    @abstractmethod
    def make(self) -> Any:
        """Return an unfitted estimator with scikit-learn's interface that takes labels of several columns."""

    def fit(self, X: ArrayLike, y: ArrayLike, test_size: float = 0.2) -> dict[str, float]:
        """Train on a random share of the rows and test on the others.

        Parameters
        ----------
        X
            Features, of shape (rows, features).
        y
            Labels, one or several per row.
        test_size
            Share of the rows held out for the test.

        Returns
        -------
        dict
            train_r2, test_r2, mae and cv_r2. `cv_r2` is the mean over five folds of the training rows.

        Raises
        ------
        InvalidInputError
            If the data are too few, not finite or constant, or `test_size` is not between 0 and 1.
        """
        from sklearn.base import clone
        from sklearn.metrics import mean_absolute_error, r2_score
        from sklearn.model_selection import KFold, cross_val_score

        inputs, labels = _checked(X, y)
        if not 0.0 < test_size < 1.0:
            raise InvalidInputError("test_size", "between 0 and 1", test_size)
        order = np.random.default_rng(self.seed).permutation(len(inputs))
        held_out = min(max(round(test_size * len(order)), 2), len(order) - _FOLDS)
        test = np.sort(order[:held_out])
        train = np.sort(order[held_out:])
        try:
            model = self.make().fit(inputs[train], labels[train])
        except ValueError as error:  # both libraries check their parameters only here
            own = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
            raise InvalidInputError(f"options of {self.name}", "valid", own, hint=str(error)[:300]) from error
        folds = KFold(_FOLDS, shuffle=True, random_state=self.seed)
        scores = cross_val_score(clone(model), inputs[train], labels[train], cv=folds, scoring="r2")
        self.metrics_ = {
            "train_r2": float(r2_score(labels[train], model.predict(inputs[train]))),
            "test_r2": float(r2_score(labels[test], model.predict(inputs[test]))),
            "mae": float(mean_absolute_error(labels[test], model.predict(inputs[test]))),
            "cv_r2": float(np.mean(scores)),
        }
        self.model_ = model
        self.num_features_ = inputs.shape[1]
        #: Names of the columns of a data frame; empty for other training data.
        self.feature_names_ = [str(name) for name in getattr(X, "columns", ())]
        if not self.target and labels.ndim == 1 and sorted(self._raw_names()) == _RAW:
            self.device_classes = _OWN_LABELS
        #: Rows used for training and for the test.
        self.split_: tuple[Ints, Ints] = (train, test)
        self.importance_ = self._importance(inputs[test], labels[test])
        self.training_data_sha256_ = data_digest(inputs, labels)
        self.low_ = inputs.min(axis=0)
        self.high_ = inputs.max(axis=0)
        return dict(self.metrics_)

    def predict(self, X: ArrayLike) -> Floats:
        """Predict one row per row of X; one column per label, or none if there was one label.

        Raises
        ------
        InvalidInputError
            If X has another number of columns than the training data, or is not finite.
        """
        inputs = np.asarray(X, dtype=np.float64)
        if inputs.ndim != 2 or inputs.shape[1] != self.num_features_:
            raise InvalidInputError("X", f"of shape (n, {self.num_features_})", inputs.shape)
        if not np.isfinite(inputs).all():
            raise InvalidInputError("X", "finite", "NaN or infinity")
        return np.asarray(self.model_.predict(inputs), dtype=np.float64)

    def feature_importance(self) -> dict[str, float]:
        """Return the importances by name, largest first, adding up to 1."""
        return dict(self.importance_)

    def save(self, path: str | Path) -> None:
        """Write the model and its manifest."""
        save(self.packed(), path, Manifest(
            self.name, tuple(self.importance_names()), self.device_classes, self.training_data_sha256_,
            metrics={**self.metrics_, "feature_importance": dict(self.importance_)}, target=self.target,
            low=tuple(self.low_.tolist()), high=tuple(self.high_.tolist()),
        ))  # fmt: skip

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model of this kind.

        Raises
        ------
        ModelFileError
            If the file is not a model of this kind that can be used.
        """
        packed, manifest = load(path, cls.name, trusted=cls.trusted, features=None)
        predictor = cls()
        try:
            predictor.unpack(packed)
        except MissingExtraError:
            raise
        except Exception as error:
            raise ModelFileError(path, f"does not hold a model: {error}") from error
        predictor.num_features_ = len(manifest.features)
        predictor.feature_names_ = list(manifest.features)
        metrics = dict(manifest.metrics)
        predictor.importance_ = metrics.pop("feature_importance", {})
        predictor.metrics_ = metrics
        predictor.training_data_sha256_ = manifest.training_data_sha256
        predictor.target = manifest.target
        predictor.device_classes = manifest.device_classes
        predictor.low_ = np.array(manifest.low)
        predictor.high_ = np.array(manifest.high)
        try:
            prediction = predictor.predict(np.zeros((1, len(manifest.features))))
        except Exception as error:
            raise ModelFileError(path, f"cannot predict from {len(manifest.features)} features: {error}") from error
        if not np.isfinite(prediction).all():
            raise ModelFileError(path, "predicts numbers that are not finite")
        return predictor

    def check_durations(self, path: str | Path = "model") -> None:
        """Check that the labels were durations, so that a scheduler can learn from predictions.

        Labels of the caller's own, one per task, are seconds on the CPU if the features are size, intensity and
        memory, in any order; a GPU is then as much faster as one of the default workstation.

        Parameters
        ----------
        path
            Name of the model in errors.

        Raises
        ------
        ModelFileError
            If the labels were others, or the range of the training data is not valid.
        """
        least = [np.log(1e-6), 0.0, 0.0]  # of the features of size, intensity and memory
        low = self.low_[:_RANGE_FEATURES]
        high = self.high_[:_RANGE_FEATURES]
        if self.device_classes == _OWN_LABELS:
            return
        trained = self.target == "times" and len(self.device_classes) == 2
        if not trained or self.importance_names() != list(FEATURE_NAMES):
            raise ModelFileError(path, "does not predict durations: train it with target=times")
        if len(low) != _RANGE_FEATURES or not ((least <= low) & (low <= high) & (high <= _MAX_LOG)).all():
            raise ModelFileError(path, "has no valid range of features")
        predicted = self._log_seconds(self._spread_tasks(_CHECKED))
        if predicted.shape != (_CHECKED, 2) or not (np.abs(predicted) < _MAX_LOG).all():
            raise ModelFileError(path, "predicts durations that are not finite")

    def spread_predictions(self, count: int) -> tuple[Workload, Floats]:
        """Return tasks that fill the range of the training data evenly, and their seconds by class of device."""
        tasks = self._spread_tasks(count)
        return tasks, np.exp(self._log_seconds(tasks))

    def _spread_tasks(self, count: int) -> Workload:
        if self.device_classes == _OWN_LABELS:
            points = self.low_ + (self.high_ - self.low_) * evenly_spread(count, len(_RAW))
            return tasks_of(*points[:, np.argsort(self._raw_names())[[2, 0, 1]]].T)
        low = self.low_[:_RANGE_FEATURES]
        high = self.high_[:_RANGE_FEATURES]
        size, intensity, memory = (low + (high - low) * evenly_spread(count, _RANGE_FEATURES)).T
        return tasks_of(np.exp(size), np.clip(np.expm1(intensity), 0.0, 1.0), np.expm1(memory))

    def _log_seconds(self, tasks: Workload) -> Floats:
        if self.device_classes == _OWN_LABELS:
            gpu = workstation(1).classes[1]
            logs = np.log(self.predict(np.column_stack([getattr(tasks, name) for name in self._raw_names()])))
            ratio = np.log(gpu.speedup_base + gpu.speedup_slope * tasks.compute_intensity)
        else:
            logs, ratio = self.predict(features(tasks))[:, :2].T
        return np.column_stack([logs, logs - ratio])

    def _raw_names(self) -> list[str]:
        """Return the names of the features, with `size` for the published `task_size`."""
        return [name.removeprefix("task_") for name in self.importance_names()]

    def packed(self) -> Any:
        """Return the content of the file."""
        return self.model_

    def unpack(self, packed: Any) -> None:
        """Restore the estimator from the content of a file."""
        _check_trees(packed)
        _check_support_vectors(packed)
        self.model_ = packed

    def importance_names(self) -> list[str]:
        """Return the names of the features."""
        known = FEATURE_NAMES if self.num_features_ == len(FEATURE_NAMES) else ()
        return list(self.feature_names_ or known) or [f"feature_{k}" for k in range(self.num_features_)]

    def _importance(self, inputs: Floats, labels: Floats) -> dict[str, float]:
        from sklearn.inspection import permutation_importance

        own = getattr(self.model_, "feature_importances_", None)
        if own is None:
            found = permutation_importance(self.model_, inputs, labels, n_repeats=3, random_state=self.seed)
            own = np.maximum(found.importances_mean, 0.0)
        own = np.asarray(own, dtype=np.float64)
        shares = own / own.sum() if own.sum() > 0 else np.full(len(own), 1.0 / len(own))
        return dict(sorted(zip(self.importance_names(), shares.tolist(), strict=True), key=lambda pair: -pair[1]))


class RandomForestPredictor(Predictor):
    """Random forest of a hundred trees of depth 15: the default."""

    name = "random_forest"
    trusted = (_TREE,)
    defaults: ClassVar = {
        "n_estimators": 100, "max_depth": 15, "min_samples_leaf": 1, "min_samples_split": 2, "max_features": 1.0,
    }  # fmt: skip

    def make(self) -> Any:
        """Return an unfitted random forest."""
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor(random_state=self.seed, **self.options)


class XGBoostPredictor(Predictor):
    """Boosted trees of depth 7."""

    name = "xgboost"
    defaults: ClassVar = {
        "n_estimators": 200, "max_depth": 7, "learning_rate": 0.1, "subsample": 1.0, "colsample_bytree": 1.0,
        "min_child_weight": 1.0, "reg_lambda": 1.0,
    }  # fmt: skip

    def make(self) -> Any:
        """Return unfitted boosted trees."""
        model = require("xgboost", "the predictor xgboost").XGBRegressor
        return model(random_state=self.seed, n_jobs=1, **self.options)

    def packed(self) -> Any:
        """Return the library's own JSON text, which holds numbers only."""
        return {"model": bytes(self.model_.get_booster().save_raw("json")).decode()}

    def unpack(self, packed: Any) -> None:
        """Restore the trees from the library's JSON text."""
        if not (isinstance(packed, dict) and isinstance(packed.get("model"), str)):
            raise ValueError("no boosted trees in it")
        _check_boosted_trees(packed["model"])
        self.model_ = self.make()
        self.model_.load_model(bytearray(packed["model"].encode()))


class GradientBoostingPredictor(Predictor):
    """Boosted trees of scikit-learn, one sequence per label."""

    name = "gradient_boosting"
    trusted = (_TREE,)
    defaults: ClassVar = {
        "n_estimators": 100, "max_depth": 3, "learning_rate": 0.1, "subsample": 1.0, "min_samples_leaf": 1,
        "min_samples_split": 2,
    }  # fmt: skip

    def make(self) -> Any:
        """Return unfitted boosted trees, one sequence per label."""
        from sklearn.ensemble import GradientBoostingRegressor
        from sklearn.multioutput import MultiOutputRegressor

        return MultiOutputRegressor(GradientBoostingRegressor(random_state=self.seed, **self.options))


class SVMPredictor(Predictor):
    """Support vector regression with a Gaussian kernel on standardised features, one per label."""

    name = "svm"
    defaults: ClassVar = {"C": 10.0, "epsilon": 0.01, "gamma": "scale", "kernel": "rbf"}

    def make(self) -> Any:
        """Return an unfitted support vector machine per label."""
        from sklearn.multioutput import MultiOutputRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVR

        return make_pipeline(StandardScaler(), MultiOutputRegressor(SVR(**self.options)))


class NeuralNetworkPredictor(Predictor):
    """Neural network with two hidden layers of 32 units on standardised features."""

    name = "neural_network"
    trusted = ("sklearn.neural_network._stochastic_optimizers.AdamOptimizer",)
    defaults: ClassVar = {
        "hidden_layer_sizes": (32, 32), "max_iter": 1000, "alpha": 1e-4, "learning_rate_init": 1e-3,
        "early_stopping": True,
    }  # fmt: skip

    def make(self) -> Any:
        """Return an unfitted network."""
        from sklearn.neural_network import MLPRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), MLPRegressor(random_state=self.seed, **self.options))


PREDICTORS: dict[str, type[Predictor]] = {
    kind.name: kind
    for kind in (
        RandomForestPredictor,
        XGBoostPredictor,
        GradientBoostingPredictor,
        SVMPredictor,
        NeuralNetworkPredictor,
    )
}


def load_durations(path: str | Path) -> Predictor:
    """Load a model of durations that a scheduler can learn from: one of `OfflineTrainer`.

    Raises
    ------
    ModelFileError
        If the file cannot be used, or its predictor was not trained on durations.
    MissingExtraError
        If the library of the predictor is not installed.
    """
    source = Path(path)
    kind = read_manifest(source).kind
    if kind not in PREDICTORS:
        reason = f"holds a model of kind {kind[:20]!r}, from which this version cannot learn durations"
        raise ModelFileError(source, reason, hint="train it again: OfflineTrainer, or hybrid-scheduler train")
    predictor = PREDICTORS[kind].load(source)
    predictor.check_durations(source)
    return predictor


def _checked(X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    inputs = np.asarray(X, dtype=np.float64)
    labels = np.asarray(y, dtype=np.float64)
    if inputs.ndim != 2 or labels.ndim not in (1, 2) or len(labels) != len(inputs):
        raise InvalidInputError("X, y", "a matrix and one label per row", (inputs.shape, labels.shape))
    if len(inputs) < _MIN_ROWS:
        raise InvalidInputError("X", f"at least {_MIN_ROWS} rows", len(inputs))
    for name, values in (("X", inputs), ("y", labels)):
        if not np.isfinite(values).all():
            raise InvalidInputError(name, "finite", "NaN or infinity")
    if (np.ptp(labels, axis=0) == 0).any():
        raise InvalidInputError("y", "labels that differ", "constant labels")
    return inputs, labels


def _parts_of(model: Any) -> Iterator[Any]:
    """Yield a model and all estimators that it is made of: those of pipelines and ensembles, at any depth."""
    yield model
    steps = [step[1] for step in getattr(model, "steps", [])]
    for part in steps + np.ravel(np.asarray(getattr(model, "estimators_", []), dtype=object)).tolist():
        yield from _parts_of(part)


def _check_trees(model: Any) -> None:
    """Raise ValueError if a tree somewhere in the model has branches that lead nowhere."""
    for part in _parts_of(model):
        tree = getattr(part, "tree_", None)
        if tree is not None and (error := FlatForest.of([part], tree.n_features).structure_error()):
            raise ValueError(f"a tree is damaged: {error}")


def _check_support_vectors(model: Any) -> None:
    """Raise ValueError if a support vector machine's arrays do not fit together; libsvm does not check them."""
    for part in _parts_of(model):
        if type(part).__name__ == "SVR" and not _support_vectors_fit(part):
            raise ValueError("support vectors and their weights do not fit together")


def _support_vectors_fit(model: Any) -> bool:
    vectors = model.support_vectors_
    weights = model._dual_coef_
    count = model._n_support
    rows, columns = vectors.shape
    return bool(
        vectors.dtype == weights.dtype == np.float64
        and count.dtype == np.int32
        and columns == model.n_features_in_
        and weights.shape == (1, rows)
        and len(model.support_) == rows
        and count[0] == rows
        and model._intercept_.shape == (1,)
        and model._probA.shape == model._probB.shape == (0,)
    )


def _check_boosted_trees(text: str) -> None:
    """Raise ValueError if a tree in the library's JSON text is malformed; the library does not check it."""
    learner = json.loads(text)["learner"]
    features = int(learner["learner_model_param"]["num_feature"])
    for tree in learner["gradient_booster"]["model"]["trees"]:
        nodes = len(tree["left_children"])
        left, right, split = (
            np.array(tree[name], dtype=np.int64) for name in ("left_children", "right_children", "split_indices")
        )
        thresholds = np.array(tree["split_conditions"], dtype=np.float64)
        if not len(right) == len(split) == len(thresholds) == nodes > 0:
            raise ValueError("a tree has columns of different lengths")
        inner = left != -1
        own = np.arange(nodes)
        bad = (inner != (right != -1)) | ((split < 0) | (split >= features))
        for child in (left, right):
            bad |= inner & ((child <= own) | (child >= nodes))
        if bad.any() or not np.isfinite(thresholds).all():
            raise ValueError("a tree has a branch that leads nowhere, or a number that is not finite")
