"""Exports of stored history as CSV, Parquet and Perfetto traces, streamed page by page.

A spreadsheet would run a CSV cell that begins like a formula, so such texts get a leading apostrophe. Numbers are
written unchanged, negative ones too.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..reports.file_formats import escape_formula
from ..storage.history_analysis import hosts_of
from .json_response import dumps
from .schemas.tasks import Result, TaskResponse

if TYPE_CHECKING:
    from ..storage import Repository

Row = dict[str, Any]
Pages = AsyncIterator[list[Row]]
#: Yields a file of pages of tasks: of one scheduler or of all, and of a run or of all.
Writer = Callable[[Pages, str | None, Row | None], AsyncIterator[bytes]]

TASK_COLUMNS = (*TaskResponse.model_fields, "optimal_gpu_fraction", "optimal_time")
RESULT_COLUMNS = ("task_id", "run_id", *Result.model_fields)
_TEXT_COLUMNS = {"run_id", "scheduler_name", "device", "status"}
_INTEGER_COLUMNS = {"task_id", "model_version"}


async def history_pages(repository: Repository, run_id: str | None, limit: int | str) -> Pages:
    """Return tasks with their results, oldest first.

    The first page is read at once. An unavailable database is therefore an error before the response starts.

    Parameters
    ----------
    repository
        Source of the rows.
    run_id
        Only this run; None for all.
    limit
        Number of newest tasks, or "all".

    Returns
    -------
    AsyncIterator
        Pages of tasks.
    """
    source = repository.iterate_history(run_id=run_id, newest=None if limit == "all" else int(limit))
    first = await anext(source, None)

    async def all_pages() -> Pages:
        if first is not None:
            yield first
        async for page in source:
            yield page

    return all_pages()


def result_rows(page: list[Row], scheduler: str | None = None) -> Iterator[Row]:
    """Yield the results of a page of tasks, of one scheduler or of all."""
    for task in page:
        for name, result in task["results"].items():
            if scheduler is None or name == scheduler:
                yield {"task_id": task["task_id"], "run_id": task["run_id"], **result}


def _csv(rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([escape_formula(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


async def tasks_csv(source: Pages, scheduler: str | None, run: Row | None) -> AsyncIterator[bytes]:
    """Yield a CSV file of tasks."""
    yield _csv([TASK_COLUMNS])
    async for page in source:
        rows = ({**task, "dependencies": " ".join(map(str, task["dependencies"]))} for task in page)
        yield await asyncio.to_thread(_csv, ([row[column] for column in TASK_COLUMNS] for row in rows))


async def results_csv(source: Pages, scheduler: str | None, run: Row | None) -> AsyncIterator[bytes]:
    """Yield a CSV file of results, of one scheduler or of all."""
    yield _csv([RESULT_COLUMNS])
    async for page in source:
        rows = ([row[column] for column in RESULT_COLUMNS] for row in result_rows(page, scheduler))
        yield await asyncio.to_thread(_csv, rows)


async def results_parquet(source: Pages, scheduler: str | None, run: Row | None) -> AsyncIterator[bytes]:
    """Yield a Parquet file of results, one row group per page, each as soon as it is written."""
    # The first import takes most of a second: in a thread, so that other requests do not wait for it.
    pa, pq = await asyncio.to_thread(lambda: (import_module("pyarrow"), import_module("pyarrow.parquet")))

    def column_type(column: str) -> Any:
        return (
            pa.string() if column in _TEXT_COLUMNS else pa.int64() if column in _INTEGER_COLUMNS else pa.float64()
        )

    schema = pa.schema([(column, column_type(column)) for column in RESULT_COLUMNS])
    sink = _ChunkBuffer()
    writer = pq.ParquetWriter(sink, schema, compression="zstd")

    def write(page: list[Row]) -> bytes:
        rows = list(result_rows(page, scheduler))
        table = pa.table({column: [row[column] for row in rows] for column in RESULT_COLUMNS}, schema=schema)
        writer.write_table(table)
        return sink.take()

    async for page in source:
        if page:
            yield await asyncio.to_thread(write, page)
    writer.close()
    yield sink.take()


class _ChunkBuffer(io.RawIOBase):
    """A file that collects written bytes until `take` returns them; it cannot seek."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        chunk = bytes(data)
        self._chunks.append(chunk)
        self._position += len(chunk)
        return len(chunk)

    def take(self) -> bytes:
        chunks = self._chunks
        self._chunks = []
        return b"".join(chunks)


async def perfetto_trace(source: Pages, scheduler: str | None, run: Row | None) -> AsyncIterator[bytes]:
    """Yield a file in Chrome's trace format.

    A scheduler is a process, a device a thread; times are microseconds since the run began.

    Parameters
    ----------
    source
        Pages of tasks with results.
    scheduler
        Only this scheduler; None for all.
    run
        The run; None for tasks of all runs.

    Yields
    ------
    bytes
        Pieces of the file.
    """
    hosts = {} if run is None else hosts_of((), run["config"])  # for each device the CPU of its node
    processes: dict[str, int] = {}
    threads: dict[tuple[str, str], int] = {}
    yield b'{"displayTimeUnit":"ms","traceEvents":['
    comma = b""
    async for page in source:
        events: list[Row] = []
        for task in page:
            for name, result in task["results"].items():
                if scheduler is not None and name != scheduler:
                    continue
                if name not in processes:
                    processes[name] = len(processes) + 1
                    events.append(_name_event("process_name", processes[name], 0, name))
                for device, start, seconds in _busy_intervals(result, hosts):
                    if (name, device) not in threads:
                        threads[name, device] = len(threads) + 1
                        events.append(_name_event("thread_name", processes[name], threads[name, device], device))
                    thread = threads[name, device]
                    events.append(_interval_event(task, result, processes[name], thread, start, seconds))
        if events:
            yield comma + dumps(events)[1:-1]
            comma = b","
    yield b"]}"


def _busy_intervals(result: Row, hosts: dict[str, str]) -> Iterable[tuple[str, float, float]]:
    if result["cpu_start"] is not None and result["cpu_time"]:
        prefix = result["device"].rpartition(".")[0]
        default = f"{prefix}.cpu" if prefix else "cpu"
        yield hosts.get(result["device"], default), result["cpu_start"], result["cpu_time"]
    if result["gpu_start"] is not None and result["gpu_time"]:
        yield result["device"], result["gpu_start"], result["gpu_time"]


def _name_event(kind: str, process: int, thread: int, name: str) -> Row:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _interval_event(task: Row, result: Row, process: int, thread: int, start: float, seconds: float) -> Row:
    details = {"latency_s": result["latency"], "fraction": result["gpu_fraction"], "size": task["size"]}
    return {
        "ph": "X",
        "name": f"task {task['task_id']}",
        "cat": task["kind"],
        "pid": process,
        "tid": thread,
        "ts": start * 1e6,
        "dur": seconds * 1e6,
        "args": details,
    }
