"""Reader of Microsoft's Philly job log (JSON): jobs hold GPUs together, on the machines of their last attempt."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ..core import InvalidInputError
from ..workload.trace_formats.reader_tools import calendar_seconds, json_document
from .job_collector import JobCollector, JobLogReport

_TIME = "a time such as 2017-10-09 07:01:51"
_NAMES = {"submit": "submitted_time", "run": "attempts", "processors": "GPUs of the attempts"}


def read_philly_log(path: str | Path, *, skip_bad: bool = False, unfinished: bool = False) -> JobLogReport:
    """Return the jobs of Philly's `cluster_job_log`; `.gz` is unpacked. The run time is that of all attempts.

    Parameters
    ----------
    path
        The file.
    skip_bad, unfinished
        What is done with jobs that cannot be used, and with those that wait or run at the end; see `JobCollector`.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, or has jobs that cannot be used.
    """
    document = json_document(Path(path))
    if not isinstance(document, list):
        raise InvalidInputError("file", "a list of jobs", type(document).__name__, where=Path(path).name)
    jobs = JobCollector(Path(path), skip_bad, unfinished, "GPU")
    never = 0
    for line, job in enumerate(document, 1):
        if not isinstance(job, dict):
            jobs.reject(line, "job", "an object", type(job).__name__)
            continue
        submit = calendar_seconds(str(job.get("submitted_time"))[:19])
        attempts = [attempt for attempt in job.get("attempts") or [] if isinstance(attempt, dict)]
        spans = [(_time(attempt, "start_time"), _time(attempt, "end_time")) for attempt in attempts]
        open_ended = not spans or any(math.isnan(end) for _, end in spans)
        if open_ended and not unfinished:
            never += 1
            continue
        if submit is None:
            jobs.reject(line, "submitted_time", _TIME, job.get("submitted_time"))
            continue
        if any(end < start for start, end in spans):
            jobs.reject(line, "attempts", "each with an end_time after its start_time", spans)
            continue
        machines = _machines(attempts[-1]) if attempts else []
        gpus = sum(machines)
        equal = len(set(machines)) == 1
        jobs.add(
            line,
            {
                "submit": submit,
                "wait": spans[0][0] - submit if spans else math.nan,
                "run": math.nan if open_ended else sum(end - start for start, end in spans),
                "request": math.nan,
            },
            max(gpus, 1),
            texts=(str(job.get("user") or ""), str(job.get("vc") or ""), str(job.get("jobid") or "")),
            demand=(0, 0, machines[0], len(machines)) if equal else (0, 0, min(gpus, 1), max(gpus, 1)),
            names=_NAMES,
        )
    return jobs.report(None, (f"{never:,} jobs that did not start or end",) if never else ())


def _time(attempt: dict[str, Any], name: str) -> float:
    seconds = calendar_seconds(str(attempt.get(name))[:19])
    return math.nan if seconds is None else seconds


def _machines(attempt: dict[str, Any]) -> list[int]:
    """Return the number of GPUs on each machine of an attempt."""
    detail = attempt.get("detail")
    listed = [machine for machine in detail if isinstance(machine, dict)] if isinstance(detail, list) else []
    counts = [len(machine["gpus"]) for machine in listed if isinstance(machine.get("gpus"), list)]
    return [count for count in counts if count]
