"""Dueling Q-network: two hidden layers, half of the second for the state's value, half for the actions' advantages.

    h1 = relu(x W1 + b1)            [s, t] = relu(h1 W2 + b2)
    v = s Wv + bv                   a = t Wa + ba                   q_i = v + _SCALE * (a_i - mean(a))

All weights are one flat vector, so that an optimiser step, a copy to the target network and a check are one
operation each. Both heads start at zero: an untrained network prefers no action. torch learns; for a single row a
compiled function reads the same memory, which is about ten times faster and gives the same actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from ...compiled import compiled
from ...core import Floats

if TYPE_CHECKING:
    from torch import Tensor

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


def as_tensors(shape: NetworkShape, weights: Floats32) -> list[Tensor]:
    """Return the flat vector as torch matrices and vectors in the order of `NAMES`, without copying."""
    import torch

    return [torch.from_numpy(part) for part in shape.split(weights)]


def forward(parts: Sequence[Tensor], x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Map (rows, features) to q of shape (rows, actions), and both hidden layers."""
    w1, b1, w2, b2, wv, bv, wa, ba = parts
    half = len(wv)
    h1 = b1.addmm(x, w1).relu_()
    h2 = b2.addmm(h1, w2).relu_()
    value, advantage = bv.addmm(h2[:, :half], wv), ba.addmm(h2[:, half:], wa)
    return value + _SCALE * (advantage - advantage.mean(1, keepdim=True)), h1, h2


def backward(
    parts: Sequence[Tensor], gradients: Sequence[Tensor], x: Tensor, h1: Tensor, h2: Tensor, dq: Tensor
) -> None:
    """Compute the gradients in the weights from the gradient in q, by the chain rule.

    Written out because it is short: torch's own bookkeeping would take longer than the arithmetic.
    """
    import torch

    _, _, w2, _, wv, _, wa, _ = parts
    g_w1, g_b1, g_w2, g_b2, g_wv, g_bv, g_wa, g_ba = gradients
    half = len(wv)
    dv, da = dq.sum(1, keepdim=True), _SCALE * (dq - dq.mean(1, keepdim=True))
    dh2 = torch.empty_like(h2)
    torch.mm(dv, wv.t(), out=dh2[:, :half])
    torch.mm(da, wa.t(), out=dh2[:, half:])
    dh2 *= h2 > 0
    dh1 = (dh2 @ w2.t()).mul_(h1 > 0)
    for inputs, outputs, g_weights, g_bias in (
        (h2[:, :half], dv, g_wv, g_bv),
        (h2[:, half:], da, g_wa, g_ba),
        (h1, dh2, g_w2, g_b2),
        (x, dh1, g_w1, g_b1),
    ):
        torch.mm(inputs.t(), outputs, out=g_weights)
        torch.sum(outputs, 0, out=g_bias)


_vector = types.Array(types.float32, 1, "C")
_ROW_SIGNATURE = types.int64(
    _vector, _vector, types.float64[::1], types.float64, types.float64, types.int64, types.int64, _vector
)


# fastmath lets the sums be done eight or sixteen at a time.
@njit(nogil=True, error_model="numpy", cache=True, fastmath={"reassoc", "contract", "nsz"})
def _best_action(  # type: ignore[no-untyped-def]
    weights, x, known, known_weight, network_weight, hidden, actions, q
):
    features = len(x)
    h1, h2 = np.empty(hidden, np.float32), np.empty(hidden, np.float32)
    at = features * hidden
    h1[:] = weights[at : at + hidden]
    for i in range(features):
        row, active = weights[i * hidden : (i + 1) * hidden], x[i]
        for j in range(hidden):
            h1[j] += active * row[j]
    at += hidden
    bias = at + hidden * hidden
    h2[:] = weights[bias : bias + hidden]
    for i in range(hidden):
        active = h1[i]
        if active > np.float32(0.0):  # half of the units are inactive
            row = weights[at + i * hidden : at + (i + 1) * hidden]
            for j in range(hidden):
                h2[j] += active * row[j]
    half = hidden // 2
    at = bias + hidden
    value = weights[at + half]
    for i in range(half):
        value += max(h2[i], np.float32(0.0)) * weights[at + i]
    at += half + 1
    out = np.empty(actions, np.float32)
    out[:] = weights[at + (hidden - half) * actions : at + (hidden - half) * actions + actions]
    for i in range(hidden - half):
        active = h2[half + i]
        if active > np.float32(0.0):
            for j in range(actions):
                out[j] += active * weights[at + i * actions + j]
    mean = out.sum() / np.float32(actions)
    best, best_value = 0, -np.inf
    for j in range(actions):
        q[j] = value + np.float32(_SCALE) * (out[j] - mean)
        total = network_weight * q[j] - known_weight * known[j]
        if total > best_value:
            best, best_value = j, total
    return best


class RowNetwork:
    """Decides for one row at a time, on the memory of the flat weights it was given."""

    def __init__(self, shape: NetworkShape, weights: Floats32) -> None:
        self.shape, self.weights = shape, weights
        self.q = np.zeros(shape.actions, np.float32)
        self._best = compiled(_best_action, _ROW_SIGNATURE)

    def best(self, x: Floats32, known: Floats, known_weight: float, network_weight: float = 1.0) -> int:
        """Return the action with the largest ``network_weight * q - known_weight * known``; the first of equals."""
        return self._best(
            self.weights, x, known, known_weight, network_weight, self.shape.hidden, self.shape.actions, self.q
        )
