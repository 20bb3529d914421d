"""Reading of uploaded files: a trace of this program, one of another format, or a table with a mapping.

Large files are read in processes with limits, so this module loads nothing that only the server needs.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..cluster import Machine
from ..core import InvalidInputError, Workload
from ..core.worker_process import WorkerProcess
from ..live.command_queue import EngineClosed
from ..live.journal import check_texts
from ..workload import REQUIRED, ReadReport, load_with_report, offered_load, save_workload, stretch_arrivals
from ..workload.trace_columns import DecodedSize, DecodedTooLarge
from ..workload.trace_formats import FORMATS as TRACE_FORMATS
from ..workload.trace_formats import ValueSource, detect_format, first_rows, import_table, import_trace

MIB = 2**20
_T = TypeVar("_T")
#: A file of at most so many bytes is read in a thread: whatever it contains, that takes a fraction of a second.
_SMALL = 64 * 1024
#: Processor seconds for a file.
_CPU_S = 2.0
#: Further processor seconds for each MiB of it.
_CPU_S_PER_MIB = 0.6
#: Wall seconds to start a process.
_START_S = 30.0
#: Wall seconds for each processor second on a busy machine.
_WALL_PER_CPU = 4.0
#: Memory that a process may take beyond what it has before it reads.
_MEMORY = 768 * MIB
#: Files that are read at once.
_PROCESSES = 2
#: Seconds after which a process that reads none ends.
_IDLE_S = 20.0
#: Largest uncompressed size in bytes, and its largest ratio to the file's own size.
_MAX_UNCOMPRESSED = 200 * MIB
_MAX_RATIO = 100
#: The ratio is taken to at least this size, because tiny files compress better.
_MIN_SIZE_FOR_RATIO = 64 * 1024
#: Longest line of a table, in bytes.
_MAX_LINE_LENGTH = 4 * MIB
#: Memory of a JSON document once it is read: an object, a list, and each further value.
_JSON_BYTES = {b"{": 240, b"[": 72, b",": 40, b":": 40}
#: Bad rows that an inspection lists.
_LISTED = 100
_TITLES = {name: known.title for name, known in TRACE_FORMATS.items()} | {
    "parquet": "trace of this program, Parquet"
}
_ARRIVAL_BINS = 120
_SIZE_BINS = 24
_INTENSITY_BINS = 10


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Reading of a file that is not a trace of this program, or not a clean one."""

    #: Sources of the values of a task, for a table with columns of its own.
    mapping: dict[str, ValueSource] | None = None
    #: Leave bad rows out instead of refusing the file.
    skip_bad: bool = False
    #: Stretch the arrivals to this load on the machine.
    load: float | None = None


def inspect(file: Path, suffix: str, how: ImportOptions, machine: Machine) -> dict[str, Any]:
    """Return what `/api/traces/inspect` answers: format, columns, bad rows, load and histograms."""
    found: dict[str, Any] = {
        "format": None, "title": "table with columns of its own", "columns": [], "mapping": {}, "notes": [],
        "rows_read": 0, "rows_kept": 0, "rejected": [], "error": None, "hint": None,
        "offered_load": None, "platform": machine.platform.name, "shape": None,
    }  # fmt: skip
    try:
        _check_size(file, suffix)
        name = _format_of(file, suffix)
        if name is not None:
            found |= {"format": name, "title": _TITLES[name]}
        if suffix in ("csv", "parquet"):
            found["columns"] = [
                {"name": _excerpt(key), "first": [_excerpt(cell) for cell in cells]}
                for key, cells in first_rows(file).items()
            ]
        if name is None and how.mapping is None:
            return found
        tasks, report = read_upload(file, suffix, replace(how, skip_bad=True))
    except DecodedTooLarge:
        raise
    except InvalidInputError as error:
        place = f"{error.where}: ".replace(file.name, "the file") if error.where else ""
        problem = {"field": error.field, "allowed": f"{place}{error.allowed}", "got": _excerpt(error.got)}
        return found | {"error": problem, "hint": error.hint}
    if how.load is not None:
        tasks = stretch_arrivals(tasks, how.load, machine.platform, machine.physics)
    return found | {
        "mapping": {name: _excerpt(source) for name, source in report.mapping.items()},
        "notes": list(report.notes),
        "rows_read": report.rows_read,
        "rows_kept": report.rows_kept,
        "rejected": [
            {"line": bad.line, "field": bad.field, "allowed": bad.allowed, "got": _excerpt(bad.got)}
            for bad in report.rejected[:_LISTED]
        ],
        "offered_load": _offered(tasks, machine),
        "shape": shape_of(tasks, float(tasks.arrival_time[-1] - tasks.arrival_time[0])),
    }


def _offered(tasks: Workload, machine: Machine) -> float | None:
    try:
        return offered_load(tasks, machine.platform, machine.physics)
    except InvalidInputError:  # kinds of tasks that the machine's profile did not measure
        return None


def _excerpt(got: object) -> str:
    return str(got)[:120]


def _format_of(file: Path, suffix: str) -> str | None:
    """Return the name of the format; None for a table that needs a mapping.

    Raises
    ------
    InvalidInputError
        If a file that is no table has none of the known formats.
    """
    if suffix == "parquet":
        return "parquet" if set(REQUIRED) <= first_rows(file, 1).keys() else None
    name = detect_format(file)
    if name is None and suffix != "csv":
        raise InvalidInputError("file", f"one of {', '.join(TRACE_FORMATS)}", "a file that looks like none of them")
    return name


def read_upload(
    file: Path, suffix: str, how: ImportOptions, name: str | None = None
) -> tuple[Workload, ReadReport]:
    """Return the tasks of a file in the format of that name, or in any known format."""
    _check_size(file, suffix)
    if name is None and how.mapping is None:
        name = _format_of(file, suffix)
    if name in ("csv", "parquet"):
        tasks, report = load_with_report(file, how.skip_bad, max_bytes=_MAX_UNCOMPRESSED)
    else:
        _check_rows(file, suffix)
        if how.mapping is None:
            tasks, report = import_trace(file, name, skip_bad=how.skip_bad)
        else:
            tasks, report = import_table(file, how.mapping, skip_bad=how.skip_bad)
    check_texts(tasks)
    return tasks, report


def check(
    file: Path, suffix: str, name: str, how: ImportOptions | None, machine: Machine, target: Path
) -> dict[str, Any]:
    """Read all tasks of a file that is to be stored under a name, and return the body of the response.

    Without options it is a trace of this program, and stored as it is. Tasks of other files are written to `target`
    as a CSV trace.
    """
    own = how is None and suffix in ("csv", "parquet")
    how = how or ImportOptions()
    try:
        tasks, report = read_upload(file, suffix, how, suffix if own else None)
    except DecodedTooLarge:
        raise
    except InvalidInputError as error:  # the reader names the temporary file
        where = (error.where or f"{name}.{suffix}").replace(file.name, f"{name}.{suffix}")
        raise InvalidInputError(f"{where}: {error.field}", error.allowed, error.got, hint=error.hint) from None
    if how.load is not None:
        tasks = stretch_arrivals(tasks, how.load, machine.platform, machine.physics)
    if not own:
        save_workload(tasks, target)
    return {
        "name": name,
        "format": suffix if own else "csv",
        "tasks": len(tasks),
        "size_bytes": (file if own else target).stat().st_size,
        "ignored_columns": list(report.ignored_columns),
    }


def compute(file: Path, name: str, work: Callable[..., _T], *arguments: Any) -> _T:
    """Return what a function computes from a file; `name` stands for the file in errors."""
    try:
        return work(file, *arguments)
    except DecodedTooLarge:
        raise
    except InvalidInputError as error:
        where = (error.where or name).replace(file.name, name)
        raise InvalidInputError(f"{where}: {error.field}", error.allowed, error.got, hint=error.hint) from None


def _check_size(file: Path, suffix: str) -> None:
    """Raise if only looking at the beginning of a file would take too much memory."""
    if suffix == "parquet":
        _check_uncompressed_size(file)
    elif suffix != "json":
        longest, lines = _longest_line(file)
        if longest > _MAX_LINE_LENGTH:
            raise _too_large(f"lines of at most {_MAX_LINE_LENGTH // MIB} MiB", "a longer one")
        DecodedSize(_MAX_UNCOMPRESSED, file.name).add(rows=lines)  # blank lines included


def _longest_line(file: Path) -> tuple[int, int]:
    """Return the bytes of the longest line, where lines of less than a block count as none, and their number."""
    longest = current = lines = 0
    with file.open("rb") as source:
        while block := source.read(_MAX_LINE_LENGTH // 4):
            current = 0 if b"\n" in block else current + len(block)
            longest = max(longest, current)
            lines += block.count(b"\n")
    return longest, lines


def _check_rows(file: Path, suffix: str) -> None:
    """Count the rows of a foreign trace, or the values of a JSON document, before any of them is read.

    Raises
    ------
    DecodedTooLarge
        If they would take more memory than a trace may.
    """
    size = DecodedSize(_MAX_UNCOMPRESSED, file.name)
    if suffix == "parquet":
        from ..workload.parquet_file import column_sizes

        rows = max((values for values, _ in column_sizes(file).values()), default=0)
        size.add(rows=rows, texts=rows)
        return
    with file.open("rb") as source:
        while block := source.read(MIB):
            if suffix == "json":
                size.add(characters=len(block) + sum(block.count(mark) * n for mark, n in _JSON_BYTES.items()))
            else:
                lines = block.count(b"\n")
                size.add(rows=lines, texts=lines)


def _check_uncompressed_size(file: Path) -> None:
    """Raise if the file's metadata announces too much data; nothing is decompressed for that."""
    from ..workload.parquet_file import column_sizes

    columns = column_sizes(file).values()
    # A column of equal values is small however many rows it has, so values are also counted by memory size.
    uncompressed = max(sum(stored for _, stored in columns), sum(values for values, _ in columns) * 8)
    if uncompressed > _MAX_UNCOMPRESSED or uncompressed > _MAX_RATIO * max(
        file.stat().st_size, _MIN_SIZE_FOR_RATIO
    ):
        raise _too_large(f"at most {_MAX_UNCOMPRESSED // MIB} MiB and {_MAX_RATIO} times its size", "more")


def _too_large(allowed: str, got: str) -> DecodedTooLarge:
    return DecodedTooLarge("file", allowed, got)


def shape_of(tasks: Workload, seconds: float, bins: int = _ARRIVAL_BINS) -> dict[str, Any]:
    """Return histograms of tasks: arrivals over time, sizes on a logarithmic axis, and intensities.

    Parameters
    ----------
    tasks
        The tasks.
    seconds
        Length of the time axis.
    bins
        Number of bins of the time axis.
    """
    start = float(tasks.arrival_time[0])
    low = float(tasks.size.min())
    high = float(tasks.size.max())
    edges = np.geomspace(low, max(high, low * 1.0001), _SIZE_BINS + 1)
    edges[0] = low
    edges[-1] = max(high, edges[-1])
    span = max(seconds, 1e-9)
    return {
        "seconds": seconds,
        "arrivals": np.histogram(tasks.arrival_time - start, bins, (0.0, span))[0].tolist(),
        "size_low": low,
        "size_high": high,
        "sizes": np.histogram(tasks.size, edges)[0].tolist(),
        "intensities": np.histogram(tasks.compute_intensity, _INTENSITY_BINS, (0.0, 1.0))[0].tolist(),
    }


# ------------------------------------------------------------------------------------------ limits


class FileReader:
    """Reader of uploaded files: small ones in a thread, others in one of two processes.

    A process ends when it exceeds its processor time, its memory or its wall time, when the client leaves, and when
    the server stops. The next file gets another one.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_PROCESSES, thread_name_prefix="upload")
        self._idle = [WorkerProcess("file reader", niceness=5, idle_s=_IDLE_S) for _ in range(_PROCESSES)]
        self._processes = tuple(self._idle)
        self._places = asyncio.Semaphore(_PROCESSES)
        self._closed = False

    async def read(self, file: Path, work: Callable[..., _T], *arguments: Any) -> _T:
        """Return what a picklable function returns for a file and further arguments; raises as `compute` does."""
        loop = asyncio.get_running_loop()
        size = (await loop.run_in_executor(self._threads, file.stat)).st_size
        return await self.compute(size, work, file, *arguments)

    async def compute(self, size: int, work: Callable[..., _T], *arguments: Any) -> _T:
        """Return what a picklable function returns for arguments with so many bytes to read.

        Raises
        ------
        DecodedTooLarge
            If that takes too long or too much memory.
        EngineClosed
            If the server stops.
        """
        try:
            if size <= _SMALL:
                call = partial(work, *arguments)
                return await asyncio.get_running_loop().run_in_executor(self._threads, call)
            async with self._places:
                process = self._idle.pop()
                try:
                    return await self._read_in(process, size, work, *arguments)
                finally:
                    self._idle.append(process)
        except MemoryError:
            raise _too_costly(f"{_MEMORY // MIB} MiB") from None

    async def _read_in(self, process: WorkerProcess, size: int, work: Callable[..., _T], *arguments: Any) -> _T:
        seconds = _CPU_S + _CPU_S_PER_MIB * size / MIB
        try:
            async with asyncio.timeout(_START_S + _WALL_PER_CPU * seconds):
                if not self._closed:
                    future = process.submit(_with_limits, seconds, _MEMORY, work, *arguments)
                    return await asyncio.wrap_future(future)
        except (BrokenExecutor, TimeoutError):
            process.stop()
            if not self._closed:
                raise _too_costly(f"{seconds:.0f} s of processor time and {_MEMORY // MIB} MiB") from None
        except asyncio.CancelledError:  # the client has left
            process.stop()
            raise
        raise EngineClosed("the server stops")

    def close(self) -> None:
        """End the processes, whatever they read."""
        self._closed = True
        for process in self._processes:
            process.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _too_costly(limit: str) -> DecodedTooLarge:
    return DecodedTooLarge("file", f"readable within {limit}", "one that needs more")


def _with_limits(cpu_seconds: float, memory: int, work: Callable[..., _T], *arguments: Any) -> _T:
    """Call a function; the process is ended by the system if it takes more processor time."""
    with suppress(AttributeError):  # Windows has neither
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        _limit_memory(memory)
    try:
        return work(*arguments)
    finally:
        with suppress(AttributeError):
            signal.setitimer(signal.ITIMER_PROF, 0.0)


def _limit_memory(more: int) -> None:
    with suppress(ImportError, OSError, ValueError):
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (used + more, resource.getrlimit(resource.RLIMIT_DATA)[1]))
