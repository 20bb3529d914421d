"""Vectorised environment of simulated clusters, for learning to place tasks.

Each of E clusters works through an episode: tasks of some scenario at some load, arriving at empty queues. One step
places the current task of every cluster and shows the next. Queues, memory and durations follow the same `place` as
the cluster, so an episode gives the numbers that `Cluster.run` would give. A step costs under a microsecond per
cluster; the state is arrays of shape (E, devices).

    env = QueueEnv(64, seed=1)
    env.features, env.cost             observation: (E, features), (E, actions)
    reward, over = env.step(actions)   reward = -(cost in typical task times) * (1 - gamma)
    env.restart(over)                  new episodes where the old ones are over

An episode is never "terminated": the stream of tasks goes on, and `over` is a truncation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Floats, Floats32, Ints, InvalidInputError, Objective, Platform, Workload, workstation
from ..physics import AnalyticPhysics, Physics
from ..workload.scenarios import Scenario, generate, scenario_named
from .decision_options import (
    Episodes,
    compiled_entry,
    describe_all,
    new_options,
    new_task_means,
    option_setting,
    step_all,
)

#: Discount of future costs: an agent looks about fifty tasks ahead.
_GAMMA = 0.98
#: From idle to nearly full.
LOADS = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
SCENARIOS = ("mixed", "mixed", "default", "transfer", "small", "low-intensity", "lognormal", "bursty")
#: Workloads to learn from: training uses seeds below 1000, reported figures use seeds from 3000 on.
_TRAINING_SEEDS = range(1000)

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class _EpisodeSource:
    """Workloads of episodes: each draws a scenario, a load and a seed.

    Parameters
    ----------
    scenarios, loads, workload_seeds
        What is drawn from.
    episode_tasks
        Tasks of an episode.
    """

    scenarios: Sequence[str | Scenario] = SCENARIOS
    loads: Sequence[float] = LOADS
    episode_tasks: int = 2000
    workload_seeds: range = _TRAINING_SEEDS

    def __post_init__(self) -> None:
        if self.episode_tasks < 2:
            raise InvalidInputError("episode_tasks", ">= 2", self.episode_tasks)

    def draw(self, rng: np.random.Generator, platform: Platform, physics: Physics) -> Workload:
        """Return the tasks of an episode."""
        scenario = self.scenarios[int(rng.integers(len(self.scenarios)))]
        load = self.loads[int(rng.integers(len(self.loads)))]
        seed = self.workload_seeds[int(rng.integers(len(self.workload_seeds)))]
        named = scenario_named(scenario) if isinstance(scenario, str) else scenario
        return generate(named, self.episode_tasks, seed, platform=platform, physics=physics, utilisation=load)


class QueueEnv:
    """E clusters in step; `options` describes the tasks to place now.

    Parameters
    ----------
    num_envs
        Number of clusters.
    seed
        Seed of scenarios, loads and workloads.
    platform, physics
        The machine of every cluster; the workstation with analytic physics if left out.
    objective
        Weights of latency, energy and cost.
    gamma
        Discount of future costs.
    source
        Options of the episodes: ``scenarios``, ``loads``, ``episode_tasks`` and ``workload_seeds``.
    """

    def __init__(
        self,
        num_envs: int = 64,
        *,
        seed: int = 0,
        platform: Platform | None = None,
        physics: Physics | None = None,
        objective: Objective | None = None,
        gamma: float = _GAMMA,
        **source: Any,
    ) -> None:
        if num_envs < 1:
            raise InvalidInputError("num_envs", ">= 1", num_envs)
        self.source = _EpisodeSource(**source)
        self.num_envs = num_envs
        self.gamma = gamma
        self.platform = platform or workstation()
        self.physics = physics or AnalyticPhysics()
        columns = self.physics.columns(self.platform)
        self._setting = option_setting(self.platform, columns, objective)
        tasks = (num_envs, self.source.episode_tasks)
        self.episodes = Episodes(
            arrival=np.empty(tasks),
            memory=np.empty(tasks),
            times=np.empty((*tasks, int(columns.max()) + 1, 2)),
            position=np.zeros(num_envs, np.int64),
            free_at=np.zeros((num_envs, len(self.platform))),
            task_means=new_task_means(num_envs),
        )
        self.options = new_options(num_envs)
        self.reset(seed)

    def reset(self, seed: int) -> None:
        """Start new episodes in all clusters."""
        self._rng = np.random.default_rng(seed)
        self.restart(np.ones(self.num_envs, np.bool_))

    def restart(self, which: Bools) -> None:
        """Give the marked clusters empty queues and another stream of tasks."""
        if not which.any():
            return
        episodes = self.episodes
        for e in np.flatnonzero(which).tolist():
            workload = self.source.draw(self._rng, self.platform, self.physics)
            episodes.arrival[e] = workload.arrival_time
            episodes.memory[e] = workload.memory_required
            episodes.times[e] = self.physics.times(workload, self.platform)
        episodes.position[which] = 0
        episodes.free_at[which] = 0.0
        episodes.task_means[which] = 0.0
        self._describe(which)

    def _describe(self, which: Bools) -> None:
        compiled_entry(describe_all)(self._setting, self.episodes, self.options, which)

    def step(self, actions: Ints, still: Bools | None = None) -> tuple[Floats, Bools]:
        """Place the current tasks.

        Parameters
        ----------
        actions
            Index of the chosen option, per cluster.
        still
            Clusters marked here do not move and earn nothing.

        Returns
        -------
        tuple
            The rewards, and which episodes have reached their last task.

        Raises
        ------
        InvalidInputError
            If an action's option does not fit into memory.
        """
        chosen = np.array(actions, np.int64)
        realised_cost = self.cost[np.arange(self.num_envs), chosen]
        if still is not None:
            chosen[still] = -1
            realised_cost[still] = 0.0
        if not np.isfinite(realised_cost).all():
            raise InvalidInputError("action", "one that the mask allows", chosen[~np.isfinite(realised_cost)][0])
        compiled_entry(step_all)(self._setting, self.episodes, self.options, chosen)
        over = self.episodes.position == self.source.episode_tasks - 1
        return -(1.0 - self.gamma) * realised_cost, over

    @property
    def features(self) -> Floats32:
        """Observation in every cluster."""
        return self.options.features

    @property
    def cost(self) -> Floats:
        """Cost of every option, infinity where it does not fit."""
        return self.options.cost
