"""Dueling Q-network: two hidden layers, half of the second for the state's value, half for the actions' advantages.

    h1 = relu(x W1 + b1)            [s, t] = relu(h1 W2 + b2)
    v = s Wv + bv                   a = t Wa + ba                   q_i = v + _SCALE * (a_i - mean(a))

All weights are one flat vector, so that an optimiser step, a copy to the target network and a check are one
operation each. Both heads start at zero: an untrained network prefers no action. Compiled functions work row by
row and skip inactive units, about half of all. They use no library of matrix products, so no threads wait, and the
numbers do not depend on the number of cores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from ...compiled import compiled, entry
from ...core import Floats

Floats32 = NDArray[np.float32]
NAMES = ("w1", "b1", "w2", "b2", "wv", "bv", "wa", "ba")
#: Actions differ far less than states do. The scale lets both heads work with numbers of the same size, so that
#: one learning rate suits both.
_SCALE = 0.05


@dataclass(frozen=True, slots=True)
class NetworkShape:
    """Sizes of a network's layers."""

    features: int
    actions: int
    hidden: int = 256

    @property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """Shapes in the order of `NAMES`, as they lie in the flat vector."""
        half = self.hidden // 2
        return (
            (self.features, self.hidden), (self.hidden,),
            (self.hidden, self.hidden), (self.hidden,),
            (half, 1), (1,),
            (self.hidden - half, self.actions), (self.actions,),
        )  # fmt: skip

    @property
    def sizes(self) -> list[int]:
        """Number of weights of each part."""
        return [int(np.prod(part)) for part in self.parts]

    def __len__(self) -> int:
        return sum(self.sizes)

    def split(self, weights: Floats32) -> list[Floats32]:
        """Return the flat vector as matrices and vectors, without copying."""
        ends = np.cumsum(self.sizes)[:-1].tolist()
        pieces = np.split(weights, ends)
        return [piece.reshape(part) for piece, part in zip(pieces, self.parts, strict=True)]


def initial_weights(shape: NetworkShape, rng: np.random.Generator) -> Floats32:
    """Draw weights uniformly in ±1/sqrt(inputs); both heads are zero."""
    weights = np.zeros(len(shape), np.float32)
    parts = shape.split(weights)
    for layer in (0, 2):
        bound = 1.0 / np.sqrt(parts[layer].shape[0])
        parts[layer][:] = rng.uniform(-bound, bound, parts[layer].shape)
        parts[layer + 1][:] = rng.uniform(-bound, bound, parts[layer + 1].shape)
    return weights


# fastmath lets the sums be done eight or sixteen at a time.
fast = njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})


@fast
def _layer(x, weights, hidden, first, bias, active, out):  # type: ignore[no-untyped-def]
    """Compute ``out = relu(x weights + bias)`` for one row, from unit `first` on; `active` is scratch."""
    units = len(out)
    out[:] = bias
    count = 0
    for i in range(len(x)):  # without branches, which a processor could not predict
        active[count] = i
        count += x[i] != np.float32(0.0)
    k = 0
    while k + 4 <= count:  # four rows of weights at a time: `out` is read and written less often
        i0, i1, i2, i3 = active[k], active[k + 1], active[k + 2], active[k + 3]
        x0, x1, x2, x3 = x[i0], x[i1], x[i2], x[i3]
        w0 = weights[i0 * hidden + first : i0 * hidden + first + units]
        w1 = weights[i1 * hidden + first : i1 * hidden + first + units]
        w2 = weights[i2 * hidden + first : i2 * hidden + first + units]
        w3 = weights[i3 * hidden + first : i3 * hidden + first + units]
        for j in range(units):
            out[j] += x0 * w0[j] + x1 * w1[j] + x2 * w2[j] + x3 * w3[j]
        k += 4
    while k < count:
        i0 = active[k]
        x0 = x[i0]
        w0 = weights[i0 * hidden + first : i0 * hidden + first + units]
        for j in range(units):
            out[j] += x0 * w0[j]
        k += 1
    for j in range(units):
        out[j] = max(out[j], np.float32(0.0))


@fast
def _advantages(weights, h2, at, q):  # type: ignore[no-untyped-def]
    """Compute the advantages of all actions from their half of the second layer; their weights begin at `at`."""
    actions = len(q)
    end = at + len(h2) * actions
    q[:] = weights[end : end + actions]
    for i in range(len(h2)):
        for j in range(actions):
            q[j] += h2[i] * weights[at + i * actions + j]


@fast
def forward_row(weights, x, hidden, active, h1, h2, q):  # type: ignore[no-untyped-def]
    """Compute q of one observation, and both hidden layers."""
    features, actions, half = len(x), len(q), hidden // 2
    at = features * hidden
    _layer(x, weights[:at], hidden, 0, weights[at : at + hidden], active, h1)
    at += hidden
    bias = at + hidden * hidden
    _layer(h1, weights[at:bias], hidden, 0, weights[bias : bias + hidden], active, h2)
    at = bias + hidden
    value = weights[at + half]
    for i in range(half):
        value += h2[i] * weights[at + i]
    _advantages(weights, h2[half:], at + half + 1, q)
    mean = q.sum() / np.float32(actions)
    for j in range(actions):
        q[j] = value + np.float32(_SCALE) * (q[j] - mean)


@fast
def best_next_action(weights, x, known, known_weight, hidden, active, h1, h2, q):  # type: ignore[no-untyped-def]
    """Return the best action, as `best_action` does, without the state's value, which all actions share."""
    half, features = hidden // 2, len(x)
    best, options = 0, 0
    for j in range(len(q)):
        if known[j] < np.inf:
            best = j
            options += 1
    if options < 2:
        return best
    at = features * hidden
    _layer(x, weights[:at], hidden, 0, weights[at : at + hidden], active, h1)
    at += hidden
    bias = at + hidden * hidden
    _layer(h1, weights[at:bias], hidden, half, weights[bias + half : bias + hidden], active, h2[half:])
    _advantages(weights, h2[half:], bias + hidden + half + 1, q)
    best_value = -np.inf
    for j in range(len(q)):
        total = np.float32(_SCALE) * q[j] - known_weight * known[j]
        if total > best_value:
            best, best_value = j, total
    return best


@fast
def backward_row(weights, gradient, x, h1, h2, dq, dh1, dh2):  # type: ignore[no-untyped-def]
    """Add to `gradient` what one row contributes, from the gradient in q, by the chain rule."""
    features, hidden, actions = len(x), len(h1), len(dq)
    half = hidden // 2
    w2 = features * hidden + hidden
    wv = w2 + hidden * hidden + hidden
    wa = wv + half + 1
    ba = wa + (hidden - half) * actions
    dv = dq.sum()
    mean = dv / np.float32(actions)
    gradient[wv + half] += dv
    for i in range(half):
        gradient[wv + i] += h2[i] * dv
        dh2[i] = dv * weights[wv + i] if h2[i] > np.float32(0.0) else np.float32(0.0)
    for j in range(actions):
        gradient[ba + j] += np.float32(_SCALE) * (dq[j] - mean)
    for i in range(half, hidden):
        dh2[i] = np.float32(0.0)
        if h2[i] > np.float32(0.0):
            at = wa + (i - half) * actions
            for j in range(actions):
                da = np.float32(_SCALE) * (dq[j] - mean)
                gradient[at + j] += h2[i] * da
                dh2[i] += da * weights[at + j]
    bias = gradient[w2 + hidden * hidden : wv]
    for j in range(hidden):
        bias[j] += dh2[j]
    for i in range(hidden):
        dh1[i] = np.float32(0.0)
        active = h1[i]
        if active > np.float32(0.0):
            row = weights[w2 + i * hidden : w2 + (i + 1) * hidden]
            change = gradient[w2 + i * hidden : w2 + (i + 1) * hidden]
            total = np.float32(0.0)
            for j in range(hidden):
                total += row[j] * dh2[j]
            dh1[i] = total
            for j in range(hidden):
                change[j] += active * dh2[j]
    bias = gradient[features * hidden : w2]
    for j in range(hidden):
        bias[j] += dh1[j]
    for i in range(features):
        active = x[i]
        change = gradient[i * hidden : (i + 1) * hidden]
        for j in range(hidden):
            change[j] += active * dh1[j]


@fast
def best_action(weights, x, known, known_weight, network_weight, hidden, active, h1, h2, q):  # type: ignore[no-untyped-def]
    """Return the action with the largest ``network_weight * q - known_weight * known``; the first of equals."""
    forward_row(weights, x, hidden, active, h1, h2, q)
    best, best_value = 0, -np.inf
    for j in range(len(q)):
        total = network_weight * q[j] - known_weight * known[j]
        if total > best_value:
            best, best_value = j, total
    return best


_vector = types.Array(types.float32, 1, "C")
_ROW_SIGNATURE = types.int64(
    _vector, _vector, types.float64[::1], types.float64, types.float64, types.int64, _vector
)
_ROWS_SIGNATURE = types.void(_vector, types.float32[:, ::1], types.int64, types.float32[:, ::1])


@entry
def _best_action(weights, x, known, known_weight, network_weight, hidden, q):  # type: ignore[no-untyped-def]
    """Call `best_action` from Python."""
    active = np.empty(max(hidden, len(x)) + 1, np.int64)
    h1, h2 = np.empty(hidden, np.float32), np.empty(hidden, np.float32)
    return best_action(weights, x, known, known_weight, network_weight, hidden, active, h1, h2, q)


@entry
def _forward_rows(weights, x, hidden, q):  # type: ignore[no-untyped-def]
    """Compute q of every row."""
    active = np.empty(max(hidden, x.shape[1]) + 1, np.int64)
    h1, h2 = np.empty(hidden, np.float32), np.empty(hidden, np.float32)
    for i in range(len(x)):
        forward_row(weights, x[i], hidden, active, h1, h2, q[i])


class QNetwork:
    """Network on the memory of the flat weights it was given.

    Parameters
    ----------
    shape
        Sizes of the layers.
    weights
        Flat weights; later changes to them take effect at once.
    """

    def __init__(self, shape: NetworkShape, weights: Floats32) -> None:
        self.shape, self.weights = shape, weights
        #: Values of the last row that was decided.
        self.q = np.zeros(shape.actions, np.float32)
        self._best = compiled(_best_action, _ROW_SIGNATURE)
        self._rows = compiled(_forward_rows, _ROWS_SIGNATURE)

    def best(self, x: Floats32, known: Floats, known_weight: float, network_weight: float = 1.0) -> int:
        """Return the action with the largest ``network_weight * q - known_weight * known``; the first of equals."""
        return int(self._best(self.weights, x, known, known_weight, network_weight, self.shape.hidden, self.q))

    def values(self, x: Floats32) -> Floats32:
        """Return q of shape (rows, actions) for observations of shape (rows, features)."""
        q = np.empty((len(x), self.shape.actions), np.float32)
        self._rows(self.weights, np.ascontiguousarray(x), self.shape.hidden, q)
        return q
