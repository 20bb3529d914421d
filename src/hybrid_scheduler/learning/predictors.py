"""Interchangeable predictors: random forest, boosted trees, support vector machine, small neural network.

All have one interface: `fit` (with held-out test and cross-validation), `predict`, `feature_importance`, `save`,
`load`. Labels may have several columns. The fitted estimator is `model_`; libraries load when first used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core import Floats, Ints, InvalidInputError, require
from .duration.features import FEATURE_NAMES
from .duration.flat_forest import FlatForest
from .model_files import Manifest, ModelFileError, data_digest, load, save

_LEAST_ROWS = 10
_FOLDS = 5
#: Compiled, and it trusts its indices: `_check_trees` looks at them before the first prediction.
_TREE = "sklearn.tree._tree.Tree"


class Predictor(ABC):
    """Base class; subclasses make the estimator and list the types its file may hold.

    Parameters
    ----------
    seed
        Seed of the split, the folds and the estimator.
    """

    name: ClassVar[str]
    #: Types a saved model may hold beside those skops trusts by itself.
    trusted: ClassVar[tuple[str, ...]] = ()

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

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
        test, train = np.sort(order[:held_out]), np.sort(order[held_out:])
        model = self.make().fit(inputs[train], labels[train])
        folds = KFold(_FOLDS, shuffle=True, random_state=self.seed)
        scores = cross_val_score(clone(model), inputs[train], labels[train], cv=folds, scoring="r2")
        self.metrics_ = {
            "train_r2": float(r2_score(labels[train], model.predict(inputs[train]))),
            "test_r2": float(r2_score(labels[test], model.predict(inputs[test]))),
            "mae": float(mean_absolute_error(labels[test], model.predict(inputs[test]))),
            "cv_r2": float(np.mean(scores)),
        }
        self.model_, self.num_features_ = model, inputs.shape[1]
        #: Rows used for training and for the test.
        self.split_: tuple[Ints, Ints] = (train, test)
        self.importance_ = self._importance(inputs[test], labels[test])
        self.training_data_sha256_ = data_digest(inputs, labels)
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
        manifest = Manifest(
            self.name,
            tuple(self.importance_names()),
            training_data_sha256=self.training_data_sha256_,
            metrics={**self.metrics_, "feature_importance": dict(self.importance_)},
        )
        save(self.packed(), path, manifest)

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
        except Exception as error:
            raise ModelFileError(path, f"does not hold a model: {error}") from error
        predictor.num_features_ = len(manifest.features)
        metrics = dict(manifest.metrics)
        predictor.importance_ = metrics.pop("feature_importance", {})
        predictor.metrics_, predictor.training_data_sha256_ = metrics, manifest.training_data_sha256
        try:
            prediction = predictor.predict(np.zeros((1, len(manifest.features))))
        except Exception as error:
            raise ModelFileError(path, f"cannot predict from {len(manifest.features)} features: {error}") from error
        if not np.isfinite(prediction).all():
            raise ModelFileError(path, "predicts numbers that are not finite")
        return predictor

    def packed(self) -> Any:
        """Return the content of the file."""
        return self.model_

    def unpack(self, packed: Any) -> None:
        """Restore the estimator from the content of a file."""
        _check_trees(packed)
        self.model_ = packed

    def importance_names(self) -> list[str]:
        """Return the names of the features."""
        known = list(FEATURE_NAMES)
        return known if self.num_features_ == len(known) else [f"feature_{k}" for k in range(self.num_features_)]

    def _importance(self, inputs: Floats, labels: Floats) -> dict[str, float]:
        from sklearn.inspection import permutation_importance

        own = getattr(self.model_, "feature_importances_", None)
        if own is None:
            found = permutation_importance(self.model_, inputs, labels, n_repeats=3, random_state=self.seed)
            own = np.maximum(found.importances_mean, 0.0)
        own = np.asarray(own, dtype=np.float64)
        shares = own / own.sum() if own.sum() > 0 else np.full(len(own), 1.0 / len(own))
        pairs = sorted(zip(self.importance_names(), shares.tolist(), strict=True), key=lambda pair: -pair[1])
        return dict(pairs)


class RandomForestPredictor(Predictor):
    """Random forest of a hundred trees of depth 15: the default."""

    name = "random_forest"
    trusted = (_TREE,)

    def make(self) -> Any:
        """Return an unfitted random forest."""
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor(100, max_depth=15, random_state=self.seed)


class XGBoostPredictor(Predictor):
    """Boosted trees of depth 7."""

    name = "xgboost"

    def make(self) -> Any:
        """Return unfitted boosted trees."""
        xgboost = require("xgboost", "the predictor xgboost")
        return xgboost.XGBRegressor(
            n_estimators=200, max_depth=7, learning_rate=0.1, random_state=self.seed, n_jobs=1
        )

    def packed(self) -> Any:
        """Return the library's own JSON text, which holds numbers only."""
        return {"model": bytes(self.model_.get_booster().save_raw("json")).decode()}

    def unpack(self, packed: Any) -> None:
        """Restore the trees from the library's JSON text."""
        if not (isinstance(packed, dict) and isinstance(packed.get("model"), str)):
            raise ValueError("no boosted trees in it")
        self.model_ = self.make()
        self.model_.load_model(bytearray(packed["model"].encode()))


class GradientBoostingPredictor(Predictor):
    """Boosted trees of scikit-learn, one sequence per label."""

    name = "gradient_boosting"
    trusted = (_TREE,)

    def make(self) -> Any:
        """Return unfitted boosted trees, one sequence per label."""
        from sklearn.ensemble import GradientBoostingRegressor
        from sklearn.multioutput import MultiOutputRegressor

        return MultiOutputRegressor(GradientBoostingRegressor(random_state=self.seed))


class SVMPredictor(Predictor):
    """Support vector regression with a Gaussian kernel on standardised features, one per label."""

    name = "svm"

    def make(self) -> Any:
        """Return an unfitted support vector machine per label."""
        from sklearn.multioutput import MultiOutputRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVR

        return make_pipeline(StandardScaler(), MultiOutputRegressor(SVR(C=10.0, epsilon=0.01)))


class NeuralNetworkPredictor(Predictor):
    """Neural network with two hidden layers of 32 units on standardised features."""

    name = "neural_network"
    trusted = ("sklearn.neural_network._stochastic_optimizers.AdamOptimizer",)

    def make(self) -> Any:
        """Return an unfitted network."""
        from sklearn.neural_network import MLPRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        network = MLPRegressor(
            hidden_layer_sizes=(32, 32), max_iter=1000, early_stopping=True, random_state=self.seed
        )
        return make_pipeline(StandardScaler(), network)


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


def _checked(X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    inputs, labels = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if inputs.ndim != 2 or labels.ndim not in (1, 2) or len(labels) != len(inputs):
        raise InvalidInputError("X, y", "a matrix and one label per row", (inputs.shape, labels.shape))
    if len(inputs) < _LEAST_ROWS:
        raise InvalidInputError("X", f"at least {_LEAST_ROWS} rows", len(inputs))
    for name, values in (("X", inputs), ("y", labels)):
        if not np.isfinite(values).all():
            raise InvalidInputError(name, "finite", "NaN or infinity")
    if (np.ptp(labels, axis=0) == 0).any():
        raise InvalidInputError("y", "labels that differ", "constant labels")
    return inputs, labels


def _check_trees(model: Any) -> None:
    """Raise ValueError if a tree somewhere in the model has branches that lead nowhere."""
    for part in np.ravel(np.asarray(getattr(model, "estimators_", []), dtype=object)).tolist():
        tree = getattr(part, "tree_", None)
        if tree is None:
            _check_trees(part)
        else:
            flaw = FlatForest.of([part], tree.n_features).flaw()
            if flaw:
                raise ValueError(f"a tree has {flaw}")
