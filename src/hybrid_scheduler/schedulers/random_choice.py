"""Random scheduler.

Assumes nothing. Rule: a fraction uniform in [0, 1] on an accelerator chosen uniformly, from its own seeded
generator. A baseline that every useful scheduler must improve on.
"""

from __future__ import annotations

import numpy as np

from ..compiled import FastRule, earliest_free_of, rule, uniform
from ..core import Floats
from .registry import Look, register


@rule
def _random_rule(now, task, times, free_at, devices, params, state):  # type: ignore[no-untyped-def]
    accelerators = len(params) - 1
    if accelerators == 0:
        return earliest_free_of(1, free_at, devices), 0.0
    draw = int(state[0])
    state[0] += 1.0
    seed = int(params[0])
    chosen = min(int(uniform(seed, draw, 0) * accelerators), accelerators - 1)
    return int(params[1 + chosen]), uniform(seed, draw, 1)


@register("random", look=Look("#7B87A7", "#3B4D63", "✕", "thin"), published=True)
class Random(FastRule):
    """A uniform fraction on a uniform GPU, from its own seeded generator."""

    rule = _random_rule

    def make_params(self) -> Floats:
        """Return the seed and the accelerators."""
        return np.concatenate([[self.setting.seed], self.setting.platform.accelerators])

    def make_state(self) -> Floats:
        """Return the counter of draws."""
        return np.zeros(1)
