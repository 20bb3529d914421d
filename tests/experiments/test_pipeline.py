"""The five phases: their files, dependencies and refusals. The whole run is in tests/cli."""

from dataclasses import replace

import numpy as np
import pytest

from hybrid_scheduler import (
    AnalyticPhysics,
    InvalidInputError,
    Noise,
    OfflineTrainer,
    SerialPhysics,
    Workload,
    workstation,
)
from hybrid_scheduler.cluster import Machine
from hybrid_scheduler.experiments import evaluation, pipeline
from hybrid_scheduler.experiments.evaluation import RESULT_COLUMNS, PredictionRecorder, split_times
from hybrid_scheduler.experiments.pipeline import (
    QUICK,
    USUAL,
    PipelineStudy,
    like_trace,
    phases,
    prediction_error,
)
from hybrid_scheduler.learning.agent.training import TrainingBudget
from hybrid_scheduler.schedulers.hybrid_ml import HybridML
from hybrid_scheduler.schedulers.rl_agent import train_agent
from hybrid_scheduler.workload.scenarios import generate, scenario_named

SCENARIO = scenario_named("rush-hour")
MACHINE = Machine(workstation(), AnalyticPhysics())


def study(**changes) -> PipelineStudy:
    return replace(PipelineStudy(MACHINE, SCENARIO, size=QUICK), **changes)


def trace(tasks: int = 12, seed: int = 5) -> Workload:
    return generate(scenario_named("pareto"), tasks, seed)


# ------------------------------------------------------------------------------------------ what depends on what


@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        ({}, set()),
        ({"seed": 43}, {"generate", "train", "schedule", "evaluate"}),
        ({"size": USUAL}, {"profile", "generate", "train"}),
        ({"size": replace(QUICK, agent_budget=TrainingBudget())}, {"train"}),
        ({"trace": trace()}, {"generate", "evaluate"}),
        ({"machine": replace(MACHINE, memory_policy="fail")}, {"schedule"}),
        ({"machine": replace(MACHINE, noise=Noise(0.1))}, {"schedule"}),
        ({"machine": replace(MACHINE, platform=workstation(2))}, {"generate", "train", "schedule"}),
        ({"scenario": replace(SCENARIO, memory=(10.0, 20.0))}, {"generate", "train"}),
    ],
)
def test_change_reruns_the_dependent_phases(changes, changed, tmp_path):
    before = {phase.name: phase.fingerprint(tmp_path) for phase in phases(study())}
    after = {phase.name: phase.fingerprint(tmp_path) for phase in phases(study(**changes))}
    assert {name for name in before if before[name] != after[name]} == changed


def test_trace_is_identified_by_its_tasks(tmp_path):
    def generate_phase(tasks: Workload) -> str:
        return phases(study(trace=tasks))[1].fingerprint(tmp_path)

    assert generate_phase(trace(seed=5)) == generate_phase(trace(seed=5))
    assert generate_phase(trace(seed=5)) != generate_phase(trace(seed=6))


def test_every_input_is_an_earlier_output():
    known: set[str] = set()
    for phase in phases(study()):
        assert set(phase.inputs) <= known
        known |= set(phase.outputs)
    assert {
        "data/profiles/hardware_profile.json",
        "data/workload_traces/workload_train.csv",
        "models/scheduler_model.skops",
        "models/feature_importances.json",
        "models/rl_agent.safetensors",
        "data/results/scheduling_results.csv",
        "data/results/performance_analysis.png",
        "data/results/performance_summary.csv",
    } <= known


def test_training_tasks_are_never_scheduled(tmp_path):
    from hybrid_scheduler.experiments.pipeline import PhaseContext
    from hybrid_scheduler.workload.trace_files import load_workload

    context = PhaseContext(tmp_path, tmp_path, lambda *_: None)
    for seed in (0, 42, 2042):
        generate_phase = next(phase for phase in phases(study(seed=seed)) if phase.name == "generate")
        generate_phase.work(context)
        training, test = (
            load_workload(tmp_path / pipeline.TRAINING_TASKS),
            load_workload(tmp_path / pipeline.TEST_TASKS),
        )
        assert len(training) == len(test) == 500
        assert not set(training.size.tolist()) & set(test.size.tolist())


# ------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (Machine(workstation(0), AnalyticPhysics()), "one with a GPU"),
        (Machine(workstation(), SerialPhysics()), "physics"),
    ],
)
def test_impossible_machine_is_refused_at_once(machine, reason):
    with pytest.raises(InvalidInputError, match=reason):
        PipelineStudy(machine, SCENARIO)


# ------------------------------------------------------------------------------------------ a trace


def test_like_trace_covers_the_ranges_of_a_trace():
    tasks = trace(200)
    similar = generate(like_trace(tasks), 500, 1)
    for column in ("size", "compute_intensity", "memory_required"):
        theirs, ours = getattr(tasks, column), getattr(similar, column)
        assert theirs.min() <= ours.min()
        assert ours.max() <= theirs.max()


def test_like_trace_accepts_a_trace_of_one_task():
    similar = generate(like_trace(trace(1)), 20, 1)
    assert np.ptp(similar.size) == pytest.approx(0, abs=1e-9)


# ------------------------------------------------------------------------------------------ the evaluation


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Durations learned from 200 tasks, and an agent that has learned nothing."""
    folder = tmp_path_factory.mktemp("models")
    tasks = generate(SCENARIO, 200, 1, batch=True)
    trainer = OfflineTrainer("random_forest", seed=1, n_estimators=40, min_samples_leaf=2)
    assert trainer.run_full_pipeline(tasks, folder / "times.skops")["metrics"]["test_r2"] > 0.9
    train_agent(1, 1, budget=TrainingBudget(1, 4, 1)).save_model(folder / "agent.safetensors")
    return {"times_model": folder / "times.skops", "agent_model": folder / "agent.safetensors"}


@pytest.fixture(scope="module")
def run(models):
    tasks = generate(SCENARIO, 150, 1001)
    return evaluation.run_evaluation(tasks, MACHINE, seed=1, progress=lambda *_: None, **models)


def test_every_scheduler_places_every_task(run):
    rows = run.to_pandas().to_dict("records")
    names = {*evaluation.BASELINES, "hybrid_ml", "rl_agent"}
    assert set(run.comparison.results) == names
    assert len(rows) == 150 * len(names)
    assert all(tuple(row) == RESULT_COLUMNS for row in rows)
    assert {row["device"] for row in rows} <= {device.name for device in MACHINE.platform.devices}


def test_predictions_are_close_to_actual_times(run):
    for name, predicted in run.predicted.items():
        actual = run.comparison.results[name].outcomes.time
        if name in ("earliest_finish", "oracle"):
            assert predicted == pytest.approx(actual)
        elif name == "hybrid_ml":  # it learned from 200 tasks before
            assert prediction_error(predicted, actual) < 0.15
        else:
            assert np.isnan(predicted).all()
            assert prediction_error(predicted, actual) is None


def test_recording_predictions_changes_no_outcome(run, models):
    tasks = run.comparison.workload
    alone = MACHINE.cluster().run(tasks, HybridML(model=models["times_model"]), seed=1)
    assert (alone.outcomes.fraction == run.comparison.results["hybrid_ml"].outcomes.fraction).all()
    recorder = PredictionRecorder(HybridML(learn=False))
    assert (recorder.wants_labels, recorder.learns) == (False, False)


def test_task_graphs_are_scheduled(models):
    from hybrid_scheduler.workload.task_graphs import cholesky

    run = evaluation.run_evaluation(cholesky(4), MACHINE, seed=1, progress=lambda *_: None, **models)
    assert run.comparison.lower_bound is not None
    assert all(result.outcomes.completed.all() for result in run.comparison.results.values())


def test_split_times_follow_the_parts():
    times = np.array([[[8.0, 0.0], [2.0, 0.5]]] * 4)  # a CPU and a GPU with a launch time
    platform = workstation(1)
    device, fraction = np.array([0, 1, 1, 1]), np.array([0.7, 0.0, 0.5, 1.0])
    assert split_times(times, device, fraction, platform) == pytest.approx([8.0, 8.0, 4.0, 2.5])


def test_failed_tasks_have_no_time_and_no_share(models):
    machine = replace(MACHINE, memory_policy="fail")
    tasks = generate(scenario_named("oom"), 40, 1001)
    run = evaluation.run_evaluation(tasks, machine, seed=1, progress=lambda *_: None, **models)
    rows = run.to_pandas().to_dict("records")
    failed = [row for row in rows if row["scheduler"] == "greedy" and np.isnan(row["actual_time"])]
    assert failed
    assert all(np.isnan(row["gpu_fraction"]) for row in failed)
