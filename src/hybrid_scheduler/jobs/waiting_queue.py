"""Compiled queue of waiting jobs, for every simulation of jobs.

The best jobs are sorted in `queue`, with their scores in `score`; there are at most `limit` of them, and all others
are in the heap `rest`. So a long queue costs a decision no more than a short one. Policies whose scores change with
time have no limit, because every waiting job must be scored again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import boolean, float64, int64, types
from numpy.typing import NDArray

from ..compiled.jit_cache import allocating, leaf
from ..compiled.row_heap import ROW_HEAP, RowHeap, empty_heap, pop_row, push_row
from ..core import Floats, Ints

#: Score of a job from submit time, requested time, processors and wait.
SCORE_SIGNATURE = float64(float64, float64, float64, float64)
#: Places of the numbers of free processors, of jobs in the sorted part of the queue, and of started jobs.
FREE = 0
WAITING = 1
STARTED = 2
#: Waiting jobs that a backfilling looks at behind the head: it bounds the time of one decision.
BACKFILL_DEPTH = 1000


class WaitingQueue(NamedTuple):
    """The best waiting jobs in order, with their scores; whether each job waits; and all others that do."""

    row: Ints
    score: Floats
    waits: NDArray[np.bool_]
    rest: RowHeap


WAITING_QUEUE = types.NamedTuple((int64[::1], float64[::1], boolean[::1], ROW_HEAP), WaitingQueue)


def empty_queue(jobs: int) -> WaitingQueue:
    """Return a queue for so many jobs, of which none waits."""
    return WaitingQueue(np.empty(jobs, np.int64), np.empty(jobs), np.zeros(jobs, np.bool_), empty_heap(jobs))


@leaf
def drop_started(limit, queue, counts):  # type: ignore[no-untyped-def]
    """Close the gaps that started jobs left in the queue, and fill it up with the best of the rest."""
    kept = 0
    for place in range(counts[WAITING]):
        job = queue.row[place]
        if queue.waits[job]:
            queue.row[kept] = job
            queue.score[kept] = queue.score[place]
            kept += 1
    while kept < limit and queue.rest.length[0] > 0:
        queue.score[kept] = queue.rest.key[0]
        queue.row[kept] = pop_row(queue.rest)
        kept += 1
    counts[WAITING] = kept


@leaf
def admit_job(job, own, sort, limit, queue, counts):  # type: ignore[no-untyped-def]
    """Add a job to the queue: by its score, or at the end if scores are computed at every decision."""
    queue.waits[job] = True
    place = counts[WAITING]
    if place == limit:
        last = queue.row[place - 1]
        if queue.score[place - 1] < own or (queue.score[place - 1] == own and last < job):
            push_row(queue.rest, own, job)
            return
        push_row(queue.rest, queue.score[place - 1], last)
        place -= 1
    counts[WAITING] = place + 1
    while (
        sort
        and place > 0
        and (queue.score[place - 1] > own or (queue.score[place - 1] == own and queue.row[place - 1] > job))
    ):
        queue.row[place] = queue.row[place - 1]
        queue.score[place] = queue.score[place - 1]
        place -= 1
    queue.row[place] = job
    queue.score[place] = own


@allocating
def order_queue(queue, counts):  # type: ignore[no-untyped-def]
    """Order the queue by the scores as they are now; ties by submission."""
    waiting = counts[WAITING]
    by_row = np.argsort(queue.row[:waiting])
    order = by_row[np.argsort(queue.score[:waiting][by_row], kind="mergesort")]
    queue.row[:waiting] = queue.row[:waiting][order]
    queue.score[:waiting] = queue.score[:waiting][order]


@leaf
def next_event(arrived, jobs, running):  # type: ignore[no-untyped-def]
    """Return the time of the next end or submission; infinity if there is none."""
    now = running.key[0] if running.length[0] > 0 else np.inf
    if arrived < len(jobs.submit):
        now = min(now, jobs.submit[arrived])
    return now
