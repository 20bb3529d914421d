"""Reader of Gavel's job traces, and of its throughputs: steps per second by job type, accelerator and GPUs."""

from __future__ import annotations

import ast
import math
from pathlib import Path

from ..core import InvalidInputError
from ..workload.trace_formats.reader_tools import json_document, lines_of, number
from .job_collector import JobCollector, JobLogReport
from .rejected_rows import readable

_FIELDS = 10
_NAMES = {"submit": "arrival time", "run": "total steps", "processors": "GPUs"}
Throughputs = dict[str, dict[tuple[str, int], float]]


def read_throughputs(path: str | Path) -> Throughputs:
    """Return steps per second by accelerator, and by job type and number of GPUs, of jobs that run alone.

    Raises
    ------
    InvalidInputError
        If the file cannot be read or has another form.
    """
    document = json_document(Path(path))
    try:
        return {
            accelerator: {ast.literal_eval(job): float(rates["null"]) for job, rates in jobs.items()}
            for accelerator, jobs in document.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError, SyntaxError) as error:
        allowed = "steps per second by accelerator and by (job type, GPUs), alone under null"
        raise InvalidInputError("throughputs", allowed, repr(error), where=Path(path).name) from None


def read_gavel_trace(
    path: str | Path, throughputs: Throughputs, *, accelerator: str = "v100", skip_bad: bool = False
) -> JobLogReport:
    """Return the jobs of a trace with their run times on one kind of accelerator; `.gz` is unpacked.

    Parameters
    ----------
    path
        The file.
    throughputs
        As `read_throughputs` returns them.
    accelerator
        Accelerator of the run times.
    skip_bad
        Whether lines that cannot be used are left out; by default they are an error.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, has lines that cannot be used, or the accelerator is not known.
    """
    if accelerator not in throughputs:
        raise InvalidInputError("accelerator", ", ".join(sorted(throughputs)), accelerator)
    jobs = JobCollector(Path(path), skip_bad, unit="GPU")
    for line, text in readable(lines_of(Path(path)), Path(path)):
        cells = text.split("\t")
        if len(cells) != _FIELDS:
            jobs.reject(line, "row", f"{_FIELDS} fields separated by tabs", f"{len(cells)} fields")
            continue
        steps, gpus, priority, arrival = (number(cells[place]) for place in (5, 6, 7, 9))
        rate = throughputs[accelerator].get((cells[0], int(gpus) if gpus >= 1 else 0), 0.0)
        if not rate > 0:
            got = f"{cells[0]} on {cells[6]} GPUs"
            jobs.reject(line, "job type", f"one whose speed on {accelerator} was measured", got)
            continue
        times = {"submit": arrival, "wait": math.nan, "run": steps / rate, "request": math.nan}
        demand = (0, 0, 1, int(gpus))
        jobs.add(line, times, gpus, texts=("", "", cells[0]), priority=priority, demand=demand, names=_NAMES)
    return jobs.report()
