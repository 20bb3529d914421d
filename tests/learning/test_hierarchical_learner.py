"""The hierarchical learner: one result on both paths, bounded trials, no flooded device, clear errors."""

import heapq
import json
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from hybrid_scheduler import (
    AnalyticPhysics,
    Cluster,
    Decision,
    Device,
    InvalidInputError,
    Noise,
    Objective,
    Outcome,
    Platform,
    TablePhysics,
    Task,
    Workload,
    create,
    platform_named,
    workstation,
)
from hybrid_scheduler.core import Floats, View, cpu
from hybrid_scheduler.learning import ModelFileError
from hybrid_scheduler.learning.duration.duration_files import SHIPPED_PRIOR, load_prior
from hybrid_scheduler.learning.duration.hierarchical_learner import HierarchicalLearner
from hybrid_scheduler.learning.duration.learner_state import (
    FEATURES,
    MAX_KINDS,
    MEASURED_FIT,
    MEASURED_LIMITS,
    ExplorationLimits,
)
from hybrid_scheduler.schedulers.hybrid_ml import HybridML
from hybrid_scheduler.testing import fork_join_workload, small_workload
from hybrid_scheduler.workload.scenarios import generate, scenario_named

SPEC = "hybrid_ml(model=None)"


class TaskByTask(HybridML):
    """The same scheduler without its compiled loop."""


def with_kinds(workload, kinds):
    code = np.random.default_rng(5).integers(0, kinds, len(workload))
    return Workload(**{**workload.columns(), "kind": [f"kind {c}" for c in code]})


def mixed(tasks=600, load=0.7, seed=2000, platform=None):
    return generate(scenario_named("mixed"), tasks, seed, platform=platform or workstation(), utilisation=load)


def unequal_platform():
    gpus = [Device(f"gpu_{i}", speedup_slope=0.5 + i, bandwidth=4e3 * (i + 1)) for i in range(5)]
    return Platform("unequal", (cpu(), *gpus))


@pytest.mark.parametrize(
    ("platform", "workload", "noise"),
    [
        (workstation(), mixed(1500), None),
        (workstation(), with_kinds(mixed(1500), 5), Noise(0.3, seed=5)),
        (unequal_platform(), with_kinds(mixed(1200, platform=unequal_platform()), 3), None),
        (platform_named("cluster-16"), small_workload(300, max_memory=20000.0), None),
        (workstation(), with_kinds(small_workload(300), MAX_KINDS + 30), None),
        (workstation(), Workload(**{**small_workload(200).columns(), "arrival_time": np.zeros(200)}), None),
    ],
    ids=["one kind", "kinds and noise", "unequal", "nodes", "too many kinds", "batch"],
)
def test_compiled_loop_and_protocol_give_the_same_schedule(platform, workload, noise):
    fast, slow = HybridML(model=None), TaskByTask(model=None)
    one = Cluster(platform, noise=noise).run(workload, fast).outcomes
    two = Cluster(platform, noise=noise).run(workload, slow).outcomes
    assert slow.compiled_loop is None
    for name in ("device", "fraction", "cpu_start", "cpu_time", "accelerator_start", "accelerator_time", "status"):
        assert np.array_equal(getattr(one, name), getattr(two, name), equal_nan=True), name
    np.testing.assert_array_equal(
        fast.duration_model_.arrays.weights,
        slow.duration_model_.arrays.weights[: len(fast.duration_model_.arrays.weights)],
    )
    assert fast.versions == slow.versions
    assert fast.duration_model_.events == slow.duration_model_.events


def test_measured_kernels_have_the_same_schedule_on_both_paths():
    work = with_kinds(mixed(300), 3)
    one, two = (Cluster(noise=Noise(0.3, seed=5)).run(work, make(measured=True)) for make in (HybridML, TaskByTask))
    assert np.array_equal(one.outcomes.fraction, two.outcomes.fraction)
    assert np.array_equal(one.outcomes.device, two.outcomes.device)


def test_measured_kernels_are_tried_during_the_first_tasks_of_a_kind_and_twice_on_every_class():
    work, counts = with_kinds(mixed(300), 2).indivisible(), []
    for kind_tasks in (0.0, 10.0, 25.0):
        limits = MEASURED_LIMITS._replace(kind_tasks=kind_tasks)
        learner = HierarchicalLearner(limits=limits, prior=load_prior(), local=MEASURED_FIT)
        Cluster().run(work, learner)
        counts.append(learner.rule_.placement.trials)
    kinds, classes = 2, 2
    assert counts[0] <= 2 * kinds * classes
    assert counts[0] < counts[1] < counts[2] <= kinds * 25


def test_from_nothing_it_is_close_to_rules_that_know_durations():
    for platform, load in ((workstation(), 0.7), (unequal_platform(), 0.5)):
        work = mixed(2000, load, platform=platform)
        reference = Cluster(platform).run(work, create("price_index")).outcomes.latency.mean()
        own = Cluster(platform).run(work, create(SPEC)).outcomes.latency.mean()
        assert own < 1.10 * reference


def test_dependencies_run_through_the_event_loop():
    outcomes = Cluster().run(fork_join_workload(), create(SPEC)).outcomes
    assert outcomes.completed.all()


def test_no_device_is_flooded_while_another_is_idle():
    """Before any outcome, tasks that arrive together go to the accelerator that is free first."""
    work = Workload(**{**small_workload(60).columns(), "arrival_time": np.zeros(60)})
    result = Cluster().run(work, create(SPEC))
    seconds = result.busy[1:]
    assert seconds.max() - seconds.min() <= result.outcomes.accelerator_time.max()


def test_learner_is_work_conserving():
    """No task waits for a device while every device is idle: an idle machine starts it at once."""
    work = mixed(400, 0.05)
    outcomes = Cluster().run(work, create(SPEC)).outcomes
    free_at = 0.0
    for row in range(len(work)):
        if work.arrival_time[row] >= free_at:
            assert outcomes.start[row] == work.arrival_time[row]
        free_at = max(free_at, outcomes.finish[row])


@pytest.mark.parametrize("kinds", [1, 6])
def test_trials_are_bounded_by_class_and_kind(kinds):
    work, platform = with_kinds(mixed(2000, platform=unequal_platform()), kinds), unequal_platform()
    learner = HierarchicalLearner()
    Cluster(platform).run(work, learner)
    assert learner.rule_.placement.trials <= ExplorationLimits().trials * len(platform.classes) * kinds
    assert (learner.duration_model_.arrays.observed[:, :kinds] > 0.0).all()


def test_first_look_at_an_unknown_cpu_takes_a_small_part_of_the_seconds_of_a_task():
    """A kind that is far slower on the CPU than anything before it must not block the CPU."""
    work = with_kinds(mixed(400), 8)
    slow = np.ones((len(work), 5))
    slow[:, 0] = np.where(work.kind % 2 == 0, 30.0, 1.0)
    seconds = AnalyticPhysics().times(work, workstation())[:, [0, 1, 1, 1, 1], 0] * slow
    learner = HierarchicalLearner(prior=load_prior())
    outcomes = Cluster(physics=TablePhysics(seconds)).run(work, learner).outcomes
    for kind in range(0, 8, 2):
        own = work.kind == kind
        on_cpu = np.flatnonzero(own & (outcomes.fraction < 1.0))
        first = on_cpu[np.argmin(outcomes.cpu_start[on_cpu] + outcomes.cpu_time[on_cpu])]
        assert outcomes.cpu_time[first] <= 0.2 * seconds[own, 0].mean()


def test_noisy_durations_are_expected_to_take_their_mean_not_their_median():
    scheduler = HybridML()
    Cluster(noise=Noise(1.0, seed=4)).run(mixed(1500), scheduler)
    rule, model = scheduler.rule_, scheduler.duration_model_
    task = mixed(1)[0]
    scheduler.decide(task, View(1e6, np.zeros(5), workstation()))
    medians = np.exp(model.predict(Workload.from_tasks([task]))[0, :, 0])
    noise = model.arrays.stats["noise"]
    assert (noise > 0.7).all()
    np.testing.assert_allclose(rule.placement.times.sum(axis=1), medians * np.exp(0.5 * noise), rtol=0.02)


def test_kinds_with_a_speed_of_their_own_on_every_gpu_are_sorted_out_under_load():
    platform, rng = unequal_platform(), np.random.default_rng(8)
    tasks = with_kinds(mixed(1500, load=0.6, platform=platform), 6)
    speed = np.exp(0.8 * rng.standard_normal((6, len(platform.classes))))
    seconds = AnalyticPhysics().times(tasks, platform).sum(axis=2) * speed[tasks.kind]
    cluster = Cluster(platform, TablePhysics(seconds[:, platform.class_of]))
    learned, known = (cluster.run(tasks, create(spec)).outcomes.latency for spec in ("hybrid_ml", "price_index"))
    assert learned[300:].mean() < 1.2 * known[300:].mean()


def test_without_trials_nothing_is_tried():
    learner = HierarchicalLearner(limits=ExplorationLimits(trials=0.0))
    Cluster(unequal_platform()).run(mixed(300, platform=unequal_platform()), learner)
    assert learner.rule_.placement.trials == 0


def test_small_parts_find_out_that_a_kind_is_faster_on_the_cpu():
    """The prior expects the opposite, and a whole task might block the CPU for long: a part is put there first."""
    odd = np.arange(300) % 3 == 0
    size = np.random.default_rng(3).uniform(800.0, 1200.0, 300)
    seconds = np.column_stack([np.where(odd, 0.3, 20.0), np.where(odd, 3.0, 0.2)]) * size[:, None] / 1000.0
    work = Workload(
        task_id=np.arange(300), size=size, compute_intensity=np.full(300, 0.8), memory_required=np.full(300, 10.0),
        arrival_time=np.arange(300) * 0.2, kind=["odd" if one else "usual" for one in odd],
    )  # fmt: skip
    platform = workstation(4)
    cluster = Cluster(platform, TablePhysics(seconds[:, platform.class_of]))

    def run(limits):
        return cluster.run(work, HierarchicalLearner(limits=limits, prior=load_prior())).outcomes

    probing, whole = run(ExplorationLimits()), run(ExplorationLimits(probe=1.0))
    assert (probing.fraction[odd] > 0.5).sum() < 10 < (whole.fraction[odd] > 0.5).sum()
    assert 3.0 * probing.latency.mean() < whole.latency.mean()
    assert 0.8 <= probing.fraction[0] < 1.0


def test_fast_part_of_a_split_task_is_learned_before_the_slow_part_ends():
    scheduler = HybridML(model=None)
    Cluster().run(mixed(50), scheduler)
    model = scheduler.duration_model_
    before, predicted = model.seen, model.predict(mixed(20))
    task = Task(1000, 500.0, 0.5, memory_required=10.0)
    scheduler.decide(task, View(0.0, np.zeros(5), workstation()))
    scheduler.remember(task, Decision(1, 0.5))
    scheduler.rule_.placement.pending[:] = 1
    outcome = Outcome(1000, 1, 0.5, 0.0, 0.0, 8.0, 0.0, 0.5)
    scheduler.observe_part(outcome.earlier_part)
    assert model.seen == before + 1
    assert (scheduler.rule_.placement.pending.sum(axis=1) < 2).tolist() == [False, True]
    assert (model.predict(mixed(20))[:, 1, 0] != predicted[:, 1, 0]).all()
    scheduler.observe_part(outcome.earlier_part)  # a repetition
    scheduler.observe(outcome)
    assert model.seen == before + 2
    scheduler.observe(outcome)
    assert model.seen == before + 2


def test_parts_and_whole_tasks_teach_the_same():
    """Without other outcomes in between, it does not matter whether a part was observed on its own."""
    task, weights = Task(1000, 500.0, 0.5, memory_required=10.0), []
    for in_parts in (True, False):
        scheduler = HybridML(model=None)
        Cluster().run(mixed(50), scheduler)
        scheduler.remember(task, Decision(1, 0.5))
        outcome = Outcome(1000, 1, 0.5, 0.0, 0.0, 0.5, 0.0, 1.0)
        if in_parts:
            scheduler.observe_part(outcome.earlier_part)
        scheduler.observe(outcome)
        weights.append(scheduler.duration_model_.arrays.weights)
    np.testing.assert_array_equal(*weights)


def test_a_loaded_model_learns_no_part_twice(tmp_path):
    path = tmp_path / "learned.safetensors"
    task, outcome = Task(1000, 500.0, 0.5, memory_required=10.0), Outcome(1000, 1, 0.5, 0.0, 0.0, 8.0, 0.0, 0.5)
    scheduler = HybridML(model=None)
    Cluster().run(mixed(50), scheduler)
    scheduler.remember(task, Decision(1, 0.5))
    scheduler.observe_part(outcome.earlier_part)
    scheduler.save_model(path)
    again = HybridML(model=path)
    Cluster().start_scheduler(again, mixed(5))
    seen = again.duration_model_.seen
    again.learn_from(task, outcome)
    assert again.duration_model_.seen == seen + 1
    again.learn_from(task, replace(outcome, accelerator_time=9.0, accelerator_start=1.0))
    assert again.duration_model_.seen == seen + 3


def test_a_part_that_runs_longer_than_predicted_counts_before_it_ends():
    expected = []
    for elapsed in (1e-6, 1000.0):
        scheduler = HybridML(model=None)
        Cluster().run(mixed(50), scheduler)
        tasks = [Task(i, 500.0, 0.5, memory_required=10.0, kind="new") for i in (1000, 1001)]
        decision = scheduler.decide(tasks[0], View(1e4, np.zeros(5), workstation()))
        scheduler.decide(tasks[1], View(1e4 + elapsed, np.zeros(5), workstation()))
        column = workstation().class_of[decision.device] if decision.fraction > 0 else 0
        expected.append(scheduler.prediction().times[column].sum())
    assert expected[1] > 10.0 * expected[0]


def test_runs_with_the_same_seed_repeat_exactly():
    runs = [Cluster().run(with_kinds(mixed(400, 0.9), 3), create(SPEC)).outcomes for _ in range(2)]
    np.testing.assert_array_equal(runs[0].latency, runs[1].latency)


def test_nothing_is_pending_after_a_run():
    for make in (HierarchicalLearner, lambda: TaskByTask(model=None)):
        scheduler = make()
        Cluster().run(with_kinds(mixed(300), 3), scheduler)
        assert (scheduler.rule_.placement.pending == 0).all()


def test_a_single_cpu_runs_everything():
    outcomes = Cluster(workstation(0)).run(small_workload(50), create(SPEC)).outcomes
    assert outcomes.completed.all()
    assert (outcomes.fraction == 0).all()


def test_kind_names_may_have_any_length(tmp_path):
    work = small_workload(30)
    named = Workload(**{**work.columns(), "kind": ["", "x" * 100_000, "kérnel 🚀"] * 10})
    scheduler = HybridML(model=None)
    assert Cluster().run(named, scheduler).outcomes.completed.all()
    assert len(scheduler.duration_model_.kinds) == 3
    assert max(map(len, scheduler.duration_model_.kinds)) < 100
    scheduler.save_model(tmp_path / "learned.safetensors")
    again = HybridML(model=str(tmp_path / "learned.safetensors"))
    assert Cluster().run(named, again).outcomes.completed.all()
    assert again.duration_model_.kinds == scheduler.duration_model_.kinds


def test_platforms_with_extreme_features_are_learned():
    """Links and memory far out of every range."""
    devices = (cpu(), Device("slow link", bandwidth=1e-6), Device("fast", bandwidth=1e15, watts=1e9, memory=1e12))
    for model in (None, "default"):
        outcomes = Cluster(Platform("odd", devices)).run(small_workload(200), HybridML(model=model)).outcomes
        assert outcomes.completed.all()
        assert (outcomes.device[100:] != 1).all()  # a transfer would take years


def test_without_learning_the_model_stays_as_it_is():
    scheduler = HybridML(learn=False)
    outcomes = Cluster().run(mixed(200, 0.3), scheduler).outcomes
    assert outcomes.completed.all()
    assert scheduler.duration_model_.seen == 0
    assert scheduler.rule_.placement.trials == 0


def test_training_again_uses_recent_outcomes_alone():
    scheduler = HybridML(model=None)
    Cluster().run(mixed(20), scheduler)
    assert not scheduler.duration_model_.request_training()
    Cluster().run(mixed(600), scheduler)
    model = scheduler.duration_model_
    expected = model.predict(mixed(50))
    assert model.request_training()
    assert model.versions[-1].trigger == "request"
    assert np.abs(model.predict(mixed(50))[:, :, 0] - expected[:, :, 0]).mean() < 0.05


def test_saved_durations_continue_on_the_same_machine_only(tmp_path):
    scheduler, path = HybridML(model=None), tmp_path / "learned.safetensors"
    with pytest.raises(InvalidInputError, match="started"):
        scheduler.save_model(path)
    Cluster().run(mixed(600), scheduler)
    scheduler.save_model(path)
    again = HybridML(model=path)
    Cluster().start_scheduler(again, mixed(5))
    assert (again.state, len(again.versions)) == ("learned", 1)
    np.testing.assert_array_equal(
        again.duration_model_.predict(mixed(50)), scheduler.duration_model_.predict(mixed(50))
    )
    with pytest.raises(ModelFileError, match="other classes of device"):
        Cluster(unequal_platform()).start_scheduler(HybridML(model=path), mixed(5))
    with pytest.raises(ModelFileError, match="does not exist"):
        Cluster().start_scheduler(HybridML(model=tmp_path / "none.safetensors"), mixed(5))


def test_shipped_prior_decides_a_batch_before_any_outcome():
    work = Workload(**{**mixed(400).columns(), "arrival_time": np.zeros(400)})
    spans = {
        spec: Cluster().run(work, create(spec)).outcomes.finish.max() for spec in ("hybrid_ml", SPEC, "price_index")
    }
    assert spans["hybrid_ml"] < min(1.25 * spans["price_index"], spans[SPEC])


@pytest.mark.parametrize(
    "content", ["", "[" * 100_000, "{}", '{"format": "hybrid-scheduler duration prior"}', "NaN"]
)
def test_damaged_prior_is_refused(tmp_path, content):
    path = tmp_path / "prior.json"
    path.write_text(content)
    with pytest.raises(ModelFileError):
        load_prior(path)


@pytest.mark.parametrize(
    ("field", "number", "reason"),
    [("all_devices", math.nan, "not a prior"), ("all_devices", math.inf, "not a prior"),
     ("all_devices", 1e9, "not a prior"), ("device_class", -0.5, "positive deviations")],
)  # fmt: skip
def test_prior_with_an_invalid_number_is_refused(tmp_path, field, number, reason):
    path, values = tmp_path / "prior.json", json.loads(SHIPPED_PRIOR.read_text())
    (values[field][0] if field == "all_devices" else values[field])[2] = number
    path.write_text(json.dumps(values))
    with pytest.raises(ModelFileError, match=reason):
        load_prior(path)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, 0.0, -1.0])
def test_outcomes_without_a_duration_teach_nothing(seconds):
    scheduler = HybridML(model=None)
    Cluster().run(mixed(50), scheduler)
    model = scheduler.duration_model_
    before = model.arrays.weights.copy()
    task = Task(1000, 500.0, 0.5, memory_required=10.0)
    decision = scheduler.decide(task, View(0.0, np.zeros(5), workstation()))
    scheduler.observe(Outcome(1000, decision.device, decision.fraction, 0.0, 0.0, seconds, 0.0, seconds))
    assert np.array_equal(model.arrays.weights, before)
    assert (scheduler.rule_.placement.pending == 0).all()


def test_a_forgotten_task_no_longer_blocks_trials():
    scheduler = HybridML(model=None)
    Cluster().run(mixed(50), scheduler)
    scheduler.decide(Task(1000, 500.0, 0.5, memory_required=10.0), View(0.0, np.zeros(5), workstation()))
    assert scheduler.rule_.placement.pending.sum() > 0
    scheduler.forget(1000)
    scheduler.forget(1000)  # an unknown task
    assert (scheduler.rule_.placement.pending == 0).all()


def test_state_of_the_learner_says_whether_it_has_learned():
    scheduler = HybridML(model=None)
    Cluster().start_scheduler(scheduler, small_workload(5))
    assert (scheduler.state, scheduler.versions, scheduler.feature_importance()) == ("warming", [], None)
    assert scheduler.accuracy() is None
    Cluster().run(with_kinds(mixed(300), 2), scheduler)
    assert scheduler.state == "learned"
    assert scheduler.confidence.shape == (2,)
    importance, accuracy = scheduler.feature_importance(), scheduler.accuracy()
    assert importance is not None
    assert set(importance) == {"size", "intensity", "memory", "kind"}
    assert importance["size"] > 0.5
    assert accuracy is not None
    assert set(accuracy["kinds"]) == {"kind 0", "kind 1"}
    assert scheduler.versions[-1].r2 > 0.8
    assert 0.0 < scheduler.versions[-1].error < 0.3


def test_more_weight_on_energy_means_fewer_joules():
    work = mixed(400, 0.1)
    joules = [
        Cluster().run(work, create(SPEC), objective=Objective(latency=1 - w, energy=w)).energy_and_cost.energy.sum()
        for w in (0.0, 0.5, 1.0)
    ]
    assert joules[0] > joules[1] > joules[2]


def test_predictions_are_calibrated_on_known_physics():
    work, learner = mixed(1500), HierarchicalLearner()
    Cluster().run(work, learner)
    log_seconds = np.log(AnalyticPhysics().times(work, workstation())[:, :, 0])
    error = learner.duration_model_.predict(work)[:, :, 0] - log_seconds
    assert np.sqrt((error**2).mean(axis=0)).max() < 0.2


def handovers(learner):
    """Return the events of the guard."""
    return [event.kind for event in learner.duration_model_.events if event.kind in ("fallback", "recovered")]


def poison(learner):
    """Let the model take the CPU for a fast device and the GPUs for slow ones, without any uncertainty."""
    model = learner.duration_model_.arrays
    cpu_block, gpu_block = model.device_kind[0] * FEATURES, model.device_kind[1] * FEATURES
    own = model.weights.copy(), model.covariance.copy(), model.prior_variance.copy()
    model.weights[cpu_block] -= 3.0
    model.weights[gpu_block] += 3.0
    model.prior_weights[:] = model.weights  # from which the first outcomes are learned again
    model.covariance[:] = np.eye(len(model.covariance)) * 1e-12
    model.prior_variance[:] = 1e-12
    return own


@pytest.mark.parametrize(
    "objective",
    [Objective(), Objective(latency=0.5, energy=0.5), Objective(latency=0.5, cost=0.5), Objective(energy=1.0)],
    ids=["latency", "latency and energy", "latency and cost", "energy"],
)
def test_guard_hands_over_from_inverted_predictions_and_back(objective):
    work, cluster = mixed(1500, 0.5), Cluster()
    scheduler = TaskByTask(model=None)
    cluster.start_scheduler(scheduler, work, objective=objective)
    own: tuple[Floats, Floats, Floats] | None = None
    running: list[tuple[float, int, Outcome]] = []
    for row in range(len(work)):
        task = work[row]
        while running and running[0][0] <= task.arrival_time:
            scheduler.observe(heapq.heappop(running)[2])
        if row == 200:
            own = poison(scheduler)
        if row == 700:
            assert own is not None
            arrays = scheduler.duration_model_.arrays
            arrays.weights[:], arrays.covariance[:], arrays.prior_variance[:] = own
        decision = scheduler.decide(task, View(task.arrival_time, cluster.free_at_view, workstation()))
        outcome = cluster.simulate(task, decision)
        heapq.heappush(running, (outcome.finish, row, outcome))
        if row == 190:
            assert scheduler.state == "learned"
        if row == 690:
            assert scheduler.state == "fallback"
    assert [
        event.kind for event in scheduler.duration_model_.events if event.kind in ("fallback", "recovered")
    ] == [
        "fallback",
        "recovered",
    ]
    assert scheduler.state == "learned"


def test_guard_limits_the_harm_of_inverted_predictions_in_the_compiled_loop(monkeypatch):
    means = {True: 0.0, False: 0.0}
    for guard, seed in product(means, (2000, 2001, 2002)):
        learner = HierarchicalLearner(guard=guard)
        start = learner.start

        def poisoned(setting, learner=learner, start=start):
            start(setting)
            poison(learner)

        monkeypatch.setattr(learner, "start", poisoned)
        means[guard] += Cluster().run(mixed(1500, 0.7, seed), learner).outcomes.latency.mean()
        # The model learns the truth from outcomes; until then the fallback rule decides.
        assert handovers(learner) == ["fallback", "recovered"] * guard
    assert means[True] < means[False]
