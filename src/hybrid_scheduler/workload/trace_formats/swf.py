"""Reader of the Standard Workload Format: one job per line, 18 numbers, -1 for unknown values.

A job holds several processors for its whole run time. The simulated machine has no such jobs yet, so that each
becomes one task with the same work: run time times processors. The report has both sums.
"""

from __future__ import annotations

from pathlib import Path

from ..trace_columns import Rows
from .reader_tools import UNKNOWN_INTENSITY, UNKNOWN_MEMORY, TaskCollector, lines_of, number, share

MAPPING = {
    "external_id": "field 1, the job's number",
    "arrival_time": "field 2, submit time",
    "size": "field 4 x field 5 (or 8), run time x processors, as seconds on the CPU",
    "compute_intensity": f"field 6 / field 4, CPU time per run time; {UNKNOWN_INTENSITY} if unknown",
    "memory_required": f"field 7 or 10 (KB per processor) x field 5 or 8; {UNKNOWN_MEMORY:g} MB if unknown",
}
_FIELDS = 18
RUN_TIME, WORK, PARALLEL = "run seconds", "processor seconds", "parallel jobs"


def read_swf(path: Path, scale: float) -> Rows:
    """Return the rows of a file; `scale` multiplies all times and amounts of data."""
    tasks = TaskCollector(scale, (RUN_TIME, WORK, PARALLEL))
    for line, text in lines_of(path):
        if not text or text.startswith(";"):
            continue
        cells = text.split()
        values = [number(cell) for cell in cells]
        if len(cells) != _FIELDS:
            tasks.reject(line, "row", f"{_FIELDS} fields", f"{len(cells)} fields")
        elif bad := [i for i, value in enumerate(values) if value != value]:
            tasks.reject(line, f"field {bad[0] + 1}", "a finite number", cells[bad[0]])
        elif values[1] < 0:
            tasks.reject(line, "field 2, submit time", ">= 0", cells[1])
        elif values[3] < 0:
            tasks.reject(line, "field 4, run time", ">= 0: the job ran", cells[3])
        else:
            _add(tasks, line, cells[0], values)
    return tasks.rows()


def notes(totals: dict[str, float]) -> tuple[str, ...]:
    """Return what became of jobs with several processors."""
    if not totals[PARALLEL]:
        return ()
    return (
        f"{totals[PARALLEL]:,.0f} jobs ran on several processors; each is one task with all its work: "
        f"{totals[WORK]:,.0f} processor seconds in the file and in the trace, from {totals[RUN_TIME]:,.0f} s of "
        "run time",
    )


def _add(tasks: TaskCollector, line: int, name: str, values: list[float]) -> None:
    run_time = values[3]
    processors = next((count for count in (values[4], values[7]) if count > 0), 1.0)
    intensity = share(values[5] / run_time) if values[5] >= 0 and run_time else UNKNOWN_INTENSITY
    kilobytes = values[6] if values[6] > 0 else values[9]
    memory = kilobytes * processors / 1000.0 if kilobytes > 0 else UNKNOWN_MEMORY
    tasks.add(
        line,
        name,
        size=tasks.size_of(run_time * processors, intensity),
        intensity=intensity,
        memory=memory,
        arrival=values[1],
        kind="job",
        amounts=(run_time, run_time * processors, processors > 1),
    )
