"""Pipeline in five phases: profile, generate, train, schedule, evaluate.

    1 profile   speed of this machine's own CPU and GPU              data/profiles/hardware_profile.json
    2 generate  tasks to learn from, and others to schedule          data/workload_traces/workload_*.csv
    3 train     the forest and the agent, in simulation              models/
    4 schedule  baselines and learners on the same tasks             data/results/scheduling_results.csv
    5 evaluate  a figure and a table                                 data/results/performance_*

Training and evaluation never share a task: workloads to learn from have training seeds, those that are scheduled
have development seeds or later ones (see `experiments/__init__.py`). A trace is scheduled whole; the learners train
on tasks drawn from the ranges that it covers.

A phase reads files and writes files, nothing else. Its fingerprint covers all that its outputs depend on: its
parameters, the contents of its inputs and the version of this package. It is skipped when the last finished run had
the same fingerprint and its outputs are unchanged since. Outputs are written into a hidden folder beside the
results and moved into place when the phase is done. The note that it is finished comes last: a run that is killed
in between does the phase again.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .. import __version__
from ..cluster import Machine
from ..core import Floats, InvalidInputError, Workload
from ..core.atomic_files import write_atomically
from ..core.canonical_json import content_hash, pretty_json
from ..learning import OfflineTrainer
from ..learning.agent.random_cells import cell_of
from ..learning.agent.training import TrainingBudget
from ..profiling.machine_info import optional_torch
from ..reports.file_formats import write_table
from ..schedulers.rl_agent import train_agent
from ..workload.distributions import size_distribution
from ..workload.scenarios import Scenario, generate, scenario_named
from ..workload.trace_files import load_workload, save_workload
from . import FIRST_DEVELOPMENT_SEED
from .evaluation import run_evaluation
from .run_record import directory_lock, prepare_folder, writing
from .spec import workload_digest

PROFILE = "data/profiles/hardware_profile.json"
TRAINING_TASKS = "data/workload_traces/workload_train.csv"
TEST_TASKS = "data/workload_traces/workload_test.csv"
#: The duration model that Hybrid ML schedules with.
_TIMES_MODEL = "models/scheduler_model.skops"
_TIMES_MANIFEST = "models/scheduler_model.json"
#: The plain random forest on the same labels: its scores and importances are comparable with other models'.
FOREST = "models/random_forest.skops"
_FOREST_MANIFEST = "models/random_forest.json"
_IMPORTANCES = "models/feature_importances.json"
_TRAINING_REPORT = "models/training_report.json"
_AGENT = "models/rl_agent.safetensors"
RESULTS = "data/results/scheduling_results.csv"
_METRICS = "data/results/scheduling_metrics.json"
FIGURE = "data/results/performance_analysis.png"
_SUMMARY = "data/results/performance_summary.csv"
#: Loads of the agent's training.
_AGENT_LOADS = (0.5, 0.7, 0.8, 0.9, 0.95)

_SUMMARY_COLUMNS = (
    "scheduler", "makespan", "makespan_over_bound", "speed_up_over_cpu_only", "mean_latency", "p50_latency",
    "p95_latency", "p99_latency", "mean_time", "energy", "cost", "load_balance", "mean_gpu_fraction",
    "prediction_error", "failed",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PipelineSize:
    """Size of a pipeline run: sizes and seconds of the profile, tasks, and effort for the agent."""

    profile_sizes: tuple[int, ...]
    profile_seconds: float
    training_tasks: int
    test_tasks: int
    agent_budget: TrainingBudget


QUICK = PipelineSize((64, 128, 256), 3.0, 500, 500, TrainingBudget(1, 4, 2))
USUAL = PipelineSize((256, 512, 1024, 2048), 45.0, 2000, 2000, TrainingBudget())


@dataclass(frozen=True)
class PipelineStudy:
    """All inputs of a pipeline."""

    machine: Machine
    #: Tasks to learn from; without a trace also those that are scheduled.
    scenario: Scenario
    seed: int = 42
    size: PipelineSize = USUAL
    trace: Workload | None = None

    def __post_init__(self) -> None:
        self.machine.cluster()  # refuses an impossible machine before anything is written
        if len(self.machine.platform.accelerators) == 0:
            name = self.machine.platform.name
            raise InvalidInputError("platform", "one with a GPU, to learn when it pays off", name)

    @property
    def caption(self) -> tuple[str, ...]:
        """Short facts for the figure."""
        source = f"{self.scenario.name} at {self.scenario.utilisation:g} of capacity"
        return (
            source if self.trace is None else "tasks of a trace",
            f"{self.machine.platform.name}, {self.machine.physics.name} physics",
            f"seed {self.seed}",
        )


@dataclass(frozen=True)
class PipelineReport:
    """Results of the phases, and the table of the last one."""

    phases: list[PhaseResult]
    rows: list[dict[Any, Any]]
    lower_bound: float | None
    training: dict[str, Any]


def like_trace(trace: Workload) -> Scenario:
    """Return a scenario with the ranges of a trace.

    Sizes are log-normal, since traces often span orders of magnitude.
    """
    return replace(
        scenario_named("rush-hour"),
        name="like-trace",
        description="Tasks with the ranges of a trace",
        size=size_distribution("lognormal", float(trace.size.min()), float(trace.size.max())),
        intensity=(float(trace.compute_intensity.min()), float(trace.compute_intensity.max())),
        memory=(float(trace.memory_required.min()), float(trace.memory_required.max())),
    )


def run_pipeline(
    study: PipelineStudy,
    folder: Path,
    *,
    force: bool = False,
    progress: Progress | None = None,
    finished: Callable[[int, PhaseResult], None] | None = None,
) -> PipelineReport:
    """Run all five phases; those that an earlier run finished and nothing has changed are skipped.

    Parameters
    ----------
    study
        All inputs.
    folder
        Folder of the results.
    force
        Run all phases.
    progress, finished
        See `run_phases`.
    """
    done = run_phases(phases(study), folder, force=force, progress=progress, finished=finished)
    table = _read_table(folder / _SUMMARY).set_index("scheduler").astype(float).reset_index()
    metrics = json.loads((folder / _METRICS).read_text(encoding="utf-8"))
    training = json.loads((folder / _TRAINING_REPORT).read_text(encoding="utf-8"))
    return PipelineReport(done, table.to_dict("records"), metrics["lower_bound"], training)


def phases(study: PipelineStudy) -> list[Phase]:
    """Return the five phases, with all that each depends on."""
    machine = study.machine
    seed = study.seed
    size = study.size
    machine_inputs = (machine.platform, machine.physics)
    trace = None if study.trace is None else workload_digest(study.trace)
    trained = (_TIMES_MODEL, _TIMES_MANIFEST, FOREST, _FOREST_MANIFEST, _IMPORTANCES, _TRAINING_REPORT, _AGENT)
    return [
        Phase(
            "profile",
            outputs=(PROFILE,),
            parameters=(size.profile_sizes, size.profile_seconds, _this_machine()),
            work=lambda context: _profile(context, size),
        ),
        Phase(
            "generate",
            outputs=(TRAINING_TASKS, TEST_TASKS),
            parameters=(study.scenario, trace, *machine_inputs, seed, size.training_tasks, size.test_tasks),
            work=lambda context: _generate(context, study),
        ),
        Phase(
            "train",
            inputs=(TRAINING_TASKS,),
            outputs=trained,
            parameters=(study.scenario, *machine_inputs, seed, size.agent_budget),
            work=lambda context: _train(context, study),
        ),
        Phase(
            "schedule",
            inputs=(TEST_TASKS, _TIMES_MODEL, _TIMES_MANIFEST, _AGENT),
            outputs=(RESULTS, _METRICS),
            parameters=(machine, seed),
            work=lambda context: _schedule(context, study),
        ),
        Phase(
            "evaluate",
            inputs=(TEST_TASKS, RESULTS, _METRICS),
            outputs=(FIGURE, _SUMMARY),
            parameters=(study.caption,),
            work=lambda context: _evaluate(context, study.caption),
        ),
    ]


# ------------------------------------------------------------------------------------------ the work


def _profile(context: PhaseContext, size: PipelineSize) -> None:
    from ..profiling.profiler import HardwareProfiler

    profiler = HardwareProfiler("auto", budget=size.profile_seconds)
    points = len(profiler.kernels) * len(size.profile_sizes)
    profiler.progress = lambda words, done: context.report(words, done / points)
    profiler.profile_range(size.profile_sizes)
    profiler.save_profile(context.write(PROFILE))


def _generate(context: PhaseContext, study: PipelineStudy) -> None:
    machine = study.machine
    size = study.size
    training = generate(study.scenario, size.training_tasks, study.seed % FIRST_DEVELOPMENT_SEED, batch=True)
    save_workload(training, context.write(TRAINING_TASKS))
    test = study.trace
    if test is None:
        test = generate(
            study.scenario, size.test_tasks, study.seed + FIRST_DEVELOPMENT_SEED,
            platform=machine.platform, physics=machine.physics,
        )  # fmt: skip
    save_workload(test, context.write(TEST_TASKS))


def _train(context: PhaseContext, study: PipelineStudy) -> None:
    platform = study.machine.platform
    physics = study.machine.physics
    tasks = load_workload(context.read(TRAINING_TASKS))
    trainer = partial(OfflineTrainer, "random_forest", platform=platform, physics=physics, seed=study.seed)
    context.report("train durations", 0.0)
    durations = trainer(n_estimators=40, min_samples_leaf=2).run_full_pipeline(tasks, context.write(_TIMES_MODEL))
    context.report("train forest", 0.1)
    forest = trainer().run_full_pipeline(tasks, context.write(FOREST))
    context.report("train agent", 0.4)
    agent = train_agent(
        [cell_of(platform, physics, study.scenario, load) for load in _AGENT_LOADS],
        study.seed,
        budget=study.size.agent_budget,
        progress=lambda share: context.report("train agent", 0.4 + 0.6 * share),
    )
    agent.save_model(context.write(_AGENT))
    context.write_json(_IMPORTANCES, forest["feature_importances"])
    report = {"times": durations["metrics"], "random_forest": forest["metrics"], "rl_agent": agent.notes}
    context.write_json(_TRAINING_REPORT, report)


def _schedule(context: PhaseContext, study: PipelineStudy) -> None:
    evaluation = run_evaluation(
        load_workload(context.read(TEST_TASKS)),
        study.machine,
        times_model=context.read(_TIMES_MODEL),
        agent_model=context.read(_AGENT),
        seed=study.seed,
        progress=context.report,
    )
    evaluation.to_pandas().to_csv(context.write(RESULTS), index=False, lineterminator="\n")
    comparison = evaluation.comparison
    summaries = {name: summary.as_dict() for name, summary in comparison.summaries.items()}
    context.write_json(_METRICS, {"lower_bound": comparison.lower_bound, "schedulers": summaries})


def _evaluate(context: PhaseContext, caption: tuple[str, ...]) -> None:
    from ..reports.figure_style import save_png
    from ..reports.pipeline_figure import Performance, draw

    tasks = load_workload(context.read(TEST_TASKS))
    metrics = json.loads(context.read(_METRICS).read_text(encoding="utf-8"))
    summaries = metrics["schedulers"]
    columns = dict(iter(_read_table(context.read(RESULTS)).groupby("scheduler")))
    performance = Performance(
        tasks.arrival_time,
        {name: columns[name]["gpu_fraction"].to_numpy() for name in summaries},
        {name: summary["makespan"] for name, summary in summaries.items()},
        metrics["lower_bound"],
        (f"{len(tasks):,} tasks", *caption),
    )
    save_png(draw(performance), context.write(FIGURE))
    rows = [
        summary
        | {
            "scheduler": name,
            "speed_up_over_cpu_only": performance.speed_up(name),
            "prediction_error": prediction_error(*columns[name][["predicted_time", "actual_time"]].to_numpy().T),
        }
        for name, summary in summaries.items()
    ]
    write_table(context.write(_SUMMARY), _SUMMARY_COLUMNS, rows)


# ------------------------------------------------------------------------------------------ helpers


def prediction_error(predicted: Floats, actual: Floats) -> float | None:
    """Return the median of |predicted / actual - 1|; None for a scheduler that predicts nothing."""
    both = np.isfinite(predicted) & (actual > 0)
    return float(np.median(np.abs(predicted[both] / actual[both] - 1.0))) if both.any() else None


def _read_table(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, float_precision="round_trip")


def _this_machine() -> tuple[str, ...]:
    """Return what identifies this machine and its tools, since a profile belongs to those it was taken with."""
    return (
        platform.node(), platform.machine(), platform.system(), str(os.cpu_count()), str(optional_torch() is None),
    )  # fmt: skip


# ------------------------------------------------------------------------------------------ resumable phases

#: Folder of the list of finished phases, the lock and unfinished files.
HIDDEN = ".pipeline"
_NOTES = "finished.json"


@dataclass(frozen=True, slots=True)
class PhaseContext:
    """Files and progress of a running phase: it reads finished files, writes unfinished ones, reports 0 to 1."""

    folder: Path
    stage: Path
    report: Callable[[str, float], None]

    def read(self, name: str) -> Path:
        """Return the path of a finished file."""
        return self.folder / name

    def write(self, name: str) -> Path:
        """Return the path for an output, in the folder of unfinished files."""
        path = self.stage / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write_json(self, name: str, value: Any) -> None:
        """Write an output as JSON."""
        self.write(name).write_text(pretty_json(value), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase; inputs and outputs are files by their path below the folder of the results."""

    name: str
    outputs: tuple[str, ...]
    work: Callable[[PhaseContext], None]
    inputs: tuple[str, ...] = ()
    #: Everything else that the outputs depend on; compared by its text.
    parameters: tuple[Any, ...] = ()

    def fingerprint(self, folder: Path) -> str:
        """Return the digest of all that the outputs depend on."""
        content = {
            "phase": self.name,
            "version": __version__,
            "parameters": [repr(parameter) for parameter in self.parameters],
            "inputs": {name: _digest(folder / name) for name in self.inputs},
            "outputs": self.outputs,
        }
        return content_hash(content)


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """Result of a phase."""

    phase: Phase
    skipped: bool
    seconds: float
    fingerprint: str


#: Called with (number of the phase from 0 on, what it does, share done).
Progress = Callable[[int, str, float], None]


def run_phases(
    phases: Sequence[Phase],
    folder: Path,
    *,
    force: bool = False,
    progress: Progress | None = None,
    finished: Callable[[int, PhaseResult], None] | None = None,
) -> list[PhaseResult]:
    """Run the phases that are not yet done, in order.

    Parameters
    ----------
    phases
        The phases.
    folder
        Folder of the results.
    force
        Run all phases.
    progress
        Called with the number of the phase, what it does, and the share done.
    finished
        Called after each phase.

    Raises
    ------
    InvalidInputError
        If the folder cannot be used, or another run uses it.
    HybridSchedulerError
        If a file cannot be written.
    """
    hidden = folder / HIDDEN
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError("folder", "a folder", str(folder))
    prepare_folder(hidden)
    done: list[PhaseResult] = []
    with directory_lock(hidden / "lock", folder):
        notes = {} if force else _read_notes(hidden / _NOTES)
        for number, phase in enumerate(phases):

            def report(text: str, share: float, number: int = number) -> None:
                if progress:
                    progress(number, text, share)

            report(phase.name, 0.0)
            with writing(folder, "finished phases are kept: run it again to go on"):
                done.append(_run(phase, folder, hidden, notes, report))
            if finished:
                finished(number, done[-1])
    return done


def _run(
    phase: Phase, folder: Path, hidden: Path, notes: dict[str, Any], report: Callable[[str, float], None]
) -> PhaseResult:
    began = time.perf_counter()
    fingerprint = phase.fingerprint(folder)
    if notes.get(phase.name) == _note(phase, fingerprint, folder):
        return PhaseResult(phase, True, 0.0, fingerprint)
    stage = hidden / "unfinished"
    # An earlier run may have been killed here.
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir()
    try:
        phase.work(PhaseContext(folder, stage, report))
        for name in phase.outputs:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(stage / name, target)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    notes[phase.name] = _note(phase, fingerprint, folder)
    write_atomically(hidden / _NOTES, pretty_json(notes))
    return PhaseResult(phase, False, time.perf_counter() - began, fingerprint)


def _read_notes(path: Path) -> dict[str, Any]:
    """Return the notes on finished phases; none if they are missing or damaged, so that all phases run again."""
    try:
        notes = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return notes if isinstance(notes, dict) else {}


def _note(phase: Phase, fingerprint: str, folder: Path) -> dict[str, Any]:
    """Return the note on a finished phase: its fingerprint and the digests of its outputs."""
    return {"fingerprint": fingerprint, "outputs": {name: _digest(folder / name) for name in phase.outputs}}


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
