"""Adam optimiser (Kingma and Ba, 2015) with gradient clipping, in one pass over flat weights.

    m = 0.9 m + 0.1 g          v = 0.999 v + 0.001 g²          w -= rate * m̂ / (sqrt(v̂) + 1e-8)

where m̂ and v̂ are corrected for starting at zero. For a network this small, a general optimiser would spend more
time on bookkeeping than this arithmetic takes.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types

from ...compiled import compiled, entry
from .q_network import Floats32

_vector = types.float32[::1]
_SIGNATURE = types.void(_vector, _vector, _vector, _vector, types.float32, types.float32, types.float32)


@entry
def _adam(weights, gradient, first, second, step, correction, clip):  # type: ignore[no-untyped-def]
    for i in range(len(weights)):
        g = gradient[i] * clip
        m = np.float32(0.9) * first[i] + np.float32(0.1) * g
        v = np.float32(0.999) * second[i] + np.float32(0.001) * g * g
        # Moments of inactive units decay to denormal numbers, which slow the processor down a hundredfold.
        first[i] = m if abs(m) > np.float32(1e-30) else np.float32(0.0)
        second[i] = v if v > np.float32(1e-30) else np.float32(0.0)
        weights[i] -= step * m / (math.sqrt(v) * correction + np.float32(1e-8))


class Adam:
    """Optimiser that changes `weights` in place."""

    def __init__(self, weights: Floats32) -> None:
        self._weights = weights
        self._first, self._second = np.zeros_like(weights), np.zeros_like(weights)
        self._steps = 0
        self._pass = compiled(_adam, _SIGNATURE)

    def step(self, gradient: Floats32, length: float, rate: float, clip: float) -> None:
        """Take one step against the gradient.

        Parameters
        ----------
        gradient
            Gradient of the loss, as long as the weights.
        length
            Euclidean norm of the gradient.
        rate
            Learning rate.
        clip
            Largest norm: a longer gradient is scaled down to it.
        """
        self._steps += 1
        step = rate / (1.0 - 0.9**self._steps)
        correction = 1.0 / math.sqrt(1.0 - 0.999**self._steps)
        shorten = min(1.0, clip / length) if length > 0 else 1.0
        self._pass(self._weights, gradient, self._first, self._second, step, correction, shorten)
