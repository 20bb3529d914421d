"""Dueling Q-network: two hidden layers, half of the second for the state's value, half for the actions' advantages.

    h1 = relu(x W1 + b1)            [s, t] = relu(h1 W2 + b2)
    v = s Wv + bv                   a = t Wa + ba                   q_i = v + _SCALE * (a_i - mean(a))

All weights are one flat vector, so that an optimiser step, a copy to the target network and a check are one
operation each. Both heads start at zero: an untrained network prefers no action. Compiled functions compute two
rows at a time and skip inactive units, about half of all. They use no library of matrix products, so no threads
wait, and the numbers do not depend on the number of cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from ...compiled import compiled, entry
from ...core import Floats, Ints

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


def aligned_copy(values: Floats32) -> Floats32:
    """Return a copy that begins at a line of the processor's cache: the network is then a third faster."""
    buffer = np.empty(len(values) + 16, np.float32)
    begin = -buffer.ctypes.data % 64 // 4
    buffer[begin : begin + len(values)] = values
    return buffer[begin : begin + len(values)]


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
def _layer(x, y, weights, hidden, first, bias, active, out, other):  # type: ignore[no-untyped-def]
    """Compute ``relu(x weights + bias)`` of two rows x and y, from unit `first` on; `active` is scratch.

    Two rows at a time, because loading the weights takes longer than the arithmetic of one.
    """
    units = len(out)
    out[:] = bias
    other[:] = bias
    count = 0
    for i in range(len(x)):  # without branches, which a processor could not predict
        active[count] = i
        count += (x[i] != np.float32(0.0)) | (y[i] != np.float32(0.0))
    k = 0
    while k + 4 <= count:  # four rows of weights at a time: `out` is read and written less often
        i0 = active[k]
        i1 = active[k + 1]
        i2 = active[k + 2]
        i3 = active[k + 3]
        x0 = x[i0]
        x1 = x[i1]
        x2 = x[i2]
        x3 = x[i3]
        y0 = y[i0]
        y1 = y[i1]
        y2 = y[i2]
        y3 = y[i3]
        w0 = weights[i0 * hidden + first : i0 * hidden + first + units]
        w1 = weights[i1 * hidden + first : i1 * hidden + first + units]
        w2 = weights[i2 * hidden + first : i2 * hidden + first + units]
        w3 = weights[i3 * hidden + first : i3 * hidden + first + units]
        for j in range(units):
            out[j] += x0 * w0[j] + x1 * w1[j] + x2 * w2[j] + x3 * w3[j]
            other[j] += y0 * w0[j] + y1 * w1[j] + y2 * w2[j] + y3 * w3[j]
        k += 4
    while k < count:
        i0 = active[k]
        x0 = x[i0]
        y0 = y[i0]
        w0 = weights[i0 * hidden + first : i0 * hidden + first + units]
        for j in range(units):
            out[j] += x0 * w0[j]
            other[j] += y0 * w0[j]
        k += 1
    for j in range(units):
        out[j] = max(out[j], np.float32(0.0))
        other[j] = max(other[j], np.float32(0.0))


@fast
def advantage_weights(weights, features, hidden, actions):  # type: ignore[no-untyped-def]
    """Return the weights of the advantages by action, (actions, half), in which a sum over units is contiguous."""
    half = hidden // 2
    at = (features + hidden + 2) * hidden + half + 1
    head = np.empty((actions, hidden - half), np.float32)
    for i in range(hidden - half):
        for j in range(actions):
            head[j, i] = weights[at + i * actions + j]
    return head


@fast
def _advantages(weights, head, h2, q):  # type: ignore[no-untyped-def]
    """Compute the advantages of all actions from their half of the second layer."""
    at = len(weights) - len(q)
    for j in range(len(q)):
        total = weights[at + j]
        row = head[j]
        for i in range(len(h2)):
            total += h2[i] * row[i]
        q[j] = total


@fast
def matrix_of_rows(rows, hidden):  # type: ignore[no-untyped-def]
    """Return an empty matrix whose rows begin at lines of the processor's cache.

    Its rows are longer than `hidden`, so that the numbers of one column do not compete for the same lines.
    """
    length = (hidden + 31) // 16 * 16
    buffer = np.empty(rows * length + 16, np.float32)
    begin = -buffer.ctypes.data % 64 // 4
    return buffer[begin : begin + rows * length].reshape((rows, length))


class _Layers(NamedTuple):
    """Space for the layers of a batch, one row for each observation; rows are computed in pairs."""

    hidden: int
    active: Ints  # scratch: units that are not zero
    h1: Floats32
    h2: Floats32
    q: Floats32


@fast
def new_layers(rows, features, hidden, actions):  # type: ignore[no-untyped-def]
    """Return space for the layers of so many rows."""
    active = np.empty(max(hidden, features) + 1, np.int64)
    q = np.empty((rows, actions), np.float32)
    return _Layers(hidden, active, matrix_of_rows(rows, hidden), matrix_of_rows(rows, hidden), q)


@fast
def _hidden_layers(weights, x, y, first, layers, row):  # type: ignore[no-untyped-def]
    """Compute both hidden layers of x and y in the rows `row` and `row + 1`, the second from unit `first` on."""
    hidden = layers.hidden
    active = layers.active
    h1 = layers.h1
    h2 = layers.h2
    at = len(x) * hidden
    _layer(x, y, weights[:at], hidden, 0, weights[at : at + hidden], active, h1[row, :hidden], h1[row + 1, :hidden])
    at += hidden
    bias = at + hidden * hidden
    _layer(
        h1[row, :hidden], h1[row + 1, :hidden], weights[at:bias], hidden, first,
        weights[bias + first : bias + hidden], active, h2[row, first:hidden], h2[row + 1, first:hidden],
    )  # fmt: skip
    return bias + hidden


@fast
def forward_pair(weights, head, x, y, layers, row):  # type: ignore[no-untyped-def]
    """Compute q and both hidden layers of the observations x and y, in the rows `row` and `row + 1`.

    `head` are the `advantage_weights`.
    """
    hidden = layers.hidden
    h2 = layers.h2
    q = layers.q
    actions = q.shape[1]
    half = hidden // 2
    at = _hidden_layers(weights, x, y, 0, layers, row)
    for r in range(row, row + 2):
        value = weights[at + half]
        units = h2[r, :half]
        for i in range(half):
            value += units[i] * weights[at + i]
        _advantages(weights, head, h2[r, half:hidden], q[r])
        mean = q[r].sum() / np.float32(actions)
        for j in range(actions):
            q[r, j] = value + np.float32(_SCALE) * (q[r, j] - mean)


@fast
def choose(q, masked_cost, cost_weight, network_weight):  # type: ignore[no-untyped-def]
    """Return the action with the largest ``network_weight * q - cost_weight * masked_cost``, the first of ties."""
    best = 0
    best_value = -np.inf
    for j in range(len(q)):
        total = network_weight * q[j] - cost_weight * masked_cost[j]
        if total > best_value:
            best = j
            best_value = total
    return best


@fast
def choose_pair(weights, head, x, y, cost_x, cost_y, cost_weight, layers):  # type: ignore[no-untyped-def]
    """Return the best actions of two observations, without the state's value, which all actions share."""
    hidden = layers.hidden
    h2 = layers.h2
    q = layers.q
    half = hidden // 2
    _hidden_layers(weights, x, y, half, layers, 0)
    for r in range(2):
        _advantages(weights, head, h2[r, half:hidden], q[r])
    scale = np.float32(_SCALE)
    return choose(q[0], cost_x, cost_weight, scale), choose(q[1], cost_y, cost_weight, scale)


@fast
def _head_gradient(weights, head, gradient, h2, dq, dh2, hidden):  # type: ignore[no-untyped-def]
    """Write the gradient in the weights of both heads and in the second layer, from the gradient in q."""
    count, actions = dq.shape
    half = hidden // 2
    ba = len(weights) - actions
    wv = ba - (hidden - half) * actions - half - 1
    to_head = np.zeros((actions, hidden - half), np.float32)
    to_value = gradient[wv : wv + half]
    value = weights[wv : wv + half]
    for k in range(count):
        dv = np.float32(0.0)
        for j in range(actions):
            dv += dq[k, j]
        gradient[wv + half] += dv
        units = h2[k, :half]
        back = dh2[k, :half]
        for i in range(half):
            to_value[i] += units[i] * dv
            back[i] = dv * value[i] if units[i] > np.float32(0.0) else np.float32(0.0)
        units = h2[k, half:hidden]
        back = dh2[k, half:hidden]
        back[:] = np.float32(0.0)
        for j in range(actions):
            da = np.float32(_SCALE) * (dq[k, j] - dv / np.float32(actions))
            gradient[ba + j] += da
            row = head[j]
            change = to_head[j]
            for i in range(len(back)):
                change[i] += da * units[i]
                back[i] += da * row[i]
        for i in range(len(back)):
            back[i] = back[i] if units[i] > np.float32(0.0) else np.float32(0.0)
    for i in range(hidden - half):
        for j in range(actions):
            gradient[wv + half + 1 + i * actions + j] = to_head[j, i]


@fast
def _unit_gradient(row, factors, rows, count, back, total, slope):  # type: ignore[no-untyped-def]
    """Write the gradient in the weights of one unit, and in its output for every row in which it is active.

    Parameters
    ----------
    row
        Weights from this unit to the next layer.
    factors, rows, count
        Output of the unit in every row; the rows in which it is active, and their number.
    back
        Gradient in the next layer, one row each.
    total, slope
        Where both gradients are written.
    """
    width = len(row)
    total[:] = np.float32(0.0)
    k = 0
    while k + 4 <= count:
        r0 = rows[k]
        r1 = rows[k + 1]
        r2 = rows[k + 2]
        r3 = rows[k + 3]
        f0 = factors[r0]
        f1 = factors[r1]
        f2 = factors[r2]
        f3 = factors[r3]
        b0 = back[r0, :width]
        b1 = back[r1, :width]
        b2 = back[r2, :width]
        b3 = back[r3, :width]
        s0 = np.float32(0.0)
        s1 = np.float32(0.0)
        s2 = np.float32(0.0)
        s3 = np.float32(0.0)
        for j in range(width):
            total[j] += f0 * b0[j] + f1 * b1[j] + f2 * b2[j] + f3 * b3[j]
            s0 += row[j] * b0[j]
            s1 += row[j] * b1[j]
            s2 += row[j] * b2[j]
            s3 += row[j] * b3[j]
        slope[r0] = s0
        slope[r1] = s1
        slope[r2] = s2
        slope[r3] = s3
        k += 4
    while k < count:
        f0 = factors[rows[k]]
        b0 = back[rows[k], :width]
        s0 = np.float32(0.0)
        for j in range(width):
            total[j] += f0 * b0[j]
            s0 += row[j] * b0[j]
        slope[rows[k]] = s0
        k += 1


@fast
def backward(weights, head, gradient, x, h1, h2, dq, dh1, dh2, hidden):  # type: ignore[no-untyped-def]
    """Write the gradient in the weights of a batch, from the gradient in q, by the chain rule.

    Units are the outer loop: every part of the gradient is then read and written once for the whole batch.
    """
    count, features = x.shape
    w2 = features * hidden + hidden
    gradient[:] = np.float32(0.0)
    _head_gradient(weights, head, gradient, h2, dq, dh2, hidden)
    output = np.empty(count, np.float32)
    rows = np.empty(count + 1, np.int64)
    slope = np.empty(count, np.float32)
    for i in range(hidden):
        active = 0
        for k in range(count):
            output[k] = h1[k, i]
            slope[k] = np.float32(0.0)
            rows[active] = k
            active += output[k] > np.float32(0.0)
        begin = w2 + i * hidden
        _unit_gradient(
            weights[begin : begin + hidden], output, rows, active, dh2, gradient[begin : begin + hidden], slope
        )
        for k in range(count):
            dh1[k, i] = slope[k]
    for bias, back in ((features * hidden, dh1), (w2 + hidden * hidden, dh2)):
        total = gradient[bias : bias + hidden]
        for k in range(count):
            for j in range(hidden):
                total[j] += back[k, j]
    for i in range(features):
        total = gradient[i * hidden : (i + 1) * hidden]
        for k in range(count):
            for j in range(hidden):
                total[j] += x[k, i] * dh1[k, j]


_vector = types.Array(types.float32, 1, "C")
_ROW_SIGNATURE = types.int64(
    _vector, _vector, types.float64[::1], types.float64, types.float64, types.int64, _vector
)
_ROWS_SIGNATURE = types.void(_vector, types.float32[:, ::1], types.int64, types.float32[:, ::1])


@entry
def _best_action(weights, x, masked_cost, cost_weight, network_weight, hidden, q):  # type: ignore[no-untyped-def]
    """Write q of one observation and return the best action; see `choose`."""
    layers = new_layers(2, len(x), hidden, len(q))
    head = advantage_weights(weights, len(x), hidden, len(q))
    forward_pair(weights, head, x, x, layers, 0)
    q[:] = layers.q[0]
    return choose(q, masked_cost, cost_weight, network_weight)


@entry
def _forward_rows(weights, x, hidden, q):  # type: ignore[no-untyped-def]
    """Compute q of every row."""
    layers = new_layers(2, x.shape[1], hidden, q.shape[1])
    head = advantage_weights(weights, x.shape[1], hidden, q.shape[1])
    for i in range(0, len(x), 2):
        last = min(i + 1, len(x) - 1)
        forward_pair(weights, head, x[i], x[last], layers, 0)
        q[i] = layers.q[0]
        q[last] = layers.q[last - i]


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
        self.shape = shape
        self.weights = weights
        #: Values of the last row that was decided.
        self.q = np.zeros(shape.actions, np.float32)
        self._best = compiled(_best_action, _ROW_SIGNATURE)
        self._rows = compiled(_forward_rows, _ROWS_SIGNATURE)

    def best(self, x: Floats32, masked_cost: Floats, cost_weight: float, network_weight: float = 1.0) -> int:
        """Return the action with the largest ``network_weight * q - cost_weight * masked_cost``, first of ties."""
        return int(self._best(self.weights, x, masked_cost, cost_weight, network_weight, self.shape.hidden, self.q))

    def values(self, x: Floats32) -> Floats32:
        """Return q of shape (rows, actions) for observations of shape (rows, features)."""
        q = np.empty((len(x), self.shape.actions), np.float32)
        self._rows(self.weights, np.ascontiguousarray(x), self.shape.hidden, q)
        return q
