"""Reader of the Standard Workload Format: one job per line, 18 numbers, -1 for unknown values.

A job holds several processors for its whole run time. The simulated machine has no such jobs yet, so that each
becomes one task with the same work: run time times processors. The report has both sums. A job that was suspended
has one line for the whole (status 0 or 1) and one per partial execution (status 2 to 4): the whole is read.
"""

from __future__ import annotations

from pathlib import Path

from ..trace_columns import ReadReport, Rows
from .reader_tools import UNKNOWN_INTENSITY, UNKNOWN_MEMORY, TaskCollector, lines_of, number, parallel_work, share

MAPPING = {
    "external_id": "field 1, the job's number",
    "arrival_time": "field 2, submit time",
    "size": "field 4 x field 5 (or 8), run time x processors, as seconds on the CPU",
    "compute_intensity": f"field 6 / field 4, CPU time per run time; {UNKNOWN_INTENSITY} if unknown",
    "memory_required": f"field 7 or 10 (KB per processor) x field 5 or 8; {UNKNOWN_MEMORY:g} MB if unknown",
}
_FIELDS = 18
#: Status of a line about a part of a job's execution.
_PARTIAL = (2, 3, 4)
RUN_TIME = "run seconds"
WORK = "processor seconds"
PARALLEL = "parallel jobs"


def read_swf(path: Path, scale: float) -> Rows:
    """Return the rows of a file; `scale` multiplies all times and amounts of data."""
    tasks = TaskCollector(scale, (RUN_TIME, WORK, PARALLEL))
    counted: set[float] = set()
    partial: list[tuple[int, list[str], list[float]]] = []
    for line, text in lines_of(path):
        if not text or text.startswith(";"):
            continue
        cells = text.split()
        values = [number(cell) for cell in cells]
        if len(cells) != _FIELDS:
            tasks.reject(line, "row", f"{_FIELDS} fields", f"{len(cells)} fields")
        elif values[10] in _PARTIAL:
            partial.append((line, cells, values))
        elif _add(tasks, line, cells, values):
            counted.add(values[0])
    others = [row for row in partial if row[2][0] not in counted]
    for row in others:
        _add(tasks, *row)
    left_out = len(partial) - len(others)
    words = f"{left_out:,} lines of partial executions (status 2 to 4) left out: their job's own line has the sum"
    return tasks.rows(notes=(words,) if left_out else ())


def notes(report: ReadReport, scale: float) -> tuple[str, ...]:
    """Return what became of jobs with several processors."""
    what = f"{report.totals[PARALLEL]:,.0f} jobs ran on several processors; each is one task with all its work"
    return parallel_work(report, scale, WORK, RUN_TIME, PARALLEL, what)


def _processors(values: list[float]) -> float:
    return next((count for count in (values[4], values[7]) if count > 0), 1.0)


def _amounts(values: list[float]) -> tuple[float, float, bool]:
    """Return run time, work, and whether the job is parallel."""
    processors = _processors(values)
    return values[3], values[3] * processors, processors > 1


def _add(tasks: TaskCollector, line: int, cells: list[str], values: list[float]) -> bool:
    """Add the job of a line, or reject it; return whether the file's sums have its work."""
    run_time = values[3]
    if bad := [i for i, value in enumerate(values) if value != value]:
        amounts = _amounts(values)
        tasks.reject(line, f"field {bad[0] + 1}", "a finite number", cells[bad[0]], amounts)
        return amounts[1] >= 0
    if values[1] < 0 <= run_time:
        tasks.reject(line, "field 2, submit time", ">= 0", cells[1], _amounts(values))
        return True
    if run_time < 0:
        tasks.reject(line, "field 4, run time", ">= 0: the job ran", cells[3])
        return False
    processors = _processors(values)
    intensity = share(values[5] / run_time) if values[5] >= 0 and run_time else UNKNOWN_INTENSITY
    kilobytes = values[6] if values[6] > 0 else values[9]
    memory = kilobytes * processors / 1000.0 if kilobytes > 0 else UNKNOWN_MEMORY
    tasks.add(
        line,
        cells[0],
        size=tasks.size_of(run_time * processors, intensity),
        intensity=intensity,
        memory=memory,
        arrival=values[1],
        kind="job",
        amounts=_amounts(values),
    )
    return True
