"""What every database must do, SQLite and PostgreSQL alike: the same rows, in the same order, to the last bit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import numpy as np
import orjson
import pytest
from batches import RUN, SCHEDULERS, Engine, run_record
from services import database_url, empty_database_url, fresh_database, postgres_url, redis_url  # noqa: F401

from hybrid_scheduler import Cluster, create
from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.core.outcome import STATUS_NAMES
from hybrid_scheduler.learning.duration.retraining import InlineTrainingWorker
from hybrid_scheduler.live import ContinuousSimulation, LiveConfig
from hybrid_scheduler.live.journal import (
    Counters,
    EngineBusy,
    IdempotencyKey,
    JournalFull,
    JournalUnavailable,
    RunLabels,
    VersionRecord,
    published_name,
)
from hybrid_scheduler.storage import (
    DatabaseAddress,
    DatabaseUnusable,
    Repository,
    SqlJournal,
    device_load,
    integrity_check,
    journal_writer,
    open_database,
    retention,
)
from hybrid_scheduler.storage.batch_rows import RESULT_FLOATS, EventPayload
from hybrid_scheduler.storage.batch_transaction import COUNTED_TABLES, write_group
from hybrid_scheduler.storage.device_load import LoadWindow
from hybrid_scheduler.storage.event_bus import EventReader, LocalBus, RedisBus
from hybrid_scheduler.storage.history_csv import HistoryCsv, read_history
from hybrid_scheduler.storage.integrity_check import verify
from hybrid_scheduler.storage.redis_cache import RedisAddress
from hybrid_scheduler.storage.retention import delete_tasks
from hybrid_scheduler.storage.schema_version import upgrade, with_connection
from hybrid_scheduler.testing import FakeClock
from hybrid_scheduler.workload import generate, scenario_named

NOW = 1_700_000_000.25


@pytest.fixture(params=["sqlite", "postgres"])
def address(request, tmp_path):
    if request.param == "sqlite":
        return DatabaseAddress.sqlite(tmp_path / "history.db")
    return DatabaseAddress.from_url(request.getfixturevalue("database_url"))


@contextmanager
def opened(address, **options):
    journal = SqlJournal(address, clock=lambda: NOW, **options)
    journal.open()
    try:
        yield journal
    finally:
        journal.close()


@pytest.fixture
def journal(address):
    with opened(address) as journal:
        yield journal


@pytest.fixture
async def repository(address):
    database = open_database(address)
    yield Repository(database)
    await database.close()


def stored(journal, *batches):
    """Hand over and wait until they are durable."""
    for batch in batches:
        journal.append(batch)
    for batch in batches:
        batch.committed.result(30)
    return batches


def settled(journal, engine):
    """Whatever follows a commit (the CSV, pruning) is done when the next one is."""
    stored(journal, engine.batch(0, events=0))


def deleted(journal):
    future: Future[int] = Future()
    journal.delete_tasks(future)
    return future.result(30)


def or_none(values):
    return [None if value != value else value for value in values.tolist()]


# ------------------------------------------------------------------------------------------ opening


def test_an_empty_database_starts_counting_at_one(address):
    journal = SqlJournal(address)
    recovered = journal.open()
    journal.close()
    assert recovered.counters == Counters(1, 1, 1)
    assert (recovered.run, recovered.state, recovered.recent) == (None, None, {})


async def test_nothing_is_found_in_an_empty_database(journal, repository):
    await repository.ping()
    assert await repository.history(10) == []
    assert [page async for page in repository.iterate_history()] == []
    assert await repository.runs(10) == []
    assert await repository.runs(1) == []
    assert await repository.tasks(10) == []
    assert (await repository.comparative())["schedulers"] == []
    assert await repository.models(RUN, ["hybrid_ml"], 10) == {"hybrid_ml": ([], 0, None)}
    assert await repository.events_after(0) == ([], 1, 0)
    assert await repository.engine_heartbeat() is None
    counts = await repository.counts()
    assert set(counts["rows"].values()) == {0}
    assert counts["bytes"] > 0
    assert counts["first_recorded_at"] is None


def test_a_second_engine_is_refused_in_one_line_until_the_first_has_left(address, monkeypatch):
    monkeypatch.setattr("hybrid_scheduler.storage.postgres_store.LOCK_TIMEOUT_S", 0.2)
    with opened(address):
        with pytest.raises(EngineBusy, match="another engine is using this database") as refusal:
            SqlJournal(address).open()
        assert "\n" not in str(refusal.value)
    with opened(address):
        pass


def test_a_database_of_a_newer_program_is_refused(address):
    upgrade(address)
    with_connection(address, lambda c: c.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(DatabaseUnusable, match=r"has schema version 9999, this program knows versions up to \d+"):
        SqlJournal(address).open()


def test_tables_of_another_program_are_left_alone(request, tmp_path):
    for kind in ("sqlite", "postgres"):
        if kind == "sqlite":
            address = DatabaseAddress.sqlite(tmp_path / "foreign.db")
        else:
            address = DatabaseAddress.from_url(request.getfixturevalue("empty_database_url"))
        with_connection(address, lambda c: c.exec_driver_sql("CREATE TABLE tasks (title TEXT)"))
        with pytest.raises(DatabaseUnusable, match=r"holds tables of another program \(tasks\)"):
            SqlJournal(address).open()


# ------------------------------------------------------------------------------------------ rows


async def test_every_value_comes_back_as_it_was(journal, repository):
    engine = Engine()
    (batch,) = stored(journal, engine.batch(40, external="job-1"))
    rows = await repository.history(100)
    tasks = batch.tasks
    assert [row["task_id"] for row in rows] == tasks.task_id.tolist()
    assert [row["ordinal"] for row in rows] == list(range(40))
    assert [row["external_id"] for row in rows] == ["job-1"] + [None] * 39
    for name in ("size", "compute_intensity", "memory_required", "arrival_time"):
        assert [row[name] for row in rows] == getattr(tasks, name).tolist()
    assert {(row["run_id"], row["kind"], row["recorded_at"]) for row in rows} == {(RUN, "generic", NOW)}
    assert all(row["dependencies"] == [] for row in rows)
    assert [row["optimal_gpu_fraction"] for row in rows] == batch.optimal_fraction.tolist()
    assert [row["optimal_time"] for row in rows] == batch.optimal_time.tolist()
    for name, result in batch.results.items():
        found = [row["results"][name] for row in rows]
        assert [row["device"] for row in found] == [batch.device_names[d] for d in result.device]
        assert [row["status"] for row in found] == [STATUS_NAMES[s] for s in result.status]
        expected = None if result.model_version is None else 3
        assert {row["model_version"] for row in found} == {expected}
        for column in RESULT_FLOATS:
            assert [row[published_name(column)] for row in found] == or_none(getattr(result, column)), column
        assert [row["wait"] for row in found] == result.wait.tolist()  # latency - time, as on the stream
    assert list(rows[0]["results"]) == list(SCHEDULERS)
    assert await repository.task(1) == rows[0]


async def test_pages_of_tasks_go_from_the_newest_to_the_oldest(journal, repository):
    engine = Engine()
    stored(journal, *engine.batches(3, 5))
    engine.new_run("01J00000000000000000000002", created_at=1001.0)
    stored(journal, engine.batch(4, external="mine"))
    found, before = [], None
    while page := await repository.tasks(3, before):
        found += [row["task_id"] for row in page]
        before = page[-1]["task_id"]
    assert found == list(range(19, 0, -1))
    assert [row["task_id"] for row in await repository.tasks(3, 9, RUN)] == [8, 7, 6]
    assert [row["task_id"] for row in await repository.tasks(30, run_id=RUN)] == list(range(15, 0, -1))
    assert [row["task_id"] for row in await repository.tasks(3, external_id="mine")] == [16]
    assert [row["task_id"] for row in await repository.history(4, RUN)] == [12, 13, 14, 15]
    pages = [page async for page in repository.iterate_history(RUN, page=4)]
    assert [row["task_id"] for page in pages for row in page] == list(range(1, 16))
    assert [row["task_id"] for page in [p async for p in repository.iterate_history(page=19)] for row in page] == [
        *range(1, 20)
    ]
    for newest, first in ((4, 12), (15, 1), (99, 1)):
        pages = [page async for page in repository.iterate_history(RUN, page=3, newest=newest)]
        assert [row["task_id"] for page in pages for row in page] == list(range(first, 16))
    pages = [page async for page in repository.iterate_history(page=2, newest=5)]
    assert [row["task_id"] for page in pages for row in page] == list(range(15, 20))


async def test_runs_are_listed_newest_first_with_their_settings(journal, repository):
    engine = Engine()
    for number in (1, 2, 3):
        engine.new_run(f"01J0000000000000000000000{number}", created_at=1000.0 + number)
        stored(journal, engine.batch(number), engine.batch(1, status="stopped" if number < 3 else "running"))
    found = await repository.runs(2)
    assert [row["run_id"][-1] for row in found] == ["3", "2"]
    assert [row["run_id"][-1] for row in await repository.runs(2, found[-1]["run_id"])] == ["1"]
    assert [(row["tasks"], row["status"]) for row in await repository.runs(9)] == [
        (4, "running"), (3, "stopped"), (2, "stopped"),
    ]  # fmt: skip
    run = await repository.run("01J00000000000000000000003")
    assert run["schedulers"] == list(SCHEDULERS)
    assert run["config"] == run_record().config
    assert (run["seed"], run["load"], run["ended_at"]) == (42, 0.1, None)
    assert await repository.run_state(run["run_id"]) == {"tasks": 4, "big": 2**100}
    assert (await repository.runs(1))[0]["run_id"] == run["run_id"]


async def test_page_of_results_ends_with_a_complete_task(journal, repository):
    stored(journal, Engine().batch(7))
    page = await repository.results(RUN, limit=8)
    assert [(row["task_id"], row["scheduler_name"]) for row in page] == [
        (task, name) for task in (1, 2) for name in SCHEDULERS
    ]
    found, after = [], None
    while page := await repository.results(RUN, after_task=after, limit=8):
        found += [row["task_id"] for row in page]
        after = page[-1]["task_id"]
    assert found == [task for task in range(1, 8) for _ in SCHEDULERS]
    assert [row["task_id"] for row in await repository.results(RUN, limit=1)] == [1, 1, 1]
    only = await repository.results(RUN, "oracle", after_task=2, limit=2)
    assert [(row["task_id"], row["scheduler_name"]) for row in only] == [(3, "oracle"), (4, "oracle")]


async def test_unknown_ids_give_none_or_no_rows(journal, repository):
    stored(journal, Engine().batch(2))
    for odd in ("unknown", "", "\0", "\ud800", "x" * 10_000, "' OR 1=1 --", "%"):
        assert await repository.run(odd) is None
        assert await repository.run_state(odd) is None
        assert await repository.trends(odd) is None
        assert await repository.gantt(odd, "oracle") is None
        assert await repository.history(5, odd) == []
        assert await repository.tasks(5, run_id=odd) == []
        assert await repository.tasks(5, external_id=odd) == []
        assert await repository.results(odd) == []
        assert await repository.results(RUN, odd) == []
        assert await repository.idempotency_record(odd) is None
        assert await repository.models(odd, ["a"], 10) == {"a": ([], 0, None)}
        assert await repository.models(RUN, [odd], 10) == {odd: ([], 0, None)}
        assert (await repository.comparative(5, odd))["tasks"] == 0
    for number in (0, -1, 3, 2**63 - 1, 2**63, -(2**80)):
        assert await repository.task(number) is None
    assert len(await repository.tasks(5, before=2**80)) == 2
    assert await repository.tasks(5, before=-(2**80)) == []
    assert (await repository.events_after(2**80)).events == []
    assert len((await repository.events_after(-(2**80))).events) == 1


async def test_keys_versions_and_heartbeat_are_stored(journal, repository):
    version = VersionRecord(RUN, "hybrid_ml", 1, 500, 0.9, "interval", 50, 1234.5, 0.25, 0.05, 0.7)
    engine = Engine()
    stored(
        journal,
        engine.batch(1, key=IdempotencyKey("k1", "f1", 1)),
        engine.batch(1, key=IdempotencyKey("k1", "other", 2), versions=(version,)),
        engine.batch(0, versions=(replace(version, version=2, r2=None, seconds=None), replace(version, r2=0.8))),
    )
    assert await repository.idempotency_record("k1") == ("f1", 1)
    found = await repository.models(RUN, ["hybrid_ml", "unknown"], 10)
    rows = found["hybrid_ml"].versions
    assert [(row["version"], row["r2"], row["seconds"]) for row in rows] == [(1, 0.8, 0.25), (2, None, None)]
    assert [(row["error"], row["loss"]) for row in rows] == [(0.05, 0.7)] * 2
    assert found["hybrid_ml"][1:] == (2, rows[0])
    assert found["unknown"] == ([], 0, None)
    journal.write_heartbeat({"state": "running", "load": float("nan")})
    stored(journal, engine.batch(0))
    beat = await repository.engine_heartbeat()
    assert beat["instance"] == journal.instance
    assert 0 <= beat["age"] < 60  # by the database's clock; the journal's own is years behind
    assert beat["status"] == {"state": "running", "load": None}


async def test_counts_agree_with_the_rows(address, journal, repository):
    engine = Engine()
    stored(journal, *engine.batches(3, 5))
    deleted(journal)
    stored(journal, engine.batch(2))
    counts = await repository.counts()
    assert counts["rows"]["tasks"] == 2
    assert counts["rows"]["scheduler_results"] == 6
    assert counts["rows"]["training_data"] == 2
    assert counts["rows"]["runs"] == 1
    assert counts["rows"]["events"] == 4
    assert (counts["first_recorded_at"], counts["last_recorded_at"]) == (NOW, NOW)


# ------------------------------------------------------------------------------------------ figures


async def test_stored_comparison_equals_that_of_numpy(journal, repository):
    engine = Engine()
    batches = stored(journal, *engine.batches(4, 50))
    for limit in (1, 70, 200, 10**6):
        found = await repository.comparative(limit, RUN)
        n = min(limit, 200)
        assert (found["tasks"], found["last_task_id"]) == (n, 200)
        latency = {
            name: np.concatenate([batch.results[name].latency for batch in batches])[-n:] for name in SCHEDULERS
        }
        for row in found["schedulers"]:
            values = latency[row["name"]]
            assert row["tasks"] == n
            assert row["mean_latency"] == values.mean()
            assert [row["p50_latency"], row["p95_latency"], row["p99_latency"]] == np.quantile(
                values, [0.5, 0.95, 0.99]
            ).tolist()
            energy = np.concatenate([batch.results[row["name"]].energy for batch in batches])[-n:]
            assert row["total_energy"] == energy.sum()
        assert found["schedulers"][0]["mean_regret"] is None  # round_robin's are NaN
        for a in SCHEDULERS:
            for b in SCHEDULERS:
                if a != b:
                    assert found["wins"][a][b] == int((latency[a] < latency[b]).sum())


async def test_trends_are_means_of_buckets_of_the_run(journal, repository, monkeypatch):
    stored(journal, Engine().batch(10, events=0))
    deleted(journal)  # the second stretch of ordinals is all that is left
    engine = Engine(counters=Counters(11, 31, 1), ordinal=10)
    batches = stored(journal, *engine.batches(5, 20))
    found = await repository.trends(RUN, 4)
    assert not found["sampled"]
    assert [(b["first_ordinal"], b["last_ordinal"]) for b in found["buckets"]] == [
        (10, 34), (35, 59), (60, 84), (85, 109),
    ]  # fmt: skip
    latency = np.concatenate([batch.results["greedy"].latency for batch in batches])
    for k, bucket in enumerate(found["buckets"]):
        row = bucket["schedulers"]["greedy"]
        assert (row["n"], row["mean_latency"]) == (25, pytest.approx(latency[25 * k : 25 * (k + 1)].mean()))
    assert bucket["schedulers"]["round_robin"]["mean_regret"] is None
    monkeypatch.setattr("hybrid_scheduler.storage.history_analysis.MAX_SAMPLED_TASKS", 40)
    sampled = await repository.trends(RUN, 4)
    assert sampled["sampled"]
    for k, bucket in enumerate(sampled["buckets"]):
        row = bucket["schedulers"]["greedy"]
        assert (row["n"], row["mean_latency"]) == (10, pytest.approx(latency[25 * k : 25 * k + 10].mean()))
    assert len((await repository.trends(RUN, 1000))["buckets"]) == 100


async def test_learning_is_stored_by_version_and_kind(journal, repository):
    batches = list(Engine().batches(2, 20))
    for number, batch in enumerate(batches):
        own = batch.results["greedy"]
        own.predicted_time[:] = own.time * (1.5 if number == 0 else 1.1)
        own.predicted_time[0] = np.nan
        own.confidence[:] = 0.1  # an interval of about 22 % to each side
        assert isinstance(batch.results, dict)
        batch.results["greedy"] = replace(own, model_version=np.full(len(batch), number + 1))
    stored(journal, *batches)
    found = await repository.learning(RUN, "greedy")
    assert [row["version"] for row in found["versions"]] == [1, 2]
    assert [row["first_ordinal"] for row in found["versions"]] == [0, 20]
    assert [row["n"] for row in found["versions"]] == [20, 20]
    assert [row["predictions"] for row in found["versions"]] == [19, 19]
    assert [row["error"] for row in found["versions"]] == pytest.approx([0.5, 0.1])
    assert [row["coverage"] for row in found["versions"]] == [0.0, 1.0]
    assert found["versions"][0]["uncertainty"] == pytest.approx(np.expm1(0.1))
    assert found["versions"][1]["mean_latency"] == pytest.approx(batches[1].results["greedy"].latency.mean())
    assert sum(row["n"] for row in found["kinds"]) == 40
    assert await repository.learning(RUN[:-1] + "Z", "greedy") is None
    assert (await repository.learning(RUN, "none"))["versions"] == []


@pytest.mark.parametrize("window", [(None, None), (20, 30), (None, 5), (70, None), (0.5, 0.6), (500, 600), (-9, 0)])
async def test_a_window_of_the_gantt_chart_holds_every_part_that_touches_it(journal, repository, window):
    engine = Engine()
    batches = list(engine.batches(4, 20))
    late = batches[0].results["greedy"]  # one task waits for a long time: the window must reach back to it
    for column in (late.start, late.finish, late.accelerator_start, late.latency):
        column[3] += 60.0
    stored(journal, *batches)
    start, end = window
    expected = []
    for batch in batches:
        result = batch.results["greedy"]
        for row, task_id in enumerate(batch.tasks.task_id.tolist()):
            for part, begin, seconds in (
                ("cpu", result.cpu_start[row], result.cpu_time[row]),
                ("gpu", result.accelerator_start[row], result.accelerator_time[row]),
            ):
                touches = (start is None or begin + seconds > start) and (end is None or begin < end)
                if seconds > 0 and touches:
                    device = "cpu" if part == "cpu" else batch.device_names[result.device[row]]
                    expected.append((begin, task_id, part, device, begin + seconds))
    expected.sort()
    found = await repository.gantt(RUN, "greedy", start, end)
    names = ("start", "task_id", "part", "device", "end")
    assert list(zip(*(found[name] for name in names), strict=True)) == expected
    assert not found["truncated"]
    if len(expected) > 5:
        short = await repository.gantt(RUN, "greedy", start, end, limit=5)
        assert len(short["start"]) == 5
        assert short["truncated"]
        ids = sorted({task_id for _, task_id, *_ in expected})[-5:]  # the newest tasks
        newest = [each for each in expected if each[1] in ids][-5:]
        assert list(zip(*(short[name] for name in names), strict=True)) == newest
    assert (await repository.gantt(RUN, "unknown", start, end))["start"] == []


@pytest.mark.parametrize("most_rows", [8_000, 0], ids=["from rows", "from buckets"])
@pytest.mark.parametrize("window", [(None, None), (20.0, 30.0), (0.5, 0.75), (70.0, 140.0), (500.0, 600.0)])
async def test_load_of_devices_equals_the_parts_of_the_gantt_chart(
    journal, repository, monkeypatch, window, most_rows
):
    monkeypatch.setattr("hybrid_scheduler.storage.device_load.MAX_SCANNED", most_rows)
    engine = Engine()
    batches = list(engine.batches(4, 20))
    late = batches[0].results["greedy"]
    for column in (late.start, late.finish, late.accelerator_start, late.latency):
        column[3] += 60.0
    stored(journal, *batches)
    for _ in range(2):  # the second request reads nothing again
        found = await repository.device_load(RUN, "greedy", LoadWindow(start=window[0], end=window[1], columns=40))
        start, end, known_to, width = (found[name] for name in ("start", "end", "known_to", "column_s"))
        assert start <= (window[0] or 0.0) + 1e-9 or window[0] is None
        parts = await repository.gantt(RUN, "greedy", start, end)
        edges = start + width * np.arange(len(found["schedulers"]["greedy"]["busy"][0]) + 1)
        assert edges[-1] == pytest.approx(end)
        for device, columns, total in zip(
            found["devices"],
            found["schedulers"]["greedy"]["busy"],
            found["schedulers"]["greedy"]["total"],
            strict=True,
        ):
            mine = [i for i, name in enumerate(parts["device"]) if name == device]
            begins, ends = (np.array([parts[name][i] for i in mine]) for name in ("start", "end"))

            def busy(low, high, begins=begins, ends=ends):
                return float(np.maximum(0.0, np.minimum(ends, high) - np.maximum(begins, low)).sum())

            assert columns == pytest.approx([busy(low, high) for low, high in pairwise(edges)], abs=1e-5)
            assert total == pytest.approx(busy(start, known_to), abs=1e-5)
    assert await repository.device_load("01JCQ4W3E8Z0V6M8T1S9Y5K2ZZ", "greedy", LoadWindow()) is None


# ------------------------------------------------------------------------------------------ events


async def test_events_are_published_after_their_commit_as_stored(address):
    bus = LocalBus()
    published: list[EventPayload] = []
    bus.subscribe(published.extend)
    with opened(address, bus=bus) as journal:
        engine = Engine()
        batch = engine.batch(2, events=3)
        extra = {"value": float("nan"), "numbers": np.arange(2), "share": np.float64(0.5)}
        batch = replace(batch, events=(*batch.events[:2], replace(batch.events[2], body=extra)))
        stored(journal, batch)
        database = open_database(address)
        page = await Repository(database).events_after(0)
        await database.close()
    assert published == page.events
    assert [payload.seq for payload in published] == [1, 2, 3]
    last = orjson.loads(published[-1].content)
    assert list(last)[:5] == ["type", "seq", "run_id", "t", "created_at"]
    assert (last["value"], last["numbers"], last["share"]) == (None, [0, 1], 0.5)


async def test_events_after_a_number_by_type(journal, repository):
    engine = Engine()
    stored(journal, engine.batch(1, events=3), engine.batch(0, events=1, kind="notification"), engine.batch(1))
    page = await repository.events_after(1, limit=2)
    assert [payload.seq for payload in page.events] == [2, 3]
    assert (page.oldest_seq, page.last_seq) == (1, 5)
    only = await repository.events_after(0, types=["notification"])
    assert [payload.seq for payload in only.events] == [4]


async def test_old_updates_are_deleted_and_notifications_stay(journal, repository, monkeypatch):
    monkeypatch.setattr(retention, "KEEP_EVENTS", 20)
    monkeypatch.setattr(retention, "PRUNE_EVERY", 10)
    engine = Engine()
    stored(journal, engine.batch(0, events=2, kind="notification"))
    for _ in range(10):
        stored(journal, engine.batch(0, events=10))
    settled(journal, engine)
    page = await repository.events_after(0, limit=1000)
    assert [payload.seq for payload in page.events] == [1, 2, *range(83, 103)]
    assert (page.oldest_seq, page.last_seq) == (83, 102)


@pytest.fixture(params=["no redis", "redis"])
def bus(request):
    bus: LocalBus | RedisBus
    if request.param == "no redis":
        bus = LocalBus()
    else:
        bus = RedisBus(RedisAddress.from_url(request.getfixturevalue("redis_url")), prefix=f"test-{id(request)}")
    yield bus
    bus.close()


async def test_reader_yields_every_event_once_and_in_order(address, repository, bus):
    """The bus tells that there are later ones, though some are never published on it."""

    class Forgetful:
        def publish(self, events):
            bus.publish([event for event in events if event.seq % 7])

    with opened(address, bus=Forgetful()) as journal:
        engine = Engine()
        stored(journal, *engine.batches(3, 1, events=2))
        tail = EventReader(repository, bus, after=2, poll=0.2)
        found = []
        async for payload in tail:
            found.append(payload.seq)
            if found[-1] < 40 and found[-1] % 2 == 0:
                journal.append(engine.batch(1, events=2))
            if found[-1] == 40:
                break
    assert found == list(range(3, 41))


async def test_reader_without_a_start_begins_with_new_events(address, repository, bus):
    with opened(address, bus=bus) as journal:
        engine = Engine()
        stored(journal, *engine.batches(2))
        tail = EventReader(repository, bus, poll=0.05)
        stream = aiter(tail)
        waiting = asyncio.ensure_future(anext(stream))
        while tail.seq is None:
            await asyncio.sleep(0)
        stored(journal, engine.batch(1))
        first = await asyncio.wait_for(waiting, 30)
        assert isinstance(stream, AsyncGenerator)
        await stream.aclose()
    assert first.seq == 3


# ------------------------------------------------------------------------------------------ going on after an end


def test_a_restart_finds_the_run_its_state_and_the_newest_tasks(address, monkeypatch):
    monkeypatch.setattr("hybrid_scheduler.storage.recovery.RECENT_TASKS", 25)
    engine = Engine()
    with opened(address) as journal:
        batches = stored(journal, *engine.batches(4, 10))
    recovered = SqlJournal(address)
    found = recovered.open()
    recovered.close()
    assert found.counters == engine.counters == Counters(41, 121, 5)
    assert found.run == engine.run
    assert found.state == {"tasks": 40, "big": 2**100}
    assert list(found.recent) == list(SCHEDULERS)
    for name in SCHEDULERS:
        for column in ("device", "status", *RESULT_FLOATS):
            expected = np.concatenate([getattr(batch.results[name], column) for batch in batches])[-25:]
            np.testing.assert_array_equal(getattr(found.recent[name].columns, column), expected)
        assert found.recent[name].tasks.task_id.tolist() == list(range(16, 41))
    np.testing.assert_array_equal(
        found.recent[SCHEDULERS[0]].tasks.size, np.concatenate([batch.tasks.size for batch in batches])[-25:]
    )


def test_paused_run_is_recovered_and_a_stopped_one_is_not(address):
    engine = Engine()
    with opened(address) as journal:
        stored(journal, engine.batch(2, status="paused"))
        engine.new_run("01J00000000000000000000002", created_at=2000.0)
        stored(journal, engine.batch(2), engine.batch(0, status="stopped"))
    journal = SqlJournal(address)
    found = journal.open()
    journal.close()
    assert (found.run.run_id, found.run.status) == (RUN, "paused")
    assert found.counters == engine.counters


async def test_two_runs_in_one_transaction(address, repository, monkeypatch):
    """Batches that queue up are stored together, each run with its own last state."""
    gate = threading.Event()
    with opened(address) as journal:
        engine = Engine()
        stored(journal, engine.batch(1))
        groups = []

        async def slow(store, instance, group, *rest):
            gate.wait(30)
            groups.append(len(group))
            await write_group(store, instance, group, *rest)

        monkeypatch.setattr(journal_writer, "write_group", slow)
        first = engine.batch(2)
        journal.append(first)  # holds the writer until the gate opens
        second = engine.batch(3, status="stopped")
        engine.new_run("01J00000000000000000000002")
        rest = [second, engine.batch(4), engine.batch(5)]
        for batch in rest:
            journal.append(batch)
        gate.set()
        for batch in (first, *rest):
            batch.committed.result(30)
    assert sum(groups) == 4
    assert max(groups) >= 3
    assert [(run["tasks"], run["status"]) for run in await repository.runs(5)] == [(9, "running"), (6, "stopped")]
    assert (await repository.run_state("01J00000000000000000000002"))["tasks"] == 9
    assert all(finding.ok for finding in verify(address))


async def test_reading_all_tasks_ends_although_more_are_stored(journal, repository):
    engine = Engine()
    stored(journal, engine.batch(6))
    ids = []
    async for page in repository.iterate_history(RUN, page=2):
        ids += [row["task_id"] for row in page]
        stored(journal, engine.batch(4))
        assert len(ids) <= 6
    assert ids == [1, 2, 3, 4, 5, 6]


# ------------------------------------------------------------------------------------------ forgetting


async def test_deleting_history_keeps_runs_and_counters(address, repository, tmp_path, monkeypatch):
    monkeypatch.setattr(retention, "DELETE_CHUNK_TASKS", 7)
    history = HistoryCsv(tmp_path / "data" / "history.csv")
    with opened(address, history=history) as journal:
        engine = Engine()
        stored(journal, *engine.batches(4, 10, key=None), engine.batch(1, key=IdempotencyKey("k", "f", 41)))
        settled(journal, engine)
        assert len(read_history(history.path)[0]) == 41
        assert deleted(journal) == 41
        assert deleted(journal) == 0
        assert await repository.history(100) == []
        assert await repository.idempotency_record("k") is None
        assert (await repository.run(RUN))["tasks"] == 41
        query = "SELECT value FROM meta WHERE key = 'counters'"
        counters = with_connection(address, lambda c: c.exec_driver_sql(query).scalar(), read_only=True)
        assert orjson.loads(counters)["next_task_id"] == 42
        assert len((await repository.events_after(0)).events) == 5
        assert history.path.read_text().count("\n") == 1
        stored(journal, engine.batch(2))
        settled(journal, engine)
        assert [row["task_id"] for row in await repository.history(100)] == [42, 43]
        assert read_history(history.path)[0].task_id.tolist() == [42, 43]
    journal = SqlJournal(address)
    assert journal.open().counters == engine.counters
    journal.close()
    assert all(finding.ok for finding in verify(address))


async def test_deleting_a_long_history_keeps_newer_rows_and_reports_progress(
    address, repository, tmp_path, monkeypatch
):
    monkeypatch.setattr(retention, "DELETE_CHUNK_TASKS", 1)
    gate = threading.Event()
    chunks: list[int] = []

    async def slow(*arguments):
        chunks.append(1)
        if len(chunks) > 2:
            gate.wait(30)
        return await delete_tasks(*arguments)

    monkeypatch.setattr(retention, "delete_tasks", slow)
    history = HistoryCsv(tmp_path / "history.csv")
    with opened(address, history=history) as journal:
        engine = Engine()
        stored(journal, engine.batch(5))
        future: Future[int] = Future()
        journal.delete_tasks(future)
        while len(chunks) < 3:
            await asyncio.sleep(0.01)
        assert future.running()  # accepted: it will be completed
        assert await repository.deletion() == {"deleted_tasks": 2, "tasks": 5, "done": False}
        newer = engine.batch(3)
        journal.append(newer)
        gate.set()
        newer.committed.result(30)
        assert future.result(30) == 5
        settled(journal, engine)
        assert [row["task_id"] for row in await repository.history(100)] == [6, 7, 8]
        assert read_history(history.path)[0].task_id.tolist() == [6, 7, 8]
        assert await repository.deletion() is None
    assert all(finding.ok for finding in verify(address))


async def test_the_next_engine_completes_an_accepted_deletion(address, repository, monkeypatch):
    monkeypatch.setattr(retention, "DELETE_CHUNK_TASKS", 1)
    chunks: list[int] = []

    async def broken(*arguments):
        chunks.append(1)
        if len(chunks) > 2:
            raise ConnectionResetError("unavailable")
        return await delete_tasks(*arguments)

    monkeypatch.setattr(retention, "delete_tasks", broken)
    engine = Engine()
    journal = SqlJournal(address)
    journal.open()
    stored(journal, engine.batch(5))
    future: Future[int] = Future()
    journal.delete_tasks(future)
    while len(chunks) < 3:
        await asyncio.sleep(0.01)
    journal.close(timeout=0.1)
    monkeypatch.setattr(retention, "delete_tasks", delete_tasks)
    with opened(address) as journal:
        stored(journal, engine.batch(2))
        while await repository.deletion() is not None:
            await asyncio.sleep(0.01)
        assert [row["task_id"] for row in await repository.history(100)] == [6, 7]


def test_cancelled_deletion_deletes_nothing(journal):
    stored(journal, Engine().batch(5))
    future: Future[int] = Future()
    future.cancel()
    journal.delete_tasks(future)
    assert deleted(journal) == 5


def test_numbers_are_not_reused_after_deleting_everything(address):
    engine = Engine()
    with opened(address) as journal:
        stored(journal, engine.batch(5))
        deleted(journal)
    journal = SqlJournal(address)
    found = journal.open()
    journal.close()
    assert found.counters == Counters(6, 16, 2)
    assert found.recent == {}


OTHER = "01HZX3Q5T8V9W0X1Y2Z3A4B5C7"


def deleted_run(journal, run_id):
    future: Future[int] = Future()
    journal.delete_run(run_id, future)
    return future.result(30)


async def store_two_runs(journal, engine):
    """Store batches of two runs in turn, with a key and a model version each."""
    for index, run_id in enumerate([RUN, OTHER, RUN, OTHER]):
        engine.run = replace(engine.run, run_id=run_id, status="stopped")
        key = IdempotencyKey(f"key {index}", "f", engine.counters.next_task_id)
        version = VersionRecord(run_id, "hybrid_ml", index, 10, 0.5, "interval", 1, NOW, 0.1)
        stored(journal, engine.batch(5, key=key, versions=(version,)))


async def rows_of(repository, run_id):
    page = await repository.events_after(0)
    return {
        "run": await repository.run(run_id),
        "results": await repository.results(run_id),
        "tasks": await repository.tasks(100, run_id=run_id),
        "versions": (await repository.models(run_id, ["hybrid_ml"], 10))["hybrid_ml"].versions,
        "events": [event for event in page.events if orjson.loads(event.content)["run_id"] == run_id],
    }


async def test_labels_are_stored_after_the_run_they_belong_to(address, repository):
    with opened(address) as journal:
        batch = Engine().batch(5)
        journal.append(batch)
        done: Future[None] = Future()
        journal.describe(RUN, RunLabels("First", ("a", "b"), "note"), done)
        done.result(30)
        found = await repository.run(RUN)
        assert (found["name"], found["tags"], found["note"]) == ("First", ["a", "b"], "note")
        unknown: Future[None] = Future()
        journal.describe(OTHER, RunLabels("x"), unknown)
        unknown.result(30)
        assert await repository.run(OTHER) is None


async def test_deleting_a_run_removes_all_its_rows_and_no_others(address, repository, monkeypatch):
    monkeypatch.setattr(retention, "DELETE_CHUNK_TASKS", 3)
    engine = Engine()
    with opened(address) as journal:
        await store_two_runs(journal, engine)
        labelled: Future[None] = Future()
        journal.describe(RUN, RunLabels("First"), labelled)
        labelled.result(30)
        other = await rows_of(repository, OTHER)
        assert all((await rows_of(repository, RUN)).values())
        assert deleted_run(journal, RUN) == 10
        assert not any((await rows_of(repository, RUN)).values())
        assert await rows_of(repository, OTHER) == other
        assert await repository.idempotency_record("key 0") is None
        assert await repository.idempotency_record("key 1") is not None
        counts = (await repository.counts())["rows"]
        assert (counts["runs"], counts["tasks"], counts["training_data"]) == (1, 10, 10)
        assert (await repository.events_after(0)).oldest_seq == 4  # a client that saw less begins anew
        assert deleted_run(journal, RUN) == 0
        engine.run = replace(engine.run, run_id=RUN)
        stored(journal, engine.batch(5))
        assert (await repository.run(RUN))["name"] == ""  # its labels went with it
    journal = SqlJournal(address)
    assert journal.open().counters == engine.counters  # numbers are not reused
    journal.close()
    assert all(finding.ok for finding in verify(address))


async def test_failed_deletion_of_a_run_leaves_it_complete(address, repository, monkeypatch):
    engine = Engine()
    with opened(address) as journal:
        await store_two_runs(journal, engine)
        before = await rows_of(repository, RUN)
        real = journal.store.execute

        async def fails_at_the_end(statement, *parameters):
            if statement.startswith("DELETE FROM runs"):
                raise ConnectionResetError("unavailable")
            return await real(statement, *parameters)

        monkeypatch.setattr(journal.store, "execute", fails_at_the_end)
        with pytest.raises(JournalUnavailable):
            deleted_run(journal, RUN)
        monkeypatch.undo()
        assert await rows_of(repository, RUN) == before
        while journal.unavailable:
            await asyncio.sleep(0.01)
        assert deleted_run(journal, RUN) == 10
    assert all(finding.ok for finding in verify(address))


async def test_run_is_deleted_without_an_engine_only(address, repository):
    with opened(address) as journal:
        await store_two_runs(journal, Engine())
        with pytest.raises(EngineBusy):
            retention.delete_run_offline(address, RUN)
    with pytest.raises(InvalidInputError, match="ID"):
        retention.delete_run_offline(address, "01HZX3Q5T8V9W0X1Y2Z3A4B5ZZ")
    assert retention.delete_run_offline(address, RUN) == 10
    assert not any((await rows_of(repository, RUN)).values())
    assert all(finding.ok for finding in verify(address))


def versions(numbers, **changes):
    """Return a month's kind of versions: many, and each trained at its own task."""
    one = VersionRecord(RUN, "hybrid_ml", 1, 500, 0.9, "interval", 1, NOW, 0.25)
    return tuple(replace(one, version=number, at_task=number, **changes) for number in numbers)


async def test_thirty_days_of_versions_take_bounded_space_and_answers(journal, repository):
    engine = Engine()
    newest = 30 * 24 * 6  # a version every ten minutes
    for first in range(1, newest + 1, 432):
        stored(journal, engine.batch(1, versions=versions(range(first, first + 432))))
    stored(journal, engine.batch(1, versions=versions([newest + 1], run_id=RUN, scheduler_name="rl_agent")))
    stored(journal, engine.batch(1, versions=versions(range(newest + 1, newest + 22))))
    settled(journal, engine)
    found = await repository.models(RUN, ["hybrid_ml", "rl_agent"], 100)
    page, total, first = found["hybrid_ml"]
    assert [row["version"] for row in page] == list(range(newest - 78, newest + 22))
    assert first["version"] == 1
    assert 400 <= total <= 1 + retention.KEEP_VERSIONS + retention.KEEP_OLD_VERSIONS
    assert found["rl_agent"].total == 1
    numbers = [row["version"] for row in page]
    while len(page) == 100:
        page = (await repository.models(RUN, ["hybrid_ml"], 100, page[0]["version"]))["hybrid_ml"].versions
        numbers = [row["version"] for row in page] + numbers
    assert len(numbers) == total
    assert numbers[-200:] == list(range(newest - 178, newest + 22))
    steps = {b - a for a, b in pairwise(numbers[1:-200])}
    assert steps == {16}  # even, so that a timeline of them shows the whole run


async def test_retention_deletes_versions_of_deleted_tasks_but_keeps_the_newest(address, repository):
    with opened(address, keep_tasks=30) as journal:
        engine = Engine()
        stored(journal, engine.batch(50, versions=versions(range(1, 51))))
        stored(journal, engine.batch(1, versions=versions([7], scheduler_name="rl_agent")))
        stored(journal, engine.batch(249))
        for _ in range(3):
            settled(journal, engine)
    found = await repository.models(RUN, ["hybrid_ml", "rl_agent"], 100)
    assert [row["version"] for row in found["hybrid_ml"].versions] == [50]
    assert [row["version"] for row in found["rl_agent"].versions] == [7]


async def test_retention_keeps_the_newest_tasks(address, repository):
    with opened(address, keep_tasks=30) as journal:
        engine = Engine()
        for batch in engine.batches(20, 10):
            stored(journal, batch)
        stored(journal, engine.batch(100))
    rows = await repository.history(1000)
    assert rows[-1]["task_id"] == 300
    assert [row["task_id"] for row in rows] == list(range(271, 301))
    assert all(finding.ok for finding in verify(address))


def foreign_task(address, task_id, **values):
    """Another program adds a task to the live run, after its newest one."""
    values = {"size": 1.0, "compute_intensity": 0.5, "memory_required": 1.0, "arrival_time": 1e6} | values
    row = (
        "INSERT INTO tasks (task_id, run_id, ordinal, dependencies, kind, recorded_at, "
        f"{', '.join(values)}) SELECT {task_id}, '{RUN}', max(ordinal) + 1, '[]', 'generic', 0, "
        f"{', '.join('NULL' if value is None else repr(value) for value in values.values())} FROM tasks"
    )
    with_connection(address, lambda connection: connection.exec_driver_sql(row))


def foreign_result(address, task_id, device):
    row = (
        "INSERT INTO scheduler_results (id, task_id, run_id, scheduler_name, device, status) "
        f"VALUES ({10**6 + task_id}, {task_id}, '{RUN}', 'greedy', '{device}', 'finished')"
    )
    with_connection(address, lambda connection: connection.exec_driver_sql(row))


@pytest.mark.parametrize(
    ("values", "device", "check"),
    [
        ({}, None, "tasks without results"),
        ({"size": -5.0}, "cpu", "values of tasks"),
        ({"compute_intensity": None}, "cpu", "values of tasks"),
        ({"arrival_time": 1e300}, "cpu", None),
        ({"arrival_time": 0.0}, "cpu", None),
        ({}, "abacus", "devices"),
    ],
)
def test_foreign_row_among_the_tasks_is_skipped_and_found(address, caplog, values, device, check):
    engine = Engine()
    with opened(address) as journal:
        stored(journal, engine.batch(20))
    foreign_task(address, 1000, **values)
    if device is not None:
        foreign_result(address, 1000, device)
    for _ in range(2):  # it is not deleted, so it is there at every start
        caplog.clear()
        journal = SqlJournal(address)
        recovered = journal.open()
        journal.close()
        assert set(recovered.recent) == set(SCHEDULERS)
        for group in recovered.recent.values():
            assert group.tasks.task_id.tolist() == list(range(1, 21))
        assert recovered.counters.next_task_id == 1001
        assert "1 tasks are not the engine's and are skipped: 1000" in caplog.text
    findings = {finding.name: finding for finding in verify(address)}
    if check is not None:
        assert not findings[check].ok
        assert "1000" in findings[check].detail


# ------------------------------------------------------------------------------------------ limits


def test_full_journal_refuses_tasks_but_accepts_commands(address, monkeypatch):
    monkeypatch.setattr(journal_writer, "MAX_WAITING_BATCHES", 3)
    gate = threading.Event()

    async def slow(*arguments):
        gate.wait(30)
        await write_group(*arguments)

    monkeypatch.setattr(journal_writer, "write_group", slow)
    with opened(address) as journal:
        engine = Engine()
        batches = list(engine.batches(3, 2))
        for batch in batches:
            assert journal.has_capacity
            journal.append(batch)
        assert not journal.has_capacity
        assert journal.unsaved == 3
        with pytest.raises(JournalFull):
            journal.append(Engine().batch(1))
        order = engine.batch(0, status="paused")
        journal.append(order)
        gate.set()
        order.committed.result(30)
        assert journal.has_capacity
        assert journal.unsaved == 0


@pytest.mark.parametrize("bad", ["\0", "\ud800"])
def test_append_refuses_text_that_cannot_be_stored(journal, bad):
    engine = Engine()
    with pytest.raises(ValueError, match="external_id"):
        journal.append(engine.batch(1, external=bad))
    with pytest.raises(TypeError):
        journal.append(replace(engine.batch(1), events=(replace(engine.event(9), body={"x": object()}),)))
    stored(journal, Engine().batch(1))


# ------------------------------------------------------------------------------------------ verifying


def test_verify_sees_one_state_of_a_database_in_use(address, monkeypatch):
    with opened(address) as journal:
        engine = Engine()
        stored(journal, engine.batch(4))

        class BusyTables(tuple):
            def __iter__(self):
                stored(journal, engine.batch(3))  # between two queries of the check
                return super().__iter__()

        monkeypatch.setattr(integrity_check, "COUNTED_TABLES", BusyTables(COUNTED_TABLES))
        assert [finding for finding in verify(address) if not finding.ok] == []


def test_verify_finds_inconsistent_rows(address):
    with opened(address) as journal:
        stored(journal, Engine().batch(4))
    assert [finding.name for finding in verify(address) if not finding.ok] == []

    def spoil(connection):
        if not address.is_sqlite:
            connection.exec_driver_sql("ALTER TABLE scheduler_results DROP CONSTRAINT fk_scheduler_results_task_id")
            connection.exec_driver_sql("ALTER TABLE training_data DROP CONSTRAINT fk_training_data_task_id")
        connection.exec_driver_sql("DELETE FROM tasks WHERE task_id = 2")
        connection.exec_driver_sql("UPDATE meta SET value = '{\"next_task_id\": 3}' WHERE key = 'counters'")

    with_connection(address, spoil)
    wrong = {finding.name: finding.detail for finding in verify(address) if not finding.ok}
    assert wrong["results"] == "3 results without their task"
    assert wrong["training data"] == "1 rows without their task"
    assert "next_task_id is 3, but 4 is in use" in wrong["counters"]
    assert wrong["row counts"] == "tasks has 3 rows, but the stored count is 4"
    with_connection(address, lambda c: c.exec_driver_sql("DROP TABLE commands"))
    assert "commands" in {f.name: f.detail for f in verify(address) if not f.ok}["tables"]


async def everything(address):
    """All that can be read after the same story, as text."""
    with opened(address) as journal:
        engine = Engine(seed=7)
        stored(journal, *engine.batches(5, 30), engine.batch(3, events=2, kind="notification", external="ä€𝄞"))
        deleted(journal)
        engine.new_run("01J00000000000000000000009", created_at=3000.0)
        stored(journal, *engine.batches(8, 25, key=IdempotencyKey("k", "f", 160)))
        stored(journal, engine.batch(1, versions=(VersionRecord(RUN, "b_c", 1, 2, None, "x", 3, 4.0, None),)))
        stored(journal, engine.batch(1, versions=(VersionRecord(RUN, "bC", 1, 2, 0.5, "x", 3, 4.0, None),)))
    database = open_database(address)
    repository = Repository(database)
    run = engine.run.run_id
    answers = [
        await repository.history(150),
        [page async for page in repository.iterate_history(run, page=70)],
        await repository.tasks(20, 300),
        await repository.task(200),
        await repository.runs(5),
        await repository.run_state(run),
        await repository.comparative(180),
        await repository.trends(run, 7),
        await repository.gantt(run, "greedy", 20.0, 60.0),
        await repository.results(run, None, 170, 100),
        await repository.models(run, ["hybrid_ml"], 10),
        [payload.content.decode() for payload in (await repository.events_after(3, 100)).events],
        (await repository.events_after(3, 100))[1:],
        await repository.idempotency_record("k"),
        {**(await repository.counts()), "bytes": 0},
    ]
    await database.close()
    return [repr(answer) for answer in answers]


async def test_both_databases_return_identical_values(tmp_path, database_url):  # noqa: F811
    sqlite = await everything(DatabaseAddress.sqlite(tmp_path / "history.db"))
    postgres = await everything(DatabaseAddress.from_url(database_url))
    for one, other in zip(sqlite, postgres, strict=True):
        assert one == other


# ------------------------------------------------------------------------------------------ common queues


def live_engine(address, schedulers):
    config = LiveConfig(scenario_named("mixed"), 0.9, speed=20.0, schedulers=schedulers)
    clock = FakeClock()
    engine = ContinuousSimulation(config, SqlJournal(address), clock=clock, trainer=InlineTrainingWorker())
    if engine.open().state == "stopped":
        engine.start()
    return engine, clock


async def test_results_of_a_common_queue_survive_a_restart(address, repository):
    for _ in range(2):
        engine, clock = live_engine(address, ("late_binding",))
        clock.advance(2.0)
        status = engine.pause()
        engine.resume()
        assert status.comparison[0].waiting > 0
        engine.close()
        assert all(finding.ok for finding in verify(address))
    engine, clock = live_engine(address, ("late_binding",))
    run_id, n = engine.stop().run_id, engine.status().tasks_processed
    engine.close()
    tasks = generate(scenario_named("mixed"), n, 42, utilisation=0.9, first_id=1)
    whole = Cluster().run(tasks, create("late_binding"), seed=42).outcomes
    rows = await repository.results(run_id, "late_binding", limit=n + 1)
    assert [row["task_id"] for row in rows] == list(range(1, n + 1))
    assert [row["latency"] for row in rows] == whole.latency.tolist()
    blocks = await repository.gantt(run_id, "late_binding")
    assert len(blocks["start"]) == np.count_nonzero(whole.cpu_time) + np.count_nonzero(whole.accelerator_time)
    assert all(finding.ok for finding in verify(address))


async def test_busy_seconds_count_tasks_that_started_out_of_order(address, repository, monkeypatch):
    monkeypatch.setattr(device_load, "MAX_SCANNED", 10)
    monkeypatch.setattr(device_load, "PAGE_ROWS", 50)
    engine, clock = live_engine(address, ("late_binding", "oracle"))
    run_id = engine.status().run_id
    for _ in range(4):
        clock.advance(0.5)
        await repository.device_load(run_id, "late_binding", LoadWindow())
    n = engine.stop().tasks_processed
    engine.close()
    for _ in range(n // 50):
        await repository.device_load(run_id, "late_binding", LoadWindow())
    load = await repository.device_load(run_id, "late_binding", LoadWindow())
    rows = await repository.results(run_id, "late_binding", limit=n + 1)
    parts = [
        (start, start + row[f"{part}_time"])
        for row in rows
        for part in ("cpu", "gpu")
        if (start := row[f"{part}_start"]) is not None
    ]
    known = load["known_to"]
    expected = sum(min(end, known) - start for start, end in parts if start < known)
    assert sum(load["schedulers"]["late_binding"]["total"]) == pytest.approx(expected, rel=1e-3)


async def test_results_of_tasks_that_were_deleted_while_they_waited_are_not_stored(address, repository):
    engine, clock = live_engine(address, ("late_binding", "oracle"))
    clock.advance(2.0)
    newest = engine.pause().next_task_id - 1
    assert engine.status().comparison[0].waiting > 0
    deleted = engine.delete_tasks()
    while not deleted.done():  # the engine steps when its clock advances
        clock.advance(0.05)
        await asyncio.sleep(0.01)
    engine.resume()
    clock.advance(1.0)
    engine.stop()
    engine.close()
    assert min(row["task_id"] for row in await repository.history(10_000)) == newest + 1
    assert all(finding.ok for finding in verify(address))
