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

import numpy as np

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
        self.active = 0
        #: Time at which each device is free, for every policy.
        self.free_at: Floats = np.zeros((policies, len(class_of)))
        #: Running mean cost of every policy.
        self.means: Floats = np.zeros(policies)
        self._class_of, self._cpu_of = class_of.tolist(), cpu_of.tolist()
        self._tasks = 0

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
        free_at, cpu = self.free_at[policy], self._cpu_of[device]
        end, busy = now, 0.0
        if share < 1.0 or device == cpu:
            column = self._class_of[cpu]
            part = times[column, 1] + (1.0 - share) * times[column, 0]
            free_at[cpu] = end = max(now, free_at[cpu]) + part
            busy += prices[column] * part
        if share > 0.0 and device != cpu:
            column = self._class_of[device]
            part = times[column, 1] + share * times[column, 0]
            free_at[device] = max(now, free_at[device]) + part
            end = max(end, free_at[device])
            busy += prices[column] * part
        cost = weight * (end - now) + busy
        self.means[policy] += (cost - self.means[policy]) / min(self._tasks + 1, _MEMORY)

    def end_task(self, allowed: Sequence[bool]) -> bool:
        """Note that all policies have placed a task; True if another policy acts from now on."""
        self._tasks += 1
        if self._tasks < _FIRST_CHANGE:
            return False
        records = np.where(allowed, self.means, np.inf)
        best = int(records.argmin())
        if best == self.active or records[best] > (1.0 - _LEAD) * records[self.active]:
            return False
        self.active = best
        return True
