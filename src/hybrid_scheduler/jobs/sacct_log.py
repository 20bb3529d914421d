"""Reader of job records that `sacct --parsable2` prints.

Lines of job steps are parts of their jobs and are left out. A job has processors of `AllocCPUS`, or of `ReqCPUS`
while it waits, nodes of `NNodes`, and accelerators of `AllocTRES` or `ReqTRES`.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from ..workload.trace_columns import require_columns
from ..workload.trace_formats.reader_tools import calendar_seconds, lines_of, number
from .job_collector import JobCollector, JobLogReport
from .rejected_rows import readable

_COLUMNS = ("JobID", "Submit")
_DURATION = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?")
_GPUS = re.compile(r"gres/gpu=(\d+)")
_MEMORY = re.compile(r"mem=([\d.]+)([KMGT]?)")
_MIB = {"K": 1 / 1024, "M": 1.0, "": 1.0, "G": 1024.0, "T": 1024.0**2}
_NAMES = {"submit": "Submit", "run": "Elapsed", "request": "Timelimit", "processors": "AllocCPUS or ReqCPUS"}


def read_sacct_log(path: str | Path, *, skip_bad: bool = False, unfinished: bool = False) -> JobLogReport:
    """Return the jobs of a file that `sacct --parsable2` wrote; `.gz` is unpacked.

    Parameters
    ----------
    path
        The file. It has the columns JobID, Submit, and of Start, End, Elapsed, ElapsedRaw, Timelimit, AllocCPUS,
        ReqCPUS, NNodes, AllocTRES, ReqTRES, User, Partition, JobName, Priority those that are known.
    skip_bad
        Whether lines that cannot be used are left out; by default they are an error.
    unfinished
        Whether jobs that wait or run at the end of the log are kept; else they are left out and counted.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, lacks a column, or has lines that cannot be used.
    """
    jobs = JobCollector(Path(path), skip_bad, unfinished)
    steps = never = 0
    lines = readable(lines_of(Path(path)), Path(path))
    header = next(lines, (1, ""))[1].split("|")
    separated = header[-1] == ""
    if separated:
        header.pop()
    require_columns(_COLUMNS, header, f"{Path(path).name}, line 1")
    for line, text in lines:
        # `--parsable` ends each line with the separator, `--parsable2` does not.
        cells = text.split("|")
        if separated and cells[-1] == "":
            cells.pop()
        if len(cells) != len(header):
            jobs.reject(line, "row", f"{len(header)} cells, as in the header", f"{len(cells)} cells")
            continue
        row = dict(zip(header, cells, strict=True))
        if "." in row["JobID"]:
            steps += 1
            continue
        submit = calendar_seconds(row["Submit"])
        start = calendar_seconds(row.get("Start", ""))
        ended = calendar_seconds(row.get("End", "")) is not None
        state = row.get("State", "")
        if (start is None and (ended or not unfinished)) or (start is not None and not ended and not unfinished):
            # Cancelled before its start, or not ended: it has no run to simulate.
            never += 1
            continue
        if submit is None:
            jobs.reject(line, "Submit", "a time such as 2024-05-01T08:00:00", row["Submit"])
            continue
        run = number(row.get("ElapsedRaw", "")) if row.get("ElapsedRaw") else _seconds(row.get("Elapsed", ""))
        wait = math.nan if start is None else start - submit
        if wait < 0:
            jobs.reject(line, "Start", "not before Submit", row["Start"])
            continue
        processors = number(row.get("AllocCPUS", "0")) or number(row.get("ReqCPUS", "0"))
        jobs.add(
            line,
            {
                "submit": submit,
                "wait": wait,
                "run": run if ended or not state else math.nan,
                "request": _seconds(row.get("Timelimit", "")),
            },
            processors,
            number=number(row["JobID"]) if row["JobID"].isdigit() else -line,
            texts=(row.get("User", ""), row.get("Partition", ""), row.get("JobName", "")),
            priority=_positive(row.get("Priority", "")),
            demand=_demand(row, processors),
            names=_NAMES,
        )
    notes = (f"{steps:,} lines of job steps",) if steps else ()
    left = (f"{never:,} jobs that did not start or end",) if never else ()
    return jobs.report(None, notes + left)


def _seconds(text: str) -> float:
    """Return seconds of ``[days-][hours:]minutes:seconds``; NaN if it is none, such as UNLIMITED."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return math.nan
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return 86400 * days + 3600 * hours + 60 * minutes + seconds


def _positive(text: str) -> float:
    value = number(text)
    return value if value > 0 else 0.0


def _demand(row: dict[str, str], processors: float) -> tuple[int, int, int, int]:
    """Return what each node of a job holds: thousandths of processors, MiB, accelerators; and the nodes."""
    nodes = max(int(_positive(row.get("NNodes", row.get("AllocNodes", "")))), 1)
    resources = row.get("AllocTRES") or row.get("ReqTRES", "")
    gpus = _GPUS.search(resources)
    memory = _MEMORY.search(resources)
    mebibytes = float(memory[1]) * _MIB[memory[2]] if memory else 0.0
    each = -(-int(gpus[1]) // nodes) if gpus else 0
    return math.ceil(1000 * max(processors, 0) / nodes), math.ceil(mebibytes / nodes), each, nodes
