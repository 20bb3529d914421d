"""Measured runs: their checks, their JSON, their batch, and how they are stored beside an active run."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from measured_examples import PLATFORM, measured_run

from hybrid_scheduler import InvalidInputError
from hybrid_scheduler.core.outcome import FAILED
from hybrid_scheduler.live import (
    Counters,
    EngineClosed,
    IdempotencyKey,
    JournalUnavailable,
    SubmittedTask,
    batch_of,
    measured_from_json,
    measured_to_json,
)
from hybrid_scheduler.live.lane_statistics import LaneStatistics
from hybrid_scheduler.testing import MemoryJournal

RUN_ID = "01J00000000000000000000009"


# ------------------------------------------------------------------------------------------ the batch


def test_batch_is_numbered_from_the_counters():
    batch = batch_of(measured_run(5), RUN_ID, Counters(101, 1001, 11), now=2000.0)
    assert batch.tasks.task_id.tolist() == [101, 102, 103, 104, 105]
    assert (batch.first_ordinal, batch.first_result_id) == (0, 1001)
    assert batch.counters == Counters(106, 1011, 12)
    (event,) = batch.events
    assert (event.seq, event.type, event.run_id, event.created_at) == (11, "notification", RUN_ID, 2000.0)
    assert (event.body["kind"], event.body["level"]) == ("measured_run", "info")
    assert RUN_ID in event.body["message"]


def test_record_describes_the_measured_run():
    run = measured_run(5)
    record = batch_of(run, RUN_ID, Counters(), now=2000.0).run
    assert (record.source, record.status, record.created_at, record.ended_at) == (
        "measured",
        "stopped",
        1000,
        1004.5,
    )
    assert (record.scenario, record.seed, record.platform) == ("kernels: sort", 7, "bench")
    assert record.schedulers == ("greedy", "cpu_only")
    assert np.isnan(record.utilisation)
    assert record.config["mode"] == "sequential"
    assert record.config["platform"]["devices"][1] == {"name": "cpu_narrow", "kind": "threads", "node": 0}
    assert record.config_hash == batch_of(run, RUN_ID, Counters(50, 60, 70), now=0.0).run.config_hash


def test_notification_goes_to_the_watched_run():
    (event,) = batch_of(measured_run(2), RUN_ID, Counters(), now=0.0, watched="another").events
    assert event.run_id == "another"


def test_checkpoint_holds_the_comparison():
    run = measured_run(30)
    batch = batch_of(run, RUN_ID, Counters(), now=0.0)
    saved = batch.state["lanes"]["cpu_only"]["statistics"]
    statistics = LaneStatistics(PLATFORM.cpu_of)
    statistics.restore(saved)
    row, columns = statistics.row("cpu_only", "ready", None, None, 0), run.results["cpu_only"]
    assert (row.tasks, row.failed) == (30, 1)
    assert row.mean_latency == pytest.approx(np.nanmean(columns.latency))
    assert row.mean_wait == pytest.approx(np.nanmean(columns.latency - columns.time))
    assert row.makespan == np.nanmax(columns.finish)
    assert (row.mean_energy, row.mean_cost) == (None, None)  # unknown
    assert (row.total_energy, row.total_cost) == (0.0, 0.0)
    assert saved["sums"]["energy"] is None


def test_json_round_trip_keeps_everything():
    run = measured_run(9)
    again = measured_from_json(measured_to_json(run))
    assert measured_to_json(again) == measured_to_json(run)
    assert again.platform.cpu_of.tolist() == [0, 0]
    for name, columns in run.results.items():
        np.testing.assert_array_equal(again.results[name].latency, columns.latency)
        np.testing.assert_array_equal(again.results[name].status, columns.status)
    assert again.tasks.kinds == ("sort",)


def changed(column, row, value):
    """Return results of a valid run with one value of the first scheduler replaced."""
    run = measured_run(6)
    values = getattr(run.results["greedy"], column).copy()
    values[row] = value
    return {"results": {"greedy": replace(run.results["greedy"], **{column: values})}}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (changed("device", 1, 2), "results.greedy.device.1"),
        (changed("status", 1, 9), "results.greedy.status.1"),
        (changed("fraction", 0, 1.5), "results.greedy.gpu_fraction.0"),
        (changed("fraction", 0, np.nan), "results.greedy.gpu_fraction.0"),
        (changed("time", 2, 0.0), "results.greedy.actual_time.2"),
        (changed("time", 2, np.nan), "results.greedy.actual_time.2"),
        (changed("latency", 2, -1.0), "results.greedy.latency.2"),
        (changed("latency", 5, 1.0), "results.greedy.latency.5"),  # of the task that failed
        (changed("finish", 3, np.inf), "results.greedy.finish_time.3"),
        (changed("start", 3, 0.01), "results.greedy.start_time.3"),  # before it arrived
        (changed("finish", 3, 0.001), "results.greedy.finish_time.3"),
        (changed("cpu_time", 1, 0.5), "results.greedy.cpu_time.1"),  # without a start
        (changed("energy", 1, -2.0), "results.greedy.energy_consumption.1"),
        ({"optimal_fraction": np.full(6, 2.0)}, "tasks.optimal_fraction.0"),
        ({"optimal_time": np.ones(5)}, "tasks.optimal_time"),
        ({"results": {}}, "results"),
        ({"results": dict.fromkeys(map(str, range(17)), measured_run(6).results["greedy"])}, "results"),
        ({"results": measured_run(5).results}, "results.greedy.device"),
        ({"scenario": ""}, "scenario"),
        ({"seed": -1}, "seed"),
        ({"config": {"a": float("nan")}}, "config"),
        ({"ended_at": 999.0}, "ended_at"),
        ({"tasks": measured_run(7).tasks.rows(1, 7)}, "tasks.task_id"),
    ],
)
def test_impossible_values_are_refused(changes, field):
    with pytest.raises(InvalidInputError) as raised:
        measured_run(6, **changes)
    assert raised.value.field == field


def test_unknown_device_is_refused():
    content = measured_to_json(measured_run(3))
    content["results"]["greedy"]["device"][1] = "gpu_0"
    with pytest.raises(InvalidInputError, match=r"results\.greedy\.device: must be one of cpu_narrow, cpu_wide"):
        measured_from_json(content)


def test_too_many_tasks_are_refused():
    with pytest.raises(InvalidInputError, match="at most 20,000"):
        measured_run(20_001)


# ------------------------------------------------------------------------------------------ while a run is live


@pytest.fixture
def one(live):
    return live(schedulers=["greedy", "oracle"]).started()


def test_active_run_goes_on_while_a_measured_run_is_stored(one):
    before = one.run(5.0)
    run_id = one.engine.store_measured(measured_run(40)).result(10)
    status = one.run(5.0)
    assert status.run_id == before.run_id != run_id
    assert status.state == "running"
    ids = one.task_column("task_id").tolist()
    assert ids == list(range(1, len(ids) + 1))  # every number once, in the order of batches
    mine = [batch for batch in one.batches if batch.run.run_id == run_id]
    live = [batch for batch in one.batches if batch.run.run_id == before.run_id]
    assert [len(batch) for batch in mine] == [40]
    theirs = np.concatenate([batch.tasks.task_id for batch in live])
    assert np.diff(theirs).max() == 41
    ordinals = [(batch.first_ordinal, len(batch)) for batch in live]
    assert all(first + n == after for (first, n), (after, _) in pairwise(ordinals))
    results = [(b.first_result_id, len(b) * len(b.results)) for b in one.batches]
    assert all(first + n == after for (first, n), (after, _) in pairwise(results))
    assert [event.seq for event in one.journal.events] == list(range(1, len(one.journal.events) + 1))
    assert status.tasks_processed == len(theirs)


def test_storing_a_measured_run_changes_no_live_row(live):
    alone, disturbed = (live(schedulers=["greedy", "oracle"]).started() for _ in range(2))
    for one in (alone, disturbed):
        one.run(3.0)
        if one is disturbed:
            one.engine.store_measured(measured_run(8)).result(10)
        one.run(5.0)
    rows = [
        np.concatenate([b.results["greedy"].finish for b in one.batches if b.run.source == "simulated"])
        for one in (alone, disturbed)
    ]
    np.testing.assert_array_equal(*rows)


def test_notification_is_in_the_stream_of_the_active_run(one):
    status = one.run(1.0)
    one.engine.store_measured(measured_run()).result(10)
    (notification,) = [event for event in one.journal.events if event.body.get("kind") == "measured_run"]
    assert notification.run_id == status.run_id
    assert one.engine.status().last_seq >= notification.seq


def test_notification_is_in_its_own_stream_without_an_active_run(live):
    one = live(schedulers=["greedy"])
    one.engine.open()
    run_id = one.engine.store_measured(measured_run()).result(10)
    assert one.engine.status().run_id is None
    assert one.journal.events[-1].run_id == run_id
    assert one.engine.status().next_task_id == 13


def test_measured_run_is_acknowledged_when_durable(one):
    one.run(1.0)
    one.journal.hold()
    run_id = one.engine.store_measured(measured_run())
    one.engine.pause()  # a later command: the batch is with the journal
    assert not run_id.done()
    one.journal.release()
    assert len(run_id.result(10)) == 26


def test_run_that_is_being_stored_is_not_stored_twice(one):
    one.run(1.0)
    one.journal.hold()
    named = measured_run(run_id="01JCQ4W3E8Z0V6M8T1S9Y5K2RB")
    first, again = one.engine.store_measured(named), one.engine.store_measured(named)
    one.engine.pause()
    before = one.engine.status().next_task_id
    one.journal.release()
    assert first.result(10) == again.result(10) == named.run_id
    assert one.engine.status().next_task_id == before
    assert [batch.run.run_id for batch in one.journal.batches].count(named.run_id) == 1


def test_run_that_waits_through_an_outage_is_not_stored_twice(one):
    one.run(1.0)
    one.journal.hold()
    named = measured_run(run_id="01JCQ4W3E8Z0V6M8T1S9Y5K2RB")
    refused = one.engine.store_measured(named)
    one.engine.pause()
    one.journal.fail()
    with pytest.raises(JournalUnavailable):
        refused.result(10)
    again = one.engine.store_measured(named)
    one.clock.settle()
    one.journal.release()
    assert again.result(10) == named.run_id
    assert [batch.run.run_id for batch in one.journal.batches].count(named.run_id) == 1


@pytest.mark.parametrize("named", [True, False], ids=["run_id", "key"])
def test_run_stored_after_an_error_is_not_stored_by_a_later_command(one, named):
    """The request that sends the command looked for the run before it was stored."""
    run = measured_run(run_id="01JCQ4W3E8Z0V6M8T1S9Y5K2RB" if named else None)
    key = None if named else IdempotencyKey("k", "digest", 0)
    one.run(1.0)
    one.journal.hold()
    refused = one.engine.store_measured(run, key)
    one.engine.pause()
    one.journal.fail()
    with pytest.raises(JournalUnavailable):
        refused.result(10)
    one.journal.release()
    again = one.engine.store_measured(run, key).result(10)
    assert [batch.run.run_id for batch in one.journal.batches if batch.run.source == "measured"] == [again]


def test_id_of_a_run_that_is_being_stored_is_refused_for_another(one):
    first = measured_run(run_id="01JCQ4W3E8Z0V6M8T1S9Y5K2RB")
    one.journal.hold()
    stored = one.engine.store_measured(first)
    with pytest.raises(InvalidInputError, match="run_id"):
        one.engine.store_measured(replace(first, created_at=999.0)).result(10)
    one.journal.release()
    assert stored.result(10) == first.run_id


def test_deleted_run_can_be_stored_again(one):
    run, key = measured_run(run_id="01JCQ4W3E8Z0V6M8T1S9Y5K2RB"), IdempotencyKey("k", "digest", 0)
    one.engine.store_measured(run, key).result(10)
    assert one.engine.delete_run(run.run_id).result(10) == 12
    assert one.engine.store_measured(run, key).result(10) == run.run_id
    assert [len(batch) for batch in one.journal.batches if batch.run.run_id == run.run_id] == [12]


def test_full_journal_refuses_at_once_and_uses_no_ids(live):
    one = live(schedulers=["greedy"], journal=MemoryJournal(most_batches=1)).started()
    one.run(1.0)
    one.journal.hold()
    one.run(3.0)
    before = one.engine.status().next_task_id
    with pytest.raises(JournalUnavailable):
        one.engine.store_measured(measured_run()).result(10)
    one.engine.pause()
    one.journal.release()
    assert one.engine.status().next_task_id == before
    assert one.engine.store_measured(measured_run()).result(10)


def test_unavailable_journal_refuses_a_measured_run(one):
    one.run(1.0)
    one.journal.fail()
    with pytest.raises(JournalUnavailable):
        one.engine.store_measured(measured_run()).result(10)


def test_restart_resumes_the_live_run_not_the_measured_one(live):
    one = live(schedulers=["greedy", "oracle"]).started()
    one.run(4.0)
    one.engine.store_measured(measured_run(9)).result(10)
    before = one.run(4.0)
    one.engine.close()
    two = live(schedulers=["greedy", "oracle"], journal=one.journal, clock=one.clock)
    two.engine.open()
    two.run(3.0)
    status = two.engine.status()
    assert status.run_id == before.run_id
    assert status.tasks_processed > before.tasks_processed
    ids = np.concatenate([batch.tasks.task_id for batch in one.journal.batches if len(batch)])
    assert ids.tolist() == list(range(1, len(ids) + 1))


def test_ids_of_submitted_tasks_skip_the_measured_run(one):
    task = SubmittedTask(1000.0, 0.5, 100.0)
    one.engine.pause()
    first = one.engine.submit(task).result(10)
    one.engine.store_measured(measured_run(10)).result(10)
    assert one.engine.submit(task).result(10) == first + 11


def test_closed_engine_refuses_a_measured_run(live):
    one = live(schedulers=["greedy"])
    with pytest.raises(EngineClosed):
        one.engine.store_measured(measured_run())


def test_failed_tasks_have_no_times():
    run = measured_run(6)
    failed = run.results["greedy"].status == FAILED
    assert failed.any()
    assert np.isnan(run.results["greedy"].latency[failed]).all()
