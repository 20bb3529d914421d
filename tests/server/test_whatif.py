"""What-if over HTTP: the numbers of the function, two at a time, politely."""

import asyncio
import threading

import pytest

from hybrid_scheduler.experiments.what_if import Change, what_if
from hybrid_scheduler.server import wondering

QUESTION = {"num_gpus": 2, "utilisation": 0.3, "schedulers": ["greedy", "oracle"], "tasks": 60, "seeds": 3}


async def test_the_answer_is_that_of_the_function(client):
    body = (await client.post("/api/whatif", json=QUESTION)).json()
    rows = what_if(Change(num_gpus=2, utilisation=0.3), schedulers=("greedy", "oracle"), tasks=60, seeds=3)
    assert body["schedulers"] == [row.as_dict() for row in rows]
    assert (body["scenario"], body["tasks"], body["seeds"]) == ("default", 60, 3)


@pytest.mark.parametrize(
    "change",
    [
        {"num_gpus": 0}, {"num_gpus": 17}, {"gpu_speed": 0.1}, {"gpu_speed": 9}, {"bandwidth": 1},
        {"utilisation": 2}, {"energy_weight": -1}, {"schedulers": []}, {"schedulers": ["nobody"]}, {"tasks": 10**6},
        {"seeds": 1}, {"scenario": "nowhere"}, {"schedulers": ["hybrid_ml(model=/etc/passwd)"]}, {"num_gpus": 2.5},
    ],
)  # fmt: skip
async def test_bounds(client, change):
    assert (await client.post("/api/whatif", json={**QUESTION, **change})).status_code == 422


async def test_the_third_is_asked_to_come_back(client, monkeypatch):
    began, go_on = threading.Semaphore(0), threading.Event()

    def slow(*arguments, **named):
        began.release()
        assert go_on.wait(30)
        return []

    monkeypatch.setattr(wondering, "what_if", slow)
    monkeypatch.setattr(wondering, "_PATIENCE", 0.05)
    first = [asyncio.create_task(client.post("/api/whatif", json=QUESTION)) for _ in range(2)]
    for _ in first:
        await asyncio.to_thread(began.acquire)
    third = await client.post("/api/whatif", json=QUESTION)
    assert third.status_code == 503
    assert int(third.headers["retry-after"]) >= 1
    go_on.set()
    assert [answer.status_code for answer in await asyncio.gather(*first)] == [200, 200]
    assert (await client.post("/api/whatif", json=QUESTION)).status_code == 200
