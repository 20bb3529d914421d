"""Training phase of the pipeline: three models from simulated outcomes, each in its own file.

The forest and the duration model learn from the same tasks and labels. The first is a plain random forest, so that
its scores and importances can be compared with any other; the second is the one Hybrid ML schedules with, for every
class of device of the machine. The agent learns from tasks of the same scenario at many loads.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..core import Platform, Workload
from ..learning import OfflineTrainer
from ..learning.dqn import training
from ..learning.dqn.model_file import save_model
from ..learning.offline_trainer import train_times_model
from ..physics import Physics
from ..profiling.timing import fixed_threads
from ..workload.scenarios import Scenario

_EPISODE = 500


def train_forest(path: Path, tasks: Workload, platform: Platform, physics: Physics, seed: int) -> dict[str, Any]:
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
    # A small network: more threads would wait for each other, and add up in another order from run to run.
    with fixed_threads(1):
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
