"""Reader of Gavel's job traces: one training job per line, with its type and number of steps.

Durations follow from the measured steps per second of each type on a V100. `gavel_v100.json` holds those, taken
from Gavel's own measurements (stanford-futuredata/gavel, MIT licence, see gavel_NOTICE.txt).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from ..trace_columns import ReadReport, Rows
from .reader_tools import GPU_SPEEDUP, UNKNOWN_MEMORY, TaskCollector, lines_of, number

MAPPING = {
    "arrival_time": "the last field",
    "size": "from steps / (steps per second on a V100), as seconds there; 4 times that on the CPU",
    "compute_intensity": "1: every job is a GPU job",
    "memory_required": f"{UNKNOWN_MEMORY:g} MB (not in the trace)",
    "kind": "the model that is trained",
    "external_id": "the line's number",
}
_FIELDS = 10
PARALLEL = "multi-GPU jobs"
_RATES = Path(__file__).with_name("gavel_v100.json")


def read_gavel(path: Path, scale: float) -> Rows:
    """Return the rows of a file; `scale` multiplies all times and amounts of data."""
    tasks = TaskCollector(scale, (PARALLEL,))
    for line, text in lines_of(path):
        if not text:
            continue
        cells = text.split("\t")
        if len(cells) != _FIELDS:
            tasks.reject(line, "row", f"{_FIELDS} fields separated by tabs", f"{len(cells)} fields")
            continue
        steps, gpus, arrival = (number(cells[place]) for place in (5, 6, -1))
        rate = _rates().get(cells[0])
        if rate is None:
            tasks.reject(line, "job type", "one whose speed was measured", cells[0])
        elif not steps > 0:
            tasks.reject(line, "total steps", "a number > 0", cells[5])
        elif not gpus >= 1:
            tasks.reject(line, "GPUs", "a number >= 1", cells[6])
        elif not arrival >= 0:
            tasks.reject(line, "arrival time", "a number >= 0", cells[-1])
        else:
            tasks.add(
                line,
                f"job-{line}",
                size=tasks.size_of(GPU_SPEEDUP * steps / rate, 1.0),
                intensity=1.0,
                memory=UNKNOWN_MEMORY,
                arrival=arrival,
                kind=cells[0].partition(" (")[0],
                amounts=(gpus > 1,),
            )
    return tasks.rows(["command", "working folder", "steps argument", "needs data", "GPUs", "weight", "deadline"])


def notes(report: ReadReport, scale: float) -> tuple[str, ...]:
    """Return what became of jobs with several GPUs."""
    jobs = report.totals[PARALLEL]
    if not jobs:
        return ()
    return (f"{jobs:,.0f} jobs ran on several GPUs; each is one task with the work of all its steps",)


@cache
def _rates() -> dict[str, float]:
    rates: dict[str, float] = json.loads(_RATES.read_text(encoding="utf-8"))
    return rates
