"""Reader of job logs in the Standard Workload Format: jobs keep their processors and requested times.

The other reader of this format, for the task simulator, makes each job one task with the same work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from ..core import InvalidInputError
from ..workload.trace_columns import Rejections
from ..workload.trace_formats.reader_tools import lines_of, number
from .job_collector import JobCollector, JobLogReport
from .rejected_rows import readable, reject

_FIELDS = 18
#: Status of a line that repeats a part of a job: its work is in the line of the whole job.
_PARTIAL = (2.0, 3.0, 4.0)
#: Header fields with the size of the cluster; the first that is stated counts.
_POOL = ("MaxProcs", "MaxNodes")
_NAMES = {
    "submit": "field 2, submit time",
    "run": "field 4, run time",
    "request": "field 9, requested time",
    "processors": "fields 5 and 8, processors",
}


def swf_rows(
    path: Path, header: dict[str, int], rejections: Rejections | None = None
) -> Iterator[tuple[int, list[str], list[float]]]:
    """Yield line, cells and numbers (NaN where a cell is none) of each job of a file, and fill in its header."""
    for line, text in readable(lines_of(path), path):
        if text.startswith(";"):
            name, _, value = text.lstrip("; ").partition(":")
            if name in _POOL and value.strip().isdigit():
                header[name] = int(value)
        elif text:
            cells = text.split()
            if len(cells) == _FIELDS:
                yield line, cells, [number(cell) for cell in cells]
            elif rejections is None:
                raise InvalidInputError(
                    "row", f"{_FIELDS} fields", f"{len(cells)} fields", where=f"{path.name}, line {line}"
                )
            else:
                reject(rejections, line, "row", f"{_FIELDS} fields", f"{len(cells)} fields")


def read_swf_log(
    path: str | Path, *, skip_bad: bool = False, unfinished: bool = False, dependencies: bool = False
) -> JobLogReport:
    """Return the jobs of a file in the Standard Workload Format; `.gz` is unpacked.

    Processors are the larger of fields 5 and 8, the requested time is field 9, or the run time where it is -1.

    Parameters
    ----------
    path
        The file.
    skip_bad
        Whether lines that cannot be used are left out; by default they are an error.
    unfinished
        Whether jobs may have an unknown wait or run time (-1): they wait or run at the end of the log.
    dependencies
        Whether a job waits for the end of the one in field 17.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, or has lines that cannot be used.
    """
    jobs = JobCollector(Path(path), skip_bad, unfinished)
    header: dict[str, int] = {}
    partial = 0
    for line, cells, values in swf_rows(Path(path), header, jobs.rejections):
        bad = next((place for place, value in enumerate(values) if value != value), None)
        if bad is None and values[10] in _PARTIAL:
            partial += 1
            continue
        if bad is not None:
            jobs.jobs += 1
            jobs.reject(line, f"field {bad + 1}", "a finite number", cells[bad])
            continue
        # A run time of -1 is unknown, and an error unless jobs may be unfinished.
        unknown = math.nan if unfinished else -1.0
        times = {
            "submit": values[1],
            "wait": values[2] if values[2] != -1 else math.nan,
            "run": values[3] if values[3] != -1 else unknown,
            "request": values[8] if values[8] != -1 else math.nan,
        }
        jobs.add(
            line,
            times,
            max(values[4], values[7]),
            number=values[0],
            texts=(_text(values[11]), _text(values[14]), _text(values[13])),
            after=int(values[16]) if dependencies and values[16] > 0 else None,
            names=_NAMES,
        )
    notes = f"{partial:,} lines of parts of jobs, which the lines of whole jobs contain"
    pool = next((header[name] for name in _POOL if header.get(name)), None)
    return jobs.report(pool, (notes,) if partial else ())


def _text(value: float) -> str:
    return "" if value < 0 else f"{value:.0f}"
