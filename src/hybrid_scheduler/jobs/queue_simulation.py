"""Simulation of rigid jobs on a pool of processors, with or without backfilling, in compiled code.

Events are submissions and ends of jobs. At one time ends come first, then submissions, then one decision. The job
that a queue policy prefers is the head. If it does not fit, the backfilling decides who may pass it:

none
    None: the queue waits for its head.
easy
    A job that fits now passes if, by requested times, it delays the head's start by nothing: it ends before, or
    leaves the processors that the head will need (Lifka 1995).
conservative
    Every waiting job has a reservation in the order of the queue, and a job passes if it delays none of them
    (Mu'alem and Feitelson 2001).

A job that outlives its request is expected to end at any moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import boolean, float64, int64, types, void

from ..compiled import compiled, entry, inner
from ..compiled.row_heap import ROW_HEAP, RowHeap, empty_heap, pop_row, push_row
from ..core import Floats, Ints, InvalidInputError, UnknownNameError
from .job_log import JobLog
from .queue_policies import QueuePolicy, queue_policy_named
from .slowdown import SLOWDOWN_BOUND_S, bounded_slowdown
from .waiting_queue import (
    BACKFILL_DEPTH,
    FREE,
    SCORE_SIGNATURE,
    STARTED,
    WAITING,
    WAITING_QUEUE,
    WaitingQueue,
    admit_job,
    drop_started,
    empty_queue,
    next_event,
    order_queue,
)

_NONE = 0
_EASY = 1
_CONSERVATIVE = 2
BACKFILLING = {"none": _NONE, "easy": _EASY, "conservative": _CONSERVATIVE}


class _Jobs(NamedTuple):
    """Columns of the log."""

    submit: Floats
    run_time: Floats
    requested: Floats
    processors: Ints


class _Run(NamedTuple):
    """State of a run: of each job, of the queue, of the heap of running jobs, and a profile of free processors."""

    start: Floats
    expected: Floats
    queue: WaitingQueue
    running: RowHeap
    times: Floats
    levels: Ints


_F = float64[::1]
_I = int64[::1]
_READ_F = types.Array(float64, 1, "C", readonly=True)
_READ_I = types.Array(int64, 1, "C", readonly=True)
_LOOP_SIGNATURE = void(
    types.FunctionType(SCORE_SIGNATURE), boolean, int64, int64,
    types.NamedTuple((_READ_F, _READ_F, _READ_F, _READ_I), _Jobs),
    types.NamedTuple((_F, _F, WAITING_QUEUE, ROW_HEAP, _F, _I), _Run),
    _I,
)  # fmt: skip


@dataclass(frozen=True)
class QueueResult:
    """Starts of all jobs of a log.

    Parameters
    ----------
    log
        The jobs.
    start
        Start of each in seconds.
    processors
        Size of the pool.
    """

    log: JobLog
    start: Floats
    processors: int

    @property
    def wait(self) -> Floats:
        """Seconds from submission to start."""
        waited: Floats = self.start - self.log.submit
        return waited

    @property
    def finish(self) -> Floats:
        """End of each job in seconds."""
        ended: Floats = self.start + self.log.run_time
        return ended

    @property
    def makespan(self) -> float:
        """Seconds from the first submission to the last end."""
        return float(self.finish.max() - self.log.submit[0])

    @property
    def utilization(self) -> float:
        """Busy share of the pool over the makespan."""
        span = self.makespan
        return self.log.processor_seconds / (span * self.processors) if span > 0 else 0.0

    def summary(self) -> dict[str, float]:
        """Return the figures of a table: waits and bounded slowdowns, busy share, makespan."""
        slowed = self.bounded_slowdown()
        return {
            "mean_wait": float(self.wait.mean()),
            "p99_wait": float(np.quantile(self.wait, 0.99)),
            "max_wait": float(self.wait.max()),
            "mean_bounded_slowdown": float(slowed.mean()),
            "p99_bounded_slowdown": float(np.quantile(slowed, 0.99)),
            "utilization": self.utilization,
            "makespan": self.makespan,
        }

    def bounded_slowdown(self, bound: float = SLOWDOWN_BOUND_S) -> Floats:
        """Return max(1, (wait + run) / max(run, bound)) of each job."""
        return bounded_slowdown(self.wait, self.log.run_time, bound)


def simulate_queue(
    log: JobLog,
    processors: int,
    policy: str | QueuePolicy = "fcfs",
    backfilling: str = "easy",
    *,
    depth: int = BACKFILL_DEPTH,
) -> QueueResult:
    """Run a log on a pool of processors.

    Parameters
    ----------
    log
        The jobs.
    processors
        Size of the pool.
    policy
        Order of the queue: a name or an entry of the registry.
    backfilling
        ``"none"``, ``"easy"`` or ``"conservative"``.
    depth
        Largest number of waiting jobs behind the head that may pass it in one decision.

    Raises
    ------
    InvalidInputError
        If a job is larger than the pool, or an argument is out of range.

    Examples
    --------
    >>> from hybrid_scheduler.jobs import JobLog, simulate_queue
    >>> log = JobLog([1, 2, 3], [0, 1, 2], [10, 10, 5], [10, 10, 5], [3, 4, 1])
    >>> simulate_queue(log, 4, "fcfs", "none").start.tolist()
    [0.0, 10.0, 20.0]
    >>> simulate_queue(log, 4, "fcfs", "easy").start.tolist()
    [0.0, 10.0, 2.0]
    """
    chosen = queue_policy_named(policy) if isinstance(policy, str) else policy
    if backfilling not in BACKFILLING:
        raise UnknownNameError("backfilling", backfilling, BACKFILLING)
    if chosen.service:
        raise InvalidInputError(
            "policy", "one that needs no service of jobs or users", chosen.name, hint="simulate_nodes"
        )
    if depth < 1:
        raise InvalidInputError("depth", "at least 1", depth)
    large = np.flatnonzero(log.processors > processors)
    if len(large):
        raise InvalidInputError(
            "processors", f"at least {int(log.processors.max())}, the widest job's", processors,
            hint=f"{len(large)} jobs do not fit, the first is job {int(log.job_id[large[0]])}",
        )  # fmt: skip
    jobs = len(log)
    steps = 2 * (depth + 1) + processors + 4
    run = _Run(
        np.empty(jobs),
        np.empty(jobs),
        empty_queue(jobs),
        empty_heap(jobs),
        np.empty(steps),
        np.empty(steps, np.int64),
    )
    compiled(_queue_loop, _LOOP_SIGNATURE)(
        compiled(chosen.score, SCORE_SIGNATURE), chosen.ages, BACKFILLING[backfilling], depth,
        _Jobs(log.submit, log.run_time, log.requested_time, log.processors), run,
        np.array([processors, 0, 0]),
    )  # fmt: skip
    return QueueResult(log, run.start, processors)


# -------------------------------------------------------------------------------- compiled


@inner
def _start_job(job, now, jobs, run, counts):  # type: ignore[no-untyped-def]
    """Let a waiting job hold its processors from now on; its place in the queue stays."""
    run.start[job] = now
    run.expected[job] = now + jobs.requested[job]
    counts[FREE] -= jobs.processors[job]
    push_row(run.running, now + jobs.run_time[job], job)
    counts[STARTED] += 1
    run.queue.waits[job] = False


@inner
def _expected_ends(now, run):  # type: ignore[no-untyped-def]
    """Return when the running jobs end by their requests; one that outlived its request ends now."""
    ends = np.empty(run.running.length[0])
    for place in range(len(ends)):
        ends[place] = max(run.expected[run.running.row[place]], now)
    return ends


@inner
def _backfill_easy(now, depth, jobs, run, counts):  # type: ignore[no-untyped-def]
    """Start jobs that do not delay the head: they end before it starts, or leave it enough processors."""
    needed = jobs.processors[run.queue.row[0]]
    ends = _expected_ends(now, run)
    available = counts[FREE]
    at = np.inf
    for place in np.argsort(ends, kind="mergesort"):
        available += jobs.processors[run.running.row[place]]
        if available >= needed:
            at = ends[place]
            break
    spare = available - needed
    for place in range(1, min(counts[WAITING], depth + 1)):
        job = run.queue.row[place]
        wanted = jobs.processors[job]
        in_time = now + jobs.requested[job] <= at
        if wanted <= counts[FREE] and (in_time or wanted <= spare):
            if not in_time:
                spare -= wanted
            _start_job(job, now, jobs, run, counts)
        if counts[FREE] == 0:
            break


@inner
def _profile(now, jobs, run, counts):  # type: ignore[no-untyped-def]
    """Write the expected number of free processors over time as steps, and return the number of steps.

    Processors of jobs that outlived their requests are expected at any moment, yet are not free.
    """
    ends = _expected_ends(now, run)
    run.times[0] = now
    run.levels[0] = counts[FREE]
    steps = 1
    for place in np.argsort(ends, kind="mergesort"):
        at = ends[place] if ends[place] > now else np.nextafter(now, np.inf)
        if at > run.times[steps - 1]:
            run.times[steps] = at
            run.levels[steps] = run.levels[steps - 1]
            steps += 1
        run.levels[steps - 1] += jobs.processors[run.running.row[place]]
    return steps


@inner
def _earliest_fit(run, steps, needed, seconds):  # type: ignore[no-untyped-def]
    """Return the first step of the profile from which a job fits for its whole time; the last always does."""
    begin = 0
    step = 0
    while step < steps and (step == begin or run.times[step] < run.times[begin] + seconds):
        if run.levels[step] < needed:
            begin = step + 1
        step += 1
    return begin


@inner
def _reserve(run, steps, begin, needed, seconds):  # type: ignore[no-untyped-def]
    """Take processors out of the profile for a time, and return its number of steps."""
    until = run.times[begin] + seconds
    end = begin
    while end < steps and run.times[end] < until:
        end += 1
    if end == steps or run.times[end] > until:
        for step in range(steps, end, -1):
            run.times[step] = run.times[step - 1]
            run.levels[step] = run.levels[step - 1]
        run.times[end] = until
        run.levels[end] = run.levels[end - 1]
        steps += 1
    for step in range(begin, end):
        run.levels[step] -= needed
    return steps


@inner
def _backfill_conservative(now, depth, jobs, run, counts):  # type: ignore[no-untyped-def]
    """Give every waiting job a reservation in the order of the queue, and start those that are reserved now."""
    steps = _profile(now, jobs, run, counts)
    for place in range(min(counts[WAITING], depth + 1)):
        job = run.queue.row[place]
        wanted = jobs.processors[job]
        seconds = jobs.requested[job]
        step = _earliest_fit(run, steps, wanted, seconds)
        if step == 0:
            _start_job(job, now, jobs, run, counts)
        # A request of less than the clock's resolution reserves nothing.
        if run.times[step] + seconds > run.times[step]:
            steps = _reserve(run, steps, step, wanted, seconds)


@inner
def _score(job, now, score_of, jobs):  # type: ignore[no-untyped-def]
    return score_of(jobs.submit[job], jobs.requested[job], float(jobs.processors[job]), now - jobs.submit[job])


@entry
def _queue_loop(score_of, ages, backfilling, depth, jobs, run, counts):  # type: ignore[no-untyped-def]
    """Write the start of every job."""
    total = len(jobs.submit)
    limit = total if ages else depth + 1
    arrived = 0
    while counts[STARTED] < total:
        now = next_event(arrived, jobs, run.running)
        while run.running.length[0] > 0 and run.running.key[0] <= now:
            counts[FREE] += jobs.processors[pop_row(run.running)]
        while arrived < total and jobs.submit[arrived] <= now:
            admit_job(arrived, _score(arrived, now, score_of, jobs), not ages, limit, run.queue, counts)
            arrived += 1
        if counts[WAITING] == 0 or counts[FREE] == 0:
            continue
        if ages:
            for place in range(counts[WAITING]):
                run.queue.score[place] = _score(run.queue.row[place], now, score_of, jobs)
            order_queue(run.queue, counts)
        while counts[WAITING] > 0 and jobs.processors[run.queue.row[0]] <= counts[FREE]:
            place = 0
            while place < counts[WAITING] and jobs.processors[run.queue.row[place]] <= counts[FREE]:
                _start_job(run.queue.row[place], now, jobs, run, counts)
                place += 1
            drop_started(limit, run.queue, counts)
        if backfilling != _NONE and counts[WAITING] > 1 and counts[FREE] > 0:
            before = counts[STARTED]
            if backfilling == _EASY:
                _backfill_easy(now, depth, jobs, run, counts)
            else:
                _backfill_conservative(now, depth, jobs, run, counts)
            if counts[STARTED] > before:
                drop_started(limit, run.queue, counts)
