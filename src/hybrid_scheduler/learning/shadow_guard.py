"""Guard that lets a learned policy decide only while it is the cheapest on simulated queues.

Every policy has simulated queues of its own, on which it places every task that arrives, with the durations trusted
at that moment. All policies see the same tasks and the same durations, so their costs are paired. The guard keeps a
running mean of each policy's cost over the last few hundred tasks. The policy with the lowest mean cost decides,
once it is lower than the deciding one's by a margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import types

from ..compiled.jit_cache import leaf
from ..core import Floats, Ints

#: Tasks of the running mean, and tasks before the first change.
_MEMORY = 400
_FIRST_CHANGE = 100


class ShadowState(NamedTuple):
    """Arrays of the guard; compiled loops use them through `shadow_place` and `shadow_end`."""

    free_at: Floats  # time at which each device is free, for every policy
    means: Floats  # running mean cost of every policy
    counters: Ints  # policy that should decide, tasks so far, tasks since the last restart
    decided: Ints  # tasks that each policy has decided, and last those that were tried on an unknown device
    class_of: Ints
    cpu_of: Ints


_INTS = types.int64[::1]
SHADOW = types.NamedTuple((types.float64[:, ::1], types.float64[::1], _INTS, _INTS, _INTS, _INTS), ShadowState)
ACTIVE, _TASKS, _SINCE = range(3)
#: Name for the policy of a task that is tried on a device of unknown duration, and its place in `decided`.
TRIAL_NAME = "trial"
TRIAL = -1


def new_shadow(policies: int, class_of: Ints, cpu_of: Ints) -> ShadowState:
    """Return empty simulated queues; the first policy decides."""
    return ShadowState(
        np.zeros((policies, len(class_of))), np.zeros(policies), np.zeros(3, np.int64),
        np.zeros(max(policies, 1) + 1, np.int64), np.array(class_of, np.int64), np.array(cpu_of, np.int64),
    )  # fmt: skip


def decision_counts(shadow: ShadowState, policies: Sequence[str]) -> dict[str, int]:
    """Return how many tasks each policy has decided, by name; tasks that were tried are named ``"trial"``."""
    names = (*policies[: len(shadow.decided) - 1], TRIAL_NAME)
    return dict(zip(names, shadow.decided.tolist(), strict=True))


@leaf
def shadow_place(shadow, policy, now, device, share, times, weight, prices):  # type: ignore[no-untyped-def]
    """Place a task on the queues of a policy and add its cost to the mean.

    `share` and `device` are the policy's decision, `times` the predicted (whole, fixed) seconds by class of device,
    `weight` and `prices` the cost of a second of latency and of a busy second by class.
    """
    free_at = shadow.free_at[policy]
    cpu = shadow.cpu_of[device]
    end = now
    busy = 0.0
    if share < 1.0 or device == cpu:
        column = shadow.class_of[cpu]
        part = times[column, 1] + (1.0 - share) * times[column, 0]
        free_at[cpu] = max(now, free_at[cpu]) + part
        end = free_at[cpu]
        busy += prices[column] * part
    if share > 0.0 and device != cpu:
        column = shadow.class_of[device]
        part = times[column, 1] + share * times[column, 0]
        free_at[device] = max(now, free_at[device]) + part
        end = max(end, free_at[device])
        busy += prices[column] * part
    cost = weight * (end - now) + busy
    shadow.means[policy] += (cost - shadow.means[policy]) / min(shadow.counters[_TASKS] + 1, _MEMORY)


@leaf
def shadow_end(shadow, lead):  # type: ignore[no-untyped-def]
    """Count a task that all policies have placed; return whether another one, cheaper by `lead`, now decides."""
    shadow.counters[_TASKS] += 1
    shadow.counters[_SINCE] += 1
    if shadow.counters[_TASKS] < _FIRST_CHANGE:
        return False
    active = shadow.counters[ACTIVE]
    best = active
    for policy in range(len(shadow.means)):
        if shadow.means[policy] < shadow.means[best]:
            best = policy
    if best == active or shadow.means[best] > (1.0 - lead) * shadow.means[active]:
        return False
    shadow.counters[ACTIVE] = best
    shadow.counters[_SINCE] = 0
    return True


@leaf
def shadow_return(shadow, policy, slack):  # type: ignore[no-untyped-def]
    """Let a policy decide again if it is dearer by `slack` at most, some tasks after the last change or restart."""
    active = shadow.counters[ACTIVE]
    if shadow.counters[_SINCE] >= _FIRST_CHANGE and shadow.means[policy] <= (1.0 + slack) * shadow.means[active]:
        shadow.counters[ACTIVE] = policy
        shadow.counters[_SINCE] = 0


@leaf
def shadow_restart(shadow):  # type: ignore[no-untyped-def]
    """Every few hundred tasks, let all policies start anew from the queues and the mean cost of the active one.

    A policy that was far behind, and no longer is, would otherwise have to work off its simulated backlog first.
    """
    if shadow.counters[_SINCE] < _MEMORY:
        return
    shadow.counters[_SINCE] = 0
    active = shadow.counters[ACTIVE]
    for policy in range(len(shadow.means)):
        for d in range(shadow.free_at.shape[1]):
            shadow.free_at[policy, d] = shadow.free_at[active, d]
        shadow.means[policy] = shadow.means[active]
