"""Policy of the agent: a linear map from the features of a regime to logarithms of multipliers."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ...compiled.regime import FEATURES, INPUTS, MAX_FEATURE, MULTIPLIED
from ...core import Floats

#: Shapes of the arrays of a policy, in the order of `Policy`.
SHAPES = {
    "mean": (len(FEATURES),),
    "deviation": (len(FEATURES),),
    "linear": (MULTIPLIED, INPUTS),
}


@dataclass(frozen=True)
class Policy:
    """Weights of the map; see `compiled/regime.py`.

    Parameters
    ----------
    mean, deviation
        Mean and standard deviation of each feature, by which it is standardised.
    linear
        For each multiplier a constant and a weight of each feature.
    """

    mean: Floats
    deviation: Floats
    linear: Floats

    @classmethod
    def zeros(cls) -> Policy:
        """Return the policy that changes nothing."""
        arrays = {name: np.zeros(shape) for name, shape in SHAPES.items()}
        return cls(**arrays | {"deviation": np.ones(SHAPES["deviation"])})

    @property
    def numbers(self) -> Floats:
        """All numbers as one vector, in the order of compiled code."""
        return np.concatenate([getattr(self, field.name).ravel() for field in fields(self)])

    def inputs(self, features: Floats) -> Floats:
        """Return a one and the standardised features, row by row."""
        scaled = np.clip((features - self.mean) / self.deviation, -MAX_FEATURE, MAX_FEATURE)
        return np.column_stack([np.ones(len(scaled)), scaled])
