"""Uploaded traces: streamed to a temporary file, validated, and stored only if every row is valid."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ..cluster import Machine
from ..core import InvalidInputError, Workload
from ..workload import REQUIRED, ReadReport, load_with_report, offered_load, save_workload, stretch_arrivals
from ..workload.trace_columns import DecodedSize, DecodedTooLarge
from ..workload.trace_formats import FORMATS as TRACE_FORMATS
from ..workload.trace_formats import ValueSource, detect_format, first_rows, import_table, import_trace
from .app_context import MIB, ServerOptions
from .engine_control import shape_of
from .errors import ApiError

#: File format of each content type.
FORMATS = {
    "text/csv": "csv",
    "application/vnd.apache.parquet": "parquet",
    "application/json": "json",
    "text/plain": "txt",
}
#: Largest uncompressed size in bytes, and its largest ratio to the file's own size.
_MAX_UNCOMPRESSED = 200 * MIB
_MAX_RATIO = 100
#: The ratio is taken to at least this size, because tiny files compress better.
_MIN_SIZE_FOR_RATIO = 64 * 1024
#: Longest line of a table with columns of its own, in bytes.
_MAX_LINE_LENGTH = 4 * MIB
#: Memory of a JSON document once it is read: an object, a list, and each further value.
_JSON_BYTES = {b"{": 240, b"[": 72, b",": 40, b":": 40}
#: Bad rows that an inspection lists.
_LISTED = 100
_TITLES = {name: one.title for name, one in TRACE_FORMATS.items()} | {"parquet": "trace of this program, Parquet"}
#: Beginning of the names of files that are being received.
_TEMPORARY = ".upload-"


#: Threads that read uploaded files. Further uploads wait: each may take 200 MiB, and other threads stay free.
_READERS = ThreadPoolExecutor(2, thread_name_prefix="upload")
_T = TypeVar("_T")


async def _in_reader(work: Callable[..., _T], *arguments: Any) -> _T:
    return await asyncio.get_running_loop().run_in_executor(_READERS, work, *arguments)


def sweep_uploads(folder: Path, older_than: float = 0.0) -> int:
    """Delete what killed processes left of uploads, and return the number of files.

    Parameters
    ----------
    folder
        Folder of the traces.
    older_than
        Only files that were not written for so many seconds, because another process may still write younger ones.
    """
    swept = 0
    for path in folder.glob(f"{_TEMPORARY}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime >= older_than:
                path.unlink()
                swept += 1
    return swept


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Reading of a file that is not a trace of this program, or not a clean one."""

    #: Sources of the values of a task, for a table with columns of its own.
    mapping: dict[str, ValueSource] | None = None
    #: Leave bad rows out instead of refusing the file.
    skip_bad: bool = False
    #: Stretch the arrivals to this load on the machine.
    load: float | None = None


def parse_mapping(text: str | None) -> dict[str, ValueSource] | None:
    """Return the mapping that a client sends as JSON: ``{"size": {"column": "work", "factor": 2}}``.

    Raises
    ------
    InvalidInputError
        If it is no such text.
    """
    if text is None:
        return None
    allowed = 'JSON such as {"size": {"column": "work"}, "compute_intensity": {"value": 0.5}}'
    try:
        given = json.loads(text)
        sources = {name: ValueSource(**source) for name, source in given.items()}
        numbers = [value for one in sources.values() for value in (one.value, one.factor) if value is not None]
        texts = [name for one in sources.values() for name in (one.column, one.minus) if name is not None]
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise InvalidInputError("mapping", allowed, text[:80]) from None
    if not all(isinstance(value, int | float) for value in numbers) or not all(isinstance(t, str) for t in texts):
        raise InvalidInputError("mapping", allowed, text[:80])
    return sources


async def inspect_trace(
    chunks: AsyncIterator[bytes], suffix: str, how: ImportOptions, machine: Machine, options: ServerOptions
) -> dict[str, Any]:
    """Read a file without storing it.

    Parameters
    ----------
    chunks, suffix
        The uploaded body, and its kind of file, a value of `FORMATS`.
    how
        Mapping and treatment of bad rows.
    machine
        Machine for the offered load.
    options
        Folder and size limit.

    Returns
    -------
    dict
        The body of the response: format, columns, bad rows, load and histograms.
    """
    temporary = options.traces / f"{_TEMPORARY}{secrets.token_hex(8)}.{suffix}"
    try:
        await _receive(chunks, temporary, options.trace_limit)
        return await _in_reader(_inspect, temporary, suffix, how, machine)
    finally:
        await asyncio.to_thread(temporary.unlink, True)


def _inspect(file: Path, suffix: str, how: ImportOptions, machine: Machine) -> dict[str, Any]:
    found: dict[str, Any] = {
        "format": None, "title": "table with columns of its own", "columns": [], "mapping": {}, "notes": [],
        "rows_read": 0, "rows_kept": 0, "rejected": [], "error": None, "hint": None,
        "offered_load": None, "platform": machine.platform.name, "shape": None,
    }  # fmt: skip
    try:
        name = _format_of(file, suffix)
        if name is not None:
            found |= {"format": name, "title": _TITLES[name]}
        if suffix in ("csv", "parquet"):
            found["columns"] = [
                {"name": key, "first": [_excerpt(cell) for cell in cells]}
                for key, cells in first_rows(file).items()
            ]
        if name is None and how.mapping is None:
            return found
        tasks, report = read_upload(file, suffix, replace(how, skip_bad=True))
    except InvalidInputError as error:
        place = f"{error.where}: ".replace(file.name, "the file") if error.where else ""
        problem = {"field": error.field, "allowed": f"{place}{error.allowed}", "got": _excerpt(error.got)}
        return found | {"error": problem, "hint": error.hint}
    if how.load is not None:
        tasks = stretch_arrivals(tasks, how.load, machine.platform, machine.physics)
    return found | {
        "mapping": report.mapping,
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
    _check_size(file, suffix)
    if suffix == "parquet":
        return "parquet" if set(REQUIRED) <= first_rows(file, 1).keys() else None
    name = detect_format(file)
    if name is None and suffix != "csv":
        raise InvalidInputError("file", f"one of {', '.join(TRACE_FORMATS)}", "a file that looks like none of them")
    return name


def read_upload(file: Path, suffix: str, how: ImportOptions) -> tuple[Workload, ReadReport]:
    """Return the tasks of a file in any known format."""
    try:
        if how.mapping is not None:
            _check_size(file, suffix)
            _check_rows(file, suffix)
            return import_table(file, how.mapping, skip_bad=how.skip_bad)
        name = _format_of(file, suffix)
        if name in ("csv", "parquet"):
            return load_with_report(file, how.skip_bad, max_bytes=_MAX_UNCOMPRESSED)
        _check_rows(file, suffix)
        return import_trace(file, name, skip_bad=how.skip_bad)
    except DecodedTooLarge:
        raise _too_large() from None


def _too_large() -> ApiError:
    return ApiError(
        413,
        f"the trace needs more than {_MAX_UNCOMPRESSED // MIB} MiB once it is read",
        hint="hybrid-scheduler import FILE reads larger ones",
    )


async def store_trace(
    chunks: AsyncIterator[bytes],
    suffix: str,
    name: str,
    options: ServerOptions,
    how: ImportOptions | None = None,
    machine: Machine | None = None,
) -> dict[str, Any]:
    """Validate a trace and store it. After an error no partial file remains.

    Parameters
    ----------
    chunks
        The uploaded body.
    suffix
        Kind of file, a value of `FORMATS`.
    name
        Name under which the trace is stored.
    options
        Folder and size limit.
    how
        Reading of a file in another format; without it, it is a trace of this program.
    machine
        Machine to which the load refers.

    Returns
    -------
    dict
        The body of the response.

    Raises
    ------
    ApiError
        If the trace is too large or its name is taken.
    InvalidInputError
        If a row is invalid.
    """
    folder = options.traces
    temporary = folder / f"{_TEMPORARY}{secrets.token_hex(8)}.{suffix}"
    try:
        size = await _receive(chunks, temporary, options.trace_limit)
        if how is not None or suffix not in ("csv", "parquet"):
            chosen, on = how or ImportOptions(), machine or Machine()
            return await _in_reader(_import, temporary, suffix, name, chosen, on)
        target = folder / f"{name}.{suffix}"
        tasks, ignored = await _in_reader(_validate, temporary, suffix, f"{name}.{suffix}")
        await asyncio.to_thread(_publish, temporary, target, name)
    finally:
        await asyncio.to_thread(temporary.unlink, True)
    return {"name": name, "format": suffix, "tasks": tasks, "size_bytes": size, "ignored_columns": ignored}


def _import(file: Path, suffix: str, name: str, how: ImportOptions, machine: Machine) -> dict[str, Any]:
    """Store a file of another format as a CSV trace of this program."""
    try:
        tasks, report = read_upload(file, suffix, how)
    except InvalidInputError as error:
        raise _with_public_name(error, file, f"{name}.{suffix}") from None
    if how.load is not None:
        tasks = stretch_arrivals(tasks, how.load, machine.platform, machine.physics)
    ready = file.with_suffix(".ready.csv")
    try:
        save_workload(tasks, ready)
        size = ready.stat().st_size
        _publish(ready, file.with_name(f"{name}.csv"), name)
    finally:
        ready.unlink(missing_ok=True)
    return {
        "name": name,
        "format": "csv",
        "tasks": len(tasks),
        "size_bytes": size,
        "ignored_columns": list(report.ignored_columns),
    }


def _with_public_name(error: InvalidInputError, file: Path, public_name: str) -> InvalidInputError:
    """Return the error with the name that the client knows; the reader names the temporary file."""
    where = (error.where or public_name).replace(file.name, public_name)
    return InvalidInputError(f"{where}: {error.field}", error.allowed, error.got, hint=error.hint)


async def _receive(chunks: AsyncIterator[bytes], file: Path, limit: int) -> int:
    size = 0
    await asyncio.to_thread(file.parent.mkdir, parents=True, exist_ok=True)
    with await asyncio.to_thread(file.open, "xb") as sink:
        async for chunk in chunks:
            size += len(chunk)
            if size > limit:
                raise ApiError(413, f"the trace is larger than {limit // MIB} MiB")
            await asyncio.to_thread(sink.write, chunk)
    return size


def _validate(file: Path, suffix: str, public_name: str) -> tuple[int, list[str]]:
    try:
        if suffix == "parquet":
            _check_uncompressed_size(file)
        workload, report = load_with_report(file, max_bytes=_MAX_UNCOMPRESSED)
    except DecodedTooLarge:
        raise _too_large() from None
    except InvalidInputError as error:
        raise _with_public_name(error, file, public_name) from None
    return len(workload), list(report.ignored_columns)


def _check_size(file: Path, suffix: str) -> None:
    """Raise if only looking at the beginning of a file would take too much memory."""
    if suffix == "parquet":
        _check_uncompressed_size(file)
    elif suffix != "json" and _longest_line(file) > _MAX_LINE_LENGTH:
        raise ApiError(413, f"a line of the trace is longer than {_MAX_LINE_LENGTH // MIB} MiB")


def _longest_line(file: Path) -> int:
    """Return the bytes of the longest line, roughly: lines of less than a block count as none."""
    longest = current = 0
    with file.open("rb") as source:
        while block := source.read(_MAX_LINE_LENGTH // 4):
            current = 0 if b"\n" in block else current + len(block)
            longest = max(longest, current)
    return longest


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
        raise ApiError(
            413, f"the trace unpacks to more than {_MAX_UNCOMPRESSED // MIB} MiB or {_MAX_RATIO} times its size"
        )


def _publish(temporary: Path, target: Path, name: str) -> None:
    taken = [path for path in (target.with_suffix(".csv"), target.with_suffix(".parquet")) if path.exists()]
    if taken:
        raise ApiError(409, f"there is a trace named {name} already", hint="choose another name")
    temporary.rename(target)


async def list_traces(folder: Path) -> list[dict[str, Any]]:
    """Return name, format, size and time of the stored traces, by name."""
    return await asyncio.to_thread(_list_files, folder)


def _list_files(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("[A-Za-z0-9]*")) if folder.is_dir() else []
    return [
        {"name": path.stem, "format": path.suffix[1:], "size_bytes": facts.st_size, "modified_at": facts.st_mtime}
        for path in files
        if path.suffix in (".csv", ".parquet") and path.is_file()
        for facts in (path.stat(),)
    ]
