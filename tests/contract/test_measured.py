"""Measured runs in both databases: every number comes back, and live runs around them keep their own rows."""

import numpy as np
import orjson
import pytest
from batches import RUN, Engine
from measured_examples import measured_run
from services import database_url, postgres_url  # noqa: F401

from hybrid_scheduler.core.outcome import STATUS_NAMES
from hybrid_scheduler.live import batch_of
from hybrid_scheduler.live.journal import published_name
from hybrid_scheduler.storage import DatabaseAddress, Repository, SqlJournal, open_database
from hybrid_scheduler.storage.batch_rows import RESULT_FLOATS
from hybrid_scheduler.storage.history_csv import HistoryCsv, read_history
from hybrid_scheduler.storage.integrity_check import verify

MINE = "01J00000000000000000000002"


@pytest.fixture(params=["sqlite", "postgres"])
def address(request, tmp_path):
    if request.param == "sqlite":
        return DatabaseAddress.sqlite(tmp_path / "history.db")
    return DatabaseAddress.from_url(request.getfixturevalue("database_url"))


@pytest.fixture
def history(tmp_path):
    return HistoryCsv(tmp_path / "history.csv")


@pytest.fixture
def journal(address, history):
    journal = SqlJournal(address, history=history)
    journal.open()
    yield journal
    journal.close()


@pytest.fixture
async def repository(address):
    database = open_database(address)
    yield Repository(database)
    await database.close()


def store(journal, engine, run, run_id=MINE):
    """As the live engine does it: between two of its batches."""
    batch = batch_of(run, run_id, engine.counters, now=3000.0, watched=RUN)
    engine.counters = batch.counters
    journal.append(batch)
    batch.committed.result(30)
    return batch


def live(journal, engine, *counts):
    batches = [engine.batch(count) for count in counts]
    for batch in batches:
        journal.append(batch)
    for batch in batches:
        batch.committed.result(30)


def or_none(values):
    return [None if value != value else value for value in values.tolist()]


async def test_every_value_comes_back_as_it_was(journal, repository):
    run = measured_run(12)
    batch = store(journal, Engine(), run)
    found = await repository.run(MINE)
    assert (found["source"], found["status"], found["load"], found["tasks"]) == (
        "measured",
        "stopped",
        None,
        12,
    )
    assert found["config"] == batch.run.config
    rows = await repository.history(100, run_id=MINE)
    assert [row["task_id"] for row in rows] == list(range(1, 13))
    assert [row["optimal_time"] for row in rows] == or_none(run.optimal_time)
    for name, columns in run.results.items():
        results = [row["results"][name] for row in rows]
        for column in RESULT_FLOATS:
            assert [result[published_name(column)] for result in results] == or_none(getattr(columns, column))
        assert [result["device"] for result in results] == [run.device_names[code] for code in columns.device]
        assert [result["status"] for result in results] == [STATUS_NAMES[code] for code in columns.status]


async def test_waits_count_from_each_schedulers_own_submission(journal, repository):
    run = measured_run(12)
    store(journal, Engine(), run)
    rows = await repository.history(100, run_id=MINE)
    paged = await repository.results(MINE, "cpu_only")
    compared = {row["name"]: row for row in (await repository.comparative(run_id=MINE))["schedulers"]}
    for name, columns in run.results.items():
        expected = or_none(columns.wait)
        assert [row["results"][name]["wait"] for row in rows] == expected
        known = [value for value in expected if value is not None]
        assert max(known) < 0.003  # and not since the other scheduler's, which came to the tasks earlier
        assert compared[name]["mean_wait"] == pytest.approx(np.mean(known), rel=1e-12)
    assert [row["wait"] for row in paged] == [row["results"]["cpu_only"]["wait"] for row in rows]
    assert (compared["greedy"]["mean_energy"], compared["greedy"]["failed"]) == (None, 1)


@pytest.mark.parametrize("window", [(None, None), (0.1, 0.2), (0.45, None), (None, 0.05), (9.0, 10.0)])
async def test_the_gantt_chart_has_the_real_devices_and_every_part_of_a_window(journal, repository, window):
    run = measured_run(12)
    store(journal, Engine(), run)
    start, end = window
    for name, columns in run.results.items():
        expected = []
        for row in range(12):
            for part, device, begin, seconds in (
                ("cpu", "cpu_wide", columns.cpu_start[row], columns.cpu_time[row]),
                ("gpu", "cpu_narrow", columns.accelerator_start[row], columns.accelerator_time[row]),
            ):
                touches = (start is None or begin + seconds > start) and (end is None or begin < end)
                if seconds > 0 and touches:
                    expected.append((begin, row + 1, part, device))
        found = await repository.gantt(MINE, name, start, end)
        assert found["devices"] == ["cpu_wide", "cpu_narrow"]
        columns_of = (found[key] for key in ("start", "task_id", "part", "device"))
        assert list(zip(*columns_of, strict=True)) == sorted(expected)


async def test_a_live_run_keeps_its_own_rows_around_the_gap(address, journal, repository):
    engine = Engine(schedulers=("greedy", "oracle"))
    live(journal, engine, 10, 10)
    store(journal, engine, measured_run(15))
    live(journal, engine, 10)
    ids = [*range(1, 21), *range(36, 46)]
    assert [row["task_id"] for row in await repository.history(100, run_id=RUN)] == ids
    assert [row["task_id"] for row in await repository.tasks(100, before=40, run_id=RUN)] == [*ids[:24]][::-1]
    assert [row["task_id"] async for page in repository.iterate_history(RUN, page=7) for row in page] == ids
    assert [row["task_id"] for row in await repository.results(RUN, "greedy", limit=100)] == ids
    assert [row["task_id"] for row in await repository.results(RUN, "greedy", after_task=18, limit=4)] == ids[18:22]
    assert set((await repository.gantt(RUN, "greedy"))["task_id"]) == set(ids)  # greedy measured tasks, too
    assert {*(await repository.gantt(RUN, "greedy", 15.0, 25.0))["task_id"]} <= set(ids)
    compared = await repository.comparative(run_id=RUN)
    assert (compared["tasks"], [row["tasks"] for row in compared["schedulers"]]) == (30, [30, 30])
    trends = await repository.trends(RUN, 3)
    places = [(b["first_ordinal"], b["last_ordinal"], b["first_task_id"]) for b in trends["buckets"]]
    assert places == [(0, 9, 1), (10, 19, 11), (20, 29, 36)]
    assert [row["run_id"] for row in await repository.runs(10)] == [MINE, RUN]
    assert (await repository.run(RUN))["tasks"] == 30
    assert all(finding.ok for finding in verify(address))


async def test_restart_recovers_the_live_run_and_its_tasks_alone(address, repository):
    engine = Engine(schedulers=("greedy", "oracle"))
    journal = SqlJournal(address)
    journal.open()
    live(journal, engine, 5)
    store(journal, engine, measured_run(9))
    live(journal, engine, 5)
    store(journal, engine, measured_run(3), "01J00000000000000000000003")
    journal.close()
    again = SqlJournal(address)
    found = again.open()
    again.close()
    assert found.run.run_id == RUN
    assert found.counters == engine.counters
    assert list(found.recent) == ["greedy", "oracle"]
    for group in found.recent.values():
        assert group.tasks.task_id.tolist() == [1, 2, 3, 4, 5, 15, 16, 17, 18, 19]
        assert len(group.columns.latency) == 10


async def test_measured_run_is_announced_and_is_no_training_data(journal, repository, history):
    engine = Engine(schedulers=("oracle",))
    live(journal, engine, 4)
    store(journal, engine, measured_run(6))
    live(journal, engine, 4)
    events = [orjson.loads(event.content) for event in (await repository.events_after(0)).events]
    assert [event["seq"] for event in events] == [1, 2, 3]
    assert (events[1]["kind"], events[1]["run_id"], events[1]["created_at"]) == ("measured_run", RUN, 3000.0)
    live(journal, engine, 0)  # what follows a commit is done when the next one is
    assert read_history(history.path)[0].task_id.tolist() == [1, 2, 3, 4, 11, 12, 13, 14]
