"""Trees of a fitted scikit-learn forest as arrays, evaluated by compiled code.

One row takes about a thousandth of scikit-learn's time, with identical numbers: inputs are rounded to 32 bits,
thresholds and leaves are 64-bit, and the trees are added up in the same order. All trees descend together, one
level at a time, and a leaf is its own child: that needs no branch, which is worth a factor of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import types
from numpy.typing import ArrayLike, NDArray

from ...compiled import compiled, entry, helper
from ...core import Floats, InvalidInputError

Indices = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class FlatForest:
    """Forest of regression trees in flat arrays.

    Node n tests ``row[feature[n]] <= threshold[n]`` and continues at ``child[n, 0]`` if so, else at ``child[n,
    1]``. `values[n]` is the prediction, one number per output; `roots` holds the trees' first nodes; `depth` is the
    number of steps to the deepest leaf.
    """

    feature: Indices
    threshold: Floats
    child: Indices
    values: Floats
    roots: Indices
    depth: int
    num_features: int

    @classmethod
    def of(cls, trees: Sequence[Any], num_features: int) -> FlatForest:
        """Convert fitted `DecisionTreeRegressor` objects, for instance ``forest.estimators_``."""
        return _join_forests([_flat(estimator.tree_, num_features) for estimator in trees])

    def __len__(self) -> int:
        return len(self.roots)

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return int(self.values.shape[1])

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Arguments of the compiled functions, in their order."""
        return self.feature, self.threshold, self.child, self.values, self.roots, self.depth

    def predict(self, rows: ArrayLike) -> tuple[Floats, Floats]:
        """Return mean and standard deviation over the trees, each of shape (rows, outputs).

        Raises
        ------
        InvalidInputError
            If `rows` has another number of columns than the forest has features.
        """
        inputs = np.ascontiguousarray(rows, dtype=np.float32)
        if inputs.ndim != 2 or inputs.shape[1] != self.num_features:
            raise InvalidInputError("rows", f"of shape (n, {self.num_features})", inputs.shape)
        mean, spread = np.zeros((2, len(inputs), self.outputs))
        compiled(_predict, _PREDICT)(inputs, *self.arrays, mean, spread)
        return mean, spread

    def structure_error(self) -> str | None:
        """Return why these arrays are not a valid forest, or None.

        Compiled code relies on every index being right.
        """
        count = len(self.feature)
        own = np.arange(count)[:, None]
        columns = (self.feature, self.threshold, self.roots, self.child, self.values)
        if [column.ndim for column in columns] != [1, 1, 1, 2, 2] or self.child.shape[1] != 2:
            return "an array has the wrong number of dimensions"
        if not (len(self.threshold) == len(self.child) == len(self.values) == count):
            return "the arrays of the nodes differ in length"
        if not (np.isfinite(self.values).all() and np.isfinite(self.threshold).all()):
            return "a value or threshold is not finite"
        if (self.feature >= self.num_features).any():
            return "feature index out of range"
        # A leaf is its own child; everywhere else children come after their parent.
        leaf = (self.child == own).all(axis=1)
        if ((self.child >= count) | ((self.child <= own) & ~leaf[:, None])).any() or (self.roots >= count).any():
            return "child index out of range"
        return None


def _flat(tree: Any, num_features: int) -> FlatForest:
    leaf = tree.children_left < 0
    own = np.arange(tree.node_count)
    sides = [np.where(leaf, own, side) for side in (tree.children_left, tree.children_right)]
    return FlatForest(
        np.where(leaf, 0, tree.feature).astype(np.uint32),
        np.where(leaf, 0.0, tree.threshold),
        np.column_stack(sides).astype(np.uint32),
        np.ascontiguousarray(tree.value[:, :, 0], dtype=np.float64),
        np.zeros(1, np.uint32),
        int(tree.max_depth),
        num_features,
    )


def _join_forests(parts: Sequence[FlatForest]) -> FlatForest:
    """Join several forests into one, the first one's trees first."""
    offsets = np.cumsum([0, *(len(part.feature) for part in parts)]).astype(np.uint32)
    shifted = list(zip(parts, offsets, strict=False))
    return FlatForest(
        np.concatenate([part.feature for part in parts]),
        np.concatenate([part.threshold for part in parts]),
        np.concatenate([part.child + offset for part, offset in shifted]),
        np.ascontiguousarray(np.concatenate([part.values for part in parts])),
        np.concatenate([part.roots + offset for part, offset in shifted]),
        max(part.depth for part in parts),
        parts[0].num_features,
    )


@helper
def descend(row, feature, threshold, child, roots, depth):  # type: ignore[no-untyped-def]
    """Return the leaf of every tree that a row of 32-bit numbers ends in."""
    at = np.empty(len(roots), np.uint32)
    at[:] = roots
    for _ in range(depth):
        for tree in range(len(at)):
            node = at[tree]
            at[tree] = child[node, np.uint32(row[feature[node]] > threshold[node])]
    return at


_INDEX = types.uint32[::1]
_MATRIX = types.float64[:, ::1]
#: feature, threshold, child, values, roots, depth: `FlatForest.arrays`
FOREST = (_INDEX, types.float64[::1], types.uint32[:, ::1], _MATRIX, _INDEX, types.int64)
_PREDICT = types.void(types.float32[:, ::1], *FOREST, _MATRIX, _MATRIX)


@entry
def _predict(rows, feature, threshold, child, values, roots, depth, mean, spread):  # type: ignore[no-untyped-def]
    trees = len(roots)
    outputs = values.shape[1]
    for r in range(len(rows)):
        leaves = descend(rows[r], feature, threshold, child, roots, depth)
        for leaf in leaves:
            for k in range(outputs):
                mean[r, k] += values[leaf, k]
        for k in range(outputs):
            mean[r, k] /= trees
        for leaf in leaves:
            for k in range(outputs):
                spread[r, k] += (values[leaf, k] - mean[r, k]) ** 2
        for k in range(outputs):
            spread[r, k] = np.sqrt(spread[r, k] / trees)
