"""Traces that clients bring: streamed to a temporary file, read whole, and kept only if every row is good."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from ..core import InvalidInputError
from ..workload.trace_files import load_with_report
from .app_context import MIB, ServerOptions
from .errors import Refused

#: Content types and the format each stands for.
FORMATS = {"text/csv": "csv", "application/vnd.apache.parquet": "parquet"}
#: What a packed file may grow to, and how often its own size that may be.
_UNPACKED = 200 * MIB
_RATIO = 100
#: A tiny file may well be packed tighter than that.
_SMALL = 64 * 1024


async def kept(chunks: AsyncIterator[bytes], suffix: str, name: str, options: ServerOptions) -> dict[str, Any]:
    """Store the trace and say what it holds. Whatever goes wrong, no half file stays behind."""
    folder = options.traces
    temporary = folder / f".upload-{secrets.token_hex(8)}.{suffix}"
    try:
        size = await _received(chunks, temporary, options.trace_limit)
        target = folder / f"{name}.{suffix}"
        tasks, ignored = await asyncio.to_thread(_checked, temporary, suffix, f"{name}.{suffix}")
        await asyncio.to_thread(_publish, temporary, target, name)
    finally:
        await asyncio.to_thread(temporary.unlink, True)
    return {"name": name, "format": suffix, "tasks": tasks, "size_bytes": size, "ignored_columns": ignored}


async def _received(chunks: AsyncIterator[bytes], file: Path, limit: int) -> int:
    size = 0
    await asyncio.to_thread(file.parent.mkdir, parents=True, exist_ok=True)
    with await asyncio.to_thread(file.open, "xb") as sink:
        async for chunk in chunks:
            size += len(chunk)
            if size > limit:
                raise Refused(413, f"the trace is larger than {limit // MIB} MiB")
            await asyncio.to_thread(sink.write, chunk)
    return size


def _checked(file: Path, suffix: str, shown_as: str) -> tuple[int, list[str]]:
    if suffix == "parquet":
        _refuse_bombs(file)
    try:
        workload, report = load_with_report(file)
    except InvalidInputError as error:
        # The reader names the temporary file; the client knows it by another name.
        where = (error.where or shown_as).replace(file.name, shown_as)
        raise InvalidInputError(f"{where}: {error.field}", error.allowed, error.got, hint=error.hint) from None
    return len(workload), list(report.ignored_columns)


def _refuse_bombs(file: Path) -> None:
    """By the file's own table of contents, before anything is unpacked."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with file.open("rb") as source:
            contents = pq.ParquetFile(source).metadata
            groups = [contents.row_group(index).total_byte_size for index in range(contents.num_row_groups)]
            # A column of equal values is tiny however many rows it has: count what a row takes in memory, too.
            unpacked = max(sum(groups), contents.num_rows * contents.num_columns * 8)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise InvalidInputError("file", "a readable Parquet table", reason) from None
    if unpacked > _UNPACKED or unpacked > _RATIO * max(file.stat().st_size, _SMALL):
        raise Refused(413, f"the trace unpacks to more than {_UNPACKED // MIB} MiB or {_RATIO} times its size")


def _publish(temporary: Path, target: Path, name: str) -> None:
    taken = [path for path in (target.with_suffix(".csv"), target.with_suffix(".parquet")) if path.exists()]
    if taken:
        raise Refused(409, f"there is a trace named {name} already", hint="choose another name")
    temporary.rename(target)


async def listed(folder: Path) -> list[dict[str, Any]]:
    return await asyncio.to_thread(_listed, folder)


def _listed(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("[A-Za-z0-9]*")) if folder.is_dir() else []
    return [
        {"name": path.stem, "format": path.suffix[1:], "size_bytes": facts.st_size, "modified_at": facts.st_mtime}
        for path in files
        if path.suffix in (".csv", ".parquet") and path.is_file()
        for facts in (path.stat(),)
    ]
