"""Faults that are real: a full disk, a server that is stopped, killed and frozen, answers that get lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from dataclasses import replace

import pytest
from batches import Engine
from measured_examples import measured_run
from services import fresh_database, postgres_server

from hybrid_scheduler import HybridSchedulerError, InvalidInputError
from hybrid_scheduler.live import Counters, IdempotencyKey, batch_of
from hybrid_scheduler.live.journal import EngineBusy, JournalUnavailable
from hybrid_scheduler.storage import DatabaseAddress, DatabaseUnavailable, Repository, SqlJournal, open_database
from hybrid_scheduler.storage.event_bus import LocalBus
from hybrid_scheduler.storage.integrity_check import verify
from hybrid_scheduler.storage.postgres_store import ENGINE_LOCK_ID
from hybrid_scheduler.storage.schema_version import with_connection
from hybrid_scheduler.storage.sqlite_store import SqliteStore


class Watch:
    """Waits until an event has been published, which is after its commit."""

    def __init__(self, bus):
        self._changed = threading.Condition()
        self.seqs = []
        bus.subscribe(self._heard)

    def _heard(self, events):
        with self._changed:
            self.seqs += [event.seq for event in events]
            self._changed.notify_all()

    def wait_for(self, seq, timeout=60):
        with self._changed:
            assert self._changed.wait_for(lambda: seq in self.seqs, timeout), (seq, self.seqs)


def in_writer(journal, work):
    """Run a coroutine in the writer's thread."""
    return asyncio.run_coroutine_threadsafe(work, journal.loop).result(30)


def opened(address, **options):
    journal = SqlJournal(address, **options)
    journal.open()
    return contextlib.closing(journal)


# ------------------------------------------------------------------------------------------ SQLite


async def test_the_writer_syncs_every_commit_and_readers_cannot_write(tmp_path):
    address = DatabaseAddress.sqlite(tmp_path / "history.db")
    store = SqliteStore(address)
    await store.open()
    assert await store.fetch("PRAGMA journal_mode") == [("wal",)]
    assert await store.fetch("PRAGMA synchronous") == [(2,)]
    database = open_database(address)
    for statement in ("DELETE FROM tasks", "PRAGMA wal_checkpoint(TRUNCATE)"):
        with contextlib.suppress(DatabaseUnavailable):
            async with database.reading() as connection:
                outcome = (await connection.exec_driver_sql(statement)).mappings().one()
                assert outcome["busy"] != 0 or outcome["log"] <= 0, "a reader moved the log"
    async with database.reading() as connection:
        assert (await connection.exec_driver_sql("PRAGMA wal_autocheckpoint")).scalar() == 0
    await database.close()
    await store.close()


async def test_reader_that_closes_last_does_not_checkpoint_the_log(tmp_path):
    address = DatabaseAddress.sqlite(tmp_path / "history.db")
    child = (
        "import os, sys; sys.path.insert(0, sys.argv[2]);"
        "from batches import Engine; from hybrid_scheduler.storage import *;"
        "j = SqlJournal(DatabaseAddress.sqlite(sys.argv[1])); j.open(); b = Engine().batch(5); j.append(b);"
        "b.committed.result(30); os._exit(0)"  # as if killed: the log stays
    )
    tests = os.path.join(os.path.dirname(__file__), "..")
    subprocess.run([sys.executable, "-c", child, address.path, tests], check=True)
    log = address.path.with_name("history.db-wal")
    size = log.stat().st_size
    assert size > 0
    database = open_database(address)
    assert len(await Repository(database).history(10)) == 5
    await database.close()
    assert log.stat().st_size == size


async def test_a_full_database_acknowledges_nothing_and_recovers_by_itself(tmp_path):
    """SQLITE_FULL, by SQLite's own limit on pages."""
    address = DatabaseAddress.sqlite(tmp_path / "history.db")
    bus = LocalBus()
    watch = Watch(bus)
    with opened(address, bus=bus) as journal:
        engine = Engine()
        first = engine.batch(50)
        journal.append(first)
        first.committed.result(30)
        pages = in_writer(journal, journal.store.fetch("PRAGMA page_count"))[0][0]
        in_writer(journal, journal.store.fetch(f"PRAGMA max_page_count = {pages}"))
        second = engine.batch(500)
        journal.append(second)
        with pytest.raises(JournalUnavailable):
            second.committed.result(30)
        assert journal.unavailable
        third = engine.batch(1)
        journal.append(third)
        with pytest.raises(JournalUnavailable):
            third.committed.result(0)  # fails at once while the database is unavailable
        refused: Future[int] = Future()
        journal.delete_tasks(refused)
        with pytest.raises(JournalUnavailable):
            refused.result(0)
        database = open_database(address)
        assert len(await Repository(database).history(1000)) == 50  # reads go on
        assert watch.seqs == [1]
        in_writer(journal, journal.store.fetch("PRAGMA max_page_count = 1000000"))
        watch.wait_for(3)
        assert len(await Repository(database).history(1000)) == 551
        await database.close()
        assert not journal.unavailable
        assert journal.unsaved == 0
    assert watch.seqs == [1, 2, 3]
    assert all(finding.ok for finding in verify(address))


async def test_overlapping_readers_do_not_let_the_log_grow(tmp_path, monkeypatch):
    monkeypatch.setattr("hybrid_scheduler.storage.sqlite_store.LOG_LIMIT", 2**20)
    monkeypatch.setattr("hybrid_scheduler.storage.sqlite_store.CHECKPOINT_PAGES", 100)
    address = DatabaseAddress.sqlite(tmp_path / "history.db")
    log = tmp_path / "history.db-wal"
    with opened(address) as journal:
        engine = Engine()
        database = open_database(address)
        over = asyncio.Event()

        async def read():
            while not over.is_set():
                async with database.reading() as connection:
                    await connection.exec_driver_sql("SELECT count(*), avg(latency) FROM scheduler_results")

        readers = [asyncio.ensure_future(read()) for _ in range(4)]  # there is nearly always one that reads
        sizes = []
        for batch in engine.batches(60, 300):
            journal.append(batch)
            await asyncio.wrap_future(batch.committed)
            sizes.append(log.stat().st_size)
        over.set()
        await asyncio.gather(*readers)
        await database.close()
    assert sum(sizes) > 0
    assert max(sizes) < 8 * 2**20, sizes


_DISK = """
import asyncio, os, resource, sys
sys.path.insert(0, sys.argv[2])
from batches import Engine
from hybrid_scheduler.live.journal import JournalUnavailable
from hybrid_scheduler.storage import *
from hybrid_scheduler.storage.integrity_check import verify

address = DatabaseAddress.sqlite(sys.argv[1])
spare = sys.argv[3] if len(sys.argv) > 3 else None

def full(on):
    if spare:  # a real file system without space
        if on:
            with open(spare, "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(65536))
                except OSError:
                    pass
        else:
            os.unlink(spare)
    else:  # files may not grow: the write fails with EFBIG, an I/O error to SQLite
        log = os.path.getsize(sys.argv[1] + "-wal")
        resource.setrlimit(resource.RLIMIT_FSIZE, (log if on else resource.RLIM_INFINITY, resource.RLIM_INFINITY))

journal = SqlJournal(address)
journal.open()
engine = Engine()
first = engine.batch(50)
journal.append(first)
first.committed.result(30)
full(True)
second = engine.batch(2000)
journal.append(second)
try:
    second.committed.result(30)
    sys.exit("acknowledged on a full disk")
except JournalUnavailable:
    pass

async def read():
    database = open_database(address)
    rows = await Repository(database).history(10000)
    await database.close()
    return len(rows)

assert asyncio.run(read()) == 50, "reads do not go on"
assert journal.unavailable
full(False)
third = engine.batch(5)
while True:  # fails at once while the database is unavailable; the batches stay
    while not journal.has_capacity:
        pass
    journal.append(third)
    try:
        third.committed.result(30)
        break
    except JournalUnavailable:
        third = engine.batch(5)
stored = asyncio.run(read())
assert stored == engine.counters.next_task_id - 1, stored
journal.close()
assert all(finding.ok for finding in verify(address))
print("fine")
"""


def run_disk(*arguments):
    tests = os.path.join(os.path.dirname(__file__), "..")
    words = [sys.executable, "-c", _DISK, arguments[0], tests, *arguments[1:]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.stdout == "fine\n", done.stdout + done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_an_io_error_is_never_acknowledged_and_the_next_write_succeeds_without_a_restart(tmp_path):
    run_disk(str(tmp_path / "history.db"))


def test_full_disk_is_survived(tmp_path):
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small file system can only be mounted by root")
    try:
        run_disk(str(tmp_path / "history.db"), str(tmp_path / "filler"))
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


# ------------------------------------------------------------------------------------------ both


def test_commit_with_a_lost_confirmation_is_not_stored_twice(address):
    bus = LocalBus()
    watch = Watch(bus)
    with opened(address, bus=bus) as journal:
        real = journal.store.transaction
        lost: list[bool] = []

        @contextlib.asynccontextmanager
        async def forgetful():
            async with real():
                yield
            if not lost:
                lost.append(True)
                raise ConnectionResetError("the answer to COMMIT got lost")

        engine = Engine()
        first, second = engine.batch(3), engine.batch(4)
        journal.store.transaction = forgetful
        journal.append(first)
        journal.append(second)
        watch.wait_for(2)
        with pytest.raises(JournalUnavailable):  # the outcome is unknown: the caller tries again with its key
            first.committed.result(30)
    assert watch.seqs == [1, 2]
    assert all(finding.ok for finding in verify(address))
    journal = SqlJournal(address)
    assert journal.open().counters == engine.counters
    journal.close()


def test_measured_run_that_an_earlier_engine_stored_is_not_stored_again(address):
    """A command of an API process can wait while the engine is restarted."""
    run, key = measured_run(run_id="01JCQ4W3E8Z0V6M8T1S9Y5K2RA"), IdempotencyKey("k", "digest", 1)
    with opened(address) as journal:
        first = batch_of(run, run.run_id, Counters(), now=1.0)
        journal.append(replace(first, idempotency=(key,)))
    again = batch_of(run, run.run_id, first.counters, now=2.0)
    other = batch_of(replace(run, created_at=5.0), run.run_id, again.counters, now=3.0)
    bus = LocalBus()
    watch = Watch(bus)
    journal = SqlJournal(address, bus=bus)
    recovered = journal.open()
    assert recovered.keys == {key: run.run_id}
    journal.append(again)
    journal.append(other)
    again.committed.result(30)
    with pytest.raises(InvalidInputError, match="run_id"):
        other.committed.result(30)
    journal.close()
    assert watch.seqs == [2, 3]  # the stream has no gap
    assert all(finding.ok for finding in verify(address))
    counted = "SELECT tasks, created_at, (SELECT count(*) FROM tasks) FROM runs"
    assert with_connection(address, lambda connection: connection.exec_driver_sql(counted).all()) == [
        (12, 1000.0, 12)
    ]


def test_engine_knows_the_keys_of_the_one_before(address):
    engine = Engine()
    with opened(address) as journal:
        for number in range(3):
            journal.append(
                engine.batch(2, key=IdempotencyKey(f"k{number}", "digest", engine.counters.next_task_id))
            )
    journal = SqlJournal(address)
    keys = journal.open().keys
    journal.close()
    assert keys == {IdempotencyKey(f"k{number}", "digest", task): task for number, task in enumerate((1, 3, 5))}


def test_a_row_that_the_database_refuses_stops_the_writer_and_says_why(address):
    failures: list[HybridSchedulerError] = []
    journal = SqlJournal(address, on_failure=failures.append)
    journal.open()
    good = Engine().batch(2)
    journal.append(good)
    good.committed.result(30)
    twice = Engine().batch(2)  # the same ids again
    journal.append(twice)
    with pytest.raises(JournalUnavailable, match="cannot be written"):
        twice.committed.result(30)
    assert journal.unavailable
    assert not journal.has_capacity
    assert "cannot be written" in str(failures[0])
    journal.close()
    assert all(finding.ok for finding in verify(address))


def test_close_without_a_database_ends_within_its_timeout(address, monkeypatch):
    before = set(threading.enumerate())
    with opened(address) as journal:

        @contextlib.asynccontextmanager
        async def broken():
            raise ConnectionResetError("unavailable")
            yield

        journal.store.transaction = broken
        batch = Engine().batch(1)
        journal.append(batch)
        with pytest.raises(JournalUnavailable):
            batch.committed.result(30)
        journal.close(timeout=0.2)
        assert {one for one in threading.enumerate() if one.name == "journal"} <= before
        assert journal.unsaved == 1


# ------------------------------------------------------------------------------------------ PostgreSQL


@pytest.fixture
def server():
    with postgres_server() as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_restarted_server_loses_nothing(server, how):
    bus = LocalBus()
    watch = Watch(bus)
    address = DatabaseAddress.from_url(server.url)
    with opened(address, bus=bus) as journal:
        engine = Engine()
        journal.append(engine.batch(10))
        watch.wait_for(1)
        getattr(server, how)()
        batches = list(engine.batches(5, 10))
        for batch in batches:
            journal.append(batch)
        for batch in batches:
            with pytest.raises(JournalUnavailable):
                batch.committed.result(60)
        assert journal.unavailable
        server.start()
        watch.wait_for(6)
        last = engine.batch(1)
        journal.append(last)
        last.committed.result(60)
        assert not journal.unavailable
    assert watch.seqs == list(range(1, 8))
    assert all(finding.ok for finding in verify(address))
    journal = SqlJournal(address)
    assert journal.open().counters == engine.counters
    journal.close()


@pytest.mark.slow
def test_restart_of_an_idle_server_is_no_failure(server):
    with opened(DatabaseAddress.from_url(server.url)) as journal:
        engine = Engine()
        for _ in range(2):
            batch = engine.batch(1)
            journal.append(batch)
            batch.committed.result(60)
            server.stop()
            server.start()
        batch = engine.batch(1)
        journal.append(batch)
        batch.committed.result(60)


@pytest.mark.slow
def test_frozen_server_stores_everything_once_afterwards(server, monkeypatch):
    monkeypatch.setattr("hybrid_scheduler.storage.postgres_store.COMMAND_TIMEOUT_S", 1.0)
    bus = LocalBus()
    watch = Watch(bus)
    address = DatabaseAddress.from_url(server.url)
    with opened(address, bus=bus) as journal:
        engine = Engine()
        journal.append(engine.batch(10))
        watch.wait_for(1)
        server.freeze()
        batches = list(engine.batches(3, 200))
        for batch in batches:
            journal.append(batch)
        for batch in batches:
            with pytest.raises(JournalUnavailable):
                batch.committed.result(60)
        server.thaw()
        watch.wait_for(4)
    assert watch.seqs == [1, 2, 3, 4]
    assert all(finding.ok for finding in verify(address))


@pytest.mark.slow
async def test_frozen_server_is_unavailable_for_readers_and_back_afterwards(server, monkeypatch):
    monkeypatch.setattr("hybrid_scheduler.storage.database.QUERY_TIMEOUT_S", 1.0)
    address = DatabaseAddress.from_url(server.url)
    with opened(address) as journal:
        batch = Engine().batch(3)
        journal.append(batch)
        batch.committed.result(30)
        database = open_database(address)
        repository = Repository(database)
        await repository.ping()
        server.freeze()
        for question in (repository.ping(), repository.history(5), repository.events_after(0)):
            with pytest.raises(DatabaseUnavailable):
                await question
        server.thaw()
        monkeypatch.setattr("hybrid_scheduler.storage.database.QUERY_TIMEOUT_S", 30.0)
        assert len(await repository.history(5)) == 3
        await database.close()


@pytest.mark.slow
async def test_readers_reconnect_after_a_restart(server):
    address = DatabaseAddress.from_url(server.url)
    with opened(address) as journal:
        batch = Engine().batch(3)
        journal.append(batch)
        batch.committed.result(30)
    database = open_database(address)
    repository = Repository(database)
    assert len(await repository.history(5)) == 3
    server.stop()
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable, match="does not answer") as outage:
            await repository.history(5)
        assert "\n" not in str(outage.value)
    server.start()
    assert len(await repository.history(5)) == 3
    await database.close()


async def test_engine_stops_when_another_has_taken_over(postgres_url, monkeypatch):
    import asyncpg

    monkeypatch.setattr("hybrid_scheduler.storage.postgres_store.LOCK_TIMEOUT_S", 0.2)
    with fresh_database(postgres_url) as url:
        gone = threading.Event()
        journal = SqlJournal(DatabaseAddress.from_url(url), on_failure=lambda _: gone.set())
        journal.open()
        rival = await asyncpg.connect(url)
        waiting = asyncio.ensure_future(rival.execute("SELECT pg_advisory_lock($1)", ENGINE_LOCK_ID))
        admin = await asyncpg.connect(url)
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%engine%'"
        )
        await waiting
        batch = Engine().batch(1)
        journal.append(batch)
        with pytest.raises(JournalUnavailable):
            batch.committed.result(30)
        assert await asyncio.to_thread(gone.wait, 30)
        assert isinstance(journal.failed, EngineBusy)
        journal.close()
        assert await admin.fetchval("SELECT count(*) FROM tasks") == 0
        await rival.close()
        await admin.close()


async def test_own_dead_session_does_not_hold_the_lock(postgres_url):
    """The server has not noticed that the old connection is gone: it is ended, and the lock taken anew."""
    with fresh_database(postgres_url) as url:
        bus = LocalBus()
        watch = Watch(bus)
        with opened(DatabaseAddress.from_url(url), bus=bus) as journal:
            store = journal.store
            kept = store.connection  # stays open, as a zombie that holds the lock

            async def lose():
                store._connection = None
                journal.in_outage = True

            in_writer(journal, lose())
            journal.append(Engine().batch(2))
            await asyncio.to_thread(watch.wait_for, 1)
            assert kept is not store.connection
            in_writer(journal, _closed(kept))


async def _closed(connection):
    connection.terminate()
