"""Collector of the jobs of a file: checks of each, what is left out, and sums of both sides."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..core import InvalidInputError
from ..workload.trace_columns import Rejections
from .cluster_nodes import WHOLE_GPU
from .job_demand import JobDemand
from .job_log import JobLog
from .rejected_rows import check_rows, reject

#: Seconds of a wait or run time that has not ended.
_NOT_YET = 1e12


@dataclass(frozen=True)
class JobLogReport:
    """Content of a file and what became of it."""

    log: JobLog
    #: Jobs of the file, and those left out because they cannot be used.
    jobs_in_file: int
    rejections: Rejections
    #: Processors of the cluster: from the file, else the most that jobs held at once, else those of the widest job.
    processors: int
    #: Run time times processors of all jobs for which the file states both.
    processor_seconds_in_file: float
    #: What else the file has, in words.
    notes: tuple[str, ...] = ()
    #: What is counted as processors.
    unit: str = "processor"

    def sentences(self) -> list[str]:
        """Return the sums in words."""
        seconds = f"{self.processor_seconds_in_file:,.0f} in the file, {self.log.processor_seconds:,.0f} in the log"
        words = [f"{len(self.log):,} of {self.jobs_in_file:,} jobs", f"{self.unit} seconds: {seconds}"]
        if self.rejections.count:
            words.append(f"{self.rejections.count:,} lines left out")
        return [*words, *self.notes]


@dataclass
class JobCollector:
    """Jobs of a file while it is read.

    Parameters
    ----------
    path
        The file.
    skip_bad
        Whether jobs that cannot be used are left out; by default they are an error.
    unfinished
        Whether jobs may have an unknown wait or run time: they wait or run at the end of the log.
    unit
        What is counted as processors.
    """

    path: Path
    skip_bad: bool = False
    unfinished: bool = False
    unit: str = "processor"
    rejections: Rejections = field(default_factory=Rejections)
    jobs: int = 0
    seconds: float = 0.0
    _numbers: list[tuple[float, ...]] = field(default_factory=list)
    _texts: list[tuple[str, str, str]] = field(default_factory=list)
    _demands: list[tuple[int, int, int, int]] = field(default_factory=list)
    _after: list[list[int]] = field(default_factory=list)

    def reject(self, line: int, name: str, allowed: str, got: object) -> None:
        """Leave a job out."""
        reject(self.rejections, line, name, allowed, got)

    def add(
        self,
        line: int,
        times: Mapping[str, float],
        processors: float,
        *,
        number: float | None = None,
        texts: tuple[str, str, str] = ("", "", ""),
        priority: float = 0.0,
        demand: tuple[int, int, int, int] | None = None,
        after: int | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """Add a job, or reject it.

        Parameters
        ----------
        line
            Its line or place in the file.
        times
            Seconds: `submit`, `wait` (NaN if not known), `run` and `request` (NaN if there is none).
        processors
            How many it holds.
        number
            Its number in the file; by default the line.
        texts
            User, queue and name.
        priority
            Its priority.
        demand
            Thousandths of processors, MiB and accelerators of a part, and the number of parts.
        after
            Number of the job that must end before.
        names
            What the file calls the times and the processors.
        """
        self.jobs += 1
        wait = times["wait"]
        run = times["run"]
        request = times["request"]
        if run > 0 and processors > 0:
            self.seconds += run * processors
        if self.unfinished:
            wait = _NOT_YET if math.isnan(wait) else wait
            run = _NOT_YET if math.isnan(run) else run
        request = run if math.isnan(request) else request
        called = names or {}
        found = {"submit": times["submit"], "run": run, "request": request, "processors": processors}
        for name, value in found.items():
            least = 1 if name == "processors" else 0
            if not least <= value < math.inf:
                got = "nothing" if math.isnan(value) else f"{value:g}"
                self.reject(line, called.get(name, name), f"a number >= {least:g}", got)
                return
        self._numbers.append(
            (line if number is None else number, times["submit"], wait, run, request, processors, priority)
        )
        self._texts.append(texts)
        if demand is not None:
            self._demands.append(demand)
        self._after.append([] if after is None else [after])

    def report(self, processors: int | None = None, notes: tuple[str, ...] = ()) -> JobLogReport:
        """Return the jobs in the order of their submission."""
        check_rows(self.rejections, self.skip_bad, self.path, self._numbers)
        table = np.array(self._numbers, np.float64)
        order = np.argsort(table[:, 1], kind="stable")
        number, submit, wait, run, request, width, priority = table[order].T
        columns: dict[str, Any] = {}
        for name, texts in zip(("user", "queue", "name"), zip(*self._texts, strict=True), strict=True):
            if any(texts):
                columns[name] = [texts[row] for row in order.tolist()]
        if priority.any():
            columns["priority"] = priority
        if self._demands:
            cpu, memory, gpus, parts = np.array(self._demands, np.int64)[order].T
            columns["demand"] = JobDemand(cpu, memory, gpus, np.where(gpus > 0, WHOLE_GPU, 0), parts=parts)
        if any(self._after):
            columns["after"] = [self._after[row] for row in order.tolist()]
        if (wait >= 0).all():
            columns["start"] = submit + wait
        try:
            log = JobLog(number.astype(np.int64), submit, run, request, width.astype(np.int64), **columns)
        except InvalidInputError as error:
            raise InvalidInputError(
                error.field, error.allowed, error.got, where=f"{self.path.name}, {error.where}"
            ) from None
        pool = processors or (_most_at_once(log) if log.start is not None else int(log.processors.max()))
        return JobLogReport(log, self.jobs, self.rejections, pool, self.seconds, notes, self.unit)


def _most_at_once(log: JobLog) -> int:
    """Return the most processors that recorded jobs held at once; ends come before starts."""
    assert log.start is not None
    began = log.start < _NOT_YET
    time = np.concatenate((log.start[began], (log.start + log.run_time)[began]))
    change = np.concatenate((log.processors[began], -log.processors[began]))
    held = np.cumsum(change[np.lexsort((change, time))])
    return max(int(held.max(initial=0)), int(log.processors.max()))
