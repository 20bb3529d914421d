"""Queue simulation: laws of a pool of processors, and a plain simulation that gives the same starts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybrid_scheduler.core import InvalidInputError, UnknownNameError
from hybrid_scheduler.jobs import BACKFILLING, JobLog, queue_policies, queue_policy_named, simulate_queue

POOL = 8
POLICIES = sorted(queue_policies())
#: Policies that the plain simulation knows: the others need the service that jobs or users have had.
PLAIN_POLICIES = sorted(name for name, policy in queue_policies().items() if not policy.service)


@st.composite
def logs(draw: st.DrawFn) -> JobLog:
    """Jobs with ties in every column, zero run times, and requests above, at and below the run time."""
    count = draw(st.integers(1, 30))
    column = st.lists(st.integers(0, 12), min_size=count, max_size=count)
    run = np.array(draw(column), float)
    return JobLog(
        np.arange(count),
        np.cumsum(draw(column)) + draw(st.sampled_from([0.0, 86400.0, 1.7e9])),
        run,
        np.maximum(run + np.array(draw(column)) - draw(st.integers(0, 6)), 0.0),
        np.array(draw(st.lists(st.integers(1, POOL), min_size=count, max_size=count))),
    )


def plain_starts(log: JobLog, policy: str, backfilling: str) -> list[float]:
    """Starts of the same rules, written with lists and without any cleverness."""
    score = queue_policy_named(policy).score.py_func
    start: dict[int, float] = {}
    waiting: list[int] = []
    arrived, now = 0, -np.inf
    while len(start) < len(log):
        ends = [start[job] + log.run_time[job] for job in start]
        later = [end for end in ends if end > now] + log.submit[arrived : arrived + 1].tolist()
        now = min(later)
        while True:
            while arrived < len(log) and log.submit[arrived] <= now:
                waiting.append(arrived)
                arrived += 1
            running = [job for job in start if start[job] + log.run_time[job] > now]
            free = POOL - sum(int(log.processors[job]) for job in running)
            aged = queue_policy_named(policy).ages
            waiting.sort(
                key=lambda job: (
                    score(
                        log.submit[job],
                        log.requested_time[job],
                        float(log.processors[job]),
                        now - log.submit[job] if aged else 0.0,
                    ),
                    job,
                )
            )
            chosen = next_job(log, waiting, running, start, free, now, backfilling)
            # Jobs without a run time end at once; those of one decision still exclude each other.
            if not chosen:
                break
            for job in chosen:
                start[job] = now
                waiting.remove(job)
            if all(log.run_time[job] > 0 for job in chosen):
                break
    return [start[job] for job in range(len(log))]


def next_job(
    log: JobLog, waiting: list[int], running: list[int], start: dict[int, float], free: int, now: float, way: str
) -> list[int]:
    """Return all jobs that one decision starts."""
    chosen: list[int] = []
    for job in waiting:
        if log.processors[job] > free:
            break
        chosen.append(job)
        free -= int(log.processors[job])
    rest = [job for job in waiting if job not in chosen]
    busy = [(max(start[job] + log.requested_time[job], now), int(log.processors[job])) for job in running]
    busy += [(now + log.requested_time[job], int(log.processors[job])) for job in chosen]
    if not rest or way == "none":
        return chosen
    if way == "easy":
        needed, at = int(log.processors[rest[0]]), np.inf
        for end in sorted({end for end, _ in busy}):
            available = free + sum(processors for other, processors in busy if other <= end)
            if available >= needed:
                at = end
                break
        spare = available - needed
        for job in rest[1:]:
            width = int(log.processors[job])
            in_time = now + log.requested_time[job] <= at
            if width <= free and (in_time or width <= spare):
                spare -= 0 if in_time else width
                free -= width
                chosen.append(job)
        return chosen
    held = [(now, end if end > now else np.nextafter(now, np.inf), width) for end, width in busy]
    for job in rest:
        width, seconds = int(log.processors[job]), float(log.requested_time[job])
        for at in sorted({now, *(end for _, end, _ in held)}):
            points = [at, *(begin for begin, _, _ in held if at < begin < at + seconds)]
            if all(sum(w for b, e, w in held if b <= point < e) + width <= POOL for point in points):
                break
        if at == now:
            chosen.append(job)
            held.append((at, max(at + seconds, np.nextafter(now, np.inf)), width))
        elif at + seconds > at:
            held.append((at, at + seconds, width))
    return chosen


@given(logs(), st.sampled_from(POLICIES), st.sampled_from(sorted(BACKFILLING)))
@settings(max_examples=150, deadline=None)
def test_laws_of_a_pool_hold(log: JobLog, policy: str, backfilling: str) -> None:
    result = simulate_queue(log, POOL, policy, backfilling)
    assert (result.start >= log.submit).all()
    for at in result.start:
        busy = (result.start <= at) & (result.finish > at)
        assert log.processors[busy].sum() <= POOL
    assert result.log.processor_seconds == pytest.approx(
        result.utilization * result.makespan * POOL, rel=1e-9, abs=1e-6
    )
    assert (result.bounded_slowdown() >= 1.0).all()


@given(logs(), st.sampled_from(PLAIN_POLICIES), st.sampled_from(sorted(BACKFILLING)))
@settings(max_examples=300, deadline=None)
def test_starts_are_those_of_a_plain_simulation(log: JobLog, policy: str, backfilling: str) -> None:
    running = log.run_time.copy()
    running[running == 0.0] = 1.0  # ends and submissions of one time are one decision in both
    positive = JobLog(log.job_id, log.submit, running, log.requested_time, log.processors)
    result = simulate_queue(positive, POOL, policy, backfilling)
    assert result.start.tolist() == plain_starts(positive, policy, backfilling)


@given(logs())
@settings(max_examples=100, deadline=None)
def test_backfilling_never_delays_the_oldest_job_that_waits(log: JobLog) -> None:
    """With exact requests no job starts later than without backfilling while it is the head."""
    exact = JobLog(log.job_id, log.submit, log.run_time, log.run_time, log.processors)
    plain = simulate_queue(exact, POOL, "fcfs", "none").start
    for way in ("easy", "conservative"):
        passed = simulate_queue(exact, POOL, "fcfs", way).start
        first_waiting = int(np.argmax(plain > exact.submit)) if (plain > exact.submit).any() else 0
        assert passed[first_waiting] <= plain[first_waiting]
    assert (simulate_queue(exact, POOL, "fcfs", "conservative").start <= plain).all()


def test_backfilling_passes_the_head_only_where_it_is_not_delayed() -> None:
    # Job 1 holds 3 of 4 processors until 10; job 2 needs all. Job 3 ends at 7, job 4 would end at 22.
    log = JobLog([1, 2, 3, 4], [0, 1, 2, 2], [10, 10, 5, 20], [10, 10, 5, 20], [3, 4, 1, 1])
    assert simulate_queue(log, 4, "fcfs", "none").start.tolist() == [0, 10, 20, 20]
    assert simulate_queue(log, 4, "fcfs", "easy").start.tolist() == [0, 10, 2, 20]


def test_a_million_jobs_of_one_shape_keep_the_pool_full() -> None:
    count = 1_000_000
    log = JobLog(np.arange(count), np.zeros(count), np.ones(count), np.ones(count), np.full(count, 2))
    result = simulate_queue(log, 1000)
    assert result.makespan == count * 2 / 1000
    assert result.utilization == 1.0


def test_bad_arguments_are_named() -> None:
    log = JobLog([7], [0], [1], [1], [9])
    with pytest.raises(
        InvalidInputError, match=r"processors: must be at least 9, the widest job's, got 8"
    ) as error:
        simulate_queue(log, POOL)
    assert error.value.hint == "1 jobs do not fit, the first is job 7"
    with pytest.raises(UnknownNameError, match="queue policy"):
        simulate_queue(log, 9, "fcf")
    with pytest.raises(UnknownNameError, match="backfilling"):
        simulate_queue(log, 9, "fcfs", "eazy")
    with pytest.raises(InvalidInputError, match="job 2: submit: must be not before the job above"):
        JobLog([1, 2], [5, 4], [1, 1], [1, 1], [1, 1])
    with pytest.raises(InvalidInputError, match="at least one job"):
        JobLog([], [], [], [], [])
