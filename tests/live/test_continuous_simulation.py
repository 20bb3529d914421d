"""The live engine: batches, updates, restarts and errors."""

import itertools
import json
import math
import re
from dataclasses import asdict, replace

import numpy as np
import pytest

from hybrid_scheduler import (
    AnalyticPhysics,
    Cluster,
    InvalidInputError,
    Task,
    Workload,
    compare,
    create,
    offered_load,
    platform_named,
    workstation,
)
from hybrid_scheduler.learning.duration.retraining import InlineTrainingWorker
from hybrid_scheduler.live import EngineClosed, LiveConfig, SubmittedTask
from hybrid_scheduler.live.journal import RESULT_COLUMNS
from hybrid_scheduler.live.live_config import LiveTrace
from hybrid_scheduler.live.live_run import LiveRun
from hybrid_scheduler.metrics import jain_index
from hybrid_scheduler.physics import Tariff
from hybrid_scheduler.server.stored_comparison import checkpoint_comparison
from hybrid_scheduler.testing import FakeClock
from hybrid_scheduler.workload import generate, save_workload, scenario_named

RULES = ("round_robin", "random", "greedy", "earliest_finish", "price_index", "oracle")


@pytest.fixture
def played(live):
    """Five minutes of the default scenario at twenty times the speed."""
    one = live(LiveConfig(schedulers=RULES, speed=20.0)).started()
    one.run(15.0)
    return one


def test_every_task_has_one_result_per_scheduler_and_everything_is_numbered(played):
    ordinal, task_id, result_id = 0, 1, 1
    for batch in played.batches:
        assert batch.first_ordinal == ordinal
        assert batch.tasks.task_id.tolist() == list(range(task_id, task_id + len(batch)))
        assert batch.first_result_id == result_id
        assert tuple(batch.results) == RULES
        assert all(len(getattr(r, name)) == len(batch) for r in batch.results.values() for name in RESULT_COLUMNS)
        assert len(batch.optimal_fraction) == len(batch.optimal_time) == len(batch)
        ordinal, task_id = ordinal + len(batch), task_id + len(batch)
        result_id += len(batch) * len(RULES)
        assert batch.counters.next_task_id == task_id
        assert batch.counters.next_result_id == result_id
    assert ordinal == played.engine.status().tasks_processed > 1500
    assert [event.seq for event in played.journal.events] == list(range(1, len(played.journal.events) + 1))
    last = 0
    for batch in played.journal.batches:
        last = batch.events[-1].seq if batch.events else last
        assert batch.counters.next_seq == last + 1
        json.dumps(batch.state, allow_nan=False)
        for event in batch.events:
            json.dumps(event.body, allow_nan=False)


def test_rows_equal_those_of_a_batch_run(played):
    """Decided chunk by chunk, the rows are bit for bit those of one run over the same tasks."""
    n, config = played.engine.status().tasks_processed, played.config
    tasks = generate(config.scenario, n, config.seed, platform=config.platform, physics=config.physics, first_id=1)
    assert np.array_equal(played.task_column("arrival_time"), tasks.arrival_time)
    for name in RULES:
        whole = Cluster(config.platform, config.physics).run(tasks, create(name), seed=config.seed).outcomes
        for column in ("device", "fraction", "latency", "start", "finish", "cpu_start", "accelerator_time"):
            ours = played.column(name, column)
            assert np.array_equal(ours, getattr(whole, column), equal_nan=True), (name, column)


def test_virtual_time_is_wall_time_times_speed(played):
    status = played.engine.status()
    assert status.virtual_time == pytest.approx(300.0, abs=11.0)
    assert played.task_column("arrival_time").max() <= status.virtual_time
    assert status.tasks_per_second == pytest.approx(20 * 6.685, rel=0.3)
    # Twice a second, and one for the start.
    assert 29 <= len(played.updates()) <= 32
    logs = [event for event in played.journal.events if event.type == "log"]
    assert {event.body["scheduler"] for event in logs} == set(RULES)
    assert max(sum(e.type == "log" for e in batch.events) for batch in played.journal.batches) <= 10


def test_regret_is_the_difference_to_the_oracle(played, live):
    for name in RULES:
        difference = played.column(name, "latency") - played.column("oracle", "latency")
        assert np.array_equal(played.column(name, "regret"), difference)
    without = live(schedulers=["greedy"]).started()
    without.run(5.0)
    assert np.isnan(without.column("greedy", "regret")).all()
    assert without.engine.status().comparison[0].mean_regret is None


def test_comparison_equals_a_recomputation_from_the_batches(played):
    devices = len(played.config.platform)
    for row in played.engine.status().comparison:
        column = {name: played.column(row.name, name) for name in RESULT_COLUMNS}
        latency = column["latency"]
        assert row.tasks == len(latency)
        for value, expected in (
            (row.mean_latency, latency.mean()),
            (row.mean_time, column["time"].mean()),
            (row.mean_wait, (latency - column["time"]).mean()),
            (row.total_energy, column["energy"].sum()),
            (row.mean_cost, column["cost"].mean()),
            (row.mean_gpu_fraction, column["fraction"].mean()),
            (row.mean_regret, column["regret"].mean()),
            (row.p95_latency, np.quantile(latency[-1000:], 0.95)),
            (row.makespan, column["finish"].max() - played.task_column("arrival_time")[0]),
        ):
            assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)
        busy = np.bincount(played.config.platform.cpu_of[column["device"]], column["cpu_time"], devices)
        busy += np.bincount(column["device"], column["accelerator_time"], devices)
        assert row.load_balance == pytest.approx(jain_index(busy))
        assert row.window == 1000
        assert row.latency_ci95 > 0
        assert row.state == "ready"


def test_utilisation_covers_the_time_since_the_last_update(played):
    updates = played.updates()
    names = [device.name for device in played.config.platform.devices]
    for before, update in list(itertools.pairwise(updates))[3:30:5]:
        begin, end = before["virtual_time"], update["virtual_time"]
        for scheduler in RULES:
            busy = dict.fromkeys(names, 0.0)
            device = played.column(scheduler, "device")
            for part, owner in (("cpu", played.config.platform.cpu_of[device]), ("accelerator", device)):
                start = played.column(scheduler, f"{part}_start")
                stop = start + played.column(scheduler, f"{part}_time")
                inside = np.clip(np.minimum(stop, end) - np.maximum(start, begin), 0.0, None)
                for index, name in enumerate(names):
                    busy[name] += float(np.nansum(inside[owner == index]))
            for name in names:
                share = update["utilizations"][scheduler][name]
                assert share == pytest.approx(busy[name] / (end - begin), abs=1e-6)
        assert update["utilization"]["gpu_0"]["utilization"] == update["utilizations"]["round_robin"]["gpu_0"]


def test_updates_show_the_newest_decisions(played):
    update = next(u for u in played.updates()[5:] if u["task"])
    assert len(update["decisions"]) % len(RULES) == 0
    assert update["decisions"][-1]["task_id"] == update["task"]["task_id"]
    assert len(update["decisions"]) + update["omitted"] >= len(RULES)
    newest = {d["scheduler"]: d for d in update["decisions"] if d["task_id"] == update["task"]["task_id"]}
    for decision in newest.values():
        assert decision["wait"] == decision["latency"] - decision["time"]
        assert decision["size"] == update["task"]["size"]
    for name, latest in update["latest_results"].items():
        assert latest["latency"] == newest[name]["latency"]
        assert latest["device"] == newest[name]["device"]


def test_update_omits_decisions_beyond_the_limit(live):
    one = live(LiveConfig(schedulers=RULES, speed=1000.0)).started()
    one.run(1.0)
    update = one.updates()[-1]
    assert len(update["decisions"]) == 200 // len(RULES) * len(RULES)
    assert update["omitted"] > 10_000


def test_restart_changes_no_row(live):
    config = LiveConfig(schedulers=RULES, speed=20.0)
    undisturbed = live(config).started()
    undisturbed.run(15.0)
    first = live(config).started()
    first.run(7.3)
    first.engine.close()
    second = live(config, journal=first.journal, clock=first.clock).started()
    status = second.run(9.0)
    assert status.run_id == undisturbed.engine.status().run_id
    assert [n["kind"] for n in second.notifications()] == ["run_started", "resumed"]
    n = len(undisturbed.task_column("task_id"))
    assert len(second.task_column("task_id")) >= n
    for name in ("task_id", "size", "arrival_time"):
        assert np.array_equal(second.task_column(name)[:n], undisturbed.task_column(name))
    for scheduler in RULES:
        for name in RESULT_COLUMNS:
            ours, theirs = second.column(scheduler, name)[:n], undisturbed.column(scheduler, name)
            assert np.array_equal(ours, theirs, equal_nan=True), (scheduler, name)
    for row in status.comparison:
        assert row.tasks == len(second.task_column("task_id"))
        assert row.mean_latency == pytest.approx(second.column(row.name, "latency").mean(), rel=1e-9)
        assert row.mean_regret == pytest.approx(second.column(row.name, "regret").mean(), rel=1e-9, abs=1e-12)


def test_paused_run_is_paused_after_a_restart(live):
    first = live(schedulers=["greedy"]).started()
    first.run(5.0)
    before = first.engine.pause()
    first.engine.close()
    second = live(first.config, journal=first.journal, clock=first.clock)
    after = second.engine.open()
    assert (after.state, after.run_id, after.virtual_time) == ("paused", before.run_id, before.virtual_time)
    assert after.tasks_processed == before.tasks_processed


def test_stopped_run_is_not_resumed(live):
    first = live(schedulers=["greedy"]).started()
    first.run(5.0)
    first.engine.stop()
    first.engine.close()
    second = live(first.config, journal=first.journal, clock=first.clock)
    status = second.engine.open()
    assert (status.state, status.run_id) == ("stopped", None)
    assert status.next_task_id == first.engine.status().next_task_id


def test_changed_settings_end_the_old_run(live):
    first = live(schedulers=["greedy"]).started()
    first.run(5.0)
    first.engine.close()
    second = live(replace(first.config, seed=7), journal=first.journal, clock=first.clock)
    status = second.engine.open()
    assert (status.state, status.seed, status.tasks_processed) == ("running", 7, 0)
    stopped = [batch.run for batch in first.journal.batches if batch.run.status == "stopped"]
    assert stopped[0].run_id == first.journal.batches[0].run.run_id
    assert "settings have changed" in second.notifications("run_stopped")[0]["message"]


def test_run_goes_on_without_the_options_it_began_with(live):
    defaults = LiveConfig(schedulers=["greedy"])
    options = replace(defaults, seed=7, scenario=scenario_named("mixed"))
    first = live(options, defaults=defaults).started()
    first.run(5.0)
    run_id = first.engine.status().run_id
    first.engine.close()
    second = live(defaults, defaults=defaults, journal=first.journal, clock=first.clock)
    status = second.engine.open()
    assert (status.run_id, status.seed, status.scenario) == (run_id, 7, "mixed")
    second.engine.close()
    third = live(options, defaults=defaults, journal=first.journal, clock=first.clock)
    assert third.engine.open().run_id == run_id  # its own options again
    third.engine.close()
    fourth = live(replace(options, seed=8), defaults=defaults, journal=first.journal, clock=first.clock)
    assert fourth.engine.open().run_id != run_id


def test_changed_defaults_end_the_old_run_also_without_options(live):
    defaults = LiveConfig(schedulers=["greedy"])
    first = live(replace(defaults, seed=7), defaults=defaults).started()
    first.run(5.0)
    first.engine.close()
    changed = replace(defaults, memory_policy="fail")
    second = live(changed, defaults=changed, journal=first.journal, clock=first.clock)
    assert second.engine.open().seed == changed.seed
    assert "settings have changed" in second.notifications("run_stopped")[0]["message"]


def test_run_on_another_machine_is_resumed_on_that_machine(live):
    home = LiveConfig(schedulers=["greedy"])
    first = live(home).started()
    first.engine.restart(replace(home, platform=platform_named("laptop"), tariff=Tariff(0.5)))
    first.run(5.0)
    before = first.engine.pause()
    first.engine.close()
    second = live(home, journal=first.journal, clock=first.clock)
    after = second.engine.open()
    assert (after.run_id, after.platform) == (before.run_id, before.platform)
    assert after.platform.name == "laptop"


def test_record_lists_later_changes_and_submissions(live):
    one = live(schedulers=["greedy"]).started()
    one.run(5.0)
    done = one.engine.status().tasks_processed
    one.engine.set_scenario(scenario_named("mixed"), 0.5)
    one.engine.submit(SubmittedTask(500.0, 0.5, 10.0))
    one.engine.pause()
    config = one.journal.batches[-1].run.config
    assert config["changes"] == [{"task": done, "change": "scenario mixed at 0.5 of capacity"}]
    assert config["submitted"] == 1
    one.engine.close()
    second = live(one.config, journal=one.journal, clock=one.clock)
    assert second.engine.open().state == "paused"  # resumed


def test_damaged_checkpoint_is_reported_and_a_new_run_begins(live):
    first = live(schedulers=["greedy"]).started()
    first.run(5.0)
    first.engine.close()
    del first.journal.batches[-1].state["lanes"]
    second = live(first.config, journal=first.journal, clock=first.clock)
    status = second.engine.open()
    assert status.state == "running"
    assert status.run_id != first.journal.batches[0].run.run_id
    assert "not resumed: KeyError" in second.notifications("run_stopped")[0]["message"]


def test_rush_hour_empties_all_clusters_after_each_episode(live):
    config = LiveConfig(scenario_named("rush-hour"), schedulers=RULES, speed=100.0)
    one = live(config).started()
    one.run(2.0)
    status = one.engine.pause()
    ended = one.notifications("episode")
    assert len(ended) == status.episode.number - 1 >= 2
    assert ended[0]["message"] == "episode 1 ended after 2,000 tasks: all clusters start empty"
    arrival = one.task_column("arrival_time")
    assert (np.diff(arrival) >= 0).all()
    for scheduler in RULES:
        start, finish = one.column(scheduler, "start"), one.column(scheduler, "finish")
        for first in range(2000, len(arrival), 2000):
            assert arrival[first] >= finish[:first].max()  # nothing is left of the episode before
            assert start[first] == arrival[first]
    assert any(note.startswith("round_robin is unstable above about 0.1") for note in status.notes)


def test_default_load_gives_no_warnings(played):
    assert played.engine.status().notes == ()


def test_same_seed_and_commands_give_the_same_batches(live):
    def rows():
        one = live(LiveConfig(schedulers=("random", "hybrid_ml", "oracle"), speed=20.0)).started()
        one.run(3.0)
        one.engine.set_scenario(scenario_named("mixed"), 0.1)
        one.run(2.0)
        one.engine.pause()
        one.engine.resume()
        one.run(1.0)
        return one.journal.batches

    def plain(value):
        return value.tolist() if isinstance(value, np.ndarray) else value

    for a, b in zip(rows(), rows(), strict=True):
        assert (a.run, a.counters, a.events) == (b.run, b.counters, b.events)
        assert json.dumps(a.state) == json.dumps(b.state)
        assert [replace(v, seconds=None) for v in a.versions] == [replace(v, seconds=None) for v in b.versions]
        assert len(a) == len(b)
        for name in a.results:
            assert repr([plain(getattr(a.results[name], c)) for c in RESULT_COLUMNS]) == repr(
                [plain(getattr(b.results[name], c)) for c in RESULT_COLUMNS]
            )


def test_virtual_time_slips_if_the_machine_is_too_slow(live, monkeypatch):
    """A machine that takes longer for tasks than they last must not collect work without end."""
    one = live(LiveConfig(schedulers=("greedy",), speed=100.0))
    real = LiveRun.advance

    def slow(self, *arguments):
        chunk = real(self, *arguments)
        if chunk is not None:
            one.clock.spend(0.01 * len(chunk))  # 100 tasks a second, a seventh of what would be due
        return chunk

    monkeypatch.setattr(LiveRun, "advance", slow)
    one.started()
    status = one.run(10.0)
    assert 600 < status.tasks_processed < 1100
    assert status.virtual_time < 250.0
    assert status.tasks_per_second == pytest.approx(85.0, rel=0.3)


def test_infinite_speed_runs_as_fast_as_possible(live):
    config = LiveConfig(schedulers=("greedy", "oracle"), speed=math.inf)
    one = live(config, clock=FakeClock(tick=0.05)).started()
    status = one.run(1.0)
    assert status.tasks_processed > 15_000
    assert status.speed is None
    assert max(len(batch) * 2 for batch in one.batches) < 30_000
    assert one.engine.set_speed(1.0).speed == 1.0


def test_engine_error_stops_the_run_and_is_reported(live, monkeypatch):
    errors: list[BaseException] = []
    one = live(schedulers=["greedy"], on_error=errors.append).started()
    one.run(5.0)
    done = one.engine.status().tasks_processed
    monkeypatch.setattr(LiveRun, "advance", lambda *_: 1 / 0)
    status = one.run(1.0)
    assert status.state == "stopped"
    assert status.notes == ("the engine failed: ZeroDivisionError: division by zero",)
    assert [n["level"] for n in one.notifications("engine_failed")] == ["error"]
    assert len(errors) == 1
    monkeypatch.undo()
    assert sum(map(len, one.batches)) == done  # what was made before is kept
    status = one.engine.start()
    assert (status.state, status.notes) == ("running", ())
    assert one.run(5.0).tasks_processed > 0


def test_commands_before_open_and_after_close_are_refused(live):
    one = live(schedulers=["greedy"])
    with pytest.raises(EngineClosed):
        one.engine.start()
    assert one.engine.status().state == "stopped"
    one.started()
    one.engine.close()
    one.engine.close()
    with pytest.raises(EngineClosed):
        one.engine.pause()


# ------------------------------------------------------------------------------------------ traces


def trace_config(folder, tasks=40, **options):
    """A run that plays generated tasks from a file; only its first arrival is moved, to time 0."""
    workload = generate(scenario_named("mixed"), tasks, 3, utilisation=0.3)
    save_workload(workload, folder / "week.csv")
    trace = LiveTrace.read(folder / "week.csv", workstation(), AnalyticPhysics(), **options)
    return LiveConfig(schedulers=("greedy", "oracle"), speed=10.0, trace=trace, trace_folder=folder), workload


def test_trace_is_played_with_its_arrivals_and_then_ends(live, tmp_path):
    config, workload = trace_config(tmp_path)
    player = live(config).started()
    status = player.run(float(np.ptp(workload.arrival_time)) / 10 + 5)
    assert (status.state, status.scenario, status.tasks_processed) == ("stopped", "trace:week", 40)
    assert status.load == pytest.approx(offered_load(workload, workstation(), AnalyticPhysics()))
    assert np.array_equal(player.task_column("size"), workload.size)
    shifted = workload.arrival_time - workload.arrival_time[0]
    assert np.array_equal(player.task_column("arrival_time"), shifted)
    batch = compare(Workload(**{**workload.columns(), "arrival_time": shifted}), ["greedy", "oracle"])
    assert np.array_equal(player.column("oracle", "latency"), batch.results["oracle"].outcomes.latency)
    (stopped,) = player.notifications("run_stopped")
    assert stopped["message"] == "the trace has ended after 40 tasks"


def test_restart_continues_a_repeated_trace_at_its_next_task(live, tmp_path):
    config, workload = trace_config(tmp_path, repeat=True)
    span = float(np.ptp(workload.arrival_time)) / 10
    undisturbed = live(config).started()
    undisturbed.run(2.5 * span)
    first = live(config).started()
    first.run(0.6 * span)
    first.engine.close()
    second = live(config, journal=first.journal, clock=first.clock).started()
    assert second.run(2 * span).state == "running"
    n = len(undisturbed.task_column("size"))
    assert n > 80  # the third round has begun
    for name in ("task_id", "size", "arrival_time"):
        assert np.array_equal(second.task_column(name)[:n], undisturbed.task_column(name))
    assert np.array_equal(second.column("greedy", "latency")[:n], undisturbed.column("greedy", "latency"))
    gaps = np.diff(second.task_column("arrival_time"))
    assert gaps[39] == pytest.approx(np.diff(workload.arrival_time).mean())  # one mean gap before the next round


def test_trace_that_a_client_chose_is_found_again_in_its_folder(live, tmp_path):
    config, workload = trace_config(tmp_path)
    plain = replace(config, scenario=scenario_named("mixed"), utilisation=0.3, trace=None)
    first = live(plain).started()
    first.engine.restart(config)
    first.run(0.05 * float(np.ptp(workload.arrival_time)))
    first.engine.close()
    second = live(plain, journal=first.journal, clock=first.clock)
    status = second.engine.open()
    assert (status.state, status.scenario) == ("running", "trace:week")
    status = second.run(float(np.ptp(workload.arrival_time)))
    assert (status.state, status.tasks_processed) == ("stopped", 40)


def test_changed_trace_is_not_resumed(live, tmp_path):
    config, _ = trace_config(tmp_path)
    plain = replace(config, scenario=scenario_named("mixed"), utilisation=0.3, trace=None)
    first = live(plain).started()
    first.engine.restart(config)
    first.run(0.2)
    first.engine.close()
    trace_config(tmp_path, tasks=41)
    second = live(plain, journal=first.journal, clock=first.clock)
    assert second.engine.open().scenario == "mixed"
    assert "got 'week, changed since'" in second.notifications("run_stopped")[-1]["message"]


def test_scenario_takes_the_place_of_a_trace(live, tmp_path):
    config, _ = trace_config(tmp_path, repeat=True)
    first = live(config).started()
    first.run(2.0)
    assert first.engine.set_scenario(scenario_named("mixed"), 0.5).scenario == "mixed"
    first.run(2.0)
    first.engine.close()
    second = live(config, journal=first.journal, clock=first.clock)
    status = second.engine.open()
    assert (status.scenario, status.load, status.state) == ("mixed", 0.5, "running")
    assert second.run(2.0).tasks_processed > status.tasks_processed


def test_traces_that_cannot_be_played_are_refused(tmp_path):
    chain = Workload.from_tasks([Task(i, 500.0, 0.5, 50.0, float(i), (i - 1,) if i else ()) for i in range(3)])
    batch = generate(scenario_named("mixed"), 5, 3, batch=True)
    for workload, options, message in (
        (chain, {}, "trace: must be tasks without dependencies in a live run, got 'trace:bad, a task graph'"),
        (batch, {"repeat": True}, "repeat: must be left out: all tasks of the trace arrive at once"),
    ):
        save_workload(workload, tmp_path / "bad.csv")
        with pytest.raises(InvalidInputError, match=re.escape(message)):
            LiveConfig(trace=LiveTrace.read(tmp_path / "bad.csv", workstation(), AnalyticPhysics(), **options))


def test_verdict_of_a_stored_run_has_the_leader_and_the_bound_of_the_live_one():
    config = LiveConfig(schedulers=("round_robin", "earliest_finish", "oracle"), utilisation=0.5)
    run = LiveRun(config, InlineTrainingWorker())
    run.lanes.learn_all(1)
    while run.ordinal < 1500:
        run.advance(run.ordinal + 1, 1500 - run.ordinal, math.inf)
        run.load.utilisations(run.now)
    live, state = run.verdict(), json.loads(json.dumps(run.checkpoint()))
    _, stored = checkpoint_comparison(state, {}, [asdict(one) for one in config.platform.devices])
    assert (stored.title, stored.distance, stored.tasks) == (live.title, live.distance, live.tasks)
    assert stored.latency_bound == live.latency_bound
    (cause,) = stored.why
    assert (cause.reason.code, cause.schedulers) == ("overload", ("round_robin",))
    assert cause.reason.window is not None
    first, now = cause.reason.window
    busy = run.lanes[0].cluster.busy_by(now)[0] / (now - first)
    assert cause.reason.numbers["busy"] == pytest.approx(busy)
    assert cause.reason.numbers["queue_s"] == pytest.approx(run.load.backlogs(run.now)["round_robin"]["cpu"])


def test_verdict_does_not_depend_on_when_loads_were_read():
    run = LiveRun(LiveConfig(schedulers=("greedy", "oracle"), seed=3), InlineTrainingWorker())
    run.lanes.learn_all(1)
    for second in range(1, 130):
        run.advance(run.ordinal + 1, 1000, float(second))
        if second % 7 == 0 and second < 70:  # then nothing is read for a minute
            run.load.utilisations(run.now)
    before = run.verdict().as_dict()
    run.load.utilisations(run.now)
    assert run.verdict().as_dict() == before
