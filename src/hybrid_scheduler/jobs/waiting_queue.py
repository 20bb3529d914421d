"""Compiled queue of waiting jobs, for every simulation of jobs.

The functions take the state of a simulation as a named tuple with `queue`, `score`, `waits` and the heap `running`,
the jobs as one with `submit`, `requested` and `processors`, and an array of the numbers below.
"""

from __future__ import annotations

import numpy as np
from numba import float64

from ..compiled import inner

#: Score of a job from submit time, requested time, processors and wait.
SCORE_SIGNATURE = float64(float64, float64, float64, float64)
#: Places of the numbers of free processors and of waiting and started jobs.
FREE = 0
WAITING = 1
STARTED = 2


@inner
def drop_started(run, counts):  # type: ignore[no-untyped-def]
    """Close the gaps that started jobs left in the queue."""
    kept = 0
    for place in range(counts[WAITING]):
        job = run.queue[place]
        if run.waits[job]:
            run.queue[kept] = job
            run.score[kept] = run.score[place]
            kept += 1
    counts[WAITING] = kept


@inner
def admit_job(job, own, sort, run, counts):  # type: ignore[no-untyped-def]
    """Add a submitted job to the queue: by its score, or at the end if scores are computed at every decision."""
    place = counts[WAITING]
    while sort and place > 0 and run.score[place - 1] > own:
        run.queue[place] = run.queue[place - 1]
        run.score[place] = run.score[place - 1]
        place -= 1
    run.queue[place] = job
    run.score[place] = own
    run.waits[job] = True
    counts[WAITING] += 1


@inner
def sort_queue(now, score_of, jobs, run, counts):  # type: ignore[no-untyped-def]
    """Order the queue by the scores as they are now; ties by submission."""
    waiting = counts[WAITING]
    run.queue[:waiting].sort()
    for place in range(waiting):
        job = run.queue[place]
        run.score[place] = score_of(
            jobs.submit[job], jobs.requested[job], float(jobs.processors[job]), now - jobs.submit[job]
        )
    order = np.argsort(run.score[:waiting], kind="mergesort")
    run.queue[:waiting] = run.queue[:waiting][order]
    run.score[:waiting] = run.score[:waiting][order]


@inner
def next_event(arrived, jobs, run):  # type: ignore[no-untyped-def]
    """Return the time of the next end or submission; infinity if there is none."""
    now = run.running.key[0] if run.running.length[0] > 0 else np.inf
    if arrived < len(jobs.submit):
        now = min(now, jobs.submit[arrived])
    return now


@inner
def admit_submitted(arrived, now, score_of, sort, jobs, run, counts):  # type: ignore[no-untyped-def]
    """Add all jobs submitted until now to the queue, and return the number of jobs that were submitted."""
    while arrived < len(jobs.submit) and jobs.submit[arrived] <= now:
        own = score_of(jobs.submit[arrived], jobs.requested[arrived], float(jobs.processors[arrived]), 0.0)
        admit_job(arrived, own, sort, run, counts)
        arrived += 1
    return arrived
