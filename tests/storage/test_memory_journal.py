"""The journal for tests keeps the same promises."""

from concurrent.futures import Future

import pytest
from batches import Engine

from hybrid_scheduler.live.journal import Event, JournalFull, JournalUnavailable
from hybrid_scheduler.testing import MemoryJournal


def test_memory_journal_stores_at_once_by_default():
    published: list[Event] = []
    journal = MemoryJournal(most_batches=2, on_events=published.extend)
    assert journal.open().counters == (1, 1, 1)
    engine = Engine()
    first = engine.batch(3)
    journal.append(first)
    assert first.committed.result(0) is None
    journal.hold()
    second, third = engine.batch(2), engine.batch(1)
    journal.append(second)
    journal.append(third)
    assert not journal.has_capacity
    assert journal.unsaved == 2
    assert not second.committed.done()
    assert [event.seq for event in published] == [1]
    with pytest.raises(JournalFull):
        journal.append(engine.batch(1))
    journal.fail()
    assert journal.unavailable
    with pytest.raises(JournalUnavailable):
        second.committed.result(0)
    journal.release()
    assert journal.wait_for(lambda journal: journal.tasks == 6, 0)
    assert [event.seq for event in journal.events] == [1, 2, 3]
    deleted: Future[int] = Future()
    journal.delete_tasks(deleted)
    assert deleted.result(0) == 6
    journal.close()


def test_memory_journal_can_be_reopened():
    journal = MemoryJournal()
    engine = Engine()
    journal.append(engine.batch(3))
    journal.append(engine.batch(2, status="paused"))
    found = journal.open()
    assert found.counters == engine.counters
    assert found.state is not None
    assert (found.run.status, found.state["tasks"], len(found.recent["greedy"].tasks)) == ("paused", 5, 2)
    journal.append(engine.batch(0, status="stopped"))
    assert journal.open().run is None
