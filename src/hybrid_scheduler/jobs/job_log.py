"""Log of rigid jobs as columns: submit time, run time, requested time and processors of each job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core import Floats, Ints, InvalidInputError
from .job_demand import JobDemand


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
    user: Sequence[str] = field(default=())
    #: Recorded starts in seconds; None where the log has none.
    start: Floats | None = None
    #: Memory, accelerators and parts of the jobs; None where a job is its processors.
    demand: JobDemand | None = None

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
        if self.demand is not None and len(self.demand) != len(self):
            raise InvalidInputError("demand", f"{len(self)} values, one per job", f"{len(self.demand)} values")

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
        users = [self.user[row] for row in chosen.tolist()] if self.user else ()
        return JobLog(
            self.job_id[chosen],
            self.submit[chosen] if submit is None else np.full(len(chosen), submit),
            self.run_time[chosen],
            self.requested_time[chosen],
            self.processors[chosen],
            users,
            None if self.start is None or submit is not None else self.start[chosen],
            None if self.demand is None else self.demand.rows(chosen),
        )
