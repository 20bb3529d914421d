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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..cluster import Machine
from ..core import Floats, HybridSchedulerError, InvalidInputError, Platform, Workload
from ..core.atomic_files import write_atomically
from ..core.canonical_json import content_hash, pretty_json
from ..learning import OfflineTrainer
from ..learning.dqn import training
from ..learning.dqn.model_file import save_model
from ..learning.offline_trainer import train_times_model
from ..physics import Physics
from ..reports.file_formats import number, read_table, write_table
from ..workload.distributions import size_distribution
from ..workload.scenarios import Scenario, generate, scenario_named
from ..workload.trace_files import load_workload, save_workload
from . import FIRST_DEVELOPMENT_SEED
from .evaluation import RESULT_COLUMNS, run_evaluation
from .run_record import directory_lock

PROFILE = "data/profiles/hardware_profile.json"
TRAINING_TASKS = "data/workload_traces/workload_train.csv"
TEST_TASKS = "data/workload_traces/workload_test.csv"
#: The duration model that Hybrid ML schedules with.
_TIMES_MODEL, _TIMES_MANIFEST = "models/scheduler_model.skops", "models/scheduler_model.json"
#: The plain random forest on the same labels: its scores and importances are comparable with other models'.
FOREST, _FOREST_MANIFEST = "models/random_forest.skops", "models/random_forest.json"
_IMPORTANCES, _TRAINING_REPORT = "models/feature_importances.json", "models/training_report.json"
_AGENT = "models/rl_agent.safetensors"
RESULTS, _METRICS = "data/results/scheduling_results.csv", "data/results/scheduling_metrics.json"
FIGURE, SUMMARY = "data/results/performance_analysis.png", "data/results/performance_summary.csv"

_SUMMARY_COLUMNS = (
    "scheduler", "makespan", "makespan_over_bound", "speed_up_over_cpu_only", "mean_latency", "p50_latency",
    "p95_latency", "p99_latency", "mean_time", "energy", "cost", "load_balance", "mean_gpu_fraction",
    "prediction_error", "failed",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PipelineSize:
    """Size of a pipeline run: sizes and seconds of the profile, tasks, updates and clusters of the agent."""

    profile_sizes: tuple[int, ...]
    profile_seconds: float
    training_tasks: int
    test_tasks: int
    agent_updates: int
    agent_clusters: int


QUICK = PipelineSize((64, 128, 256), 3.0, 500, 500, 250, 16)
USUAL = PipelineSize((256, 512, 1024, 2048), 45.0, 2000, 2000, 4000, 32)


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
    rows: list[dict[str, Any]]
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
    rows = [
        {name: cell if name == "scheduler" else number(cell) for name, cell in row.items()}
        for row in read_table(folder / SUMMARY)
    ]
    metrics = json.loads((folder / _METRICS).read_text(encoding="utf-8"))
    training = json.loads((folder / _TRAINING_REPORT).read_text(encoding="utf-8"))
    return PipelineReport(done, rows, metrics["lower_bound"], training)


def phases(study: PipelineStudy) -> list[Phase]:
    """Return the five phases, with all that each depends on."""
    machine, seed, size = study.machine, study.seed, study.size
    machine_inputs, trace = (machine.platform, machine.physics), _content(study.trace)
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
            parameters=(study.scenario, *machine_inputs, seed, size.agent_updates, size.agent_clusters),
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
            outputs=(FIGURE, SUMMARY),
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
    machine, size = study.machine, study.size
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
    machine_inputs, size = (study.machine.platform, study.machine.physics), study.size
    tasks = load_workload(context.read(TRAINING_TASKS))
    context.report("train durations", 0.0)
    times = train_times(context.write(_TIMES_MODEL), tasks, *machine_inputs, study.seed)
    context.report("train forest", 0.1)
    forest = _train_forest(context.write(FOREST), tasks, *machine_inputs, study.seed)
    context.report("train agent", 0.4)
    agent = train_agent(
        context.write(_AGENT), study.scenario, *machine_inputs, study.seed,
        updates=size.agent_updates, clusters=size.agent_clusters,
        progress=lambda share: context.report("train agent", 0.4 + 0.6 * share),
    )  # fmt: skip
    report = {"times": times, "random_forest": forest["metrics"], "rl_agent": agent}
    context.write(_IMPORTANCES).write_text(pretty_json(forest["feature_importances"]), encoding="utf-8")
    context.write(_TRAINING_REPORT).write_text(pretty_json(report), encoding="utf-8")


def _schedule(context: PhaseContext, study: PipelineStudy) -> None:
    evaluation = run_evaluation(
        load_workload(context.read(TEST_TASKS)),
        study.machine,
        times_model=context.read(_TIMES_MODEL),
        agent_model=context.read(_AGENT),
        seed=study.seed,
        progress=context.report,
    )
    write_table(context.write(RESULTS), RESULT_COLUMNS, evaluation.rows())
    comparison = evaluation.comparison
    metrics = {
        "lower_bound": comparison.lower_bound,
        "schedulers": {name: summary.as_dict() for name, summary in comparison.summaries.items()},
    }
    context.write(_METRICS).write_text(pretty_json(metrics), encoding="utf-8")


def _evaluate(context: PhaseContext, caption: tuple[str, ...]) -> None:
    from ..reports.figure_style import save_png
    from ..reports.pipeline_figure import Performance, draw

    tasks, metrics = (
        load_workload(context.read(TEST_TASKS)),
        json.loads(context.read(_METRICS).read_text(encoding="utf-8")),
    )
    summaries = metrics["schedulers"]
    columns = _columns(context.read(RESULTS), ("gpu_fraction", "predicted_time", "actual_time"))
    performance = Performance(
        tasks.arrival_time,
        {name: columns[name]["gpu_fraction"] for name in summaries},
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
            "prediction_error": prediction_error(columns[name]["predicted_time"], columns[name]["actual_time"]),
        }
        for name, summary in summaries.items()
    ]
    write_table(context.write(SUMMARY), _SUMMARY_COLUMNS, rows)


# ------------------------------------------------------------------------------------------ helpers


def prediction_error(predicted: Floats, actual: Floats) -> float | None:
    """Return the median of |predicted / actual - 1|; None for a scheduler that predicts nothing."""
    both = np.isfinite(predicted) & (actual > 0)
    return float(np.median(np.abs(predicted[both] / actual[both] - 1.0))) if both.any() else None


def _columns(path: Path, names: tuple[str, ...]) -> dict[str, dict[str, Floats]]:
    """Return columns of the results by scheduler."""
    cells: dict[str, dict[str, list[float]]] = {}
    for row in read_table(path):
        columns = cells.setdefault(row["scheduler"], {name: [] for name in names})
        for name in names:
            columns[name].append(number(row[name]))
    return {
        scheduler: {name: np.array(values) for name, values in columns.items()}
        for scheduler, columns in cells.items()
    }


def _content(trace: Workload | None) -> str | None:
    """Return a digest of the tasks: the same tasks under another file name are the same trace."""
    if trace is None:
        return None
    digest = hashlib.sha256()
    for column in (
        trace.task_id, trace.size, trace.compute_intensity, trace.memory_required, trace.arrival_time, trace.kind,
        trace.parent_start, trace.parent_rows, trace.parent_data,
    ):  # fmt: skip
        digest.update(np.ascontiguousarray(column).tobytes())
    return f"{digest.hexdigest()} {trace.kinds}"


def _this_machine() -> tuple[str, ...]:
    """Return what identifies this machine, since a profile belongs to the machine it was taken on."""
    return platform.node(), platform.machine(), platform.system(), str(os.cpu_count())


_EPISODE = 500


def _train_forest(path: Path, tasks: Workload, platform: Platform, physics: Physics, seed: int) -> dict[str, Any]:
    """Train the plain random forest; return feature_importances and metrics."""
    trainer = OfflineTrainer("random_forest", platform=platform, physics=physics, seed=seed)
    return trainer.run_full_pipeline(tasks, path)


def train_agent(
    path: Path,
    scenario: Scenario,
    platform: Platform,
    physics: Physics,
    seed: int,
    *,
    updates: int,
    clusters: int,
    progress: Callable[[float], None],
) -> dict[str, Any]:
    """Train the agent; return the notes of its file."""
    agent = training.train_agent(
        seed, updates, progress=lambda share, _: progress(share), num_envs=clusters, episode_tasks=_EPISODE,
        scenarios=(scenario,), platform=platform, physics=physics,
    )  # fmt: skip
    save_model(path, agent)
    return agent.notes


def train_times(path: Path, tasks: Workload, platform: Platform, physics: Physics, seed: int) -> dict[str, Any]:
    """Train Hybrid ML's duration model on the first four fifths of the tasks; return its metrics on the rest."""
    cut = 4 * len(tasks) // 5
    return train_times_model(path, [tasks.rows(0, cut)], [tasks.rows(cut, len(tasks))], platform, physics, seed)


# ------------------------------------------------------------------------------------------ resumable phases

#: Folder of the list of finished phases, the lock and unfinished files.
HIDDEN = ".pipeline"


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
    hidden = _prepare_folder(folder)
    done: list[PhaseResult] = []
    with directory_lock(hidden / "lock", folder):
        finished_phases = _FinishedPhases(hidden / "finished.json")
        if force:
            finished_phases.clear()
        for number, phase in enumerate(phases):

            def report(text: str, share: float, number: int = number) -> None:
                if progress:
                    progress(number, text, share)

            report(phase.name, 0.0)
            with _explain_write_errors(folder):
                done.append(_run(phase, folder, hidden / "unfinished", finished_phases, report))
            if finished:
                finished(number, done[-1])
    return done


def _run(
    phase: Phase, folder: Path, stage: Path, finished_phases: _FinishedPhases, report: Callable[[str, float], None]
) -> PhaseResult:
    began = time.perf_counter()
    fingerprint = phase.fingerprint(folder)
    if finished_phases.is_current(phase, fingerprint, folder):
        return PhaseResult(phase, True, 0.0, fingerprint)
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
    finished_phases.add(phase, fingerprint, folder)
    return PhaseResult(phase, False, time.perf_counter() - began, fingerprint)


class _FinishedPhases:
    """Finished phases, each with its fingerprint and the digests of its outputs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, dict[str, Any]] = {}
        try:
            entries = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return  # missing or damaged: all phases run again
        if isinstance(entries, dict):
            self._entries = {name: entry for name, entry in entries.items() if isinstance(entry, dict)}

    def is_current(self, phase: Phase, fingerprint: str, folder: Path) -> bool:
        entry = self._entries.get(phase.name, {})
        return entry.get("fingerprint") == fingerprint and entry.get("outputs") == _digests(phase, folder)

    def add(self, phase: Phase, fingerprint: str, folder: Path) -> None:
        self._entries[phase.name] = {"fingerprint": fingerprint, "outputs": _digests(phase, folder)}
        self._save()

    def clear(self) -> None:
        self._entries = {}
        self._save()

    def _save(self) -> None:
        write_atomically(self._path, pretty_json(self._entries))


def _digests(phase: Phase, folder: Path) -> Mapping[str, str | None]:
    return {name: _digest(folder / name) for name in phase.outputs}


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


# ------------------------------------------------------------------------------------------ the folder


def _prepare_folder(folder: Path) -> Path:
    hidden = folder / HIDDEN
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError("folder", "a folder", str(folder))
    try:
        hidden.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = error.strerror or type(error).__name__
        raise InvalidInputError("folder", "a folder that can be written", str(folder), hint=hint) from None
    return hidden


@contextmanager
def _explain_write_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "finished phases are kept: run it again to go on"
        raise HybridSchedulerError(f"cannot write {folder}: {error.strerror or error}", hint=hint) from error
