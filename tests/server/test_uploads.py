"""Traces: all or nothing, and never a path from a client."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes import client_of, fake_context

from hybrid_scheduler.server.app import create_app
from hybrid_scheduler.workload import load_workload

GOOD = b"task_id,size,compute_intensity,memory_required,arrival_time\n1,100,0.5,10,0\n2,200,0.7,20,1\n"
CSV = {"Content-Type": "text/csv"}
PARQUET = {"Content-Type": "application/vnd.apache.parquet"}


async def test_valid_trace_is_stored(client, context):
    answer = await client.post("/api/traces?name=week", headers=CSV, content=GOOD)
    assert answer.status_code == 201
    assert answer.json() == {
        "name": "week", "format": "csv", "tasks": 2, "size_bytes": len(GOOD), "ignored_columns": [],
    }  # fmt: skip
    assert len(load_workload(context.options.traces / "week.csv")) == 2
    (listed,) = (await client.get("/api/traces")).json()["traces"]
    assert (listed["name"], listed["format"]) == ("week", "csv")
    assert (await client.post("/api/traces?name=week", headers=CSV, content=GOOD)).status_code == 409


async def test_valid_parquet_trace_is_stored(client):
    sink = io.BytesIO()
    columns = {"size": [1.0], "compute_intensity": [0.5], "memory_required": [1.0], "arrival_time": [0.0]}
    pq.write_table(pa.table({"task_id": [1], **columns}), sink)
    answer = await client.post("/api/traces?name=p", headers=PARQUET, content=sink.getvalue())
    assert answer.status_code == 201
    assert answer.json()["tasks"] == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (GOOD + b"3,-5,0.5,10,2\n", "size"),
        (GOOD + b"3,NaN,0.5,10,2\n", "size"),
        (GOOD + b"3,1,7,10,2\n", "compute_intensity"),
        (b"", ""),
        (b"\x00\x01", ""),
        (b"a,b\n1,2\n", ""),
    ],
)
async def test_bad_row_is_named_and_nothing_is_stored(client, context, body, field):
    answer = await client.post("/api/traces?name=week", headers=CSV, content=body)
    assert answer.status_code == 422
    message = answer.json()["error"]["message"]
    assert field in message
    assert "week.csv" in message
    assert "upload" not in message
    assert str(context.options.traces) not in message
    assert list(context.options.traces.iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "a.csv", ".hidden", "", "x" * 65, "a\x00b"])
async def test_names_are_not_paths(client, context, name):
    answer = await client.post("/api/traces", params={"name": name}, headers=CSV, content=GOOD)
    assert answer.status_code == 422
    assert not context.options.traces.exists() or list(context.options.traces.iterdir()) == []


async def test_traces_of_other_content_types_are_415(client):
    for headers in ({"Content-Type": "application/json"}, {"Content-Type": "multipart/form-data; boundary=x"}, {}):
        assert (await client.post("/api/traces?name=x", headers=headers, content=GOOD)).status_code == 415


async def test_too_large_trace_leaves_no_file(tmp_path):
    context = fake_context(tmp_path, trace_limit=100_000)

    async def endless():
        for _ in range(100):
            yield b"x" * 5000

    async with client_of(create_app(context)) as client:
        answer = await client.post("/api/traces?name=x", headers=CSV, content=endless())
        assert answer.status_code == 413
        assert (await client.post("/api/traces?name=x", headers=CSV, content=b"x" * 200_000)).status_code == 413
    assert list(context.options.traces.iterdir()) == []


async def test_decompression_bombs_are_refused(client, context):
    sink = io.BytesIO()
    size = pa.array([1.0]).take(pa.array([0] * 3_000_000))
    columns = dict.fromkeys(("size", "compute_intensity", "memory_required", "arrival_time"), size)
    pq.write_table(pa.table({"task_id": size, **columns}), sink, compression="zstd")
    assert len(sink.getvalue()) < 200_000
    answer = await client.post("/api/traces?name=x", headers=PARQUET, content=sink.getvalue())
    assert answer.status_code == 413
    assert list(context.options.traces.iterdir()) == []


@pytest.mark.parametrize("body", [b"", b"PAR1", b"PAR1" + b"\xff" * 100 + b"PAR1", b"x" * 1000])
async def test_broken_parquet_is_422(client, body):
    assert (await client.post("/api/traces?name=x", headers=PARQUET, content=body)).status_code == 422
