"""What-if over HTTP: the numbers of the function, and the limits of its queue."""

import asyncio
import os
import threading
import time
from concurrent.futures import BrokenExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest
from fakes import RUN, client_of

from hybrid_scheduler.cluster import Machine
from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.experiments.exact_replay import replay, unpack_evidence
from hybrid_scheduler.experiments.what_if import WhatIfChange, what_if
from hybrid_scheduler.live import LiveConfig
from hybrid_scheduler.server import whatif_worker
from hybrid_scheduler.server.app import create_app
from hybrid_scheduler.server.routes import whatif
from hybrid_scheduler.server.whatif_worker import (
    EvidenceJob,
    WhatIfJob,
    WhatIfWorker,
    compute,
    compute_evidence,
)
from hybrid_scheduler.workload import generate

REQUEST = {"num_gpus": 2, "load": 0.3, "schedulers": ["greedy", "oracle"], "tasks": 60, "seeds": 3}


async def test_response_equals_the_function(client):
    body = (await client.post("/api/whatif", json=REQUEST)).json()
    rows = what_if(WhatIfChange(num_gpus=2, utilisation=0.3), schedulers=("greedy", "oracle"), tasks=60, seeds=3)
    assert body["schedulers"] == [row.as_dict() for row in rows]
    assert (body["scenario"], body["tasks"], body["seeds"]) == ("default", 60, 3)


@pytest.mark.parametrize(
    "change",
    [
        {"num_gpus": 0}, {"num_gpus": 17}, {"gpu_speed": 0.1}, {"gpu_speed": 9}, {"bandwidth": 1},
        {"load": 2}, {"utilisation": 2}, {"load": 0.3, "utilisation": 0.3}, {"energy_weight": -1},
        {"schedulers": []}, {"schedulers": ["unknown"]}, {"tasks": 10**6},
        {"seeds": 1}, {"scenario": "nowhere"}, {"schedulers": ["hybrid_ml(model=/etc/passwd)"]}, {"num_gpus": 2.5},
    ],
)  # fmt: skip
async def test_values_out_of_bounds_are_422(client, change):
    assert (await client.post("/api/whatif", json={**REQUEST, **change})).status_code == 422


async def test_fifth_different_request_at_once_is_503(client, context, monkeypatch):
    began, go_on = threading.Semaphore(0), threading.Event()

    def slow(job):
        began.release()
        assert go_on.wait(30)
        return []

    monkeypatch.setattr(context.whatif_worker, "work", slow)
    monkeypatch.setattr(whatif, "QUEUE_TIMEOUT_S", 0.05)
    requests = [{**REQUEST, "num_gpus": gpus} for gpus in range(1, 6)]
    first = [asyncio.create_task(client.post("/api/whatif", json=request)) for request in requests[:4]]
    for _ in first:
        await asyncio.to_thread(began.acquire)
    fifth = await client.post("/api/whatif", json=requests[4])
    assert fifth.status_code == 503
    assert int(fifth.headers["retry-after"]) >= 1
    go_on.set()
    assert [answer.status_code for answer in await asyncio.gather(*first)] == [200] * 4
    assert (await client.post("/api/whatif", json=requests[4])).status_code == 200


async def test_equal_requests_share_one_computation(client, context, monkeypatch):
    """Several pages that are opened at once ask for the same."""
    asked, began, go_on = [], threading.Event(), threading.Event()

    def slow(job):
        asked.append(job)
        began.set()
        assert go_on.wait(30)
        return []

    monkeypatch.setattr(context.whatif_worker, "work", slow)
    pages = [asyncio.create_task(client.post("/api/whatif", json=REQUEST)) for _ in range(12)]
    await asyncio.to_thread(began.wait, 30)
    pages[0].cancel()  # a page that is closed takes nothing from the others
    go_on.set()
    answers = await asyncio.gather(*pages[1:])
    assert {answer.status_code for answer in answers} == {200}
    assert (await client.post("/api/whatif", json=REQUEST)).status_code == 200
    assert len(asked) == 1


async def test_failed_computation_is_not_kept(client, context, monkeypatch):
    results = iter([BrokenExecutor("gone"), []])

    def work(job):
        if isinstance(result := next(results), Exception):
            raise result
        return result

    monkeypatch.setattr(context.whatif_worker, "work", work)
    assert (await client.post("/api/whatif", json=REQUEST)).status_code == 503
    assert (await client.post("/api/whatif", json=REQUEST)).status_code == 200


def _nothing():
    """Instead of loading everything first."""


def _dies_once(job):
    marker = Path(job.scenario)
    if not marker.exists():
        marker.touch()
        os._exit(1)
    return []


def _refuses(job):
    raise InvalidInputError("num_gpus", "left out", job.change.num_gpus, hint="leave it out")


def _job(scenario="default", gpus=2):
    return WhatIfJob(WhatIfChange(num_gpus=gpus), Machine(), None, str(scenario), ("greedy", "oracle"), 60, 3)


async def test_process_worker_returns_equal_results_twice():
    whatif_worker = WhatIfWorker(prepare=_nothing)
    try:
        for gpus in (2, 6):
            assert await whatif_worker.run(_job(gpus=gpus)) == compute(_job(gpus=gpus))
    finally:
        whatif_worker.close()


async def test_dead_worker_is_replaced_and_errors_are_passed_on(tmp_path):
    whatif_worker = WhatIfWorker(_dies_once, _nothing)
    try:
        assert await whatif_worker.run(_job(tmp_path / "died")) == []
    finally:
        whatif_worker.close()
    whatif_worker = WhatIfWorker(_refuses, _nothing)
    try:
        with pytest.raises(InvalidInputError, match="must be left out, got 2") as caught:
            await whatif_worker.run(_job())
        assert (caught.value.field, caught.value.hint) == ("num_gpus", "leave it out")
    finally:
        whatif_worker.close()


def _loads_until(file):
    while not file.exists():
        time.sleep(0.02)


async def test_request_while_the_worker_loads_is_503(context, tmp_path, monkeypatch):
    monkeypatch.setattr(whatif_worker, "PATIENCE_S", 0.0)
    loaded = tmp_path / "loaded"
    worker = WhatIfWorker(_answers_nothing, partial(_loads_until, loaded))
    try:
        async with client_of(create_app(replace(context, whatif_worker=worker))) as client:
            for ask in (client.post("/api/whatif", json=REQUEST), client.get(f"/api/runs/{RUN}/report")):
                answer = await ask
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
                error = answer.json()["error"]
                assert "the what-if worker is loading or compiling its code since " in error["message"]
                assert error["hint"] == "compiling takes up to two minutes, once per installation"
            loaded.touch()
            async with asyncio.timeout(60):
                while (answer := await client.post("/api/whatif", json=REQUEST)).status_code == 503:
                    await asyncio.sleep(0.02)
            assert (answer.status_code, answer.json()["schedulers"]) == (200, [])
    finally:
        worker.close()


async def test_worker_that_never_loads_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(whatif_worker, "PATIENCE_S", 0.0)
    monkeypatch.setattr(whatif_worker, "_LOADING_S", 0.0)
    worker = WhatIfWorker(_answers_nothing, partial(_loads_until, tmp_path / "never"))
    try:
        with pytest.raises(BrokenExecutor):
            await worker.run(_job())
        assert not worker._process.started
    finally:
        worker.close()


def _answers_nothing(job):
    return []


def _never_ends(job):
    threading.Event().wait()


async def test_closing_the_worker_ends_a_running_computation():
    whatif_worker = WhatIfWorker(_never_ends, _nothing)
    asked = asyncio.create_task(whatif_worker.run(_job()))
    await asyncio.sleep(0)  # it is on its way
    whatif_worker.close()
    with pytest.raises((BrokenExecutor, asyncio.CancelledError)):
        await asked
    with pytest.raises(BrokenExecutor):
        await whatif_worker.run(_job())


# ------------------------------------------------------------------------------------------ evidence files


def test_evidence_of_a_stored_run_can_be_replayed(tmp_path):
    config = LiveConfig(schedulers=("greedy", "oracle"))
    rows = [asdict(task) for task in generate(config.scenario, 40, 3)]
    html = compute_evidence(EvidenceJob("01JCQ4W3E8Z0V6M8T1S9Y5K2RB", config.as_dict(), rows))
    (tmp_path / "evidence.html").write_bytes(html)
    record = unpack_evidence(tmp_path / "evidence.html", tmp_path / "run")
    assert record.spec.schedulers == ("greedy", "oracle")
    assert len(record.spec.workload(0)) == 40
    assert replay(tmp_path / "run").same


async def test_evidence_of_an_unknown_or_incomplete_run_is_refused(client):
    assert (await client.get("/api/runs/00000000000000000000000000/evidence")).status_code == 404
    answer = await client.get(f"/api/runs/{RUN}/evidence")  # the fake run has no machine
    assert answer.status_code == 422
    assert "a simulated run with stored tasks" in answer.json()["error"]["message"]


@pytest.mark.parametrize("file", ["evidence", "report", "report?format=pdf"])
async def test_measured_run_has_no_evidence_and_no_report(client, context, file):
    # Its devices are stored under `platform`, and a client may have stored any other setting.
    config = LiveConfig(schedulers=("greedy",)).as_dict()
    measured = {**await context.repository.run(RUN), "source": "measured", "config": config}
    context.repository.run = lambda run_id: asyncio.sleep(0, measured)
    answer = await client.get(f"/api/runs/{RUN}/{file}")
    assert answer.status_code == 422
    (field,) = answer.json()["error"]["fields"]
    assert (field["field"], field["allowed"], field["got"]) == ("run_id", "a simulated run with stored tasks", RUN)


async def test_what_if_needs_a_scenario_while_a_trace_is_played(client, context):
    context.control.scenario = "trace:week"
    request = {key: value for key, value in REQUEST.items() if key != "scenario"}
    answer = await client.post("/api/whatif", json=request)
    assert answer.status_code == 422
    assert answer.json()["error"]["hint"] == "the live run plays a trace: name a scenario"


# ------------------------------------------------------------------------------------------ limits of the worker


def _sleep_on_demand(job):
    if job.tasks == 61:
        time.sleep(600)
    return compute(job)


def _long_job(tasks):
    return WhatIfJob(WhatIfChange(num_gpus=2), Machine(), 0.3, "default", ("greedy",), tasks, 2)


async def test_computation_past_its_limit_is_ended_with_its_process(monkeypatch):
    monkeypatch.setattr(whatif_worker, "_COMPARISON_S", 0.5)
    worker = WhatIfWorker(_sleep_on_demand, prepare=time.time)
    with pytest.raises(BrokenExecutor):
        await worker.run(_long_job(61))
    monkeypatch.setattr(whatif_worker, "_COMPARISON_S", 120.0)
    assert len(await worker.run(_long_job(60))) == 1
    worker.close()


async def test_computation_of_a_client_that_left_ends_at_its_limit(monkeypatch):
    monkeypatch.setattr(whatif_worker, "_COMPARISON_S", 1.0)
    worker = WhatIfWorker(_sleep_on_demand, prepare=time.time)
    abandoned = [asyncio.ensure_future(worker.run(_long_job(61))) for _ in range(3)]
    while not worker._turn.locked():
        await asyncio.sleep(0.01)
    for request in abandoned:
        request.cancel()
    await asyncio.wait(abandoned)
    monkeypatch.setattr(whatif_worker, "_COMPARISON_S", 120.0)
    assert len(await worker.run(_long_job(60))) == 1
    worker.close()


@pytest.mark.parametrize("path", ["report", "evidence"])
async def test_request_of_a_client_that_left_gives_its_place_back(app, context, path):
    began = asyncio.Event()

    async def never(job):
        began.set()
        await asyncio.Event().wait()

    context.whatif_worker.evidence = never
    left = asyncio.Event()
    sent = []

    async def receive():
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": f"/api/runs/{RUN}/{path}", "raw_path": b"", "query_string": b"",
        "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1), "server": ("localhost", 80),
        "scheme": "http", "root_path": "", "http_version": "1.1", "asgi": {"version": "3.0"},
    }  # fmt: skip
    request = asyncio.ensure_future(app(scope, receive, send))
    await began.wait()
    assert context.state.whatif_slots._value == 3
    left.set()
    await request
    assert context.state.whatif_slots._value == 4
    assert sent[0]["status"] == 408
