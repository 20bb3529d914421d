"""Reader of job logs of every known format, by the name and the first line of the file."""

from __future__ import annotations

from pathlib import Path

from ..core import InvalidInputError, UnknownNameError
from ..workload.csv_file import open_binary
from .gavel_trace import read_gavel_trace, read_throughputs
from .gpu_cluster_files import read_pods
from .job_collector import JobLogReport
from .kueue_workloads import read_kueue_workloads
from .philly_log import read_philly_log
from .sacct_log import read_sacct_log
from .swf_log import read_swf_log

#: Formats and the ends of the names of their files.
FORMATS = {
    "swf": ".swf",
    "sacct": ".sacct",
    "alibaba": ".csv",
    "philly": ".json",
    "gavel": ".trace",
    "kueue": ".yaml",
}


def format_of(path: str | Path) -> str:
    """Return the format of a file: by the end of its name, or as sacct or SWF by its first line."""
    name = Path(path).name.lower().removesuffix(".gz").replace(".yml", ".yaml")
    for form, end in FORMATS.items():
        if name.endswith(end):
            return form
    with open_binary(Path(path)) as file:
        return "sacct" if b"JobID" in file.readline(10_000) else "swf"


def read_job_log(
    path: str | Path,
    form: str | None = None,
    *,
    skip_bad: bool = False,
    unfinished: bool = False,
    dependencies: bool = False,
    throughputs: str | Path | None = None,
) -> JobLogReport:
    """Return the jobs of a file of any known format; `.gz` is unpacked.

    Parameters
    ----------
    path
        The file.
    form
        A name of `FORMATS`; by default as `format_of` says.
    skip_bad
        Whether jobs that cannot be used are left out; by default they are an error.
    unfinished
        Whether jobs may still wait or run at the end of the log.
    dependencies
        Whether the preceding jobs of an SWF log must have ended.
    throughputs
        Gavel's `simulation_throughputs.json`, for its traces.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, or has jobs that cannot be used.

    Examples
    --------
    >>> from hybrid_scheduler.jobs import format_of
    >>> format_of("cluster.swf.gz"), format_of("cluster_job_log.json")
    ('swf', 'philly')
    """
    form = form or format_of(path)
    if form not in FORMATS:
        raise UnknownNameError("format", form, FORMATS)
    if form == "swf":
        return read_swf_log(path, skip_bad=skip_bad, unfinished=unfinished, dependencies=dependencies)
    if form == "alibaba":
        log, rejections = read_pods(path, skip_bad=skip_bad)
        sums = log.processor_seconds
        return JobLogReport(log, len(log) + rejections.count, rejections, int(log.processors.max()), sums)
    if form == "gavel":
        if throughputs is None:
            hint = "simulation_throughputs.json of the repository stanford-futuredata/gavel"
            raise InvalidInputError("throughputs", "a file of measured throughputs", "nothing", hint=hint)
        return read_gavel_trace(path, read_throughputs(throughputs), skip_bad=skip_bad)
    read = {"sacct": read_sacct_log, "philly": read_philly_log, "kueue": read_kueue_workloads}[form]
    return read(path, skip_bad=skip_bad, unfinished=unfinished)
