"""Published tables of batch scheduling: five heuristics and a learned agent, by the published procedure.

Zhang and others: RLScheduler: An automated HPC batch job scheduler using reinforcement learning. SC 2020. Its
simulation differs from an event simulation, and the figures can only be reproduced with these rules:

- Jobs of the file without run time are left out, and those of unknown run time take 10 seconds. Jobs hold whole
  nodes.
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..core import Floats, InvalidInputError, UnknownNameError
from .job_log import JobLog
from .lower_bound import least_weighted_response
from .published_cell import MeanOfValues
from .queue_policies import QueuePolicy, queue_policy_named
from .slowdown import SLOWDOWN_BOUND_S, bounded_slowdown
from .swf_log import swf_rows

_SEQUENCE_JOBS = 1024
_SEQUENCES = 10
#: Seconds of a job whose run time is not known.
_UNKNOWN_RUN_S = 10.0
#: Policies of the published table, and the one-line rule that it lacks.
_PUBLISHED_POLICIES = ("fcfs", "wfp3", "uni", "sjf", "f1")
_RULE = "saf"
#: SHA-256 of the log whose published figures are equal to ours to the digit.
_LUBLIN_1 = "a394ab3d81179ebcf645a1cbd593a60b6dff7f11a510e1e6285c45f43310c962"
#: Beginnings of the names of the files that the authors used, by the name of the log in their tables.
_FILES = {
    "Lublin-2": ("lublin_2.", "lublin_256_new2"),
    "Lublin-1": ("lublin_1.", "lublin_256."),
    "SDSC-SP2": ("sdsc-sp2", "sdsc_sp2"),
    "HPC2N": ("hpc2n",),
}
#: Published means by metric, log and backfilling: the policies in their order, and the agent.
_PUBLISHED = {
    "bounded_slowdown": {
        ("Lublin-1", False): (7273.77, 19753.53, 22274.74, 277.35, 258.37, 254.67),
        ("SDSC-SP2", False): (1727.54, 3000.88, 1848.45, 2680.55, 1232.06, 466.44),
        ("HPC2N", False): (297.18, 426.99, 609.77, 157.71, 118.01, 117.01),
        ("Lublin-2", False): (7842.47, 9523.18, 11265.31, 787.89, 698.34, 724.51),
        ("Lublin-1", True): (235.82, 133.87, 307.23, 73.31, 75.07, 58.64),
        ("SDSC-SP2", True): (1595.12, 1083.12, 548.01, 2167.84, 1098.22, 397.82),
        ("HPC2N", True): (127.38, 97.39, 175.12, 122.04, 71.95, 86.14),
        ("Lublin-2", True): (247.61, 318.35, 379.59, 91.99, 148.25, 118.79),
    },
    "utilization": {
        ("Lublin-1", False): (0.657, 0.747, 0.691, 0.762, 0.816, 0.714),
        ("SDSC-SP2", False): (0.670, 0.658, 0.688, 0.645, 0.674, 0.671),
        ("HPC2N", False): (0.638, 0.636, 0.636, 0.640, 0.637, 0.640),
        ("Lublin-2", False): (0.404, 0.543, 0.510, 0.562, 0.478, 0.562),
        ("Lublin-1", True): (0.868, 0.864, 0.883, 0.778, 0.840, 0.850),
        ("SDSC-SP2", True): (0.682, 0.681, 0.706, 0.661, 0.677, 0.707),
        ("HPC2N", True): (0.639, 0.637, 0.638, 0.641, 0.638, 0.642),
        ("Lublin-2", True): (0.587, 0.583, 0.587, 0.593, 0.552, 0.593),
    },
}


class PublishedCluster(NamedTuple):
    """Size of the cluster: jobs hold whole nodes of `processors / nodes` processors."""

    processors: int
    nodes: int


def read_published_log(path: str | Path, processors: int | None = None) -> tuple[JobLog, PublishedCluster]:
    """Return the jobs of a file in the Standard Workload Format by the published rules, and the cluster's size.

    Parameters
    ----------
    path
        The file.
    processors
        Size of the cluster, of one processor a node; by default, processors and nodes of the file's header.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, or a line has another number of fields or no processors.
    """
    header: dict[str, int] = {}
    rows = []
    for line, cells, values in swf_rows(Path(path), header):
        width = max(values[4], values[7])
        if not (width >= 1 and values[1] >= 0 and values[3] == values[3] and values[8] == values[8]):
            raise InvalidInputError(
                "fields 2, 4, 5, 8 and 9", "numbers, and at least 1 processor", " ".join(cells[1:9]),
                where=f"{Path(path).name}, line {line}",
            )  # fmt: skip
        seconds = values[3] if values[3] >= 0 else _UNKNOWN_RUN_S
        if seconds > 0:
            rows.append((values[0], values[1], seconds, values[8] if values[8] != -1 else values[3], width))
    if not rows:
        raise InvalidInputError("file", "at least one job that runs", "none", where=Path(path).name)
    table = np.array(rows)
    table = table[np.lexsort((table[:, 0], table[:, 1]))]
    number, submit, run, requested, width = table.T
    log = JobLog(number, submit, run, np.maximum(requested, 0.0), width)
    pool = processors or header.get("MaxProcs") or header.get("MaxNodes") or int(log.processors.max())
    nodes = pool if processors else header.get("MaxNodes") or pool
    return log, PublishedCluster(pool, nodes)


def published_name(path: str | Path, sha256: str) -> str | None:
    """Return the name that the published tables give to a log, by the digest or the name of its file."""
    if sha256 == _LUBLIN_1:
        return "Lublin-1"
    name = Path(path).name.lower()
    return next((log for log, starts in _FILES.items() if name.startswith(starts)), None)


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
    """Run of one sequence by the published rules.

    Both lists are sorted in place and keep their order among equals, as the published ones do: which of several
    jobs with one submission or end comes first depends on how the list was ordered before.
    """

    def __init__(self, log: JobLog, cluster: PublishedCluster, policy: QueuePolicy, published_waits: bool) -> None:
        self.submit = log.submit.tolist()
        self.run_time = log.run_time.tolist()
        self.requested = log.requested_time.tolist()
        self.processors = log.processors.tolist()
        self.nodes = np.ceil(log.processors / (cluster.processors / cluster.nodes)).astype(int).tolist()
        self.score: Callable[[float, float, float, float], float] = policy.score.py_func
        self.waits_grow = policy.ages and not published_waits
        jobs = len(log)
        self.rank = [self._rank(job, -1.0) for job in range(jobs)]
        self.free = cluster.nodes
        self.now = self.submit[0]
        self.arrived = 1
        self.queue = [0]
        self.running: list[int] = []
        self.start = [-1.0] * jobs
        self.end = [0.0] * jobs
        self.expected_end = [0.0] * jobs

    def run(self, backfilling: bool) -> Floats:
        """Return the start of every job."""
        while self.queue or self.arrived < len(self.submit):
            while not self.queue:
                self._next_event()
            if self.waits_grow:
                for job in self.queue:
                    self.rank[job] = self._rank(job, self.now)
            self.queue.sort(key=self.rank.__getitem__)
            chosen = self.queue[0]
            if backfilling and self.nodes[chosen] > self.free:
                self._wait_with_backfilling(chosen)
            while self.nodes[chosen] > self.free:
                self._next_event()
            self._begin(chosen)
        return np.array(self.start)

    def _rank(self, job: int, now: float) -> float:
        submit = self.submit[job]
        return self.score(submit, self.requested[job], float(self.processors[job]), now - submit)

    def _begin(self, job: int) -> None:
        self.queue.remove(job)
        self.start[job] = self.now
        self.end[job] = self.now + self.run_time[job]
        self.expected_end[job] = self.now + self.requested[job]
        self.free -= self.nodes[job]
        self.running.append(job)

    def _next_event(self) -> None:
        """Move time to the next submission or end; a submission at or before an end comes first."""
        self.running.sort(key=self.end.__getitem__)
        submitted = self.submit[self.arrived] if self.arrived < len(self.submit) else np.inf
        if self.running and self.end[self.running[0]] < submitted:
            ended = self.running.pop(0)
            self.free += self.nodes[ended]
            self.now = max(self.now, self.end[ended])
        else:
            self.queue.append(self.arrived)
            self.arrived += 1
            self.now = max(self.now, submitted)

    def _wait_with_backfilling(self, chosen: int) -> None:
        limit = self._earliest_start(chosen)
        while self.nodes[chosen] > self.free:
            self.queue.sort(key=self.submit.__getitem__)
            for job in list(self.queue):
                if self.nodes[job] <= self.free and self.now + self.requested[job] < limit:
                    self._begin(job)
            self._next_event()

    def _earliest_start(self, chosen: int) -> float:
        self.running.sort(key=self.expected_end.__getitem__)
        available = self.free
        for job in self.running:
            available += self.nodes[job]
            if available >= self.nodes[chosen]:
                return self.expected_end[job]
        raise InvalidInputError("processors", f"at least {self.processors[chosen]}", available)


@dataclass(frozen=True)
class _PublishedMetric:
    """Measure of a published table: mean over the jobs of a sequence."""

    #: Value of a sequence from its log, starts and pool, and the best that any policy could reach.
    value: Callable[[JobLog, Floats, int], float]
    bound: Callable[[JobLog, int], float]
    digits: int = 2


def _slowdown(log: JobLog, least: float) -> Floats:
    """Return what the response is divided by in a slowdown."""
    seconds: Floats = np.maximum(log.run_time, least)
    return seconds


def _utilization(log: JobLog, start: Floats, pool: int) -> float:
    """Return the work over what the pool could do from the first submission to the last start."""
    return log.processor_seconds / ((float(start.max()) - float(log.submit[0])) * pool)


def _mean_response(log: JobLog, start: Floats, unit: Floats | float) -> float:
    return float(((start - log.submit + log.run_time) / unit).mean())


def _least_response(log: JobLog, pool: int, unit: Floats | float) -> float:
    """Return a bound of the mean response in units of each job's own."""
    weight = np.ones(len(log)) / unit
    return least_weighted_response(log, pool, weight) / len(log)


METRICS = {
    "bounded_slowdown": _PublishedMetric(
        lambda log, start, pool: float(bounded_slowdown(start - log.submit, log.run_time).mean()),
        lambda log, pool: max(1.0, _least_response(log, pool, _slowdown(log, SLOWDOWN_BOUND_S))),
    ),
    "slowdown": _PublishedMetric(
        lambda log, start, pool: _mean_response(log, start, _slowdown(log, 1.0)),
        lambda log, pool: _least_response(log, pool, _slowdown(log, 1.0)),
    ),
    "wait": _PublishedMetric(
        lambda log, start, pool: float((start - log.submit).mean()),
        lambda log, pool: _least_response(log, pool, 1.0) - float(log.run_time.mean()),
    ),
    "turnaround": _PublishedMetric(
        lambda log, start, pool: _mean_response(log, start, 1.0), lambda log, pool: _least_response(log, pool, 1.0)
    ),
    "utilization": _PublishedMetric(_utilization, lambda log, pool: _utilization(log, log.submit, pool), 3),
}


@dataclass(frozen=True)
class TableCell(MeanOfValues):
    """One policy with or without backfilling: the published mean and ours."""

    policy: str
    label: str
    backfilling: bool
    published: float | None
    values: tuple[float, ...]
    #: Mean of the rule of one line on the same sequences, and what no policy can be better than.
    rule: float
    bound: float
    digits: int
    #: Whether a heuristic's waits are those of the published code.
    published_waits: bool = True
    #: Mean of the published agent on the same sequences.
    published_agent: float | None = None

    @property
    def verdict(self) -> str:
        """Comparison with the published mean in words."""
        if self.published is None:
            return "not in the published table"
        if abs(self.mean - self.published) < 0.5 * 10.0**-self.digits + 1e-9:
            return "equal to the digit"
        return f"{self.mean / self.published:.4g} × the published mean"


def published_table(
    log: JobLog, cluster: PublishedCluster, *, metric: str = "bounded_slowdown", name: str | None = None
) -> Iterator[TableCell]:
    """Yield the cells of the table for a log: published heuristics, their true waits, and smallest area first.

    Parameters
    ----------
    log, cluster
        The jobs, and the size of the cluster, as `read_published_log` returns them.
    metric
        A name of `METRICS`.
    name
        Name of the log in the published tables.

    Raises
    ------
    InvalidInputError
        If the log is too short, or a job is larger than the cluster.
    """
    if metric not in METRICS:
        raise UnknownNameError("metric", metric, METRICS)
    measure = METRICS[metric]
    pool = cluster.processors
    if int(log.processors.max()) > pool:
        raise InvalidInputError("processors", f"at least {int(log.processors.max())}, the widest job's", pool)
    sequences = [log.rows(slice(first, first + _SEQUENCE_JOBS)) for first in sequence_starts(len(log))]
    bound = float(np.mean([measure.bound(jobs, pool) for jobs in sequences]))
    for backfilling in (False, True):

        def values(policy: QueuePolicy, waits: bool, backfilling: bool = backfilling) -> tuple[float, ...]:
            runs = ((jobs, _Sequence(jobs, cluster, policy, waits).run(backfilling)) for jobs in sequences)
            return tuple(measure.value(jobs, start, pool) for jobs, start in runs)

        of_rule = values(queue_policy_named(_RULE), True)
        *stated, agent = _PUBLISHED.get(metric, {}).get((name or "", backfilling)) or (None,) * 6
        for known, published in zip((*_PUBLISHED_POLICIES, _RULE), (*stated, None), strict=True):
            policy = queue_policy_named(known)
            for waits in (True, False) if policy.ages else (True,):
                own = of_rule if known == _RULE else values(policy, waits)
                yield TableCell(
                    known, policy.label, backfilling, published if waits else None, own, float(np.mean(of_rule)),
                    bound, measure.digits, waits, agent,
                )  # fmt: skip
