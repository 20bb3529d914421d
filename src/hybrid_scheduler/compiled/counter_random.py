"""Counter-based random numbers: a function of a key instead of a stream.

The number for (seed, a, b) does not depend on earlier draws. Noise therefore does not change with the order of
decisions, and a run that is cut into chunks or resumed gives the same bytes.
"""

from __future__ import annotations

import math

import numpy as np
from numba import uint64

from .jit_cache import inner

_GOLDEN = uint64(0x9E3779B97F4A7C15)


@inner
def _mix(x):  # type: ignore[no-untyped-def]
    """Mix bits as the finaliser of SplitMix64 does: every input bit affects every output bit."""
    x = (x ^ (x >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> uint64(27))) * uint64(0x94D049BB133111EB)
    return x ^ (x >> uint64(31))


@inner
def uniform(seed, a, b):  # type: ignore[no-untyped-def]
    """Return a uniform number in [0, 1) for the key (seed, a, b)."""
    key = _mix(uint64(seed) + _GOLDEN)
    key = _mix(key + _GOLDEN * (uint64(a) + uint64(1)))
    key = _mix(key + _GOLDEN * (uint64(b) + uint64(1)))
    return np.float64(key >> uint64(11)) * (1.0 / 9007199254740992.0)


@inner
def normal(seed, a, b):  # type: ignore[no-untyped-def]
    """Return a standard normal number for the key (seed, a, b), by the Box-Muller transform."""
    u = 1.0 - uniform(seed, a, 2 * b)
    v = uniform(seed, a, 2 * b + 1)
    return math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)
