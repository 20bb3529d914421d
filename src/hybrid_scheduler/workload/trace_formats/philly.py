"""Reader of Microsoft's Philly job log (JSON), and of the CSV tables of Helios and of Philly in that form.

A job held several GPUs. The simulated machine has no such jobs yet, so that each becomes one task with the same
work: run time times GPUs. The report has both sums.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...core import InvalidInputError
from ..trace_columns import ReadReport, Rows
from .reader_tools import (
    GPU_SPEEDUP,
    UNKNOWN_INTENSITY,
    UNKNOWN_MEMORY,
    TaskCollector,
    calendar_seconds,
    json_document,
    number,
    parallel_work,
    table_of,
)

COLUMNS = ("job_id", "submit_time", "duration", "gpu_num")
MAPPING = {
    "external_id": "jobid or job_id",
    "arrival_time": "submitted_time or submit_time",
    "size": "run time x GPUs, as seconds there; 4 times that on the CPU. A job without GPUs: run time on the CPU",
    "compute_intensity": f"1 for jobs with a GPU, {UNKNOWN_INTENSITY} for the others",
    "memory_required": f"{UNKNOWN_MEMORY:g} MB (not in the trace)",
    "kind": "gpu, multi-gpu or cpu",
}
RUN_TIME = "run seconds"
WORK = "device seconds"
PARALLEL = "multi-GPU jobs"
_TIME = "a time such as 2017-10-09 07:01:51"


def read_philly(path: Path, scale: float) -> Rows:
    """Return the rows of a file; `scale` multiplies all times and amounts of data."""
    tasks = TaskCollector(scale, (RUN_TIME, WORK, PARALLEL))
    if ".csv" in path.suffixes:
        for line, row in tasks.whole_rows(table_of(path, COLUMNS)):
            _read_row(tasks, line, row)
        return tasks.rows(["user", "vc", "cpu_num", "node_num", "state"])
    jobs = json_document(path)
    if not isinstance(jobs, list):
        raise InvalidInputError(
            "file", "a list of jobs, as in cluster_job_log", type(jobs).__name__, where=path.name
        )
    for line, job in enumerate(jobs, 1):
        if isinstance(job, dict):
            _read_job(tasks, line, job)
        else:
            tasks.reject(line, "job", "an object", job)
    return tasks.rows(["status", "user", "vc"])


def notes(report: ReadReport, scale: float) -> tuple[str, ...]:
    """Return what became of jobs with several GPUs."""
    what = f"{report.totals[PARALLEL]:,.0f} jobs held several GPUs; each is one task with all its work"
    return parallel_work(report, scale, WORK, RUN_TIME, PARALLEL, what)


def _read_row(tasks: TaskCollector, line: int, row: dict[str, str]) -> None:
    submitted = _seconds(row["submit_time"])
    seconds = number(row["duration"])
    gpus = number(row["gpu_num"])
    work = seconds * max(gpus, 1.0)
    if submitted is None:
        tasks.reject(line, "submit_time", f"{_TIME}, or seconds", row["submit_time"], (seconds, work, gpus > 1))
    elif not seconds >= 0:
        tasks.reject(line, "duration", "a number of seconds >= 0", row["duration"])
    elif not gpus >= 0:
        tasks.reject(line, "gpu_num", "a number >= 0", row["gpu_num"])
    else:
        _add(tasks, line, row["job_id"], submitted, seconds, work, gpus)


def _read_job(tasks: TaskCollector, line: int, job: dict[str, Any]) -> None:
    submitted = _seconds(job.get("submitted_time"))
    attempts = [attempt for attempt in job.get("attempts") or [] if isinstance(attempt, dict)]
    spans = [_span(attempt) for attempt in attempts]
    counts = [_gpus(attempt) for attempt in attempts]
    known = [span or 0.0 for span in spans]
    work = sum(span * max(count, 1) for span, count in zip(known, counts, strict=True))
    amounts = (sum(known), work, max(counts, default=0) > 1)
    if submitted is None:
        tasks.reject(line, "submitted_time", _TIME, job.get("submitted_time"), amounts)
    elif not spans:
        tasks.reject(line, "attempts", "at least one: the job ran", job.get("attempts"))
    elif bad := [attempt for attempt, span in zip(attempts, spans, strict=True) if span is None]:
        tasks.reject(line, "attempts", "with a start_time and a later end_time", _times(bad[0]), amounts)
    else:
        _add(tasks, line, str(job.get("jobid")), submitted, sum(known), work, max(counts))


def _add(
    tasks: TaskCollector, line: int, name: str, submitted: float, seconds: float, work: float, gpus: float
) -> None:
    intensity = 1.0 if gpus else UNKNOWN_INTENSITY
    tasks.add(
        line,
        name,
        size=tasks.size_of(work * (GPU_SPEEDUP if gpus else 1.0), intensity),
        intensity=intensity,
        memory=UNKNOWN_MEMORY,
        arrival=submitted,
        kind="multi-gpu" if gpus > 1 else "gpu" if gpus else "cpu",
        amounts=(seconds, work, gpus > 1),
    )


def _seconds(value: object) -> float | None:
    """Return a moment in seconds; the zone that some times end in, such as PDT, is one for the whole trace."""
    text = str(value)
    plain = number(text)
    return plain if plain >= 0 else calendar_seconds(text[:19])


def _span(attempt: dict[str, Any]) -> float | None:
    start = _seconds(attempt.get("start_time"))
    end = _seconds(attempt.get("end_time"))
    return None if start is None or end is None or end < start else end - start


def _times(attempt: dict[str, Any]) -> str:
    return f"{attempt.get('start_time')} to {attempt.get('end_time')}"


def _gpus(attempt: dict[str, Any]) -> int:
    detail = attempt.get("detail")
    machines = [machine for machine in detail if isinstance(machine, dict)] if isinstance(detail, list) else []
    return sum(len(machine["gpus"]) for machine in machines if isinstance(machine.get("gpus"), list))
