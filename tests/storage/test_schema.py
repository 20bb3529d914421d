"""Addresses, migrations, and databases that cannot be used."""

from __future__ import annotations

import json
import sqlite3

import pytest
import typer.testing
from batches import RUN, Engine

from hybrid_scheduler.cli.command_context import CommandContext
from hybrid_scheduler.cli.db import db
from hybrid_scheduler.core import HybridSchedulerError, InvalidInputError
from hybrid_scheduler.live.journal import EngineBusy
from hybrid_scheduler.storage import DatabaseAddress, DatabaseUnavailable, DatabaseUnusable, SqlJournal
from hybrid_scheduler.storage.integrity_check import verify
from hybrid_scheduler.storage.schema_version import newest_revision, revision_of, upgrade, with_connection

# ------------------------------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("sqlite:///data/x.db", "data/x.db"),
        ("sqlite+aiosqlite:////srv/x.db", "/srv/x.db"),
        ("postgresql://me:secret@db:6000/runs", "postgresql://me@db:6000/runs"),
        ("postgres://db/runs", "postgresql://db:5432/runs"),
        ("postgresql+asyncpg://me@/runs?host=/var/run/pg", "postgresql://me@/var/run/pg:5432/runs"),
    ],
)
def test_urls_of_other_programs_are_understood(url, text):
    address = DatabaseAddress.from_url(url)
    assert str(address) == text
    assert "secret" not in repr(address)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("mysql://me:secret@db/runs", "mysql://"),
        ("just a text with a secret", "something else"),
        ("sqlite://", "the name of a file"),
        ("sqlite:///:memory:", "the name of a file"),
        ("postgresql://me:secret@db/", "names a database"),
        ("postgresql://db/runs?sslmode=secret", "one of disable"),
        ("postgresql://db/runs?pool=secret", "host and sslmode, got 'pool'"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url, complaint):
    with pytest.raises(InvalidInputError) as refusal:
        DatabaseAddress.from_url(url)
    assert complaint in str(refusal.value)
    assert "me:secret" not in str(refusal.value)


def test_settings_and_urls_agree():
    parts = DatabaseAddress.postgres("db", 6000, "me", "secret", "runs", sslmode="require")
    assert parts == DatabaseAddress.from_url("postgresql://me:secret@db:6000/runs?sslmode=require")
    assert parts.asyncpg_arguments()["ssl"] == "require"


# ------------------------------------------------------------------------------------------ migrations


def test_migrations_lead_to_the_tables_of_the_program(address):
    upgrade(address)
    assert upgrade(address) == (newest_revision(), newest_revision())
    findings = {finding.name: finding for finding in verify(address)}
    assert findings["tables"].ok, findings["tables"].detail
    assert with_connection(address, lambda c: revision_of(c, address), read_only=True) == newest_revision()


def test_rows_from_before_the_newest_columns_are_kept(empty_database_url, tmp_path):
    for address in (DatabaseAddress.sqlite(tmp_path / "x.db"), DatabaseAddress.from_url(empty_database_url)):
        journal = SqlJournal(address)
        journal.open()
        first = Engine()
        batch = first.batch(20)
        journal.append(batch)
        batch.committed.result(30)
        journal.close()

        def as_before(connection):
            connection.exec_driver_sql("ALTER TABLE scheduler_results DROP COLUMN confidence")
            connection.exec_driver_sql("ALTER TABLE tasks DROP COLUMN divisible")
            connection.exec_driver_sql("ALTER TABLE model_versions DROP COLUMN error")
            connection.exec_driver_sql("ALTER TABLE model_versions DROP COLUMN loss")
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
            connection.commit()

        with_connection(address, as_before)
        assert upgrade(address) == ("0001", newest_revision())
        found = {finding.name: finding for finding in verify(address)}["tables"]
        assert found.ok, found.detail
        query = "SELECT count(*), count(latency), count(confidence) FROM scheduler_results"
        rows = with_connection(address, lambda c: tuple(c.exec_driver_sql(query).one()), read_only=True)  # noqa: B023
        assert rows == (60, 60, 0)
        divisible = "SELECT count(*) FROM tasks WHERE divisible"
        assert with_connection(address, lambda c: c.exec_driver_sql(divisible).scalar(), read_only=True) == 20  # noqa: B023
        journal = SqlJournal(address)
        journal.open()
        batch = first.batch(20)
        journal.append(batch)
        batch.committed.result(30)
        journal.close()
        rows = with_connection(address, lambda c: tuple(c.exec_driver_sql(query).one()), read_only=True)  # noqa: B023
        assert rows == (120, 120, 20)


def test_updates_with_former_names_are_deleted_by_the_upgrade(empty_database_url, tmp_path):
    for address in (DatabaseAddress.sqlite(tmp_path / "old.db"), DatabaseAddress.from_url(empty_database_url)):
        upgrade(address)

        def as_before(connection):
            rows = [(1, "notification", "{}"), (2, "simulation_update", '{"avg_latency":1}'), (3, "log", "{}")]
            rows += [(4, "simulation_update", '{"avg_latency":2}'), (5, "log", '"avg_latency":')]
            for seq, kind, payload in rows:
                connection.exec_driver_sql(
                    "INSERT INTO events (seq, run_id, type, t, created_at, payload) "
                    f"VALUES ({seq}, 'r', '{kind}', 0, 0, '{payload}')"
                )
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0004'")

        with_connection(address, as_before)
        upgrade(address)

        def left(connection):
            kept = connection.exec_driver_sql("SELECT seq FROM events ORDER BY seq").scalars().all()
            return kept, connection.exec_driver_sql("SELECT value FROM meta WHERE key = 'pruned_seq'").scalar()

        assert with_connection(address, left, read_only=True) == ([1, 5], "4")


def test_an_empty_database_is_created_from_nothing(empty_database_url, tmp_path):
    for address in (
        DatabaseAddress.sqlite(tmp_path / "new folder" / "100% ours?.db"),
        DatabaseAddress.from_url(empty_database_url),
    ):
        assert upgrade(address) == (None, newest_revision())


def test_upgrade_of_a_current_database_needs_no_lock(tmp_path):
    address = DatabaseAddress.sqlite(tmp_path / "x.db")
    journal = SqlJournal(address)
    journal.open()
    upgrade(address)  # nothing to do
    with_connection(address, lambda c: c.exec_driver_sql("DELETE FROM alembic_version"))
    with pytest.raises(EngineBusy):
        upgrade(address)
    journal.close()


# ------------------------------------------------------------------------------------------ unusable


def garbage(path):
    path.write_bytes(b"this is a letter, not a database\n" * 100)


def truncated(path):
    upgrade(DatabaseAddress.sqlite(path))
    path.write_bytes(path.read_bytes()[:-5000])


def zeroed(path):
    address = DatabaseAddress.sqlite(path)
    journal = SqlJournal(address)
    journal.open()
    batch = Engine().batch(200)
    journal.append(batch)
    batch.committed.result(30)
    journal.close()
    content = bytearray(path.read_bytes())
    content[4096:-4096] = bytes(len(content) - 8192)
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [garbage, truncated, zeroed])
def test_a_damaged_file_is_named_in_one_line(tmp_path, damage):
    path = tmp_path / "broken.db"
    damage(path)
    with pytest.raises(DatabaseUnusable, match=r"broken\.db: is damaged or not an SQLite database") as refusal:
        SqlJournal(DatabaseAddress.sqlite(path)).open()
    assert "\n" not in str(refusal.value)


def test_a_damaged_index_is_found_by_verify(tmp_path):
    address = DatabaseAddress.sqlite(tmp_path / "x.db")
    upgrade(address)
    with sqlite3.connect(address.path) as connection:
        connection.execute("PRAGMA writable_schema = 1")
        connection.execute("UPDATE sqlite_master SET rootpage = 2 WHERE name = 'ix_tasks_run_id_ordinal'")
    connection.close()
    try:
        wrong = [finding.name for finding in verify(address) if not finding.ok]
    except DatabaseUnusable:
        return
    assert "file" in wrong


def test_unusable_files_are_named(tmp_path):
    with pytest.raises(DatabaseUnusable, match="it is a folder"):
        SqlJournal(DatabaseAddress.sqlite(tmp_path)).open()
    (tmp_path / "file").touch()
    with pytest.raises(HybridSchedulerError, match="cannot be opened"):
        SqlJournal(DatabaseAddress.sqlite(tmp_path / "file" / "x.db")).open()
    with pytest.raises(DatabaseUnusable, match="no such file"):
        verify(DatabaseAddress.sqlite(tmp_path / "none.db"))
    with pytest.raises(DatabaseUnavailable, match="does not answer"):
        SqlJournal(DatabaseAddress.postgres("127.0.0.1", 1, "me", "secret", "runs")).open()
    with pytest.raises(DatabaseUnavailable, match="does not answer"):
        verify(DatabaseAddress.postgres("127.0.0.1", 1, "me", "secret", "runs"))


# ------------------------------------------------------------------------------------------ the command line


def run(*words):
    return typer.testing.CliRunner().invoke(db, list(words), obj=CommandContext())


def test_db_command_deletes_a_run(address, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    journal = SqlJournal(address)
    journal.open()
    batch = Engine().batch(4)
    journal.append(batch)
    batch.committed.result(30)
    journal.close()
    url = f"sqlite:///{address.path}" if address.is_sqlite else f"postgresql://{str(address).partition('://')[2]}"
    assert run("delete-run", RUN, "--url", url).exit_code == 0
    assert capsys.readouterr().out == f"{address}: run {RUN} and its 4 tasks are deleted\n"
    assert with_connection(address, lambda c: c.exec_driver_sql("SELECT count(*) FROM runs").scalar()) == 0
    assert isinstance(run("delete-run", RUN, "--url", url).exception, InvalidInputError)


def test_db_commands_create_and_check(address, tmp_path, monkeypatch, capsys):
    def output_of(*words, code=0):
        assert run(*words, "--url", url).exit_code == code
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{address.path}" if address.is_sqlite else f"postgresql://{str(address).partition('://')[2]}"
    if address.is_sqlite:
        assert output_of("init") == f"{address}: created (version {newest_revision()})\n"
    assert output_of("upgrade") == f"{address}: is up to date (version {newest_revision()})\n"
    assert output_of("verify").endswith(f"{address}: all checks passed\n")
    with_connection(address, lambda c: c.exec_driver_sql("DROP TABLE commands"))
    assert output_of("verify", code=1).endswith(f"{address}: wrong: tables\n")
    document = json.loads(output_of("verify", "--json", code=1))
    assert not document["ok"]


def test_db_commands_use_the_settings_without_a_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYBRID_STORAGE__SQLITE_FILE", "mine.db")
    assert run("init").exit_code == 0
    assert (tmp_path / "mine.db").exists()
    assert isinstance(run("verify", "--url", "mysql://x").exception, InvalidInputError)
