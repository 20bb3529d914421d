"""Log of rigid jobs as columns: submit time, run time, requested time and processors of each job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Floats, Ints, InvalidInputError
from .job_demand import JobDemand

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class JobLog:
    """Jobs in the order of their submission; each holds all its processors for its whole run time.

    Parameters
    ----------
    job_id
        Whole numbers, unique.
    submit
        Submission in seconds; does not decrease.
    run_time
        Seconds that the job runs.
    requested_time
        Seconds that its user asked for.
    processors
        Number of processors, at least 1.

    Examples
    --------
    >>> from hybrid_scheduler.jobs import JobLog
    >>> log = JobLog([1, 2], [0, 5], [10, 20], [10, 60], [4, 1])
    >>> len(log), log.processor_seconds
    (2, 60.0)
    """

    job_id: Ints
    submit: Floats
    run_time: Floats
    requested_time: Floats
    processors: Ints
    #: Names of users, one per job; empty where the log has none.
    user: Sequence[str] = ()
    #: Recorded starts in seconds; None where the log has none.
    start: Floats | None = None
    #: Memory, accelerators and parts of the jobs; None where a job is its processors.
    demand: JobDemand | None = None
    #: Priorities, higher first; None where all are equal.
    priority: Floats | None = None
    #: Names of queues or partitions, and of jobs; empty where the log has none.
    queue: Sequence[str] = ()
    name: Sequence[str] = ()
    #: Numbers of the jobs that must end before each job starts; empty where no job waits for others.
    after: Sequence[Sequence[int]] = ()

    def __post_init__(self) -> None:
        for name, kind in (
            ("job_id", np.int64),
            ("submit", np.float64),
            ("run_time", np.float64),
            ("requested_time", np.float64),
            ("processors", np.int64),
        ):
            column = np.array(getattr(self, name), kind)
            column.setflags(write=False)
            object.__setattr__(self, name, column)
            if len(column) != len(self.job_id):
                raise InvalidInputError(name, f"{len(self.job_id)} values, one per job", f"{len(column)} values")
        if len(self) == 0:
            raise InvalidInputError("jobs", "at least one job", "no jobs")
        self._check("submit", np.isfinite(self.submit), "finite")
        self._check("submit", np.diff(self.submit, prepend=self.submit[0]) >= 0, "not before the job above")
        self._check("run_time", np.isfinite(self.run_time) & (self.run_time >= 0), "finite and >= 0")
        self._check("requested_time", np.isfinite(self.requested_time) & (self.requested_time >= 0), "finite, >= 0")
        self._check("processors", self.processors >= 1, "at least 1")
        if self.start is not None:
            object.__setattr__(self, "start", np.array(self.start, np.float64))
            self._check("start", (self.start >= self.submit) & np.isfinite(self.start), "not before the submission")
        if self.priority is not None:
            object.__setattr__(self, "priority", np.array(self.priority, np.float64))
            self._check("priority", np.isfinite(self.priority), "finite")
        for name in ("demand", "user", "queue", "name", "after"):
            column = getattr(self, name)
            if column is not None and len(column) not in (len(self),) + (() if name == "demand" else (0,)):
                raise InvalidInputError(name, f"{len(self)} values, one per job", f"{len(column)} values")
        if self.after:
            self._check_dependencies()

    def _check(self, name: str, valid: Any, allowed: str) -> None:
        if not valid.all():
            row = int(np.argmin(valid))
            raise InvalidInputError(
                name, allowed, getattr(self, name)[row].item(), where=f"job {int(self.job_id[row])}"
            )

    def __len__(self) -> int:
        return len(self.job_id)

    @property
    def processor_seconds(self) -> float:
        """Sum of run time times processors."""
        return float(np.sum(self.run_time * self.processors))

    def rows(self, rows: slice | Ints, *, submit: float | None = None) -> JobLog:
        """Return the log of some of the jobs, in this order, all submitted at one time if it is given."""
        chosen = np.arange(len(self))[rows]
        numbers = self.job_id[chosen]
        known = set(numbers.tolist()) if self.after else set()
        return replace(
            self,
            job_id=numbers,
            submit=self.submit[chosen] if submit is None else np.full(len(chosen), submit),
            run_time=self.run_time[chosen],
            requested_time=self.requested_time[chosen],
            processors=self.processors[chosen],
            start=None if self.start is None or submit is not None else self.start[chosen],
            demand=None if self.demand is None else self.demand.rows(chosen),
            priority=None if self.priority is None else self.priority[chosen],
            **{
                column: [getattr(self, column)[row] for row in chosen.tolist()]
                for column in ("user", "queue", "name")
                if getattr(self, column)
            },
            after=[[job for job in self.after[row] if job in known] for row in chosen.tolist()]
            if self.after
            else (),
        )

    # ---------------------------------------------------------------- dependencies

    def children(self) -> tuple[Ints, Ints, Ints]:
        """Return how many jobs each waits for; where the rows of those that wait for it begin, and these rows."""
        row = {number: place for place, number in enumerate(self.job_id.tolist())}
        edges = np.array(
            [(row[parent], child) for child, parents in enumerate(self.after) for parent in set(parents)], np.int64
        ).reshape(-1, 2)
        edges = edges[np.argsort(edges[:, 0], kind="stable")]
        begins = np.searchsorted(edges[:, 0], np.arange(len(self) + 1))
        return np.bincount(edges[:, 1], minlength=len(self)), begins, edges[:, 1].copy()

    def without_descendants(self, kept: Bools) -> Ints:
        """Return the rows that are kept, without those that wait for one that is not."""
        kept = kept.copy()
        if self.after:
            _, begins, children = self.children()
            dropped = np.flatnonzero(~kept).tolist()
            while dropped:
                job = dropped.pop()
                for child in children[begins[job] : begins[job + 1]].tolist():
                    if kept[child]:
                        kept[child] = False
                        dropped.append(child)
        return np.flatnonzero(kept)

    def _check_dependencies(self) -> None:
        known = set(self.job_id.tolist())
        if len(known) < len(self):
            raise InvalidInputError("job_id", "different for every job where jobs wait for others", "equal ones")
        for place, parents in enumerate(self.after):
            for parent in parents:
                if parent not in known:
                    where = f"job {int(self.job_id[place])}"
                    raise InvalidInputError("after", "numbers of jobs of the log", parent, where=where)
        waiting, begins, children = self.children()
        ready = np.flatnonzero(waiting == 0).tolist()
        free = len(ready)
        while ready:
            job = ready.pop()
            for child in children[begins[job] : begins[job + 1]].tolist():
                waiting[child] -= 1
                if waiting[child] == 0:
                    ready.append(child)
                    free += 1
        if free < len(self):
            row = int(np.argmax(waiting > 0))
            got = f"{list(self.after[row])}, which wait for it"
            where = f"job {int(self.job_id[row])}"
            raise InvalidInputError("after", "jobs that do not wait for this one in turn", got, where=where)
