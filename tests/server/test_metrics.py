"""Metrics: well formed, and no client can make new series."""

import asyncio
import random
import re

from prometheus_client.parser import text_string_to_metric_families


async def test_text_follows_the_rules_of_promtool(client):
    await client.get("/api/status")
    answer = await client.get("/api/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    lines = answer.text.splitlines()
    helps = {line.split()[2] for line in lines if line.startswith("# HELP")}
    types = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE")}
    assert helps == set(types)
    for name, kind in types.items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert name.startswith("hybrid_scheduler_")
        assert (kind == "counter") == name.endswith("_total")
        assert not re.search(r"_(milliseconds|ms|minutes|kilobytes|kb|mb|percent)(_|$)", name)
        assert not name.endswith(("_gauge", "_counter", "_histogram"))
    for family in text_string_to_metric_families(answer.text):
        assert family.documentation.strip()
        assert family.samples or family.type in ("counter", "histogram", "gauge")


def series(text: str) -> set[str]:
    return {line.rpartition(" ")[0] for line in text.splitlines() if line and not line.startswith("#")}


async def test_random_urls_make_few_series(client):
    await client.get("/api/metrics")
    before = series((await client.get("/api/metrics")).text)
    dice = random.Random(1)
    for number in range(2000):
        path = "x" + "".join(dice.choice("abcdef/0123_-") for _ in range(dice.randint(1, 20)))
        await client.get(f"/api/{path}{number}" if number % 2 else f"/{path}{number}")
    new = {
        re.sub(r"_bucket\{.*", "_bucket", each) for each in series((await client.get("/api/metrics")).text) - before
    }
    assert len({each for each in new if "_created" not in each}) <= 5


async def test_unknown_methods_share_one_label(client):
    for method in ("BREW", "FOO", "PROPFIND", "X" * 50):
        await client.request(method, "/api/status")
    text = (await client.get("/api/metrics")).text
    assert 'method="OTHER"' in text
    assert "BREW" not in text


async def test_gauges_follow_status_and_health(client, context):
    await client.get("/api/tasks/1")
    await client.get("/api/tasks/2")
    await client.get("/api/tasks/999")
    text = (await client.get("/api/metrics")).text
    count = 'hybrid_scheduler_http_requests_total{method="GET",route="/api/tasks/{task_id}",status="%d"} %.1f'
    assert count % (200, 2) in text
    assert count % (404, 1) in text
    assert "hybrid_scheduler_run_tasks 20.0" in text
    assert 'hybrid_scheduler_model_version{scheduler="hybrid_ml"} 3.0' in text
    assert 'hybrid_scheduler_database_up{kind="sqlite"} 1.0' in text
    context.repository.outage = ConnectionError()
    context.cache.is_unavailable = True
    text = (await client.get("/api/metrics")).text
    assert 'hybrid_scheduler_database_up{kind="sqlite"} 0.0' in text
    assert 'hybrid_scheduler_cache_up{kind="memory"} 0.0' in text


async def never(*_):
    await asyncio.Event().wait()


async def test_frozen_database_makes_readiness_503_and_leaves_other_routes_alone(client, context, monkeypatch):
    monkeypatch.setattr(context.repository, "ping", never)
    async with asyncio.timeout(20):
        answers = await asyncio.gather(*(client.get("/api/health/ready") for _ in range(20)))
        assert {answer.status_code for answer in answers} == {503}
        assert (await client.get("/api/health")).json()["database"]["state"] == "away"
        assert (await client.get("/api/schedulers")).status_code == 200
        text = (await client.get("/api/metrics")).text
    assert 'hybrid_scheduler_database_up{kind="sqlite"} 0.0' in text
    assert "hybrid_scheduler_engine_up 1.0" in text


async def test_frozen_engine_leaves_the_last_known_values(client, context, monkeypatch):
    assert "hybrid_scheduler_run_tasks 20.0" in (await client.get("/api/metrics")).text
    monkeypatch.setattr(context.control, "status", never)
    async with asyncio.timeout(20):
        text = (await client.get("/api/metrics")).text
        assert (await client.get("/api/health/ready")).status_code == 503
        assert len((await client.get("/api/schedulers")).json()) > 3
    assert "hybrid_scheduler_run_tasks 20.0" in text
    assert "hybrid_scheduler_engine_up 0.0" in text


async def test_slow_check_runs_once_at_a_time(client, context, monkeypatch):
    begun = []

    async def slow():
        begun.append(1)
        await asyncio.Event().wait()

    monkeypatch.setattr(context.repository, "ping", slow)
    async with asyncio.timeout(20):
        await asyncio.gather(*(client.get("/api/health/live") for _ in range(3)))
        await asyncio.gather(*(client.get("/api/health/ready") for _ in range(50)))
    assert len(begun) == 1
