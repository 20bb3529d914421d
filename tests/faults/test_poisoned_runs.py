"""Texts that only become poison behind a decoder: refused before anything ends, and no restart fails on one."""

import asyncio
import io
import json
from dataclasses import replace
from itertools import product

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from server_under_test import opened_server
from services import database_url, postgres_url  # noqa: F401

from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.live import LiveConfig
from hybrid_scheduler.live.journal import Batch, Counters, storable, unstorable_text
from hybrid_scheduler.storage import DatabaseAddress, SqlJournal
from hybrid_scheduler.storage.batch_rows import is_plain_json, json_text
from hybrid_scheduler.storage.integrity_check import verify
from hybrid_scheduler.storage.schema_version import with_connection

LAB = 'name: lab\ndevices: [{name: cpu, kind: cpu}, {name: "g%s", kind: gpu}]'
#: Escapes of YAML that decode to NUL and to an unpaired surrogate.
ESCAPES = [r"\0", r"\x00", r"\u0000", r"\uD800", r"\U0000DFFF"]


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request, tmp_path):
    """Settings of a database, and its address."""
    if request.param == "sqlite":
        return {}, DatabaseAddress.sqlite(tmp_path / "live.db")
    url = request.getfixturevalue("database_url")
    return {"storage.database_url": url}, DatabaseAddress.from_url(url)


async def test_scheduler_that_cannot_start_is_refused_and_the_run_goes_on(tmp_path, monkeypatch):
    async with opened_server(tmp_path, monkeypatch, start=True) as (client, _):
        run = await stored_run(client)
        choice = {"name": "rl_agent", "parameters": {"energy_weight": "none"}}
        answer = await client.post("/api/simulation/runs", json={"schedulers": [choice]})
        assert (answer.status_code, answer.json()["error"]["fields"][0]["field"]) == (422, "schedulers.rl_agent")
        status = (await client.get("/api/status")).json()
        assert (status["run_id"], status["state"]) == (run, "running")


@pytest.mark.parametrize("column", ["kind", "external_id"])
async def test_trace_with_a_text_that_every_result_would_repeat_is_refused(tmp_path, monkeypatch, column):
    rows = f"task_id,size,compute_intensity,memory_required,arrival_time,{column}\n1,10,0.5,1,0,{'x' * 201}\n"
    csv = {"Content-Type": "text/csv"}
    async with opened_server(tmp_path, monkeypatch, start=False) as (client, _):
        for path in ("?name=t", "?name=u&skip_bad=true"):
            answer = await client.post(f"/api/traces{path}", content=rows, headers=csv)
            assert (answer.status_code, "200 characters" in answer.json()["error"]["message"]) == (422, True)
        assert "200 characters" in (await client.post("/api/traces/inspect", content=rows, headers=csv)).text
        (tmp_path / "data/workload_traces/own.csv").write_text(rows)  # not through the server
        assert (await client.post("/api/simulation/preview", json={"trace": "own"})).status_code == 422


HEAD = "task_id,size,compute_intensity,memory_required,arrival_time"
MAPPING = {
    "size": {"column": "work"},
    "kind": {"column": "name"},
    "external_id": {"column": "name"},
    "arrival_time": {"column": "when"},
    "compute_intensity": {"value": 0.5},
    "memory_required": {"value": 1},
}
#: Harmless before a decoder, or never.
TEXTS = ["a\0", "a\ud800", "\ufffe\uffff", "\x1b[2J\r\n", "\u202e[/x]", "=1+1", "x" * 201]
UPLOADS = {
    "kind of CSV": ("text/csv", lambda text: f'{HEAD},kind\n1,10,0.5,1,0,"{text}"\n2,10,0.5,1,1,b\n'),
    "id of CSV": ("text/csv", lambda text: f'{HEAD},external_id\n1,10,0.5,1,0,"{text}"\n2,10,0.5,1,1,b\n'),
    "name of a column": ("text/csv", lambda text: f'{HEAD},"{text}"\n1,10,0.5,1,0,x\n2,10,0.5,1,1,y\n'),
    "mapped table": ("text/csv", lambda text: f'work,when,name\n10,0,"{text}"\n10,1,b\n'),
    "workflow": ("application/json", lambda text: json.dumps(workflow(text))),
    "Parquet": ("application/vnd.apache.parquet", lambda text: parquet(text)),
}


def workflow(text):
    names = (text, "last")
    tasks: list[dict[str, object]] = [{"id": name, "name": name, "parents": []} for name in names]
    runs = [{"id": name, "runtimeInSeconds": 1} for name in names]
    return {"name": text, "workflow": {"specification": {"tasks": tasks}, "execution": {"tasks": runs}}}


def parquet(text):
    names = pa.array([text.encode("utf-8", "surrogatepass"), b"b"], pa.binary()).view(pa.string())
    numbers = {name: [1.0, 1.0] for name in HEAD.split(",")[1:]}
    table = {"task_id": [1, 2], **numbers, "kind": names, "external_id": names.dictionary_encode()}
    file = io.BytesIO()
    pq.write_table(pa.table(table), file)
    return file.getvalue()


async def test_poison_behind_any_decoder_of_a_file_is_refused_or_harmless(storage, tmp_path, monkeypatch):
    settings, address = storage
    pages = ("status", "full_history", "results", "runs", "events", "export/tasks.csv", "history/comparative")
    stored = 0
    async with opened_server(tmp_path, monkeypatch, start=True, **settings) as (client, _):
        for number, ((how, (media_type, build)), text) in enumerate(product(UPLOADS.items(), TEXTS)):
            content = build(text)
            content = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
            query = {"mapping": json.dumps(MAPPING)} if how == "mapped table" else {}
            for path, more in (("traces/inspect", {}), ("traces", {"name": f"t{number}"})):
                headers = {"Content-Type": media_type}
                answer = await client.post(f"/api/{path}", params=query | more, content=content, headers=headers)
                assert answer.status_code in (200, 201, 422), (how, text[:9], answer.text)
            if answer.status_code != 201:
                continue
            stored += 1
            settings_of_run = {"trace": f"t{number}", "name": text if text.isprintable() else "", "speed": 100}
            begun = await client.post("/api/simulation/runs", json=settings_of_run)
            assert begun.status_code in (201, 422), (how, text[:9], begun.text)
            for page in pages if begun.status_code == 201 else ():
                assert (await client.get(f"/api/{page}")).status_code == 200, (how, text[:9], page)
        run = (await client.get("/api/status")).json()["run_id"]
    assert stored > len(TEXTS)
    async with opened_server(tmp_path, monkeypatch, start=True, **settings) as (client, _):
        assert (await client.get("/api/runs", params={"limit": 1})).json()["runs"][0]["run_id"] >= run
    assert all(finding.ok for finding in verify(address))


async def stored_run(client):
    while not (runs := (await client.get("/api/runs")).json()["runs"]):
        await asyncio.sleep(0.05)  # until the new run is stored
    return runs[0]["run_id"]


async def test_poisoned_machine_is_refused_and_the_run_goes_on(storage, tmp_path, monkeypatch):
    settings, address = storage
    async with opened_server(tmp_path, monkeypatch, start=True, **settings) as (client, _):
        run = await stored_run(client)
        for escape in ESCAPES:
            for body in (
                {"platform_yaml": LAB % escape},
                {"platform_yaml": (LAB % "pu").replace("name: lab", f'name: "{escape}"')},
                {"platform_yaml": (LAB % "pu").replace("kind: gpu", f'kind: "{escape}"')},
            ):
                for path in ("runs", "preview"):
                    answer = await client.post(f"/api/simulation/{path}", json=body)
                    assert (answer.status_code, answer.json()["error"]["fields"][0]["field"]) == (
                        422,
                        "platform_yaml",
                    )
        status = (await client.get("/api/status")).json()
        assert (status["run_id"], status["state"]) == (run, "running")
    async with opened_server(tmp_path, monkeypatch, start=True, **settings) as (client, _):
        assert (await client.get("/api/status")).json()["run_id"] == run
    assert all(finding.ok for finding in verify(address))


def poison(address, column, change):
    """Change a JSON column of the newest run, as an earlier version or another program may have stored it."""

    def update(connection):
        run_id, text = connection.exec_driver_sql(f"SELECT run_id, {column} FROM runs ORDER BY run_id DESC").first()
        text = text if isinstance(text, str) else json.dumps(text)
        connection.exec_driver_sql(f"UPDATE runs SET {column} = '{change(text)}' WHERE run_id = '{run_id}'")
        return run_id

    return with_connection(address, update)


@pytest.mark.parametrize(
    ("column", "change", "readable"),
    [
        ("config", lambda text: text.replace("gpu_0", r"g\u0000pu"), False),
        ("config", lambda text: text.replace("gpu_0", r"g\ud800pu"), False),
        ("config", lambda _: '{"platform": 3}', True),
        ("devices", lambda _: "7", True),
        ("schedulers", lambda _: "null", True),
        ("state", lambda text: text[: len(text) // 2], False),
        ("state", lambda _: '{"lanes": 4}', True),
    ],
)
async def test_run_that_cannot_be_resumed_is_set_aside(storage, tmp_path, monkeypatch, column, change, readable):
    settings, address = storage
    async with opened_server(tmp_path, monkeypatch, start=True, **settings) as (client, _):
        await stored_run(client)
    poisoned = poison(address, column, change)
    if column != "devices":
        assert [finding.ok for finding in verify(address) if finding.name == "runs"] == [readable]
    for _ in range(2):
        async with opened_server(tmp_path, monkeypatch, start=True, **settings) as (client, _):
            status = (await client.get("/api/status")).json()
            assert status["state"] == "running"
            while (await stored_run(client)) != status["run_id"]:
                await asyncio.sleep(0.05)
            runs = {run["run_id"]: run["status"] for run in (await client.get("/api/runs")).json()["runs"]}
            assert runs[poisoned] == "stopped"
            events = (await client.get("/api/events", params={"limit": 1000})).json()["events"]
            assert any(event.get("message", "").startswith("not resumed: ") for event in events)
    assert [finding.ok for finding in verify(address) if finding.name == "runs"] == [True]


def test_door_of_the_journal_finds_poison_in_every_text(tmp_path):
    config = LiveConfig(schedulers=("greedy",))
    record = config.new_record("01J00000000000000000000001", 0.0, "running")
    journal = SqlJournal(DatabaseAddress.sqlite(tmp_path / "a.db"))
    sound = Batch(record, {"lanes": {"a": ["b"]}}, Counters(), ("cpu", "gpu"))
    journal.check(sound)
    for bad in ("a\0b", "a\ud800b"):
        for batch in (
            replace(sound, state={"lanes": [{bad: 1}]}),
            replace(sound, device_names=("cpu", bad)),
            replace(sound, run=replace(record, config={"deep": [[bad]]})),
            replace(sound, run=replace(record, scenario=bad)),
            replace(sound, run=replace(record, schedulers=(bad,))),
        ):
            with pytest.raises(InvalidInputError, match="text without NUL"):
                journal.check(batch)


def test_escaped_backslashes_are_no_poison():
    for text in ("\\u0000", "\\\\u0000", "a\\\\", "\u2028"):
        assert is_plain_json(json_text([text]))
        assert storable({text: [text]}) == {text: [text]}
        assert unstorable_text([text]) is None
    assert not is_plain_json(json.dumps(["\\\0"]))
    assert storable({"a\0": ["\ud800"]}) == {"a\ufffd": ["?"]}
