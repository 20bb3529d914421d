"""Every route answers in the shape that the OpenAPI document promises."""

import json

import published as schemas
import pytest
from fakes import OTHER_RUN, RUN, documented_example
from pydantic import TypeAdapter

from hybrid_scheduler.live import JournalUnavailable
from hybrid_scheduler.live.commands import DeleteRun, Retrain, SetSpeed

TASK = {"size": 1200.0, "compute_intensity": 0.5, "memory_required": 96.0}
#: The report of the documentation.
PROGRAM = documented_example(schemas.ProgramReport)
READS = [
    ("/api/health", schemas.Health),
    ("/api/health/live", schemas.Alive),
    ("/api/health/ready", schemas.Alive),
    ("/api/simulation/status", schemas.LiveStatus),
    ("/api/status", schemas.LiveStatus),
    ("/api/history/deletion", schemas.Deleted),
    ("/api/full_history", list[schemas.TaskDetail]),
    ("/api/full_history?limit=3", list[schemas.TaskDetail]),
    ("/api/full_history?limit=all", list[schemas.TaskDetail]),
    ("/api/history/comparative?limit=10", schemas.Comparative),
    ("/api/history/trends?buckets=5", schemas.Trends),
    ("/api/statistics", schemas.Statistics),
    ("/api/tasks?limit=5", schemas.TaskPage),
    ("/api/tasks/1", schemas.ExplainedTask),
    ("/api/results?limit=5&scheduler=greedy", schemas.ResultPage),
    ("/api/runs", schemas.RunPage),
    ("/api/programs?limit=5", schemas.ProgramList),
    (f"/api/runs/{RUN}", schemas.RunDetail),
    (f"/api/runs/{RUN}/gantt?scheduler=greedy&limit=5", schemas.Gantt),
    (f"/api/history/load?run_id={RUN}&scheduler=greedy&last=14&ahead=2", schemas.DeviceLoadResponse),
    (f"/api/history/load?run_id={RUN}&start=0&end=2&columns=2", schemas.DeviceLoadResponse),
    (f"/api/gantt/diff?a={RUN}&scheduler=greedy&other=oracle&limit=5", schemas.GanttDiff),
    (f"/api/diff?a={RUN}&b={OTHER_RUN}", schemas.RunDiff),
    (f"/api/runs/{RUN}/learning?scheduler=hybrid_ml", schemas.LearningCurve),
    ("/api/sweeps", schemas.SweepList),
    ("/api/events?after=2&limit=2", schemas.EventPage),
    ("/api/schedulers", list[schemas.SchedulerResponse]),
    ("/api/scenarios", list[schemas.ScenarioInfo]),
    ("/api/models", list[schemas.Model]),
    ("/api/traces", schemas.TraceList),
    ("/", schemas.OnlineResponse),
]
ORDERS = [
    ("/api/simulation/start", None, schemas.LiveStatus),
    ("/api/simulation/start", {}, schemas.LiveStatus),
    ("/api/simulation/start", {"scenario": "mixed", "seed": 1, "schedulers": ["greedy"]}, schemas.LiveStatus),
    ("/api/simulation/start", {"trace": "week", "repeat": True, "load": 0.5}, schemas.LiveStatus),
    ("/api/simulation/stop", None, schemas.LiveStatus),
    ("/api/simulation/pause", None, schemas.LiveStatus),
    ("/api/simulation/resume", None, schemas.LiveStatus),
    ("/api/pause", None, schemas.LiveStatus),
    ("/api/resume", None, schemas.LiveStatus),
    ("/api/simulation/speed", {"speed": 4}, schemas.LiveStatus),
    ("/api/simulation/scenario", {"scenario": "bursty"}, schemas.LiveStatus),
    ("/api/tasks", TASK, schemas.TaskDetail),
    ("/api/programs", PROGRAM, schemas.ProgramAccepted),
    ("/api/models/hybrid_ml/retrain", None, schemas.RetrainAccepted),
    ("/api/whatif", {"num_gpus": 2, "tasks": 50, "seeds": 2, "schedulers": ["greedy"]}, schemas.WhatIfResponse),
]


def fits(shape, body: bytes):
    """Exactly the promised fields: nothing missing, nothing more, strict JSON."""
    content = json.loads(body, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    parsed = TypeAdapter(shape).validate_json(body)
    assert TypeAdapter(shape).dump_python(parsed, mode="json", by_alias=True) == content
    return content


@pytest.mark.parametrize(("path", "shape"), READS, ids=[path for path, _ in READS])
async def test_read_routes_match_their_schema(client, path, shape):
    answer = await client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    fits(shape, answer.content)


@pytest.mark.parametrize(("path", "body", "shape"), ORDERS, ids=[f"{path} {body}" for path, body, _ in ORDERS])
async def test_commands_match_their_schema(client, path, body, shape):
    answer = await client.post(path, json=body) if body is not None else await client.post(path)
    assert answer.status_code == {"/api/tasks": 201, "/api/models/hybrid_ml/retrain": 202}.get(path, 200)
    fits(shape, answer.content)


async def test_every_documented_route_is_tested(app):
    templates = {(method, path) for path, ways in app.openapi()["paths"].items() for method in ways}
    from starlette.routing import compile_path

    tested = [("get", path.partition("?")[0]) for path, _ in READS] + [("post", path) for path, _, _ in ORDERS]
    elsewhere = {
        ("delete", "/api/history"),
        ("delete", "/api/runs/{run_id}"),
        ("post", "/api/traces"),
        ("post", "/api/runs"),
        ("get", "/api/metrics"),
        ("get", "/api/runs/{run_id}/evidence"),
        ("get", "/api/runs/{run_id}/report"),
        ("patch", "/api/runs/{run_id}"),
        ("post", "/api/simulation/runs"),
        ("post", "/api/simulation/preview"),
        ("post", "/api/traces/inspect"),
        ("post", "/api/jobs/simulate"),
        ("post", "/api/jobs/forecast"),
        ("get", "/api/jobs/example"),
        ("get", "/api/machines"),
        ("get", "/api/scenarios/previews"),
        ("get", "/api/sweeps/{name}"),
    }
    elsewhere |= {(method, path) for method, path in templates if path.startswith("/api/export/")}
    for method, template in templates - elsewhere:
        pattern = compile_path(template)[0]
        assert any(way == method and pattern.match(path) for way, path in tested), (method, template)


async def test_history_is_oldest_first_and_limited(client):
    rows = (await client.get("/api/full_history?limit=3")).json()
    assert [row["task_id"] for row in rows] == [18, 19, 20]
    everything = (await client.get("/api/full_history?limit=all")).json()
    assert [row["task_id"] for row in everything] == list(range(1, 21))


async def test_pages_of_tasks_cover_everything_once(client):
    seen, before = [], None
    while True:
        query = {"limit": 7} | ({} if before is None else {"before": before})
        page = (await client.get("/api/tasks", params=query)).json()
        seen += [row["task_id"] for row in page["tasks"]]
        before = page["next_before"]
        if before is None:
            break
    assert seen == list(range(20, 0, -1))


async def test_commands_reach_the_engine(client, context):
    await client.post("/api/simulation/start", json={"scenario": "mixed", "schedulers": ["greedy", "oracle"]})
    await client.post("/api/simulation/speed", json={"speed": 2.5})
    await client.post("/api/models/hybrid_ml/retrain")
    start, *others = context.control.orders
    assert (start.options.scenario, start.options.schedulers) == ("mixed", ("greedy", "oracle"))
    assert others == [SetSpeed(2.5), Retrain("hybrid_ml")]


async def test_deleting_history_forgets_cached_answers(client):
    assert (await client.get("/api/statistics")).json()["rows"]["tasks"] == 20
    assert (await client.delete("/api/history")).json() == {"deleted_tasks": 20, "tasks": 20, "done": True}
    assert (await client.get("/api/history/deletion")).json() == {"deleted_tasks": 0, "tasks": 0, "done": True}
    assert (await client.get("/api/statistics")).json()["rows"]["tasks"] == 0
    assert (await client.get("/api/full_history?limit=all")).json() == []


async def test_run_that_has_ended_is_deleted(client, context):
    response = await client.delete(f"/api/runs/{OTHER_RUN}")
    assert (response.status_code, response.json()) == (200, {"deleted_tasks": 7, "tasks": 7, "done": True})
    assert context.control.orders == [DeleteRun(OTHER_RUN)]
    context.control.slow_deletion = True
    response = await client.delete(f"/api/runs/{OTHER_RUN}")
    assert (response.status_code, response.json()["done"]) == (202, False)


async def test_run_that_has_not_ended_or_is_unknown_is_not_deleted(client, context):
    for state in ("running", "paused"):
        context.control.state = state
        response = await client.delete(f"/api/runs/{RUN}")
        assert (response.status_code, response.json()["error"]["hint"]) == (409, "stop it first")
    assert (await client.delete(f"/api/runs/{RUN[:-3]}ZZZ")).status_code == 404
    assert (await client.delete("/api/runs/nonsense")).status_code == 422
    context.repository.outage = JournalUnavailable("unavailable")
    assert (await client.delete(f"/api/runs/{OTHER_RUN}")).status_code == 503
    assert context.control.orders == []


async def test_events_are_the_messages_themselves(client, context):
    page = await client.get("/api/events?after=3")
    assert b",".join(context.repository.payloads[3:]) in page.content
    assert page.json()["last_seq"] == 5
    assert (await client.get("/api/events?limit=2")).json()["truncated"] is True
    assert (await client.get("/api/events?type=log")).json()["events"] == []


async def test_diff_shows_differences_and_changed_settings(client):
    body = (await client.get(f"/api/diff?a={RUN}&b={OTHER_RUN}")).json()
    assert body["changed"] == {"scenario": ["default", "mixed"]}
    latency = body["schedulers"][0]["mean_latency"]
    rows = [next(row for row in body[run]["comparison"] if row["name"] == "greedy") for run in "ab"]
    assert latency["a"] == rows[0]["mean_latency"]
    assert latency["difference"] == rows[1]["mean_latency"] - rows[0]["mean_latency"]
    # The live run's comparison is the engine's, the other's comes from its checkpoint.
    assert rows[0]["mean_latency"] == 0.03
    assert rows[1]["mean_latency"] == pytest.approx(0.03)


@pytest.mark.parametrize(
    "path",
    ["/api/tasks/999", f"/api/runs/{RUN[:-1]}Z", f"/api/diff?a={RUN}&b={RUN[:-1]}Z", "/api/nothing", "/nothing"],
)
async def test_unknown_things_are_404(client, path):
    answer = await client.get(path)
    assert answer.status_code == 404
    assert fits(schemas.ErrorBody, answer.content)["error"]["code"] == "not_found"


async def test_unknown_learner_is_404_and_unknown_scenario_422(client):
    assert (await client.post("/api/models/greedy/retrain")).status_code == 404
    answer = await client.post("/api/simulation/scenario", json={"scenario": "mixd"})
    assert answer.status_code == 422
    assert answer.json()["error"]["hint"] == "did you mean 'mixed'?"


async def test_wrong_method_is_405_with_allow_header(client):
    answer = await client.delete("/api/status")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET"
    assert (await client.delete("/api/tasks")).headers["allow"] == "GET, POST"
    assert (await client.post("/compare")).headers["allow"] == "GET"
    fits(schemas.ErrorBody, answer.content)
