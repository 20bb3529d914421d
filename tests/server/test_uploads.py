"""Traces: all or nothing, and never a path from a client."""

import io
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes import client_of, fake_context

from hybrid_scheduler.server.app import create_app
from hybrid_scheduler.server.trace_uploads import sweep_uploads
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
    for headers in ({"Content-Type": "application/xml"}, {"Content-Type": "multipart/form-data; boundary=x"}, {}):
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


async def test_parquet_file_that_ends_pyarrow_does_not_end_the_server(client):
    body = (Path(__file__).parents[1] / "workload/damaged/column_statistics.parquet").read_bytes()
    answer = await client.post("/api/traces?name=x", headers=PARQUET, content=body)
    assert answer.status_code == 422
    assert "readable Parquet table" in answer.text


def parquet_of(rows, **more):
    """A Parquet file of equal rows, which compress to almost nothing."""
    columns = {
        "task_id": pa.array(np.arange(rows)),
        "size": pa.array(np.ones(rows)),
        "compute_intensity": pa.array(np.full(rows, 0.5)),
        "memory_required": pa.array(np.ones(rows)),
        "arrival_time": pa.array(np.zeros(rows)),
    }
    sink = io.BytesIO()
    pq.write_table(pa.table({**columns, **more}), sink, compression="zstd")
    return sink.getvalue()


def repeated_text(rows, length):
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * length]))


def equal_lists(rows, length):
    bounds = pa.array(np.arange(0, (rows + 1) * length, length, dtype=np.int32))
    return pa.ListArray.from_arrays(bounds, pa.array(np.zeros(rows * length, np.int64)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: parquet_of(20_000, external_id=repeated_text(20_000, 50_000)),
        lambda: parquet_of(20_000, kind=repeated_text(20_000, 50_000)),
        lambda: parquet_of(3_000, dependencies=equal_lists(3_000, 2_000)),
        lambda: parquet_of(1_000_000),
    ],
    ids=["external_id", "kind", "lists", "rows"],
)
async def test_small_file_that_decodes_to_much_is_413(client, context, make):
    body = make()
    assert len(body) < 2**21
    answer = await client.post("/api/traces?name=bomb", headers=PARQUET, content=body)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "too_large"
    assert list(context.options.traces.iterdir()) == []


def table_of(rows, **columns):
    """A Parquet table with columns of its own, beside arrivals."""
    sink = io.BytesIO()
    begin = pa.array(np.zeros(rows)) if rows else pa.array([], pa.float64())
    pq.write_table(pa.table({"begin": begin, **columns}), sink, compression="zstd")
    return sink.getvalue()


MAPPING = json.dumps({"size": {"column": "work"}, "arrival_time": {"column": "begin"}})


async def test_metadata_of_a_parquet_file_is_read_once(client, monkeypatch):
    calls = []
    run = subprocess.run

    def counted(*given, **named):
        calls.append(given)
        return run(*given, **named)

    monkeypatch.setattr(subprocess, "run", counted)
    body = table_of(3, work=pa.array([1.0, 2.0, 3.0]))
    answer = await client.post(f"/api/traces/inspect?mapping={MAPPING}", headers=PARQUET, content=body)
    assert (answer.status_code, answer.json()["rows_kept"]) == (200, 3)
    assert len(calls) == 1
    assert (await client.post("/api/traces?name=own", headers=PARQUET, content=parquet_of(5))).status_code == 201
    assert len(calls) == 2


@pytest.mark.parametrize("path", ["/api/traces/inspect", "/api/traces"])
@pytest.mark.parametrize(
    ("kind", "make"),
    [
        (PARQUET, lambda: table_of(800_000, work=pa.array(np.ones(800_000)))),
        (CSV, lambda: b"work,begin\n" + b"1,1\n" * 600_000),
        (CSV, lambda: b"a," * 3_000_000 + b"b\n"),
        ({"Content-Type": "application/json"}, lambda: b"[" + b"{}," * 1_000_000 + b"{}]"),
    ],
    ids=["parquet", "csv", "header", "json"],
)
async def test_foreign_file_that_decodes_to_much_is_413(client, context, path, kind, make):
    query = {"name": "bomb"} | ({} if kind["Content-Type"] == "application/json" else {"mapping": MAPPING})
    answer = await client.post(path, params=query, headers=kind, content=make())
    assert answer.status_code == 413, answer.text
    assert list(context.options.traces.iterdir()) == []


async def test_long_cells_of_a_table_are_cut(client):
    body = table_of(2_000, work=repeated_text(2_000, 1_000_000), more=equal_lists(2_000, 10))
    answer = await client.post(f"/api/traces/inspect?mapping={MAPPING}", headers=PARQUET, content=body)
    found = answer.json()
    assert (answer.status_code, found["error"]["field"]) == (200, "work")
    first = {column["name"]: column["first"][0] for column in found["columns"]}
    assert first == {"begin": "0.0", "work": "x" * 120, "more": ""}


async def test_csv_with_too_many_rows_is_413(client, context):
    header = b"task_id,size,compute_intensity,memory_required,arrival_time\n"
    body = header + b"".join(b"%d,1,1,1,1\n" % row for row in range(800_000))
    answer = await client.post("/api/traces?name=long", headers=CSV, content=body)
    assert answer.status_code == 413
    assert list(context.options.traces.iterdir()) == []


async def test_repeated_text_within_the_limit_is_stored(client):
    body = parquet_of(1_000, external_id=repeated_text(1_000, 100), kind=repeated_text(1_000, 60))
    answer = await client.post("/api/traces?name=fine", headers=PARQUET, content=body)
    assert (answer.status_code, answer.json()["tasks"]) == (201, 1_000)


#: Prints the growth of each file's import; each in a process of its own, which begins with the modules loaded.
_MEMORY_PROGRAM = """
import json, os, pathlib, sys
import pyarrow.compute, pyarrow.parquet
from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.server.errors import ApiError
from hybrid_scheduler.server.trace_reading import ImportOptions, read_upload
from hybrid_scheduler.server.trace_uploads import parse_mapping
from hybrid_scheduler.workload.trace_files import load_with_report

def peak():
    return int(pathlib.Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024

def growth(path, mapping):
    file = pathlib.Path(path)
    before = peak()
    try:
        if mapping is None:
            load_with_report(file, max_bytes=200 * 2**20)
        else:
            columns = parse_mapping(mapping) if mapping else None
            read_upload(file, file.suffix[1:], ImportOptions(columns, skip_bad=True))
    except (InvalidInputError, ApiError) as error:
        print(file.name, error, file=sys.stderr)
    return peak() - before

for path, mapping in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        print(json.dumps([pathlib.Path(path).stem, growth(path, mapping)]), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, path
"""


def growths(folder, files):
    """Return by name how many MiB the peak memory grows by; `files` has suffix, mapping and content by name."""
    rows = []
    for name, (suffix, mapping, make) in files.items():
        file = folder / f"{name}.{suffix}"
        file.write_bytes(make())
        rows.append([str(file), mapping])
    command = [sys.executable, "-c", _MEMORY_PROGRAM, json.dumps(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    found = dict(map(json.loads, done.stdout.splitlines()))
    assert found.keys() == files.keys(), done.stderr
    return found


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_reading_takes_at_most_64_mib_more_than_the_limit(tmp_path):
    makers = {
        "rows within the limit": lambda: parquet_of(690_000),
        "rows": lambda: parquet_of(5_000_000),
        "text": lambda: parquet_of(100_000, external_id=repeated_text(100_000, 50_000)),
        "lists": lambda: parquet_of(1_000, dependencies=equal_lists(1_000, 1_900)),
    }
    found = growths(tmp_path, {name: ("parquet", None, make) for name, make in makers.items()})
    assert all(growth <= 264 for growth in found.values()), found


SWF_JOB = b"%d 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_importing_takes_at_most_64_mib_more_than_the_limit(tmp_path):
    files = {
        "text": ("parquet", MAPPING, lambda: table_of(20_000, work=repeated_text(20_000, 1_000_000))),
        "parquet rows": ("parquet", MAPPING, lambda: table_of(500_000, work=pa.array(np.ones(500_000)))),
        "csv rows": ("csv", MAPPING, lambda: b"work,begin\n" + b"1,1\n" * 570_000),
        "swf rows": ("txt", "", lambda: b"".join(SWF_JOB % number for number in range(570_000))),
        "json": ("json", "", lambda: b"[" + b'{"a":[]},' * 400_000 + b"{}]"),
    }
    found = growths(tmp_path, files)
    assert all(growth <= 264 for growth in found.values()), found


def test_leftovers_of_killed_uploads_are_swept(tmp_path):
    for name in (".upload-0123.csv", ".upload-4567.parquet", "week.csv", ".hidden"):
        (tmp_path / name).write_bytes(b"x")
    assert sweep_uploads(tmp_path, older_than=600.0) == 0
    assert sweep_uploads(tmp_path) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", "week.csv"]
    assert sweep_uploads(tmp_path / "missing") == 0


# ------------------------------------------------------------------------------------------ poison behind a decoder

_POISONED_MAPPINGS = [
    r'{"size": {"column": "\ud800"}}',
    r'{"size": {"column": "a\u0000"}}',
    r'{"\udfff": {"value": 1}}',
    r'{"size": {"column": "a", "minus": "\ud800"}}',
    '{"size": {"value": NaN}}',
    '{"size": {"value": 1e999}}',
    '{"size": {"value": %s}}' % ("9" * 401),
    '{"size": {"value": true}}',
    "[" * 1500,
    "9" * 1500,
]


@pytest.mark.parametrize("mapping", _POISONED_MAPPINGS)
@pytest.mark.parametrize("route", ["/api/traces/inspect?", "/api/traces?name=t&"])
async def test_poisoned_mapping_is_refused(client, mapping, route):
    answer = await client.post(f"{route}mapping={quote(mapping)}", content=b"a,b\n1,2\n", headers=CSV)
    assert answer.status_code == 422
    assert answer.json()["error"]["fields"][0]["field"] == "mapping"


_KIND = "task_id,size,compute_intensity,memory_required,arrival_time,kind\n0,1,0.5,1,0,%s\n"
_WORKFLOW = json.dumps(
    {"workflow": {"specification": {"tasks": [{"name": "MARK", "id": "MARK", "parents": [], "children": []}]},
     "execution": {"tasks": [{"id": "MARK", "runtimeInSeconds": 1}]}}}
)  # fmt: skip


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ((_KIND % "a\0b").encode(), "text/csv"),
        ((_KIND % "a").replace("kind", "external_id\0").encode(), "text/csv"),
        (_WORKFLOW.replace("MARK", r"\ud800").encode(), "application/json"),
        (_WORKFLOW.replace("MARK", r"a\u0000").encode(), "application/json"),
    ],
)
async def test_poisoned_text_of_a_trace_is_no_server_error(client, body, kind):
    for route in ("/api/traces/inspect", "/api/traces?name=poisoned"):
        answer = await client.post(route, content=body, headers={"Content-Type": kind})
        assert answer.status_code in (200, 201, 422), answer.text
        json.loads(answer.content)
        assert b"\0" not in answer.content
