"""Limits of reading foreign text: bounded by columns, lines and depth, in processes that can be ended."""

import asyncio
import os
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.live import EngineClosed
from hybrid_scheduler.server import trace_reading
from hybrid_scheduler.server.new_runs import StartOptions, chosen_machine
from hybrid_scheduler.server.trace_reading import FileReader
from hybrid_scheduler.workload.trace_columns import MAX_COLUMNS, REQUIRED, DecodedTooLarge, known_columns

CSV = {"Content-Type": "text/csv"}
HEADER = ",".join(REQUIRED).encode()


@pytest.fixture
def large(tmp_path, monkeypatch):
    """A file that is read in a process."""
    monkeypatch.setattr(trace_reading, "_SMALL", 8)
    file = tmp_path / "file.csv"
    file.write_bytes(b"a" * 9)
    return file


def size_of(file):
    return file.stat().st_size, os.getpid()


def loop_for_ever(file):
    while True:
        pass


def take_memory(file):
    return len(bytearray(8 * 2**30))


def sleep(file):
    time.sleep(600)


async def test_process_ends_at_each_of_its_limits_and_the_next_file_is_read(large, monkeypatch):
    monkeypatch.setattr(trace_reading, "_CPU_S", 0.2)
    reader = FileReader()
    size, process = await reader.read(large, size_of)
    assert (size, process == os.getpid()) == (9, False)
    for work in (loop_for_ever, take_memory):
        with pytest.raises(DecodedTooLarge, match="readable within"):
            await reader.read(large, work)
    monkeypatch.setattr(trace_reading, "_START_S", 0.5)
    with pytest.raises(DecodedTooLarge, match="readable within"):
        await reader.read(large, sleep)
    monkeypatch.setattr(trace_reading, "_START_S", 60.0)
    assert (await reader.read(large, size_of))[0] == 9
    reader.close()


async def test_client_that_leaves_gives_its_place_back(large, monkeypatch):
    monkeypatch.setattr(trace_reading, "_PROCESSES", 1)
    reader = FileReader()
    await reader.read(large, size_of)
    abandoned = [asyncio.ensure_future(reader.read(large, sleep)) for _ in range(3)]
    await asyncio.sleep(0)
    for request in abandoned:
        request.cancel()
    await asyncio.wait(abandoned)
    assert (await reader.read(large, size_of))[0] == 9
    reader.close()


async def test_files_that_are_being_read_do_not_delay_the_end(large):
    reader = FileReader()
    reading = asyncio.ensure_future(reader.read(large, sleep))
    while not any(process.started for process in reader._processes):
        await asyncio.sleep(0.01)
    reader.close()
    with pytest.raises(EngineClosed):
        await reading


@pytest.mark.parametrize("route", ["/api/traces/inspect?", "/api/traces?name=wide&"])
@pytest.mark.parametrize("query", ["", 'mapping={"size":{"column":"a"},"arrival_time":{"column":"b"}}'])
async def test_table_with_too_many_columns_is_refused_by_its_header(client, route, query):
    names = ",".join(f"c{number}" for number in range(MAX_COLUMNS + 1)).encode()
    for body in (names + b"\n" + names, HEADER + b"," + names + b"\n"):
        answer = await client.post(f"{route}{query}", content=body, headers=CSV)
        error = answer.json().get("error")
        allowed = (error.get("fields") or [error])[0]["allowed"]
        assert f"at most {MAX_COLUMNS:,} columns" in allowed
    assert len(answer.content) < 2000


async def test_parquet_with_too_many_columns_is_refused_by_its_metadata(client, tmp_path):
    file = tmp_path / "wide.parquet"
    pq.write_table(pa.table({f"c{number}": [1] for number in range(5 * MAX_COLUMNS)}), file)
    kind = {"Content-Type": "application/vnd.apache.parquet"}
    answer = await client.post("/api/traces?name=wide", content=file.read_bytes(), headers=kind)
    assert answer.status_code == 422
    assert "columns" in answer.json()["error"]["message"]


def test_names_of_columns_are_counted_once_each():
    class Name(str):
        compared = 0

        def __eq__(self, other):
            Name.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    header = [*REQUIRED, *(Name(f"c{number}") for number in range(900))]
    _, ignored = known_columns(header, "file")
    assert len(ignored) == 900
    assert Name.compared < 20 * len(header)
    with pytest.raises(InvalidInputError, match="'c1' twice"):
        known_columns([*header, "c1"], "file")


async def test_blank_lines_count_as_rows(client):
    answer = await client.post("/api/traces?name=blank", content=HEADER + b"\n" * 2**20, headers=CSV)
    assert answer.status_code == 413


@pytest.mark.parametrize("text", ["[" * 9999, "{" * 9999, "a: " + "[" * 17 + "]" * 17])
def test_nested_brackets_are_refused_before_the_text_is_scanned(text, monkeypatch):
    monkeypatch.setattr("yaml.scan", lambda _: pytest.fail("the text was scanned"))
    monkeypatch.setattr("yaml.safe_load", lambda _: pytest.fail("the text was loaded"))
    with pytest.raises(InvalidInputError, match="at most 16 levels of brackets"):
        chosen_machine(None, StartOptions(platform_yaml=text))
