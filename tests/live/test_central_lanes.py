"""Central schedulers in a live run: tasks wait in a common queue, and results come when they start."""

import gc
import json
import math
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from hybrid_scheduler import Central, Cluster, InvalidInputError, create, register
from hybrid_scheduler.core import Platform
from hybrid_scheduler.core.outcome import FAILED
from hybrid_scheduler.learning.duration.retraining import InlineTrainingWorker
from hybrid_scheduler.live import LiveConfig, SubmittedTask, scheduler_lane
from hybrid_scheduler.live.journal import RESULT_COLUMNS
from hybrid_scheduler.live.live_run import LiveRun
from hybrid_scheduler.live.scheduler_lane import CentralLane
from hybrid_scheduler.schedulers.registry import unregister
from hybrid_scheduler.workload import generate, scenario_named

LEARNED = "hybrid_ml(binding=late)"
CENTRAL = ("late_binding", "shortest_first", LEARNED)
BUSY = LiveConfig(scenario_named("mixed"), 0.9, speed=20.0, schedulers=(*CENTRAL, "price_index", "oracle"))


def results(live, scheduler, name):
    """Ids of the started tasks, ascending, and a column of their results."""
    groups = [group for batch in live.journal.batches for group in batch.started if group.scheduler == scheduler]
    ids = np.concatenate([group.tasks.task_id for group in groups])
    values = np.concatenate([getattr(group.columns, name) for group in groups])
    order = np.argsort(ids)
    assert len(np.unique(ids)) == len(ids)
    return ids[order], values[order]


@pytest.fixture
def played(live):
    one = live(BUSY).started()
    one.run(5.0)
    return one


@pytest.mark.parametrize("scheduler", CENTRAL)
def test_rows_equal_those_of_a_simulation(played, scheduler):
    before = played.engine.status()
    assert any(row.waiting for row in before.comparison)
    played.engine.stop()
    config, n = played.config, before.tasks_processed
    tasks = generate(config.scenario, n, config.seed, utilisation=0.9, first_id=1)
    whole = Cluster().run(tasks, create(scheduler), seed=config.seed).outcomes
    for name in ("device", "fraction", "latency", "start", "finish", "cpu_start", "accelerator_time"):
        ids, ours = results(played, scheduler, name)
        assert ids.tolist() == list(range(1, n + 1))
        assert np.array_equal(ours, getattr(whole, name), equal_nan=True), name


def test_tasks_that_arrive_together_are_queued_before_any_starts():
    tasks = generate(scenario_named("mixed"), 300, 42, batch=True, first_id=1)
    lane = CentralLane("late_binding", create("late_binding"), BUSY, tasks, InlineTrainingWorker())
    for begin in range(0, 300, 100):
        lane.release(tasks.rows(begin, begin + 100), None)
    lane.finish_queue(0.0)
    (group,) = lane.take_started()
    assert np.array_equal(
        group.columns.finish, Cluster().run(tasks, create("late_binding"), seed=42).outcomes.finish
    )


def test_full_queue_rejects_tasks_which_fail_and_are_announced(live, monkeypatch):
    monkeypatch.setattr(scheduler_lane, "MAX_WAITING", 30)
    run = live(replace(BUSY, utilisation=3.0, schedulers=("shortest_first", "oracle"))).started()
    run.run(20.0)
    (row,) = (row for row in run.engine.status().comparison if row.name == "shortest_first")
    status = results(run, "shortest_first", "status")[1]
    failed = int((status == FAILED).sum())
    assert 0 < row.waiting <= 30
    assert row.failed == failed > 30
    assert row.tasks + row.waiting == run.journal.tasks
    notes = [event.body["message"] for event in run.journal.events if event.body.get("kind") == "queue_full"]
    assert 2 <= len(notes) < 20
    assert notes[0].endswith("tasks were rejected: 30 wait")


def test_memory_of_waiting_tasks_grows_with_their_number():
    config = LiveConfig(scenario_named("mixed"), 10.0, schedulers=("late_binding",))
    run = LiveRun(config, InlineTrainingWorker())
    run.lanes.learn_all(1)
    sizes = []
    for tasks in (100, 400):
        while run.ordinal < tasks:
            run.advance(run.ordinal + 1, 20, math.inf)
        gc.collect()
        reached = {id(part): part for part in arrays_of(run.lanes[0].scheduler)}
        sizes.append(sum(part.nbytes for part in reached.values()))
    assert run.lanes[0].waiting > 200
    assert sizes[1] < 8 * sizes[0] + 100_000


def arrays_of(scheduler):
    """The arrays that a scheduler keeps, whole, where it keeps a part."""
    seen = set()
    waiting = [scheduler]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, type | ModuleType | Platform):
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            yield value if value.base is None else value.base
        elif isinstance(value, dict | list | tuple | set) or type(value).__module__.startswith("hybrid_scheduler"):
            waiting += gc.get_referents(value)


def test_every_result_is_numbered_once(played):
    played.engine.stop()
    expected = 1
    for batch in played.journal.batches:
        if batch.rows:
            assert batch.first_result_id == expected
        expected += batch.rows
        assert batch.counters.next_result_id == expected
        json.dumps(batch.state, allow_nan=False)
        for event in batch.events:
            json.dumps(event.body, allow_nan=False)
    assert expected == 1 + 5 * played.engine.status().tasks_processed


def test_regret_is_the_difference_to_the_oracle(played):
    oracle = dict(zip(played.task_column("task_id"), played.column("oracle", "latency"), strict=True))
    for name in CENTRAL:
        ids, latency = results(played, name, "latency")
        assert np.array_equal(results(played, name, "regret")[1], latency - [oracle[i] for i in ids])


def test_comparison_counts_started_and_waiting_tasks(played):
    status = played.engine.status()
    for row in status.comparison[:3]:
        ids, latency = results(played, row.name, "latency")
        assert row.tasks == len(ids)
        assert row.tasks + row.waiting == status.tasks_processed
        assert row.mean_latency == pytest.approx(latency.mean(), rel=1e-9)
    assert all(row.waiting == 0 for row in status.comparison[3:])


def test_updates_show_the_started_tasks(played):
    shown = [decision for update in played.updates() for decision in update["decisions"]]
    for name in CENTRAL:
        found = {d["task_id"]: d for d in shown if d["scheduler"] == name}
        ids, starts = results(played, name, "start")
        assert len(found) > 100
        known = dict(zip(ids, starts, strict=True))
        assert all(d["start"] == known[task_id] for task_id, d in found.items())
    for update in played.updates():
        assert update["omitted"] >= 0
        assert len(update["decisions"]) <= 200


def test_restart_changes_no_row(live, played):
    first = live(BUSY).started()
    first.run(2.3)
    assert any(row.waiting for row in first.engine.status().comparison)
    first.engine.close()
    second = live(BUSY, journal=first.journal, clock=first.clock).started()
    status = second.run(4.0)
    assert status.run_id == played.engine.status().run_id
    for scheduler in ("late_binding", "shortest_first"):
        for name in RESULT_COLUMNS:
            ids, theirs = results(played, scheduler, name)
            found = dict(zip(*results(second, scheduler, name), strict=True))
            assert np.array_equal([found[i] for i in ids], theirs, equal_nan=True), (scheduler, name)
    second.engine.stop()
    for row in second.engine.status().comparison:
        assert row.tasks == second.engine.status().tasks_processed
        assert row.waiting == 0
    assert np.isfinite(results(second, LEARNED, "latency")[1]).all()


def test_learned_late_binding_has_predictions_versions_and_a_model_card(played):
    predicted = results(played, LEARNED, "predicted_time")[1]
    actual = results(played, LEARNED, "time")[1]
    assert np.median(np.abs(np.log(predicted / actual))) < 0.1
    (card,) = played.engine.models()
    assert card.scheduler_name == LEARNED
    assert card.current_version is not None
    assert card.feature_importance is not None
    assert card.accuracy is not None


def test_explanation_says_how_long_a_task_waited_in_the_queue(played):
    for name in CENTRAL:
        ids, starts = results(played, name, "start")
        found = played.engine.explanations(int(ids[-1]))[name]
        arrival = dict(zip(played.task_column("task_id"), played.task_column("arrival_time"), strict=True))
        assert found["queued"] == pytest.approx(starts[-1] - arrival[ids[-1]])
        assert found["policy"] in ("learned_rule", "late_binding", "shortest_first", "trial")
    assert played.engine.explanations(int(ids[-1]))[LEARNED]["predictions"]


def test_pause_keeps_tasks_in_the_queue_and_resume_starts_them(played):
    played.engine.pause()
    before = {name: len(results(played, name, "start")[0]) for name in CENTRAL}
    waiting = sum(row.waiting for row in played.engine.status().comparison)
    assert waiting > 0
    played.run(5.0)
    assert before == {name: len(results(played, name, "start")[0]) for name in CENTRAL}
    task = SubmittedTask(size=2500.0, compute_intensity=0.5, memory_required=10.0)
    new = played.engine.submit(task).result(10.0)
    played.engine.resume()
    played.run(2.0)
    assert all(new in results(played, name, "start")[0] for name in CENTRAL)


def test_task_sent_to_a_stopped_run_gets_its_result_at_once(live):
    one = live(schedulers=["late_binding"])
    one.engine.open()
    new = one.engine.submit(SubmittedTask(size=2500.0, compute_intensity=0.5, memory_required=10.0)).result(10.0)
    one.engine.close()
    assert results(one, "late_binding", "start")[0].tolist() == [new]


def test_results_of_deleted_tasks_are_dropped(played):
    newest = played.engine.pause().next_task_id - 1
    assert any(row.waiting for row in played.engine.status().comparison)
    stored = len(played.journal.batches)
    played.engine.delete_tasks().result(10.0)
    played.engine.resume()
    played.run(2.0)
    later = [group for batch in played.journal.batches[stored:] for group in batch.started]
    assert min(int(group.tasks.task_id.min()) for group in later) > newest


def test_each_episode_ends_with_empty_queues(live):
    config = LiveConfig(scenario_named("rush-hour"), speed=100.0, schedulers=("late_binding", "earliest_finish"))
    one = live(config).started()
    one.run(10.0)
    assert one.notifications("episode")
    assert not [body for body in one.notifications() if body["kind"] == "scheduler_failed"]
    one.engine.stop()
    n = one.engine.status().tasks_processed
    assert len(results(one, "late_binding", "start")[0]) == n


@pytest.fixture
def refuses():
    @register("refuses", label="Refuses all tasks")
    class Refuses(Central):
        """Scheduler that starts nothing."""

        def pick(self, queue, idle_device, view):
            return None

    yield "refuses"
    unregister("refuses")


def test_scheduler_that_starts_nothing_is_switched_off_at_the_end_alone(live, refuses):
    one = live(LiveConfig(schedulers=(refuses, "greedy"), speed=20.0)).started()
    status = one.run(2.0)
    assert status.comparison[0].state == "ready"
    assert status.comparison[0].waiting == status.tasks_processed > 0
    assert status.comparison[0].mean_latency is None
    one.engine.stop()
    (failed,) = one.notifications("scheduler_failed")
    assert failed["scheduler"] == refuses
    assert "all devices are idle" in failed["message"]


def test_static_schedulers_are_refused():
    with pytest.raises(InvalidInputError, match="online and central"):
        LiveConfig(schedulers=("heft",))
