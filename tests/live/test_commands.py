"""Commands to the live engine: idempotence, submitted tasks, deletion, and a slow or unavailable journal."""

import math
import threading
from dataclasses import replace

import numpy as np
import pytest

from hybrid_scheduler import InvalidInputError
from hybrid_scheduler.live import IdempotencyKey, JournalFull, JournalUnavailable, LiveConfig, SubmittedTask
from hybrid_scheduler.testing import MemoryJournal
from hybrid_scheduler.workload import scenario_named

TASK = SubmittedTask(1000.0, 0.5, 100.0, external_id="mine")


@pytest.fixture
def one(live):
    return live(schedulers=["greedy", "oracle"]).started()


def test_repeated_command_changes_nothing_and_sends_no_event(one):
    engine, mixed = one.engine, scenario_named("mixed")
    for command in (
        engine.start,
        engine.pause,
        engine.resume,
        lambda: engine.set_speed(3.0),
        lambda: engine.set_scenario(mixed, 0.1),
        engine.stop,
    ):
        one.run(1.0)
        first, second = command(), command()
        assert (first.state, first.speed, first.scenario) == (second.state, second.speed, second.scenario)
    kinds = [n["kind"] for n in one.notifications()]
    assert kinds == ["run_started", "paused", "resumed", "speed", "scenario", "run_stopped"]


def test_pause_stops_time_tasks_and_updates(one):
    one.run(5.0)
    before = one.engine.pause()
    batches = len(one.journal.batches)
    after = one.run(60.0)
    assert after == before
    assert after.is_paused
    assert not after.is_running
    assert len(one.journal.batches) == batches  # not even updates
    one.engine.resume()
    later = one.run(5.0)
    assert later.virtual_time == pytest.approx(before.virtual_time + 5.0, abs=0.6)
    assert later.tasks_processed > before.tasks_processed


def test_numbers_order_statuses_among_updates_by_the_state_of_the_run(one):
    """A page that follows the higher number never shows a run as paused that another page resumed."""
    for _ in range(3):
        one.run(2.0)
        paused = one.engine.pause()
        resumed = one.engine.resume()
        states = {
            event.seq: event.body["state"] for event in one.journal.events if event.type == "simulation_update"
        }
        before = max(seq for seq in states if seq <= paused.last_seq)
        after = min(seq for seq in states if seq > paused.last_seq)
        assert (states[before], states[after]) == ("paused", "running")
        assert after <= resumed.last_seq


def test_start_resumes_a_paused_run_and_begins_a_new_one_after_stop(one):
    one.run(2.0)
    run_id = one.engine.pause().run_id
    assert one.engine.start().run_id == run_id
    one.engine.stop()
    assert one.journal.batches[-1].run.status == "stopped"
    assert one.journal.batches[-1].run.ended_at is not None
    status = one.engine.start()
    assert status.run_id > run_id  # ULIDs sort by time
    assert (status.state, status.tasks_processed, status.virtual_time) == ("running", 0, 0.0)
    assert status.next_task_id > 1
    assert {batch.run.run_id for batch in one.journal.batches} == {run_id, status.run_id}


def test_restart_stops_the_run_and_begins_another(one):
    one.run(2.0)
    old = one.engine.status()
    status = one.engine.restart(replace(one.config, seed=9, schedulers=("round_robin",)))
    assert (status.seed, status.schedulers, status.tasks_processed) == (9, ("round_robin",), 0)
    ended = [batch.run for batch in one.journal.batches if batch.run.run_id == old.run_id][-1]
    assert ended.status == "stopped"
    one.run(5.0)
    assert tuple(one.batches[-1].results) == ("round_robin",)


def test_speed_scales_virtual_time_and_is_refused_out_of_range(one):
    one.run(10.0)
    before = one.engine.set_speed(50.0)
    assert one.run(10.0).virtual_time == pytest.approx(before.virtual_time + 500.0, abs=30.0)
    for bad in (0.0, -1.0, 0.001, 20_000.0, float("nan"), "fast"):
        with pytest.raises(InvalidInputError, match="speed"):
            one.engine.set_speed(bad)


def test_new_scenario_applies_from_now_on_and_after_a_restart(one):
    one.run(10.0)
    status = one.engine.set_scenario(scenario_named("transfer"), 0.5)
    first = status.next_task_id
    assert (status.scenario, status.load) == ("transfer", 0.5)
    assert status.notes == ("greedy is unstable above about 0.23 of capacity",)
    one.run(20.0)
    ids, memory = one.task_column("task_id"), one.task_column("memory_required")
    assert memory[ids < first].max() <= 150.0
    assert memory[ids >= first].max() > 1000.0
    assert (np.diff(one.task_column("arrival_time")) >= 0).all()
    assert one.journal.batches[-1].run.scenario == "transfer"
    again = replace(one.config)
    one.engine.close()
    # It is still that scenario after a restart.
    second = type(one)(again, journal=one.journal, clock=one.clock)
    status = second.engine.open()
    assert (status.scenario, status.load) == ("transfer", 0.5)
    second.engine.close()


# ---------------------------------------------------------------- submitted tasks


def test_submitted_task_gets_results_of_every_scheduler(one):
    one.run(5.0)
    task_id = one.engine.submit(TASK).result(5)
    batch = one.batches[-1]
    row = batch.tasks.task_id.tolist().index(task_id)
    task = batch.tasks[row]
    assert (task.size, task.external_id) == (1000.0, "mine")
    assert task.arrival_time == pytest.approx(one.engine.status().virtual_time, abs=0.1)
    assert batch.tasks.external_id[row] == "mine"
    assert set(batch.results) == {"greedy", "oracle"}
    one.run(5.0)
    ids = one.task_column("task_id")
    assert ids.tolist() == list(range(1, len(ids) + 1))


def test_tasks_can_be_submitted_while_paused_or_stopped(live):
    one = live(schedulers=["greedy", "oracle"])
    one.engine.open()
    assert one.engine.submit(TASK).result(5) == 1  # without a run
    assert one.journal.batches[-1].run.status == "stopped"
    one.engine.start()
    one.run(5.0)
    paused = one.engine.pause()
    ids = [one.engine.submit(TASK).result(5) for _ in range(3)]
    assert ids == list(range(paused.next_task_id, paused.next_task_id + 3))
    assert one.engine.status().virtual_time == paused.virtual_time
    assert one.batches[-1].tasks.arrival_time[-1] == paused.virtual_time
    one.engine.stop()
    assert one.engine.submit(replace(TASK, kind="matmul")).result(5) == ids[-1] + 1
    assert one.batches[-1].tasks[0].kind == "matmul"


def test_same_idempotency_key_gives_the_same_task(one):
    key = IdempotencyKey("k1", "digest", 0)
    one.run(1.0)
    first = one.engine.submit(TASK, key).result(5)
    assert one.engine.submit(TASK, key).result(5) == first
    one.journal.hold()
    waiting = [one.engine.submit(TASK, IdempotencyKey("k2", "digest", 0)) for _ in range(2)]
    assert not waiting[0].done()
    one.journal.release()
    assert waiting[0].result(5) == waiting[1].result(5) == first + 1
    with pytest.raises(InvalidInputError, match="Idempotency-Key"):
        one.engine.submit(TASK, IdempotencyKey("k1", "another", 0)).result(5)
    stored = [entry for batch in one.journal.batches for entry in batch.idempotency]
    assert stored == [IdempotencyKey("k1", "digest", first), IdempotencyKey("k2", "digest", first + 1)]


def test_key_of_a_task_that_waits_through_an_outage_makes_no_second_task(one):
    key = IdempotencyKey("k", "digest", 0)
    one.run(1.0)
    one.journal.hold()
    refused = one.engine.submit(TASK, key)
    one.engine.status()
    one.clock.settle()
    one.journal.fail()
    with pytest.raises(JournalUnavailable):
        refused.result(5)
    again = one.engine.submit(TASK, key)
    one.clock.settle()
    assert not again.done()  # it waits for the batch of the first request
    one.journal.release()
    task_id = again.result(5)
    assert one.engine.submit(TASK, key).result(5) == task_id
    assert [entry for batch in one.journal.batches for entry in batch.idempotency] == [
        replace(key, task_id=task_id)
    ]
    assert sum("mine" in (batch.tasks.external_id or ()) for batch in one.batches) == 1


def test_keys_of_tasks_that_wait_are_never_forgotten(one, monkeypatch):
    monkeypatch.setattr("hybrid_scheduler.live.run_output.MAX_KEYS", 2)
    one.journal.hold()
    first = [one.engine.submit(TASK, IdempotencyKey(f"k{i}", "digest", 0)) for i in range(5)]
    again = [one.engine.submit(TASK, IdempotencyKey(f"k{i}", "digest", 0)) for i in range(5)]
    one.clock.settle()
    one.journal.release()
    assert [future.result(5) for future in again] == [future.result(5) for future in first]


def test_keys_stored_a_moment_ago_are_known_in_any_number(one, monkeypatch):
    """A request may have looked for its key just before."""
    monkeypatch.setattr("hybrid_scheduler.live.run_output.MAX_KEYS", 2)
    keys = [IdempotencyKey(f"k{i}", "digest", 0) for i in range(5)]
    first = [one.engine.submit(TASK, key).result(5) for key in keys]
    assert [one.engine.submit(TASK, key).result(5) for key in keys] == first
    monkeypatch.setattr("hybrid_scheduler.live.run_output.KEEP_STORED_S", -1.0)
    one.engine.submit(TASK, IdempotencyKey("k5", "digest", 0)).result(5)  # memory stays bounded
    assert one.engine.submit(TASK, keys[0]).result(5) > first[-1] + 1


def test_keys_are_known_after_a_restart(live):
    key = IdempotencyKey("k", "digest", 0)
    one = live(schedulers=["greedy"]).started()
    first = one.engine.submit(TASK, key).result(5)
    one.engine.close()
    next_engine = live(schedulers=["greedy"], journal=one.journal).started()
    assert next_engine.engine.submit(TASK, key).result(5) == first


def test_invalid_tasks_are_refused():
    for values, message in [
        ((0.0, 0.5, 100.0), "size: must be finite and > 0"),
        ((float("nan"), 0.5, 100.0), "size"),
        ((1.0, 1.5, 100.0), "compute_intensity"),
        ((1.0, 0.5, -1.0), "memory_required"),
        ((1.0, 0.5, 1.0, ""), "kind"),
        ((1.0, 0.5, 1.0, "sort", "a\0b"), "external_id: must be text without NUL"),
        ((1.0, 0.5, 1.0, "sort", "\ud800"), "external_id"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            SubmittedTask(*values)


# ---------------------------------------------------------------- deletion


def test_only_a_run_that_has_ended_is_deleted(one):
    first = one.run(20.0)
    for command in (one.engine.status, one.engine.pause):
        command()
        with pytest.raises(InvalidInputError, match="a run that has ended"):
            one.engine.delete_run(first.run_id)
    one.engine.stop()
    assert one.engine.delete_run(first.run_id).result(5) > 0
    assert one.journal.batches == []
    assert one.engine.status().run_id is None
    # A task that is submitted now does not bring the deleted run back.
    task_id = one.engine.submit(SubmittedTask(1000.0, 0.5, 100.0)).result(5)
    assert task_id >= first.next_task_id
    assert first.run_id not in {batch.run.run_id for batch in one.journal.batches}


def test_deletion_resets_averages_and_keeps_counting_ids(one):
    one.run(20.0)
    before = one.engine.status()
    stored = one.journal.tasks
    assert one.engine.delete_tasks().result(5) >= stored
    assert one.engine.delete_tasks().result(5) == 0
    status = one.engine.status()
    assert [row.tasks for row in status.comparison] == [0, 0]
    assert status.comparison[0].mean_latency is None
    assert status.next_task_id >= before.next_task_id  # ids are not used again
    first = status.next_task_id
    status = one.run(20.0)
    mine = one.task_column("task_id") >= first
    assert status.comparison[0].tasks == mine.sum()
    assert status.comparison[0].mean_latency == pytest.approx(one.column("greedy", "latency")[mine].mean())
    assert one.journal.batches[-1].state["lanes"]["greedy"]["statistics"]["tasks"] == mine.sum()


def test_forget_is_the_deprecated_name_of_delete_tasks(one):
    one.run(1.0)
    with pytest.warns(DeprecationWarning, match="use delete_tasks"):
        assert one.engine.forget().result(5) == one.journal.tasks


@pytest.mark.parametrize("reason", ["unavailable", "refused"])
def test_refused_deletion_changes_nothing(live, reason):
    class RefusingJournal(MemoryJournal):
        def delete_tasks(self, deleted):
            deleted.set_exception(JournalUnavailable("not now"))

    one = live(schedulers=["greedy"], journal=RefusingJournal()).started()
    one.run(10.0)
    one.engine.pause()
    before = one.engine.status().comparison
    if reason == "unavailable":
        one.journal.fail()
        with pytest.raises(JournalUnavailable):
            one.engine.delete_tasks()
    else:
        with pytest.raises(JournalUnavailable):
            one.engine.delete_tasks().result(5)
    one.run(1.0)
    assert one.engine.status().comparison == before
    assert one.notifications("forgotten") == []


def test_deletion_resets_averages_when_it_is_accepted_and_is_announced_at_its_end(live):
    class SlowJournal(MemoryJournal):
        def delete_tasks(self, deleted):
            self.deleting = deleted

    one = live(schedulers=["greedy"], journal=SlowJournal()).started()
    one.run(10.0)
    one.engine.pause()
    first, second = one.engine.delete_tasks(), one.engine.delete_tasks()  # the second joins the first
    one.run(1.0)
    assert one.engine.status().comparison[0].tasks > 0
    assert one.journal.deleting.set_running_or_notify_cancel()
    one.run(1.0)
    assert one.engine.status().comparison[0].tasks == 0
    assert first.running()
    assert one.notifications("forgotten") == []
    one.journal.deleting.set_result(7)
    one.run(1.0)
    assert first.result(5) == second.result(5) == 7
    assert len(one.notifications("forgotten")) == 1
    cancelled = one.engine.delete_tasks()
    assert cancelled.cancel()
    one.run(1.0)
    assert one.journal.deleting.cancelled()


# ---------------------------------------------------------------- slow or unavailable journal


def test_full_journal_holds_the_run_and_loses_nothing(live):
    one = live(schedulers=["greedy"], journal=MemoryJournal(most_batches=4)).started()
    one.run(5.0)
    one.journal.hold()
    status = one.run(10.0)
    assert status.state == "held"
    assert status.is_running
    assert status.unsaved_batches == 4
    assert one.run(10.0).tasks_processed == status.tasks_processed
    assert one.engine.set_speed(2.0).state == "held"  # commands are answered
    assert one.engine.pause().state == "paused"
    assert one.engine.resume().state in ("held", "running")
    one.run(1.0)
    one.journal.release()
    later = one.run(5.0)
    assert later.state == "running"
    assert later.virtual_time == pytest.approx(status.virtual_time + 10.0, abs=2.0)  # no catching up
    assert [event.seq for event in one.journal.events] == list(range(1, len(one.journal.events) + 1))
    ids = one.task_column("task_id")
    assert ids.tolist() == list(range(1, len(ids) + 1))
    assert {"speed", "paused", "resumed"} <= {n["kind"] for n in one.notifications()}


@pytest.mark.parametrize(("command", "status"), [("stop", "stopped"), ("pause", "paused")])
def test_command_given_while_the_journal_is_full_is_stored_once_it_has_capacity(live, command, status):
    one = live(schedulers=["greedy"], journal=MemoryJournal(most_batches=2)).started()
    one.run(2.0)
    one.journal.hold()
    assert one.run(5.0).state == "held"
    assert getattr(one.engine, command)().state == status
    one.journal.release()
    one.run(1.0)
    assert one.journal.batches[-1].run.status == status
    assert [one.notifications()[-1]["kind"]] == ["run_stopped" if command == "stop" else "paused"]


def test_command_given_while_the_journal_is_full_survives_a_close(live):
    one = live(schedulers=["greedy"], journal=MemoryJournal(most_batches=2)).started()
    one.run(2.0)
    one.journal.hold()
    one.run(5.0)
    one.engine.stop()
    threading.Timer(0.2, one.journal.release).start()
    one.engine.close()
    assert one.journal.open().run is None


def test_run_begins_only_after_the_end_of_the_one_before_is_queued(live):
    one = live(schedulers=["greedy"], journal=MemoryJournal(most_batches=2)).started()
    one.run(2.0)
    one.journal.hold()
    old = one.run(5.0).run_id
    with pytest.raises(JournalUnavailable):
        one.engine.restart(replace(one.config, seed=9))
    assert one.engine.status().run_id == old  # a refused command changes nothing
    assert one.engine.status().state == "held"
    one.engine.stop()
    with pytest.raises(JournalUnavailable):
        one.engine.start()
    one.journal.release()
    one.run(0.5)
    new = one.engine.start().run_id
    one.run(1.0)
    last = {batch.run.run_id: batch.run for batch in one.journal.batches}
    assert (last[old].status, last[new].status) == ("stopped", "running")
    assert last[old].ended_at is not None
    assert all(
        event.run_id == old for batch in one.journal.batches for event in batch.events if batch.run.run_id == old
    )


def test_updates_are_sent_while_the_journal_is_the_bottleneck(live):
    class SlowJournal(MemoryJournal):
        """Full after every batch, until the engine has noticed."""

        asked = 0

        @property
        def has_capacity(self):
            self.asked += 1
            if self.asked % 6 == 0:
                self.release()
                self.hold()
            return not self.unsaved

    journal = SlowJournal()
    journal.hold()
    one = live(LiveConfig(schedulers=("greedy",), speed=math.inf), journal=journal).started()
    states = {one.run(0.05).state for _ in range(100)}
    assert states == {"held", "running"}
    assert len(one.updates()) >= 5
    assert one.engine.status().tasks_per_second > 0
    assert one.updates()[-1]["tasks_per_second"] > 0


def test_unavailable_journal_is_reported_and_refuses_tasks(one):
    one.run(5.0)
    one.journal.fail()
    assert one.run(1.0).storage == "away"
    with pytest.raises(JournalUnavailable):
        one.engine.submit(TASK).result(5)
    one.journal.release()
    assert one.run(1.0).storage == "ok"
    assert one.engine.submit(TASK).result(5) > 0
    [notification] = one.notifications("storage")
    assert notification["level"] == "warning"
    assert "nothing was lost" in notification["message"]


def test_batch_refused_by_the_journal_is_sent_again(live):
    class RefusingJournal(MemoryJournal):
        refusals = 0

        def append(self, batch):
            self.refusals += 1
            if self.refusals % 3 == 0:
                raise JournalFull("not now")
            super().append(batch)

    one = live(schedulers=["greedy"], journal=RefusingJournal()).started()
    one.run(10.0)
    one.engine.pause()
    one.run(1.0)
    ids = one.task_column("task_id")
    assert ids.tolist() == list(range(1, len(ids) + 1))
    assert len(ids) > 20
    assert [event.seq for event in one.journal.events] == list(range(1, len(one.journal.events) + 1))


def test_settings_changed_while_stopped_apply_to_the_next_run(live):
    one = live(LiveConfig(schedulers=("greedy",)))
    one.engine.open()
    one.engine.set_scenario(scenario_named("small"), 0.12)
    one.engine.set_speed(4.0)
    status = one.engine.start()
    assert (status.scenario, status.load, status.speed) == ("small", 0.12, 4.0)
