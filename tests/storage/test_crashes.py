"""`kill -9` in the middle of storing. `python tests/storage/crash.py` is the long campaign."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from fault_scale import amount

sys.path.insert(0, os.path.dirname(__file__))

import crash

from hybrid_scheduler.storage import DatabaseAddress, Repository, SqlJournal, open_database


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_on_sqlite(tmp_path):
    done = crash.campaign(f"sqlite:///{tmp_path}/history.db", cycles=amount(2, 50))
    assert done[-1].stored > 0


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_on_postgresql(database_url):
    done = crash.campaign(database_url, cycles=amount(2, 50))
    assert done[-1].stored > 0


@pytest.mark.slow
async def test_a_killed_engine_leaves_no_lock_and_readers_go_on(tmp_path):
    address = DatabaseAddress.sqlite(tmp_path / "history.db")
    one = crash.cycle(f"sqlite:///{address.path}", crash.random.Random(3))
    database = open_database(address)
    rows = await Repository(database).history(5)
    await database.close()
    assert rows[-1]["task_id"] == one.stored
    journal = SqlJournal(address)
    assert journal.open().counters.next_task_id == one.stored + 1
    journal.close()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace counts the calls")
def test_every_acknowledged_commit_is_synced_to_disk(tmp_path):
    """`kill -9` does not prove that: the kernel would have written it anyway."""
    trace = tmp_path / "trace"
    url = f"sqlite:///{tmp_path}/history.db"
    command = [
        "strace",
        "-f",
        "-e",
        "trace=fsync,fdatasync,write",
        "-o",
        str(trace),
        sys.executable,
        crash.__file__,
    ]
    process = subprocess.Popen([*command, "--worker", url], stdout=subprocess.PIPE, text=True)
    first = process.stdout.readline()
    if not first:
        process.wait()
        pytest.skip("strace may not trace here")
    for _ in range(20):
        process.stdout.readline()
    process.kill()
    process.stdout.close()
    process.wait()
    # The worker waits for each group it hands over, and a group has at most four batches: no more than four
    # answers may follow one sync.
    answers = since_sync = 0
    for line in trace.read_text().splitlines():
        if re.search(r"f(data)?sync.*= 0$", line):
            since_sync = 0
        elif 'write(1, "ack' in line:
            answers, since_sync = answers + 1, since_sync + 1
            assert since_sync <= 4, line
    assert answers >= 20
