"""Uploaded traces: streamed to a temporary file, validated, and stored only if every row is valid."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from ..core import InvalidInputError
from ..workload.trace_columns import DecodedTooLarge
from ..workload.trace_files import load_with_report
from .app_context import MIB, ServerOptions
from .errors import ApiError

#: File format of each content type.
FORMATS = {"text/csv": "csv", "application/vnd.apache.parquet": "parquet"}
#: Largest uncompressed size in bytes, and its largest ratio to the file's own size.
_MAX_UNCOMPRESSED = 200 * MIB
_MAX_RATIO = 100
#: The ratio is taken to at least this size, because tiny files compress better.
_MIN_SIZE_FOR_RATIO = 64 * 1024
#: Beginning of the names of files that are being received.
_TEMPORARY = ".upload-"


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


async def store_trace(
    chunks: AsyncIterator[bytes], suffix: str, name: str, options: ServerOptions
) -> dict[str, Any]:
    """Validate a trace and store it. After an error no partial file remains.

    Parameters
    ----------
    chunks
        The uploaded body.
    suffix
        Format of the file, a value of `FORMATS`.
    name
        Name under which the trace is stored.
    options
        Folder and size limit.

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
        target = folder / f"{name}.{suffix}"
        tasks, ignored = await asyncio.to_thread(_validate, temporary, suffix, f"{name}.{suffix}")
        await asyncio.to_thread(_publish, temporary, target, name)
    finally:
        await asyncio.to_thread(temporary.unlink, True)
    return {"name": name, "format": suffix, "tasks": tasks, "size_bytes": size, "ignored_columns": ignored}


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
    if suffix == "parquet":
        _check_uncompressed_size(file)
    try:
        workload, report = load_with_report(file, max_bytes=_MAX_UNCOMPRESSED)
    except DecodedTooLarge:
        raise ApiError(413, f"the trace needs more than {_MAX_UNCOMPRESSED // MIB} MiB once it is read") from None
    except InvalidInputError as error:
        # The reader names the temporary file; the client knows only the public name.
        where = (error.where or public_name).replace(file.name, public_name)
        raise InvalidInputError(f"{where}: {error.field}", error.allowed, error.got, hint=error.hint) from None
    return len(workload), list(report.ignored_columns)


def _check_uncompressed_size(file: Path) -> None:
    """Raise if the file's metadata announces too much data; nothing is decompressed for that."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with file.open("rb") as source:
            metadata = pq.ParquetFile(source).metadata
            groups = [metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups)]
            # A column of equal values is small however many rows it has, so rows are also counted by memory size.
            uncompressed = max(sum(groups), metadata.num_rows * metadata.num_columns * 8)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise InvalidInputError("file", "a readable Parquet table", reason) from None
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
