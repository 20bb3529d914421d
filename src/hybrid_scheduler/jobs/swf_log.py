"""Reader of job logs in the Standard Workload Format: jobs keep their processors and requested times.

The other reader of this format, for the task simulator, makes each job one task with the same work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core import InvalidInputError
from ..workload.trace_columns import Rejections
from ..workload.trace_formats.reader_tools import lines_of, number
from .job_log import JobLog
from .rejected_rows import check_rows, readable, reject

_FIELDS = 18
#: Seconds of a wait or run time that has not ended.
_NOT_YET = 1e12
#: Status of a line that repeats a part of a job: its work is in the line of the whole job.
_PARTIAL = (2.0, 3.0, 4.0)
#: Header fields with the size of the cluster; the first that is stated counts.
_POOL = ("MaxProcs", "MaxNodes")


@dataclass(frozen=True)
class JobLogReport:
    """Content of a file and what became of it."""

    log: JobLog
    #: Lines with a job, lines of parts of jobs, and lines left out.
    jobs_in_file: int
    partial_lines: int
    rejections: Rejections
    #: Processors of the cluster, from the header; without one, those of the widest job.
    processors: int
    #: Run time times processors of all whole jobs that the file states.
    processor_seconds_in_file: float

    def sentences(self) -> list[str]:
        """Return the sums in words."""
        seconds = f"{self.processor_seconds_in_file:,.0f} in the file, {self.log.processor_seconds:,.0f} in the log"
        words = [f"{len(self.log):,} of {self.jobs_in_file:,} jobs", f"processor seconds: {seconds}"]
        if self.rejections.count:
            words.append(f"{self.rejections.count:,} lines left out")
        if self.partial_lines:
            words.append(f"{self.partial_lines:,} lines of parts of jobs, which the lines of whole jobs contain")
        return words


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


def read_swf_log(path: str | Path, *, skip_bad: bool = False, unfinished: bool = False) -> JobLogReport:
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

    Raises
    ------
    InvalidInputError
        If the file cannot be read, or has lines that cannot be used.
    """
    rows: list[tuple[float, ...]] = []
    rejections = Rejections()
    partial = jobs = 0
    header: dict[str, int] = {}
    total = 0.0
    for line, cells, values in swf_rows(Path(path), header, rejections):
        if values[10] in _PARTIAL:
            partial += 1
            continue
        jobs += 1
        processors = max(values[4], values[7])
        if values[3] > 0 and processors > 0:
            total += values[3] * processors
        if unfinished:
            values[2] = values[2] if values[2] != -1 else _NOT_YET
            values[3] = values[3] if values[3] != -1 else _NOT_YET
        problem = _problem(values, cells)
        if problem is None:
            requested = values[8] if values[8] >= 0 else values[3]
            rows.append((values[0], values[1], values[3], requested, processors, values[11], values[2]))
        else:
            reject(rejections, line, *problem)
    check_rows(rejections, skip_bad, Path(path), rows)
    table = np.array(rows, np.float64)
    table = table[np.argsort(table[:, 1], kind="stable")]
    users = ["" if user < 0 else f"{user:.0f}" for user in table[:, 5].tolist()]
    numbers = table[:, [0, 4]].astype(np.int64)
    start = table[:, 1] + table[:, 6] if (table[:, 6] >= 0).all() else None
    log = JobLog(numbers[:, 0], table[:, 1], table[:, 2], table[:, 3], numbers[:, 1], users, start)
    pool = next((header[name] for name in _POOL if header.get(name)), int(log.processors.max()))
    return JobLogReport(log, jobs, partial, rejections, pool, total)


def _problem(values: list[float], cells: list[str]) -> tuple[str, str, str] | None:
    """Return field, allowed values and the cell that cannot be used; None if the line can."""
    bad = [position for position, value in enumerate(values) if value != value]
    if bad:
        return f"field {bad[0] + 1}", "a finite number", cells[bad[0]]
    for position, name, least in ((1, "submit time", 0.0), (3, "run time", 0.0)):
        if values[position] < least:
            return f"field {position + 1}, {name}", f">= {least:g}", cells[position]
    if max(values[4], values[7]) < 1:
        return "fields 5 and 8, processors", "one of them at least 1", f"{cells[4]} and {cells[7]}"
    return None
