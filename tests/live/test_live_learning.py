"""Learning in a live run: model versions, failed trainings, restarts, and schedulers that raise."""

import itertools
import json
import os
import shutil
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest

from hybrid_scheduler import Decision, InvalidInputError, Online, register
from hybrid_scheduler.learning import ModelFileError, OfflineTrainer
from hybrid_scheduler.learning.agent.model_file import SHIPPED_MODEL, load_model
from hybrid_scheduler.learning.duration.duration_files import load_snapshot
from hybrid_scheduler.learning.duration.retraining import (
    InlineTrainingWorker,
    ProcessTrainingWorker,
    TrainedModel,
    train,
)
from hybrid_scheduler.live import LiveConfig, scheduler_lane
from hybrid_scheduler.live.journal import SchedulerResults
from hybrid_scheduler.live.lane_statistics import LaneStatistics
from hybrid_scheduler.live.scheduler_lane import SchedulerLane
from hybrid_scheduler.schedulers import create, unregister
from hybrid_scheduler.schedulers.random_forest import TREES, ForestFit
from hybrid_scheduler.workload import generate, scenario_named

FOREST = "random_forest"


@pytest.fixture
def learning(live):
    return live(LiveConfig(schedulers=("hybrid_ml", "oracle"), speed=20.0)).started()


def test_results_have_the_model_version_that_decided(learning):
    spec = "hybrid_ml"
    learning.run(4.0)
    versions = [v for batch in learning.journal.batches for v in batch.versions]
    assert [v.version for v in versions] == list(range(1, len(versions) + 1))
    assert (versions[0].trigger, versions[0].at_task) == ("pretrained", 1)
    assert len(versions) >= 4
    used = learning.column(spec, "model_version")
    ids = learning.task_column("task_id")
    for version in versions:
        assert (ids[used == version.version][:1] == version.at_task).all()
    retrained = learning.notifications("retrained")
    assert [n["version"] for n in retrained] == [v.version for v in versions[1:]]
    assert versions[-1].r2 > 0.9
    status = learning.engine.status()
    assert (status.comparison[0].state, status.comparison[0].model_version) == ("learned", versions[-1].version)
    # What was expected before the outcome was known is close to it: there is no noise.
    error = np.log(learning.column(spec, "predicted_time") / learning.column(spec, "time"))
    assert np.abs(error)[100:].mean() < 0.15
    assert np.isnan(learning.column("oracle", "predicted_time")).all()
    confidence = learning.column(spec, "confidence")[100:]
    assert ((confidence > 0.0) & (confidence < 0.5)).all()
    assert np.isnan(learning.column("oracle", "confidence")).all()
    (card,) = learning.engine.models()
    assert card.current_version == versions[-1].version
    assert sum(card.feature_importance.values()) == pytest.approx(1.0)
    assert card.feature_importance["size"] > card.feature_importance["memory"]
    assert 0.0 < card.accuracy["error"] < 0.15
    assert list(card.accuracy["kinds"]) == ["generic"]


def test_model_adapts_to_a_new_scenario(learning):
    learning.run(3.0)
    learning.engine.set_scenario(scenario_named("low-intensity"), 0.1)
    learning.run(20.0)
    latency = learning.column("hybrid_ml", "latency") / learning.column("oracle", "latency")
    assert latency[-200:].mean() < 1.1


def test_status_of_a_paused_run_shows_the_new_version(learning):
    learning.run(4.0)
    engine = learning.engine
    before = engine.pause()
    engine.retrain("hybrid_ml")
    after = learning.run(1.0)
    version = learning.notifications("retrained")[-1]["version"]
    assert [row.model_version for row in after.comparison if row.name == "hybrid_ml"] == [version]
    assert version > next(row.model_version for row in before.comparison if row.name == "hybrid_ml")


def test_retrain_command_trains_or_says_why_not(learning):
    engine = learning.engine
    learning.run(0.2)
    engine.retrain("hybrid_ml")
    assert "too few" in learning.notifications("retrain_failed")[0]["message"]
    learning.run(3.0)
    engine.retrain("hybrid_ml")
    learning.run(1.0)
    assert "request" in [v.trigger for batch in learning.journal.batches for v in batch.versions]
    with pytest.raises(InvalidInputError, match="one that learns: hybrid_ml"):
        engine.retrain("oracle")


def test_failed_training_keeps_the_old_model(live):
    def broken(request):
        raise MemoryError("no memory for trees")

    one = live(LiveConfig(schedulers=(FOREST,), speed=20.0), trainer=InlineTrainingWorker(broken)).started()
    status = one.run(4.0)
    failed = one.notifications("retrain_failed")
    assert failed[0]["message"] == "kept the old model: no memory for trees"
    assert failed[0]["level"] == "warning"
    assert status.state == "running"
    assert status.comparison[0].model_version is None


def test_long_training_does_not_delay_tasks(live):
    class ManualWorker:
        """A training worker whose results the test sets."""

        def __init__(self):
            self.requests = []

        def submit(self, request):
            self.requests.append((request, Future()))
            return self.requests[-1][1]

        def close(self):
            pass

    trainer = ManualWorker()
    one = live(LiveConfig(schedulers=(FOREST,), speed=20.0), trainer=trainer).started()
    assert one.run(5.0).tasks_processed > 500
    [(request, result)] = trainer.requests  # one at a time
    assert one.engine.status().comparison[0].model_version is None
    result.set_result(train(request))
    before = one.engine.status().next_task_id
    one.run(0.5)
    version = [v for batch in one.journal.batches for v in batch.versions][-1]
    assert version.version == 1
    assert (version.seconds or 0.0) > 0.0
    assert version.at_task >= before


def _request(trigger="schedule"):
    draw = np.random.default_rng(1)
    return ForestFit(draw.uniform(size=(80, 5)), draw.uniform(size=80), 1, trigger)


def die_on_request(request):
    """Replacement of `train` in the training process."""
    if request.trigger == "request":
        os._exit(3)
    return train(request)


@pytest.mark.slow
def test_training_process_that_dies_is_replaced():
    trainer = ProcessTrainingWorker(die_on_request)
    try:
        with pytest.raises(Exception, match="terminated abruptly"):
            trainer.submit(_request("request")).result(120)
        trained = trainer.submit(_request()).result(120)
    finally:
        trainer.close()
    assert isinstance(trained, TrainedModel)
    assert len(trained.fitted.trees) == TREES


def test_newest_decisions_are_explained_by_the_policys_own_values(live, monkeypatch):
    monkeypatch.setattr(scheduler_lane, "MAX_EXPLAINED", 50)
    one = live(LiveConfig(schedulers=("hybrid_ml", "rl_agent", "oracle"), speed=20.0)).started()
    one.run(4.0)
    ids = one.task_column("task_id")
    assert one.engine.explanations(1) == {}
    found = one.engine.explanations(int(ids[-1]))
    assert list(found) == ["hybrid_ml", "rl_agent"]
    for explanation in found.values():
        cpu, gpus = explanation["predictions"]
        assert (cpu["devices"], len(gpus["devices"])) == (["cpu"], 4)
        assert min(cpu["seconds"], gpus["seconds"], cpu["spread"], gpus["spread"]) > 0.0
    assert set(found["hybrid_ml"]["records"]) == {"learned_rule", "earliest_finish"}
    agent = found["rl_agent"]
    assert agent["policy"] in {"agent", "learned_rule", "earliest_finish", "trial"}
    assert agent["queued"] >= 0.0
    json.dumps(found)


def test_share_of_decisions_by_rule_and_agent_is_shown_and_kept_in_checkpoints(live):
    one = live(LiveConfig(schedulers=("hybrid_ml", "rl_agent", "greedy"), speed=20.0)).started()
    one.run(4.0)
    rows = {row.name: row.decided_by for row in one.engine.status().comparison}
    assert rows["greedy"] == {}
    for name in ("hybrid_ml", "rl_agent"):
        assert sum(rows[name].values()) == pytest.approx(1.0)
        card = next(card for card in one.engine.models() if card.scheduler_name == name)
        assert card.decided_by == rows[name]
        assert card.policy in card.decided_by
    assert set(rows["rl_agent"]) <= {"agent", "learned_rule", "earliest_finish", "trial"}
    assert rows["rl_agent"]["agent"] > 0.9
    verdict = {row.name: row.decided_by for row in one.engine.status().verdict.rows}
    assert verdict == rows
    for lane in one.engine.controller.lanes:
        kept = LaneStatistics(lane.cluster.platform.cpu_of)
        kept.restore(json.loads(json.dumps(lane.statistics.state())))
        assert kept.row(lane.name, "ready", None, None, 0).decided_by == rows[lane.name]


# ---------------------------------------------------------------- restarts


def test_models_and_version_numbers_continue_after_a_restart(live, tmp_path):
    config = LiveConfig(schedulers=("hybrid_ml", "rl_agent", "oracle"), speed=20.0)
    first = live(config, snapshots=tmp_path).started()
    status = first.run(3.0)
    reached = {row.name: row.model_version for row in status.comparison}
    first.engine.close()
    [file] = tmp_path.glob("*.rl_agent.safetensors")
    assert file.name.startswith(status.run_id)
    second = live(config, journal=first.journal, clock=first.clock, snapshots=tmp_path)
    status = second.engine.open()
    assert status.run_id == first.engine.status().run_id
    assert {row.name: row.model_version for row in status.comparison} == {
        "hybrid_ml": reached["hybrid_ml"] + 1,
        "rl_agent": reached["rl_agent"] + 1,
        "oracle": None,
    }
    again = [v for batch in second.journal.batches for v in batch.versions if v.trigger == "restart"]
    assert {v.scheduler_name for v in again} == {"hybrid_ml", "rl_agent"}
    assert second.notifications("model_refused") == []
    second.run(1.0)
    versions = [(v.scheduler_name, v.version) for batch in second.journal.batches for v in batch.versions]
    assert len(set(versions)) == len(versions)
    second.engine.stop()
    second.engine.close()
    assert not file.exists()  # a stopped run is not resumed


def rewritten(file, header=None, **metadata):
    """Change the header of a safetensors file; its arrays stay."""
    content = file.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    if header is None:
        entries = json.loads(content[8:end])
        entries["__metadata__"].update(metadata)
        header = json.dumps(entries).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header + content[end:])


def bit_flipped(file):
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)


def not_finite(file):
    model = load_model(file)
    model.policy.linear[0, 1] = np.nan
    model.save_model(file)


def of_another_shape(file):
    model = load_model(file)
    replace(model, policy=replace(model.policy, linear=np.zeros((3, 2)))).save_model(file)


def a_folder(file):
    file.unlink()
    file.mkdir()
    (file / "inside").touch()


def a_pipe(file):
    file.unlink()
    os.mkfifo(file)


DAMAGES = {
    "empty": lambda file: file.write_bytes(b""),
    "truncated": lambda file: file.write_bytes(file.read_bytes()[:-100]),
    "bit flipped": bit_flipped,
    "foreign": lambda file: file.write_bytes(b"not a policy"),
    "of an earlier version": lambda file: rewritten(file, format="hybrid-scheduler rl_agent"),
    "100,000 brackets": lambda file: rewritten(file, b"[" * 100_000),
    "100,000 brackets in the notes": lambda file: rewritten(file, notes="[" * 100_000),
    "list for a name": lambda file: rewritten(file, format=[]),
    "version without end": lambda file: rewritten(file, version=float("inf")),
    "not finite": not_finite,
    "another shape": of_another_shape,
    "folder": a_folder,
    "pipe": a_pipe,
}


def snapshot_of(directory):
    [file] = directory.glob("*.rl_agent.safetensors")
    return file


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_snapshot_is_refused_and_the_packaged_model_decides(live, tmp_path, damage, caplog):
    config = LiveConfig(schedulers=("rl_agent",))
    first = live(config, snapshots=tmp_path).started()
    run_id = first.run(1.0).run_id
    first.engine.close()
    file = snapshot_of(tmp_path)
    damage(file)
    second = live(config, journal=first.journal, clock=first.clock, snapshots=tmp_path)
    assert second.engine.open().run_id == run_id
    assert second.notifications("model_refused")[0]["scheduler"] == "rl_agent"
    assert second.notifications("run_stopped") == []
    assert any(file.name in line for line in caplog.messages)
    assert second.run(1.0).comparison[0].state == "learned"
    second.engine.close()
    load_model(file)  # the next snapshot replaces the damaged one


def test_damaged_snapshot_is_refused_and_the_one_before_it_decides(live, tmp_path):
    config = LiveConfig(schedulers=("rl_agent",), speed=20.0)
    first = live(config, snapshots=tmp_path).started()
    first.run(3.0)
    first.engine.close()
    before = load_model(snapshot_of(tmp_path))
    second = live(config, journal=first.journal, clock=first.clock, snapshots=tmp_path).started()
    run_id = second.run(3.0).run_id
    second.engine.close()
    bit_flipped(snapshot_of(tmp_path))
    third = live(config, journal=first.journal, clock=first.clock, snapshots=tmp_path)
    assert third.engine.open().run_id == run_id
    assert len(third.notifications("model_refused")) == 1
    [lane] = third.engine.controller.lanes
    assert np.array_equal(lane.scheduler.policy, before.policy.numbers)
    third.engine.stop()
    third.engine.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "damage",
    [b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b"{}", None],
    ids=["brackets", "braces", "not text", "nothing", "folder"],
)
@pytest.mark.parametrize("scheduler", ["hybrid_ml", "rl_agent"])
def test_damaged_model_of_a_stored_run_is_refused_and_the_run_goes_on_untrained(live, tmp_path, scheduler, damage):
    model = tmp_path / ("model.skops" if scheduler == "hybrid_ml" else SHIPPED_MODEL.name)
    if scheduler == "hybrid_ml":
        OfflineTrainer(n_estimators=5).run_full_pipeline(generate(scenario_named("mixed"), 100, 1), model)
    else:
        shutil.copy(SHIPPED_MODEL, model)
    config = LiveConfig(schedulers=(f"{scheduler}(model={model})",))
    first = live(config).started()
    run_id = first.run(1.0).run_id
    first.engine.close()
    file = model.with_suffix(".json") if scheduler == "hybrid_ml" else model
    file.unlink()
    if damage is None:
        file.mkdir()
    else:
        file.write_bytes(damage)
    second = live(config, journal=first.journal, clock=first.clock)
    assert second.engine.open().run_id == run_id
    assert len(second.notifications("model_refused")) == 1
    assert second.notifications("run_stopped") == []
    assert second.run(1.0).state == "running"
    with pytest.raises(ModelFileError):
        second.engine.restart(config)  # a new run with this model is the caller's mistake
    assert second.engine.status().run_id == run_id


def damaged_durations(name, value):
    """Return a change of one array of a snapshot of learned durations, with a digest that matches."""

    def damage(file):
        found = load_snapshot(file)
        found.arrays[name].ravel()[0] = value
        found.save_model(file)

    return damage


def without_array(file):
    found = load_snapshot(file)
    del found.arrays["model.weights"]
    found.save_model(file)


def with_kinds(*names):
    return lambda file: load_snapshot(file)._replace(kinds=list(names)).save_model(file)


DURATION_DAMAGES = {
    **{
        name: DAMAGES[name]
        for name in ("empty", "truncated", "bit flipped", "foreign", "100,000 brackets", "folder")
    },
    "brackets for kinds": lambda file: rewritten(file, kinds="[" * 100_000),
    "list for a name": lambda file: rewritten(file, version=[]),
    "number without end": lambda file: rewritten(file, last="[1e999, 1e999]"),
    "NaN": damaged_durations("model.weights", np.nan),
    "infinite variance": damaged_durations("model.covariance", np.inf),
    "huge": damaged_durations("model.weights", 1e300),
    "layout": damaged_durations("model.layout", 10**6),
    "kind of a task": damaged_durations("placement.window", np.nan),
    "another rule": damaged_durations("record.numbers", 7),
    "no weights": without_array,
    "two kinds": with_kinds("a", "b"),
    "one kind twice": with_kinds("a", "a"),
    "an agent": lambda file: shutil.copy(SHIPPED_MODEL, file),
}


@pytest.mark.parametrize("damage", DURATION_DAMAGES.values(), ids=DURATION_DAMAGES)
def test_damaged_durations_are_refused_and_the_packaged_prior_decides(live, tmp_path, damage):
    config = LiveConfig(schedulers=("hybrid_ml",), speed=20.0)
    first = live(config, snapshots=tmp_path).started()
    first.run(1.0)
    first.engine.close()
    [file] = tmp_path.glob("*.hybrid_ml.safetensors")
    damage(file)
    second = live(config, journal=first.journal, clock=first.clock, snapshots=tmp_path)
    second.engine.open()
    assert second.notifications("model_refused")[0]["scheduler"] == "hybrid_ml"
    assert second.run(1.0).comparison[0].state == "learned"
    second.engine.close()


def test_learned_durations_are_the_same_after_a_restart(live, tmp_path):
    config = LiveConfig(schedulers=("hybrid_ml",), speed=20.0)
    first = live(config, snapshots=tmp_path).started()
    first.run(3.0)
    [lane] = first.engine.controller.lanes
    lane.catch_up(first.engine.status().virtual_time)  # a restart learns from all that has finished by now
    before, rules_before = lane.scheduler.duration_model_, lane.scheduler.rule_
    first.engine.close()
    second = live(config, journal=first.journal, clock=first.clock, snapshots=tmp_path)
    second.engine.open()
    assert second.notifications("model_refused") == []
    [lane] = second.engine.controller.lanes
    after = lane.scheduler.duration_model_
    assert after.kinds == before.kinds
    for name in ("weights", "covariance", "stats", "fixed", "recent", "observed", "means"):
        assert np.array_equal(getattr(after.arrays, name), getattr(before.arrays, name)), name
    assert np.array_equal(lane.scheduler.rule_.placement.window, rules_before.placement.window)
    assert np.array_equal(lane.scheduler.rule_.shadow.free_at, rules_before.shadow.free_at)
    seen = after.seen
    second.run(1.0)
    assert lane.scheduler.duration_model_.seen > seen
    second.engine.close()


def test_files_that_a_killed_snapshot_left_are_removed_at_the_start(live, tmp_path):
    left = tmp_path / ".01J.rl_agent.safetensors.0123abcd.tmp"
    others = [tmp_path / "notes.tmp", tmp_path / ".hidden", tmp_path / "01J.rl_agent.safetensors"]
    for path in (left, *others):
        path.touch()
    one = live(schedulers=["greedy"], snapshots=tmp_path)
    assert left.exists()  # another engine may have the journal until this one is opened
    one.engine.open()
    assert sorted(tmp_path.iterdir()) == sorted(others)


# ---------------------------------------------------------------- schedulers that raise


@pytest.fixture
def fragile():
    """A scheduler that fails after 20 tasks, in the method that the test chooses."""

    class Fragile(Online):
        where = "decide"

        def start(self, setting):
            super().start(setting)
            self.count = 0

        def decide(self, task, view):
            self.count += 1
            if self.count > 20 and self.where == "decide":
                raise RuntimeError("a bug")
            return Decision(99 if self.count > 20 and self.where == "answer" else 1, 1.0)

        def observe(self, outcome):
            if self.count > 20 and self.where == "observe":
                raise RuntimeError("a bug")

    register("fragile")(Fragile)
    yield Fragile
    unregister("fragile")


@pytest.mark.parametrize("where", ["decide", "answer", "observe"])
def test_scheduler_that_raises_is_switched_off_alone(live, fragile, where):
    fragile.where = where
    one = live(schedulers=["greedy", "fragile", "oracle"]).started()
    status = one.run(20.0)
    assert status.state == "running"
    [notification] = one.notifications("scheduler_failed")
    assert (notification["level"], notification["scheduler"]) == ("error", "fragile")
    row = {row.name: row for row in status.comparison}["fragile"]
    assert row.state == "off"
    assert any(note.startswith("fragile is off: ") for note in status.notes)
    with_it = [batch for batch in one.batches if "fragile" in batch.results]
    assert sum(map(len, with_it)) == row.tasks
    assert 15 <= row.tasks <= 25  # the chunk in which it failed is left out
    for batch in one.batches[len(with_it) :]:
        assert tuple(batch.results) == ("greedy", "oracle")
    ids = one.task_column("task_id")
    assert ids.tolist() == list(range(1, len(ids) + 1))
    results = [(b.first_result_id, len(b) * len(b.results)) for b in one.batches]
    for (first, count), (following, _) in itertools.pairwise(results):
        assert following == first + count
    one.engine.close()
    again = live(one.config, journal=one.journal, clock=one.clock)
    assert again.engine.open().comparison[1].state == "off"  # it stays off for this run


def test_versions_have_the_error_of_their_predictions(live):
    one = live(LiveConfig(speed=20.0), schedulers=["hybrid_ml", "rl_agent"]).started()
    one.run(4.0)
    versions = [version for batch in one.journal.batches for version in batch.versions]
    assert sum(version.error is not None for version in versions) >= 10


def test_a_restored_lane_learns_durations_again_from_the_newest_tasks():
    """Outcomes of tasks that still run at the checkpoint follow at their finish."""
    spec = "hybrid_ml(model=None)"
    config = LiveConfig(schedulers=(spec,))
    tasks = generate(config.scenario, 60, 3, utilisation=0.5)

    def new_lane():
        return SchedulerLane(spec, create(spec), config, tasks, InlineTrainingWorker())

    first = new_lane()
    results = first.columns(first.decide(tasks), None)
    second, now = new_lane(), float(np.median(results.finish))
    assert second.state == "warming"
    second.restore(first.checkpoint(), {spec: SchedulerResults(spec, tasks, results)}, now)
    assert second.state == "learned"
    learned = second.scheduler.duration_model_.seen
    second.catch_up(float(results.finish.max()))
    assert second.scheduler.duration_model_.seen > learned > 0
