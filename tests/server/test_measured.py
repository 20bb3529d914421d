"""Measured runs over HTTP: kept whole, or refused with the field that is wrong."""

import asyncio
import copy
import json
import sqlite3
from typing import Any

import published as schemas
import pytest
from fakes import OTHER_RUN, RUN, client_of, documented_example, fake_context
from measured_examples import measured_run
from services import database_url, postgres_url  # noqa: F401
from test_backends import server, settings_of
from test_contract import fits

from hybrid_scheduler.live import JournalUnavailable, measured_to_json
from hybrid_scheduler.live.commands import StoreMeasured, command_from_json
from hybrid_scheduler.server.app import create_app
from hybrid_scheduler.server.engine_control import RemoteEngineControl
from hybrid_scheduler.storage import DatabaseAddress
from hybrid_scheduler.storage.engine_commands import CommandReply
from hybrid_scheduler.storage.integrity_check import verify

BODY = measured_to_json(measured_run(6))


async def test_measured_run_is_acknowledged_with_its_id(client, context):
    answer = await client.post("/api/runs", json=BODY)
    assert answer.status_code == 201
    fits(schemas.RunStored, answer.content)
    assert answer.json() == {"run_id": OTHER_RUN, "tasks": 6, "schedulers": ["greedy", "cpu_only"]}
    run = context.control.orders[-1].run
    assert measured_to_json(run) == BODY


NAME = "01JCQ4W3E8Z0V6M8T1S9Y5K2RD"


async def test_run_that_is_sent_twice_is_stored_once(client, context):
    named = {**BODY, "run_id": NAME}
    first = await client.post("/api/runs", json=named)
    assert (first.status_code, first.headers.get("Idempotent-Replay")) == (201, None)
    assert context.control.orders[-1].run.run_id == NAME
    stored = {**await context.repository.run(RUN), "run_id": NAME, "source": "measured", "created_at": 1000.0}
    context.repository.run = lambda run_id: asyncio.sleep(0, stored)
    count = len(context.control.orders)
    again = await client.post("/api/runs", json=named)
    assert (again.status_code, again.headers["Idempotent-Replay"]) == (201, "true")
    assert again.json() == {"run_id": NAME, "tasks": 6, "schedulers": ["greedy", "cpu_only"]}
    assert len(context.control.orders) == count


@pytest.mark.parametrize("name", [RUN, OTHER_RUN])
async def test_id_of_another_run_is_409(client, context, name):
    answer = await client.post("/api/runs", json={**BODY, "run_id": name})
    assert answer.status_code == 409
    assert name in answer.json()["error"]["message"]
    assert context.control.orders == []


async def test_example_of_the_documentation_is_accepted(client):
    example = documented_example(schemas.MeasuredRunCreate)
    assert (await client.post("/api/runs", json=example)).status_code == 201


def changed(*path, value):
    body = copy.deepcopy(BODY)
    place = body
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return body


def without(name):
    return {key: value for key, value in BODY.items() if key != name}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (without("tasks"), "tasks"),
        ({**BODY, "extra": 1}, "extra"),
        (changed("run_id", value="mine"), "run_id"),
        (changed("seed", value=-1), "seed"),
        (changed("seed", value="7"), "seed"),
        (changed("scenario", value="a\0b"), "scenario"),
        (changed("ended_at", value=1.0), "ended_at"),
        (changed("config", value={"a": "\0"}), "config"),
        (changed("config", value={"a": "x" * 70_000}), "config"),
        (changed("platform", "devices", value=[]), "platform.devices"),
        (changed("platform", "devices", 0, "kind", value="threads"), "platform.devices"),
        (changed("tasks", "size", 2, value=-1.0), "size"),
        (changed("tasks", "size", value=[1.0]), "tasks.compute_intensity"),
        (changed("tasks", "arrival_time", 3, value=None), "tasks.arrival_time.3"),
        (changed("tasks", "kind", 0, value="no kind!"), "tasks.kind.0"),
        (changed("results", value={}), "results"),
        (changed("results", "Bad Name", value=BODY["results"]["greedy"]), "results.Bad Name.[key]"),
        (changed("results", "greedy", "device", 1, value="gpu_9"), "results.greedy.device"),
        (changed("results", "greedy", "status", 1, value="fine"), "results.greedy.status.1"),
        (changed("results", "greedy", "latency", 1, value=0.0), "results.greedy.latency.1"),
        (changed("results", "greedy", "gpu_fraction", 1, value=7.0), "results.greedy.gpu_fraction.1"),
        (changed("results", "greedy", "cpu_time", value=[0.0] * 5), "results.greedy.cpu_time"),
    ],
)
async def test_error_names_the_invalid_field(client, context, body, field):
    answer = await client.post("/api/runs", json=body)
    assert answer.status_code == 422
    fits(schemas.ErrorBody, answer.content)
    assert answer.json()["error"]["fields"][0]["field"] == field
    assert context.control.orders == []


async def test_nan_in_a_measured_run_is_refused(client):
    text = '{"created_at": NaN}'
    answer = await client.post("/api/runs", content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422


async def test_unavailable_database_is_503(client, context):
    context.repository.outage = JournalUnavailable("unavailable")
    answer = await client.post("/api/runs", json=BODY)
    assert answer.status_code == 503
    assert "Retry-After" in answer.headers


async def test_a_run_may_be_larger_than_other_bodies_but_not_endless(tmp_path):
    context = fake_context(tmp_path, body_limit=100, run_limit=20_000)
    async with client_of(create_app(context)) as client:
        assert (await client.post("/api/runs", json=BODY)).status_code == 201
        large = measured_to_json(measured_run(200))
        assert (await client.post("/api/runs", json=large)).status_code == 413
        assert (await client.post("/api/simulation/speed", json={"speed": 2.0, "x": "x" * 99})).status_code == 413


async def test_storing_a_run_needs_the_token_and_counts_as_a_write(tmp_path):
    context = fake_context(tmp_path, token="t" * 32, write_rate_limit="2/minute")
    async with client_of(create_app(context)) as client:
        assert (await client.post("/api/runs", json=BODY)).status_code == 401  # counts, too
        known = {"Authorization": f"Bearer {'t' * 32}"}
        assert (await client.post("/api/runs", json=BODY, headers=known)).status_code == 201
        assert (await client.post("/api/runs", json=BODY, headers=known)).status_code == 429


# ------------------------------------------------------------------------------------------ whole servers


class DirectQueue:
    """Commands arrive as they would through the table: as JSON."""

    def __init__(self, control):
        self.control = control

    async def send_command(self, kind, payload=None, timeout=10.0):
        return CommandReply(True, await self.control.run(command_from_json(kind, payload or {})))


async def test_api_process_sends_a_measured_run_to_the_engine(context):
    control = RemoteEngineControl(DirectQueue(context.control), context.repository)
    assert await control.run(StoreMeasured(measured_run(6))) == OTHER_RUN
    assert measured_to_json(context.control.orders[-1].run) == BODY


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_measured_run_can_be_read_through_every_route(kind, request, tmp_path, monkeypatch):
    (tmp_path / "config.yaml").write_text("")
    settings = settings_of(kind, request, tmp_path, **{"live.speed": "50", "live.update_interval": "0.1"})
    async with server(settings, tmp_path, monkeypatch, start=True) as (client, _):

        async def tasks():
            return (await client.get("/api/status")).json()["tasks_processed"]

        async def until_more_than(count):
            async with asyncio.timeout(60):
                while await tasks() <= count:
                    await asyncio.sleep(0.02)

        await until_more_than(20)
        run = (await client.post("/api/runs", json=BODY)).json()["run_id"]
        await until_more_than(await tasks() + 20)
        detail = (await client.get(f"/api/runs/{run}")).content
        found = fits(schemas.RunDetail, detail)
        assert (found["source"], found["status"], found["tasks"], found["load"]) == (
            "measured",
            "stopped",
            6,
            None,
        )
        assert [row["name"] for row in found["comparison"]] == ["greedy", "cpu_only"]
        assert (found["comparison"][0]["failed"], found["comparison"][0]["mean_energy"]) == (1, None)
        assert found["comparison"][0]["p95_latency"] is not None
        history = (await client.get(f"/api/full_history?run_id={run}")).json()
        for name, columns in BODY["results"].items():
            for column, values in columns.items():
                assert [task["results"][name][column] for task in history] == values
        gantt = fits(schemas.Gantt, (await client.get(f"/api/runs/{run}/gantt?scheduler=greedy")).content)
        assert set(gantt["device"]) == {"cpu_wide", "cpu_narrow"}
        trace = (await client.get(f"/api/export/trace.json?run_id={run}&scheduler=greedy")).json()
        threads = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
        assert threads == {"cpu_wide", "cpu_narrow"}
        status = (await client.get("/api/status")).json()
        assert (status["state"], status["source"]) == ("running", "simulated")
        diff = (await client.get(f"/api/diff?a={run}&b={status['run_id']}")).json()
        assert diff["changed"]["source"] == ["measured", "simulated"]
        assert [row["name"] for row in diff["schedulers"]] == ["greedy"]
        again = (await client.post("/api/runs", json=BODY)).json()["run_id"]
        same = (await client.get(f"/api/diff?a={run}&b={again}")).json()
        assert {row["mean_latency"]["difference"] for row in same["schedulers"]} == {0.0}
        assert same["changed"] == {}


EXTREME = (1e308, 1e16, 5e-324)


def nested(depth):
    value: dict[str, Any] = {}
    inside = value
    for _ in range(depth - 1):
        inside["a"] = {}
        inside = inside["a"]
    return value


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (nested(254), "config.a.a.a"),
        (nested(65), "config.a.a.a"),
        ({"n": 10**400}, "config.n"),
        ({"n": [2**63]}, "config.n.0"),
        ({"n": -(2**63) - 1}, "config.n"),
    ],
)
async def test_config_that_no_response_can_contain_is_422(client, context, config, field):
    answer = await client.post("/api/runs", json={**BODY, "config": config})
    assert answer.status_code == 422
    assert answer.json()["error"]["fields"][0]["field"] == field
    assert context.control.orders == []


async def test_depth_and_integers_are_limited_on_every_route(client):
    for path in ("/api/tasks", "/api/whatif", "/api/simulation/start", "/api/simulation/speed"):
        for value in (nested(70), 2**64, [[10**30]]):
            answer = await client.post(path, json={"size": value})
            assert answer.status_code == 422
            assert answer.json()["error"]["fields"][0]["field"].startswith("size")


async def test_plain_config_is_stored(client):
    config = {"deep": nested(60), "n": 2**63 - 1, "small": -(2**63), "text": "x" * 1000}
    assert (await client.post("/api/runs", json={**BODY, "config": config})).status_code == 201


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *((column, value) for column in ("gpu_time", "cpu_time", "actual_time", "latency") for value in EXTREME),
        ("energy_consumption", 1e308),
        ("energy_consumption", 1e16),
    ],
)
async def test_magnitude_that_no_arithmetic_holds_is_422(client, column, value):
    body = copy.deepcopy(BODY)
    body["results"]["greedy"][column][2] = value
    answer = await client.post("/api/runs", json=body)
    assert answer.status_code == 422
    assert answer.json()["error"]["fields"][0]["field"] == f"results.greedy.{column}.2"


async def test_a_column_is_refused_by_its_first_wrong_value(client):
    body = copy.deepcopy(BODY)
    body["results"]["greedy"]["gpu_time"] = ["x"] * 20_000
    answer = await client.post("/api/runs", json=body)
    assert [field["field"] for field in answer.json()["error"]["fields"]] == ["results.greedy.gpu_time.0"]


@pytest.mark.parametrize(
    ("body", "field", "allowed"),
    [
        ({**BODY, "results": {f"s{number}": {} for number in range(19_000)}}, "results", "results of at most"),
        (dict.fromkeys(map(str, range(20_001)), 0), "body", "at most 20,000 names"),
    ],
)
async def test_thousands_of_entries_are_refused_by_one_error(client, body, field, allowed):
    answer = await client.post("/api/runs", json=body)
    assert answer.status_code == 422
    (problem,) = answer.json()["error"]["fields"]
    assert problem["field"] == field
    assert problem["allowed"].startswith(allowed)


async def test_part_longer_than_its_task_is_422(client):
    body = copy.deepcopy(BODY)
    body["results"]["greedy"]["gpu_time"][2] = 1.0
    answer = await client.post("/api/runs", json=body)
    assert answer.json()["error"]["fields"][0] == {
        "field": "results.greedy.gpu_time.2", "allowed": "at most actual_time", "got": "1.0",
    }  # fmt: skip


@pytest.mark.parametrize("text", ['{"a":' * 300 + "1" + "}" * 300, '{"n":' + "9" * 401 + "}"])
async def test_stored_row_that_cannot_be_shown_breaks_no_list(tmp_path, monkeypatch, request, text):
    (tmp_path / "config.yaml").write_text("")
    async with server(settings_of("sqlite", request, tmp_path), tmp_path, monkeypatch) as (client, _):
        run_id = (await client.post("/api/runs", json=BODY)).json()["run_id"]
        with sqlite3.connect(tmp_path / "live.db") as database:
            database.execute("UPDATE runs SET config = ? WHERE run_id = ?", (text, run_id))
        for path in (
            "/api/runs",
            f"/api/runs/{run_id}",
            f"/api/diff?a={run_id}&b={run_id}",
            f"/api/runs/{run_id}/gantt?scheduler=greedy",
            f"/api/export/trace.json?run_id={run_id}",
        ):
            answer = await client.get(path)
            assert answer.status_code == 200, path
            json.loads(answer.content, parse_constant=pytest.fail)
        assert (await client.get(f"/api/runs/{run_id}")).json()["config"] == {"unreadable": True}
    findings = verify(DatabaseAddress.from_url(f"sqlite:///{tmp_path}/live.db"))
    wrong = [finding for finding in findings if not finding.ok]
    assert [finding.name for finding in wrong] == ["runs"]
    assert run_id in wrong[0].detail
