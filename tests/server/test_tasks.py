"""A task is made once, however often it is sent."""

import asyncio

from hybrid_scheduler.server.errors import ApiError

TASK = {"size": 1200.0, "compute_intensity": 0.5, "memory_required": 96.0, "external_id": "mine"}


async def test_task_sent_twice_with_a_key_is_stored_once(client, context):
    first = await client.post("/api/tasks", json=TASK, headers={"Idempotency-Key": "k1"})
    again = await client.post("/api/tasks", json=TASK, headers={"Idempotency-Key": "k1"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert "idempotent-replay" not in first.headers
    assert again.headers["idempotent-replay"] == "true"
    assert len(context.repository.tasks_by_id) == 21


async def test_the_same_key_for_another_task_is_refused(client, context):
    await client.post("/api/tasks", json=TASK, headers={"Idempotency-Key": "k1"})
    answer = await client.post("/api/tasks", json={**TASK, "size": 1.0}, headers={"Idempotency-Key": "k1"})
    assert answer.status_code == 422
    assert answer.json()["error"]["fields"][0]["field"] == "header.Idempotency-Key"
    assert len(context.repository.tasks_by_id) == 21


async def test_equal_bodies_written_differently_are_equal(client):
    await client.post("/api/tasks", json={**TASK, "size": 1200}, headers={"Idempotency-Key": "k1"})
    shuffled = dict(reversed({**TASK, "size": 1200.0, "kind": "generic"}.items()))
    answer = await client.post("/api/tasks", json=shuffled, headers={"Idempotency-Key": "k1"})
    assert answer.headers["idempotent-replay"] == "true"


async def test_concurrent_requests_with_one_key_create_one_task(client, context):
    answers = await asyncio.gather(
        *(client.post("/api/tasks", json=TASK, headers={"Idempotency-Key": "k1"}) for _ in range(8))
    )
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["task_id"] for answer in answers}) == 1
    assert len(context.repository.tasks_by_id) == 21
    assert not context.state._key_locks


async def test_without_a_key_every_post_is_a_task(client, context):
    answers = [await client.post("/api/tasks", json=TASK) for _ in range(3)]
    assert len({answer.json()["task_id"] for answer in answers}) == 3
    page = (await client.get("/api/tasks?external_id=mine")).json()
    assert len(page["tasks"]) == 3


async def test_malformed_keys_are_422(client):
    for key in ("", "a b", "x" * 129, "k\u00e9y".encode("latin-1")):
        answer = await client.post("/api/tasks", json=TASK, headers={"Idempotency-Key": key})
        assert answer.status_code == 422


async def test_replay_of_a_deleted_task_is_409(client):
    await client.post("/api/tasks", json=TASK, headers={"Idempotency-Key": "k1"})
    await client.delete("/api/history")
    assert (await client.post("/api/tasks", json=TASK, headers={"Idempotency-Key": "k1"})).status_code == 409


async def test_indivisible_task_is_handed_on_and_answered(client, context):
    plain = {key: TASK[key] for key in ("size", "compute_intensity", "memory_required")}
    whole = (await client.post("/api/tasks", json={**plain, "divisible": False})).json()
    assert whole["divisible"] is False
    assert context.control.orders[-1].task.divisible is False
    assert (await client.post("/api/tasks", json=plain)).json()["divisible"] is True
    wrong = await client.post("/api/tasks", json={**plain, "divisible": "no"})
    assert wrong.status_code == 422
    assert wrong.json()["error"]["fields"][0]["field"] == "divisible"


async def test_number_of_the_client_is_kept_as_external_id(client):
    plain = {"size": 1200.0, "compute_intensity": 0.5, "memory_required": 96.0}
    numbered = (await client.post("/api/tasks", json={**plain, "task_id": 7})).json()
    assert numbered["external_id"] == "7"
    both = (await client.post("/api/tasks", json={**plain, "task_id": 7, "external_id": "mine"})).json()
    assert both["external_id"] == "mine"
    refused = await client.post("/api/tasks", json={**plain, "task_id": -1})
    assert refused.status_code == 422
    assert refused.json()["error"]["fields"][0]["field"].endswith("task_id")


async def test_task_has_the_values_by_which_learners_placed_it(client, context):
    explanation = (await client.get("/api/tasks/1")).json()["explanations"]["hybrid_ml"]
    assert explanation["policy"] in ("learned_rule", "price_index")
    assert explanation["predictions"][0]["devices"] == ["cpu"]


async def test_task_is_served_without_explanations_while_no_engine_runs(client, context, monkeypatch):
    async def unavailable(task_id):
        raise ApiError(503, "the engine is not running")

    monkeypatch.setattr(context.control, "explanations", unavailable)
    answer = await client.get("/api/tasks/1")
    assert (answer.status_code, answer.json()["explanations"]) == (200, {})


async def test_task_is_served_without_explanations_if_the_engine_does_not_answer(client, context, monkeypatch):
    async def never(task_id):
        await asyncio.Event().wait()

    monkeypatch.setattr(context.control, "explanations", never)
    monkeypatch.setattr("hybrid_scheduler.server.routes.tasks.EXPLANATION_TIMEOUT_S", 0.01)
    async with asyncio.timeout(30):
        answer = await client.get("/api/tasks/1")
    assert (answer.status_code, answer.json()["explanations"]) == (200, {})
