"""Run times that the duration model predicts at each submission, in place of what users request.

The kind of a job is its user, queue and name, or its user alone where there are too many of these; its size is the
requested time. Only jobs that had ended by then are known: by their recorded ends, or as if they had started at
once where the log has no starts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core import Outcome, Platform, Task, Workload
from ..core.platform import cpu
from ..learning.duration.duration_regression import DurationRegression
from .job_log import JobLog

#: Kind of jobs of which nothing is known.
_UNKNOWN = "generic"
#: Factor on the median prediction: a job that outlives its estimate delays those behind it.
_MARGIN = 1.5
#: Jobs of each kind, on average, from which kinds are worth telling apart.
_LEARNED_AFTER = 20


def with_learned_requests(log: JobLog) -> JobLog:
    """Return the log with predicted run times as requested times, at most what users requested.

    Examples
    --------
    >>> from hybrid_scheduler.jobs import JobLog, with_learned_requests
    >>> log = JobLog(range(50), [100 * row for row in range(50)], [10] * 50, [3600] * 50, [1] * 50, ["ann"] * 50)
    >>> bool(with_learned_requests(log).requested_time[-1] < 30)
    True
    """
    ended = (log.submit if log.start is None else log.start) + log.run_time
    by_end = np.argsort(ended, kind="stable").tolist()
    model = DurationRegression(Platform("cluster", (cpu(),)))
    named = _with_kinds(log)
    tasks = job_tasks(named)
    requested = log.requested_time.copy()
    learned = 0
    for row, now in enumerate(log.submit.tolist()):
        while learned < len(by_end) and ended[by_end[learned]] <= now:
            done = by_end[learned]
            if log.run_time[done] > 0:
                outcome = Outcome(done, 0, 0.0, 0.0, 0.0, float(log.run_time[done]), np.nan, 0.0)
                model.learn(job_task(named, done), outcome)
            learned += 1
        if learned:
            mean = float(model.predict(tasks.rows(row, row + 1))[0, 0, 0])
            requested[row] = min(requested[row], _MARGIN * np.exp(min(mean, 30.0)))
    return replace(log, requested_time=requested)


def _with_kinds(log: JobLog) -> JobLog:
    """Return the log with user, queue and name as users, if most of these come often enough to be learned."""
    columns = [column for column in (log.user, log.queue, log.name) if column]
    kinds = ["/".join(filter(None, words)) for words in zip(*columns, strict=True)]
    return replace(log, user=kinds) if kinds and len(set(kinds)) * _LEARNED_AFTER <= len(kinds) else log


def job_task(log: JobLog, row: int) -> Task:
    """Return a job as a task of the duration model: requested time as size, processors as memory."""
    request = max(float(log.requested_time[row]), 1.0)
    return Task(row, request, 0.5, float(log.processors[row]), kind=(log.user[row] if log.user else "") or _UNKNOWN)


def job_tasks(log: JobLog) -> Workload:
    """Return all jobs as tasks of the duration model."""
    return Workload(
        task_id=np.arange(len(log)),
        size=np.maximum(log.requested_time, 1.0),
        compute_intensity=np.full(len(log), 0.5),
        memory_required=log.processors.astype(np.float64),
        arrival_time=np.zeros(len(log)),
        kind=[user or _UNKNOWN for user in log.user] or None,
    )
