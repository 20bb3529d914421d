"""Published table of batch scheduling: five heuristics and a learned agent on job logs, by the published procedure.

Zhang and others: RLScheduler: An automated HPC batch job scheduler using reinforcement learning. SC 2020. Its
simulation differs from an event simulation, and the figures can only be reproduced with these rules:

- A sequence has 1,024 jobs. Its first job begins alone in the queue. Later submissions enter while the chosen job
  waits for processors, or when the queue is empty, and at no other time.
- The job of least score is chosen, and stays the choice until it starts.
- With backfilling, waiting jobs start in the order of submission if they fit and would end before the earliest
  start of the chosen job by requested times, which is computed once for each choice.
- The published scores of WFP3 and UNICEF use a wait of -1 minus the submit time. `published_waits=False` uses the
  waits as they are.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..core import Floats, InvalidInputError, UnknownNameError
from ..metrics.statistics import t_half_width
from .job_log import JobLog
from .queue_policies import QueuePolicy, queue_policy_named
from .slowdown import bounded_slowdown

_SEQUENCE_JOBS = 1024
_SEQUENCES = 10
#: Policies of the published table, and the one-line rule that it lacks.
_PUBLISHED_POLICIES = ("fcfs", "wfp3", "uni", "sjf", "f1")
_ADDED_POLICIES = ("saf",)
#: Published means of the bounded slowdown by SHA-256 of the log and backfilling, in the order of the policies, and
#: the agent's.
_PUBLISHED = {
    "a394ab3d81179ebcf645a1cbd593a60b6dff7f11a510e1e6285c45f43310c962": {
        False: (7273.77, 19753.53, 22274.74, 277.35, 258.37, 254.67),
        True: (235.82, 133.87, 307.23, 73.31, 75.07, 58.64),
    }
}


def sequence_starts(jobs: int) -> list[int]:
    """Return the first job of each sequence, as the published evaluation draws them."""
    least = 2 * _SEQUENCE_JOBS + 2
    if jobs < least:
        raise InvalidInputError("jobs", f"at least {least:,}, for sequences of {_SEQUENCE_JOBS:,}", jobs)
    digest = hashlib.sha512(b"1").digest()
    seed = [int.from_bytes(digest[first : first + 4], "little") for first in (0, 4)]
    random = np.random.RandomState(seed)
    return [int(random.randint(_SEQUENCE_JOBS, jobs - _SEQUENCE_JOBS - 1)) for _ in range(_SEQUENCES)]


class _Sequence:
    """Run of one sequence by the published rules."""

    def __init__(self, log: JobLog, pool: int, policy: QueuePolicy, published_waits: bool) -> None:
        self.submit = log.submit.tolist()
        self.run_time = log.run_time.tolist()
        self.requested = log.requested_time.tolist()
        self.processors = log.processors.tolist()
        self.score: Callable[[float, float, float, float], float] = policy.score.py_func
        self.published_waits = published_waits
        self.free = pool
        self.now = self.submit[0]
        self.arrived = 1
        self.queue = [0]
        # End and number of the start; the number settles ties as the published list does.
        self.running: list[tuple[float, int, int]] = []
        self.start: dict[int, float] = {}

    def run(self, backfilling: bool) -> Floats:
        """Return the start of every job."""
        jobs = len(self.submit)
        while len(self.start) < jobs:
            while not self.queue:
                self._next_event()
            chosen = min(self.queue, key=self._rank)
            if backfilling and self.processors[chosen] > self.free:
                self._wait_with_backfilling(chosen)
            while self.processors[chosen] > self.free:
                self._next_event()
            self._begin(chosen)
        return np.array([self.start[job] for job in range(jobs)])

    def _rank(self, job: int) -> tuple[float, int]:
        wait = -1.0 - self.submit[job] if self.published_waits else self.now - self.submit[job]
        return self.score(self.submit[job], self.requested[job], float(self.processors[job]), wait), job

    def _begin(self, job: int) -> None:
        self.queue.remove(job)
        self.start[job] = self.now
        self.free -= self.processors[job]
        heapq.heappush(self.running, (self.now + self.run_time[job], len(self.start), job))

    def _next_event(self) -> None:
        """Move time to the next submission or end; a submission at or before an end comes first."""
        submitted = self.submit[self.arrived] if self.arrived < len(self.submit) else np.inf
        if self.running and self.running[0][0] < submitted:
            end, _, job = heapq.heappop(self.running)
            self.free += self.processors[job]
            self.now = max(self.now, end)
        else:
            self.queue.append(self.arrived)
            self.arrived += 1
            self.now = max(self.now, submitted)

    def _wait_with_backfilling(self, chosen: int) -> None:
        limit = self._earliest_start(chosen)
        while self.processors[chosen] > self.free:
            for job in sorted(self.queue):
                if self.processors[job] <= self.free and self.now + self.requested[job] < limit:
                    self._begin(job)
            self._next_event()

    def _earliest_start(self, chosen: int) -> float:
        expected = sorted((self.start[job] + self.requested[job], job) for _, _, job in self.running)
        available = self.free
        for end, job in expected:
            available += self.processors[job]
            if available >= self.processors[chosen]:
                return end
        raise InvalidInputError("processors", f"at least {self.processors[chosen]}", available)


def _bounded_slowdown(log: JobLog, start: Floats, pool: int) -> float:
    return float(bounded_slowdown(start - log.submit, log.run_time).mean())


def _slowdown(log: JobLog, start: Floats, pool: int) -> float:
    return float(((start - log.submit + log.run_time) / np.maximum(log.run_time, 1.0)).mean())


def _utilization(log: JobLog, start: Floats, pool: int) -> float:
    """Return the work over what the pool could do from the first submission to the last start."""
    return log.processor_seconds / ((float(start.max()) - float(log.submit[0])) * pool)


#: Measures of the published tables: mean over the jobs of a sequence.
METRICS: dict[str, Callable[[JobLog, Floats, int], float]] = {
    "bounded_slowdown": _bounded_slowdown,
    "slowdown": _slowdown,
    "wait": lambda log, start, pool: float((start - log.submit).mean()),
    "turnaround": lambda log, start, pool: float((start - log.submit + log.run_time).mean()),
    "utilization": _utilization,
}


@dataclass(frozen=True)
class TableCell:
    """One policy with or without backfilling: the published mean and ours."""

    policy: str
    label: str
    backfilling: bool
    published: float | None
    values: tuple[float, ...]
    #: Whether a heuristic's waits are those of the published code.
    published_waits: bool = True
    #: Mean of the published agent on the same sequences.
    published_agent: float | None = None

    @property
    def mean(self) -> float:
        """Mean over the sequences."""
        return float(np.mean(self.values))

    @property
    def half_width(self) -> float:
        """Half of the 95 % interval of the mean over the sequences."""
        return float(t_half_width(np.array(self.values)))

    @property
    def verdict(self) -> str:
        """Comparison with the published mean in words."""
        if self.published is None:
            return "not in the published table"
        if abs(self.mean - self.published) < 0.005 + 1e-9:
            return "equal to the digit"
        return f"{self.mean / self.published:.4g} × the published mean"


def published_table(
    log: JobLog, pool: int, *, metric: str = "bounded_slowdown", sha256: str | None = None
) -> Iterator[TableCell]:
    """Yield the cells of the table for a log: published heuristics, their true waits, and smallest area first.

    Parameters
    ----------
    log
        The jobs, in the order of the file.
    pool
        Number of processors.
    metric
        A name of `METRICS`.
    sha256
        Digest of the log's file, by which published means are found.

    Raises
    ------
    InvalidInputError
        If the log is too short, or a job is larger than the pool.
    """
    if metric not in METRICS:
        raise UnknownNameError("metric", metric, METRICS)
    if int(log.processors.max()) > pool:
        raise InvalidInputError("processors", f"at least {int(log.processors.max())}, the widest job's", pool)
    sequences = [log.rows(slice(first, first + _SEQUENCE_JOBS)) for first in sequence_starts(len(log))]
    known = _PUBLISHED.get(sha256 or "", {}) if metric == "bounded_slowdown" else {}
    for backfilling in (False, True):
        published = known.get(backfilling)
        for name in (*_PUBLISHED_POLICIES, *_ADDED_POLICIES):
            policy = queue_policy_named(name)
            for published_waits in (True, False) if policy.ages else (True,):
                values = tuple(
                    METRICS[metric](jobs, _Sequence(jobs, pool, policy, published_waits).run(backfilling), pool)
                    for jobs in sequences
                )
                stated = dict(zip(_PUBLISHED_POLICIES, published or (), strict=False)) if published_waits else {}
                agent = published[-1] if published else None
                yield TableCell(name, policy.label, backfilling, stated.get(name), values, published_waits, agent)
