"""Messages and rows in the form of the original documents."""

import json

import pytest
from fakes import OTHER_RUN, RUN, fake_context
from live_server import serving
from published import ResultRow
from test_contract import fits
from websockets.asyncio.client import connect as connected
from websockets.exceptions import InvalidStatus

from hybrid_scheduler.server.published_stream import PublishedFormat
from hybrid_scheduler.storage.batch_rows import EventPayload

TASK = {
    "task_id": 123, "size": 960.0, "compute_intensity": 0.75, "memory_required": 81.0, "arrival_time": 2.5,
}  # fmt: skip
RESULT = {"hybrid_ml": {"time": 0.45, "latency": 0.5, "energy": 22.5, "cost": 0.0009}}


def update(seq: int, task: dict[str, float] | None = None, run_id: str = RUN) -> EventPayload:
    row = {"name": "hybrid_ml", "tasks": 7, "mean_time": 0.48, "mean_latency": 0.5}
    about = {"type": "simulation_update", "seq": seq, "run_id": run_id, "task": task, "comparison": [row]}
    return EventPayload(seq, json.dumps({**about, "latest_results": {} if task is None else RESULT}).encode())


async def test_published_stream_has_the_documented_fields_and_never_a_null_task(tmp_path):
    context = fake_context(tmp_path)
    with serving(context) as live:
        async with connected(f"{live.ws}?format=published") as published, connected(live.ws) as plain:
            for socket in (published, plain):
                assert json.loads(await socket.recv())["type"] == "hello"
            log = EventPayload(2, b'{"type": "log", "seq": 2, "message": "no simulation_update"}')
            sent = [update(1), log, update(3, TASK), update(4)]
            live.call(context.hub.publish, sent)
            assert [await plain.recv() for _ in sent] == [payload.content.decode() for payload in sent]
            text, with_task, without_task = [json.loads(await published.recv()) for _ in range(3)]
    assert text == json.loads(log.content)
    assert with_task["task"] == {"id": 123, "size": 960.0, "intensity": 0.75, "memory": 81.0}
    assert with_task["comparison"] == [{"name": "hybrid_ml", "tasks": 7, "avg_time": 0.48, "avg_latency": 0.5}]
    assert with_task["latest_results"] == RESULT
    assert without_task == {**with_task, "seq": 4}


@pytest.mark.parametrize("query", ["format=xml", "format=published&format=xml"])
async def test_unknown_format_of_the_stream_is_refused_before_the_upgrade(tmp_path, query):
    with serving(fake_context(tmp_path)) as live:
        with pytest.raises(InvalidStatus) as refused:
            await connected(f"{live.ws}?{query}")
        assert refused.value.response.status_code == 422
        (field,) = json.loads(refused.value.response.body)["error"]["fields"]
        assert (field["field"], field["allowed"]) == ("query.format", "published, or left out")


async def test_comparative_list_has_every_result_of_the_newest_tasks(client):
    answer = await client.get("/api/history/comparative?format=published&limit=3")
    rows = fits(list[ResultRow], answer.content)
    everything = (await client.get(f"/api/results?run_id={RUN}&limit=1000")).json()["results"]
    assert rows == [row for row in everything if row["task_id"] >= 18]
    assert {row["task_id"] for row in rows} == {18, 19, 20}


async def test_comparative_keeps_its_summary_and_refuses_other_formats(client):
    assert set((await client.get("/api/history/comparative?limit=3")).json()) >= {"schedulers", "wins"}
    assert (await client.get("/api/history/comparative?format=list")).status_code == 422


def test_update_of_another_run_never_has_the_task_of_the_run_before():
    form = PublishedFormat()
    assert form.convert(update(1, TASK).content) is not None
    assert form.convert(update(2).content) is not None
    assert form.convert(update(3, run_id=OTHER_RUN).content) is None
    assert form.convert(update(4, TASK, OTHER_RUN).content) is not None
