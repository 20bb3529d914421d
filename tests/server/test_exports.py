"""Exports: no formulas in spreadsheets, exact numbers."""

import csv
import io
import json
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest
from fakes import RUN

from hybrid_scheduler.live import SubmittedTask
from hybrid_scheduler.reports.file_formats import escape_formula
from hybrid_scheduler.server.file_exports import RESULT_COLUMNS, TASK_COLUMNS
from hybrid_scheduler.server.routes import history

TODAY = datetime.now(UTC).date().isoformat()


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1+2", "@SUM(A1)", "\tx", "\rx", "=cmd|'/C calc'!A0"])
def test_formulas_in_exported_cells_become_text(cell):
    assert escape_formula(cell) == "'" + cell


@pytest.mark.parametrize("cell", [-1.5, 0, -3, None, "gpu_1", "a=b", "", 1e-9])
def test_other_cells_are_unchanged(cell):
    assert escape_formula(cell) is cell


async def test_exported_tasks_have_all_columns_and_escaped_formulas(client, context):
    context.repository.add(SubmittedTask(5.0, 0.1, 1.0, external_id='=HYPERLINK("http://evil")'))
    answer = await client.get("/api/export/tasks.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == f'attachment; filename="all-runs-tasks-{TODAY}.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert tuple(rows[0]) == TASK_COLUMNS
    assert len(rows) == 21
    assert rows[-1]["external_id"] == '\'=HYPERLINK("http://evil")'
    assert float(rows[0]["size"]) == 1000.0


async def test_results_csv_keeps_negative_numbers(client):
    answer = await client.get("/api/export/results.csv", params={"scheduler": "greedy", "limit": 5})
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert tuple(rows[0]) == RESULT_COLUMNS
    assert [row["task_id"] for row in rows] == ["16", "17", "18", "19", "20"]
    assert {row["regret"] for row in rows} == {"-0.001"}


async def test_exported_parquet_equals_the_csv(client):
    table = pq.read_table(io.BytesIO((await client.get("/api/export/results.parquet")).content)).to_pylist()
    rows = list(csv.DictReader(io.StringIO((await client.get("/api/export/results.csv")).text)))
    assert len(table) == len(rows) == 60
    for got, expected in zip(table, rows, strict=True):
        for name, value in got.items():
            assert ("" if value is None else str(value)) == expected[name]


async def test_long_history_is_streamed_and_equal(client, monkeypatch):
    at_once = (await client.get("/api/full_history?limit=12")).content
    monkeypatch.setattr(history, "MAX_AT_ONCE", 5)
    streamed = await client.get("/api/full_history?limit=12")
    assert "content-length" not in streamed.headers
    assert streamed.content == at_once


async def test_an_empty_database_gives_whole_files(client, context):
    context.repository.tasks_by_id.clear()
    assert (await client.get("/api/export/tasks.csv")).text == ",".join(TASK_COLUMNS) + "\r\n"
    assert pq.read_table(io.BytesIO((await client.get("/api/export/results.parquet")).content)).num_rows == 0
    assert (await client.get("/api/export/trace.json")).json() == {"displayTimeUnit": "ms", "traceEvents": []}


async def test_trace_has_every_busy_second(client, context):
    body = (await client.get(f"/api/export/trace.json?run_id={RUN}")).json()
    events = body["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert sorted(processes.values()) == ["greedy", "hybrid_ml", "oracle"]
    busy: dict[tuple[str, str], float] = {}
    for each in events:
        if each["ph"] == "X":
            lane = processes[each["pid"]], names[each["pid"], each["tid"]]
            busy[lane] = busy.get(lane, 0.0) + each["dur"] / 1e6
    for (scheduler, device), seconds in busy.items():
        results = [task["results"][scheduler] for task in context.repository.tasks_by_id.values()]
        key = "cpu_time" if device == "cpu" else "gpu_time"
        assert seconds == pytest.approx(sum(result[key] for result in results))


async def test_file_names_tell_run_scheduler_and_date(client, context):
    context.repository.labels[RUN] = {"name": "Night / shift: no. 7"}
    for content, scheduler in (("results.csv", "greedy"), ("results.parquet", "greedy"), ("trace.json", None)):
        query = {"run_id": RUN} | ({"scheduler": scheduler} if scheduler else {})
        answer = await client.get(f"/api/export/{content}", params=query)
        stem, ending = content.split(".")
        words = "-".join(filter(None, ["Night-shift-no-7", RUN[-6:], scheduler, stem, TODAY]))
        assert answer.headers["content-disposition"] == f'attachment; filename="{words}.{ending}"'


async def test_export_of_an_unknown_run_is_404(client):
    for name in ("tasks.csv", "results.csv", "results.parquet", "trace.json"):
        assert (await client.get(f"/api/export/{name}?run_id={RUN[:-1]}Z")).status_code == 404
        assert (await client.get(f"/api/export/{name}?run_id=../x")).status_code == 422
    assert json.loads((await client.get("/api/export/x.exe")).content)["error"]["code"] == "not_found"
