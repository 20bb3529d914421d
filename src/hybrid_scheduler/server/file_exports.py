"""Files to take away, streamed page by page.

A cell of a CSV file that begins like a formula would be run by a spreadsheet: such texts get a leading
apostrophe. Numbers are written as they are, the negative ones too.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .json_response import dumps

if TYPE_CHECKING:
    from ..storage import Repository

Row = dict[str, Any]
Pages = AsyncIterator[list[Row]]

TASK_COLUMNS = (
    "task_id", "run_id", "ordinal", "external_id", "size", "compute_intensity", "memory_required", "arrival_time",
    "dependencies", "kind", "recorded_at", "optimal_gpu_fraction", "optimal_time",
)  # fmt: skip
RESULT_COLUMNS = (
    "task_id", "run_id", "scheduler_name", "device", "gpu_fraction", "actual_time", "latency", "wait", "start_time",
    "finish_time", "cpu_start", "cpu_time", "gpu_start", "gpu_time", "energy_consumption", "execution_cost",
    "regret", "predicted_time", "status", "model_version",
)  # fmt: skip
_TEXTS = {"run_id", "scheduler_name", "device", "status"}
_WHOLE = {"task_id", "model_version"}
_DANGEROUS = ("=", "+", "-", "@", "\t", "\r")


def inert(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula."""
    if isinstance(value, str) and value.startswith(_DANGEROUS):
        return "'" + value
    return value


async def pages(repository: Repository, run_id: str | None, limit: int | str) -> Pages:
    """Tasks with results, oldest first; the first page is read now, so that a database that is away is an error."""
    if limit != "all":
        return _one(await repository.history(int(limit), run_id=run_id))
    source = repository.iterate_history(run_id=run_id)
    first = await anext(source, None)

    async def all_pages() -> Pages:
        if first is not None:
            yield first
        async for page in source:
            yield page

    return all_pages()


async def _one(page: list[Row]) -> Pages:
    yield page


def _results(page: list[Row], scheduler: str | None) -> Iterable[Row]:
    for task in page:
        for name, result in task["results"].items():
            if scheduler is None or name == scheduler:
                yield {"task_id": task["task_id"], "run_id": task["run_id"], **result}


def _csv(rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([inert(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


async def tasks_csv(source: Pages) -> AsyncIterator[bytes]:
    yield _csv([TASK_COLUMNS])
    async for page in source:
        rows = ({**task, "dependencies": " ".join(map(str, task["dependencies"]))} for task in page)
        yield _csv([row[column] for column in TASK_COLUMNS] for row in rows)


async def results_csv(source: Pages, scheduler: str | None) -> AsyncIterator[bytes]:
    yield _csv([RESULT_COLUMNS])
    async for page in source:
        yield _csv([row[column] for column in RESULT_COLUMNS] for row in _results(page, scheduler))


async def results_parquet(source: Pages, scheduler: str | None) -> AsyncIterator[bytes]:
    """One row group per page; each is handed out as soon as it is written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def kind(column: str) -> Any:
        return pa.string() if column in _TEXTS else pa.int64() if column in _WHOLE else pa.float64()

    schema = pa.schema([(column, kind(column)) for column in RESULT_COLUMNS])
    sink = _Sink()
    writer = pq.ParquetWriter(sink, schema, compression="zstd")

    def write(page: list[Row]) -> bytes:
        rows = list(_results(page, scheduler))
        table = pa.table({column: [row[column] for row in rows] for column in RESULT_COLUMNS}, schema=schema)
        writer.write_table(table)
        return sink.taken()

    async for page in source:
        if page:
            yield await asyncio.to_thread(write, page)
    writer.close()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """Collects what is written until somebody takes it; a file that cannot be sought."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._waiting.append(piece)
        self._position += len(piece)
        return len(piece)

    def taken(self) -> bytes:
        pieces, self._waiting = self._waiting, []
        return b"".join(pieces)


async def perfetto(source: Pages, scheduler: str | None, hosts: dict[str, str]) -> AsyncIterator[bytes]:
    """Chrome's trace format: a process per scheduler, a thread per device, microseconds since the run began.

    `hosts` names the CPU beside each device.
    """
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
                    events.append(_name("process_name", processes[name], 0, name))
                for device, start, seconds in _blocks(result, hosts):
                    lane = threads.setdefault((name, device), len(threads) + 1)
                    if lane == len(threads) and not any(e.get("tid") == lane for e in events[-8:]):
                        events.append(_name("thread_name", processes[name], lane, device))
                    events.append(_block(task, result, processes[name], lane, start, seconds))
        if events:
            yield comma + dumps(events)[1:-1]
            comma = b","
    yield b"]}"


def _blocks(result: Row, hosts: dict[str, str]) -> Iterable[tuple[str, float, float]]:
    if result["cpu_start"] is not None and result["cpu_time"]:
        prefix = result["device"].rpartition(".")[0]
        usual = f"{prefix}.cpu" if prefix else "cpu"
        yield hosts.get(result["device"], usual), result["cpu_start"], result["cpu_time"]
    if result["gpu_start"] is not None and result["gpu_time"]:
        yield result["device"], result["gpu_start"], result["gpu_time"]


def _name(kind: str, process: int, thread: int, name: str) -> Row:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _block(task: Row, result: Row, process: int, thread: int, start: float, seconds: float) -> Row:
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
