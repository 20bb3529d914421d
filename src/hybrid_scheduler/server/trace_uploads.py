"""Uploaded traces: streamed to a temporary file, validated, and stored only if every row is valid."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..cluster import Machine
from ..core import InvalidInputError
from ..core.workload import MAX_VALUE
from ..live.journal import check_text
from ..workload.trace_formats import ValueSource
from . import trace_reading
from .app_context import ServerOptions
from .errors import ApiError
from .trace_reading import FileReader, ImportOptions

#: File format of each content type.
FORMATS = {
    "text/csv": "csv",
    "application/vnd.apache.parquet": "parquet",
    "application/json": "json",
    "text/plain": "txt",
}
#: Bytes that what is computed from a file counts as: 90 processor seconds, most of them to compile, once per
#: machine.
_AS_BYTES = 150 * 2**20
#: Beginning of the names of files that are being received.
_TEMPORARY = ".upload-"
#: Ending of the name of a converted file.
_READY = ".ready.csv"


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
        with suppress(OSError):
            if time.time() - path.stat().st_mtime >= older_than:
                path.unlink()
                swept += 1
    return swept


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
        sources = {name: ValueSource(**source) for name, source in json.loads(text).items()}
        sound = all(_is_amount(value) for source in sources.values() for value in (source.value, source.factor))
        for name, source in sources.items():
            for column in {name, source.column, source.minus} - {None}:
                check_text("mapping", column)
    except (ValueError, TypeError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise InvalidInputError("mapping", allowed, text[:80])
    return sources


def _is_amount(value: object) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return abs(value) <= MAX_VALUE
    return value is None


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that a client sends. It is received into the folder of the traces and removed in every case.

    Parameters
    ----------
    chunks, suffix
        The body, and its kind of file, a value of `FORMATS`.
    options
        Folder and size limit.
    reader
        Reads the file.
    connected
        Waits for the reading, and ends it when the client leaves.
    """

    chunks: AsyncIterator[bytes]
    suffix: str
    options: ServerOptions
    reader: FileReader
    connected: Callable[[Coroutine[Any, Any, dict[str, Any]]], Awaitable[dict[str, Any]]]

    async def inspect(self, how: ImportOptions, machine: Machine) -> dict[str, Any]:
        """Return what the file contains, with its load on a machine, without storing it."""
        async with self._received() as file:
            return await self.connected(self.reader.read(file, trace_reading.inspect, self.suffix, how, machine))

    async def compute(self, work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
        """Return what a picklable function computes from the file, in a process with limits; it is not stored."""
        async with self._received() as file:
            computed = self.reader.compute(_AS_BYTES, trace_reading.compute, file, "log", work, *arguments)
            return await self.connected(computed)

    async def store(
        self, name: str, how: ImportOptions | None = None, machine: Machine | None = None
    ) -> dict[str, Any]:
        """Validate the trace and store it. After an error no partial file remains.

        Parameters
        ----------
        name
            Name under which the trace is stored.
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
        async with self._received() as file:
            ready = file.with_suffix(_READY)
            settings = (self.suffix, name, how, machine or Machine(), ready)
            stored = await self.connected(self.reader.read(file, trace_reading.check, *settings))
            await asyncio.to_thread(_publish, file, ready, self.options.traces / f"{name}.{stored['format']}")
            return stored

    @asynccontextmanager
    async def _received(self) -> AsyncIterator[Path]:
        """Receive the file for the duration of the block; yield its place."""
        file = self.options.traces / f"{_TEMPORARY}{secrets.token_hex(8)}.{self.suffix}"
        try:
            await _receive(self.chunks, file)
            yield file
        finally:
            for path in (file, file.with_suffix(_READY)):
                await asyncio.to_thread(path.unlink, True)


async def _receive(chunks: AsyncIterator[bytes], file: Path) -> None:
    await asyncio.to_thread(file.parent.mkdir, parents=True, exist_ok=True)
    with await asyncio.to_thread(file.open, "xb") as sink:
        async for chunk in chunks:
            await asyncio.to_thread(sink.write, chunk)


def _publish(received: Path, converted: Path, target: Path) -> None:
    if target.with_suffix(".csv").exists() or target.with_suffix(".parquet").exists():
        raise ApiError(409, f"there is a trace named {target.stem} already", hint="choose another name")
    (converted if converted.exists() else received).rename(target)


def stored_traces(folder: Path) -> list[dict[str, Any]]:
    """Return name, format, size and time of the stored traces, by name."""
    files = sorted(folder.glob("[A-Za-z0-9]*")) if folder.is_dir() else []
    return [
        {"name": path.stem, "format": path.suffix[1:], "size_bytes": facts.st_size, "modified_at": facts.st_mtime}
        for path in files
        if path.suffix in (".csv", ".parquet") and path.is_file()
        for facts in (path.stat(),)
    ]
