"""Lower bound of the responses of rigid jobs, which no policy can beat.

A job of `n` processors for `p` seconds is taken as work of `n p / pool` seconds on one machine that works on one
job at a time and may interrupt it. There, the job of largest weight per work first has the least sum of weighted
mean busy times (Goemans: Improved approximation algorithms for scheduling with release dates. SODA 1997). A rigid
job ends half of its run time after its mean busy time, whatever the policy.
"""

from __future__ import annotations

import heapq

import numpy as np

from ..core import Floats
from .job_log import JobLog


def least_weighted_response(log: JobLog, processors: int, weight: Floats) -> float:
    """Return a lower bound of the sum of weights times seconds from submission to end.

    Examples
    --------
    >>> from hybrid_scheduler.jobs import JobLog
    >>> log = JobLog([1, 2], [0, 0], [10, 10], [10, 10], [4, 4])
    >>> least_weighted_response(log, 4, np.ones(2))
    30.0
    """
    left = (log.run_time * log.processors / processors).tolist()
    submit = log.submit.tolist()
    each = weight.tolist()
    total = float(np.sum(weight * (log.run_time / 2 - log.submit)))
    waiting: list[tuple[float, int, float]] = []
    now = submit[0]
    arrived = 0
    while waiting or arrived < len(left):
        if not waiting:
            now = max(now, submit[arrived])
        while arrived < len(left) and submit[arrived] <= now:
            if left[arrived] > 0:
                heapq.heappush(waiting, (-each[arrived] / left[arrived], arrived, left[arrived]))
            else:
                total += each[arrived] * submit[arrived]
            arrived += 1
        if not waiting:
            continue
        rank, job, remains = heapq.heappop(waiting)
        until = now + remains
        if arrived < len(left) and submit[arrived] < until:
            until = submit[arrived]
            heapq.heappush(waiting, (rank, job, remains - (until - now)))
        # The share of the job's work that is done now, times the middle of this time.
        total += each[job] * (until - now) / left[job] * (now + until) / 2
        now = until
    simple = float(np.sum(weight * log.run_time))
    return max(total, simple)
