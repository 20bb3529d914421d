"""Greedy scheduler.

Assumes that compute intensity is the share that a GPU should get.
Rule: fraction = compute intensity, on the accelerator that is free earliest. It ignores the CPU's queue. The CPU,
which gets (1 - I) of every task, saturates at about 0.19 of capacity.
"""

from __future__ import annotations

from ..compiled import FastRule, earliest_free_of, rule
from .registry import Look, register


@rule
def _greedy_rule(now, task, times, free_at, devices, params, state):  # type: ignore[no-untyped-def]
    best = earliest_free_of(0, free_at, devices)
    if best < 0:
        return earliest_free_of(1, free_at, devices), 0.0
    return best, task[0].intensity


@register("greedy", look=Look("#FB7F27", "#AE5F28", "▲", "dash-dot"), published=True)
class Greedy(FastRule):
    """Fraction = compute intensity, on the least-loaded GPU."""

    rule = _greedy_rule
