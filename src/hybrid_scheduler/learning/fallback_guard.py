"""Guards that replace a learned policy while it performs worse than a simpler rule.

`FallbackGuard` compares with greedy, task by task:

Every finished task is evaluated twice, with the seconds it really took and the queues as they stood at the
decision: the cost of the learned placement and the cost of greedy's. d is the logarithm of their ratio.

Trips:     over the last 100 tasks the mean of d, less 2.6 standard errors, lies above log 1.05: the learned policy
           is worse by more than five per cent, and not by chance.
Recovers:  while `greedy` acts, the learned policy keeps deciding in the background. Over at least 50 tasks
           since the guard tripped (the last 100 of them) the mean of d plus one standard error is below 0.

Between the two thresholds nothing changes, so the guard does not oscillate.

`ShadowGuard` compares policies by what they do to queues. Every policy has simulated queues of its own, on which it
places every task that arrives, with the durations predicted at that moment. All policies see the same tasks and the
same predictions, so their costs are paired. The record is a running mean of each policy's cost over the last few
hundred tasks. The policy with the lowest record acts, once it leads the acting one by a margin.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import types

from ..compiled import compiled, entry, inner
from ..core import Floats, Ints

_WINDOW, _MIN_TO_RECOVER = 100, 50
_MARGIN = math.log(1.05)
_SIGNIFICANT = 2.6


class FallbackGuard:
    """Guard whose `active` is true while `greedy` should act."""

    def __init__(self) -> None:
        self.active = False
        self._lags: deque[float] = deque(maxlen=_WINDOW)

    def update(self, learned: float, greedy: float) -> bool:
        """Add one task's two costs; True if the guard has just tripped or recovered."""
        if not (learned > 0 and greedy > 0):
            return False
        self._lags.append(math.log(learned / greedy))
        count = len(self._lags)
        if count < (_MIN_TO_RECOVER if self.active else _WINDOW):
            return False
        mean = sum(self._lags) / count
        error = math.sqrt(sum((lag - mean) ** 2 for lag in self._lags) / (count - 1) / count)
        turns = mean + error < 0 if self.active else mean - _SIGNIFICANT * error > _MARGIN
        if turns:
            self.active = not self.active
            self._lags.clear()
        return turns


#: Tasks over which the record looks back, tasks before the first change, and lead that a change needs.
_MEMORY, _FIRST_CHANGE, _LEAD = 400, 100, 0.01


class ShadowRecord(NamedTuple):
    """Arrays of a `ShadowGuard`; compiled loops use them through `shadow_place` and `shadow_end`."""

    free_at: Floats  # time at which each device is free, for every policy
    means: Floats  # running mean cost of every policy
    numbers: Ints  # policy that should act, tasks so far, tasks since the last restart
    class_of: Ints
    cpu_of: Ints


_INTS = types.int64[::1]
RECORD = types.NamedTuple((types.float64[:, ::1], types.float64[::1], _INTS, _INTS, _INTS), ShadowRecord)
ACTIVE, _TASKS, _SINCE = range(3)
_PLACE = types.void(
    RECORD, types.int64, types.float64, types.int64, types.float64, types.float64[:, ::1], types.float64,
    types.Array(types.float64, 1, "C", readonly=True),
)  # fmt: skip
_END = types.boolean(RECORD, types.boolean[::1], types.float64)


def new_record(policies: int, class_of: Ints, cpu_of: Ints) -> ShadowRecord:
    """Return a record without tasks; the first policy acts."""
    return ShadowRecord(
        np.zeros((policies, len(class_of))), np.zeros(policies), np.zeros(3, np.int64),
        np.array(class_of, np.int64), np.array(cpu_of, np.int64),
    )  # fmt: skip


@inner
def shadow_place(record, policy, now, device, share, times, weight, prices):  # type: ignore[no-untyped-def]
    """Place a task on the queues of a policy and add its cost to the record; see `ShadowGuard.place`."""
    free_at, cpu = record.free_at[policy], record.cpu_of[device]
    end, busy = now, 0.0
    if share < 1.0 or device == cpu:
        column = record.class_of[cpu]
        part = times[column, 1] + (1.0 - share) * times[column, 0]
        free_at[cpu] = max(now, free_at[cpu]) + part
        end = free_at[cpu]
        busy += prices[column] * part
    if share > 0.0 and device != cpu:
        column = record.class_of[device]
        part = times[column, 1] + share * times[column, 0]
        free_at[device] = max(now, free_at[device]) + part
        end = max(end, free_at[device])
        busy += prices[column] * part
    cost = weight * (end - now) + busy
    record.means[policy] += (cost - record.means[policy]) / min(record.numbers[_TASKS] + 1, _MEMORY)


@inner
def shadow_end(record, allowed, lead):  # type: ignore[no-untyped-def]
    """Note that all policies have placed a task; return whether another one, with this lead, acts from now on."""
    record.numbers[_TASKS] += 1
    record.numbers[_SINCE] += 1
    if record.numbers[_TASKS] < _FIRST_CHANGE:
        return False
    active = record.numbers[ACTIVE]
    best = active
    for policy in range(len(record.means)):
        if allowed[policy] and (record.means[policy] < record.means[best] or not allowed[best]):
            best = policy
    if best == active or (allowed[active] and record.means[best] > (1.0 - lead) * record.means[active]):
        return False
    record.numbers[ACTIVE] = best
    record.numbers[_SINCE] = 0
    return True


@inner
def shadow_return(record, policy, slack):  # type: ignore[no-untyped-def]
    """Let a policy act again if it trails by no more than `slack`, some tasks after the last change or restart."""
    active = record.numbers[ACTIVE]
    if record.numbers[_SINCE] >= _FIRST_CHANGE and record.means[policy] <= (1.0 + slack) * record.means[active]:
        record.numbers[ACTIVE] = policy
        record.numbers[_SINCE] = 0


@inner
def shadow_restart(record):  # type: ignore[no-untyped-def]
    """Every few hundred tasks, let all policies start anew from the queues and the record of the active one.

    A policy that was far behind, and no longer is, would otherwise have to work off its simulated backlog first.
    """
    if record.numbers[_SINCE] < _MEMORY:
        return
    record.numbers[_SINCE] = 0
    active = record.numbers[ACTIVE]
    for policy in range(len(record.means)):
        record.free_at[policy] = record.free_at[active]
        record.means[policy] = record.means[active]


@entry
def _place_one(record, policy, now, device, share, times, weight, prices):  # type: ignore[no-untyped-def]
    """Call `shadow_place` from Python."""
    shadow_place(record, policy, now, device, share, times, weight, prices)


@entry
def _end_one(record, allowed, lead):  # type: ignore[no-untyped-def]
    """Call `shadow_end` from Python."""
    return shadow_end(record, allowed, lead)


class ShadowGuard:
    """Record of several policies on simulated queues; `active` is the number of the one that should act.

    Parameters
    ----------
    policies
        Number of policies; the first acts until another leads.
    class_of, cpu_of
        Class of each device, and the CPU of its node.
    """

    def __init__(self, policies: int, class_of: Ints, cpu_of: Ints) -> None:
        self.record = new_record(policies, class_of, cpu_of)
        self._place, self._end = compiled(_place_one, _PLACE), compiled(_end_one, _END)

    @property
    def active(self) -> int:
        """Number of the policy that should act."""
        return int(self.record.numbers[ACTIVE])

    @property
    def free_at(self) -> Floats:
        """Time at which each device is free, for every policy."""
        return self.record.free_at

    @property
    def means(self) -> Floats:
        """Running mean cost of every policy."""
        return self.record.means

    def place(
        self,
        policy: int,
        now: float,
        device: int,
        share: float,
        times: Floats,
        weight: float,
        prices: Floats,
    ) -> None:
        """Place a task on the queues of a policy and add its cost to the record.

        Parameters
        ----------
        policy
            Number of the policy.
        now
            Arrival of the task.
        device, share
            Decision of the policy.
        times
            Predicted (whole, fixed) seconds by class of device.
        weight, prices
            Cost of a second of latency, and of a busy second by class of device.
        """
        self._place(self.record, policy, now, device, share, times, weight, prices)

    def end_task(self, allowed: Sequence[bool]) -> bool:
        """Note that all policies have placed a task; True if another policy acts from now on."""
        return bool(self._end(self.record, np.array(allowed, np.bool_), _LEAD))
