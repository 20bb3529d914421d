"""Vectorised environment of simulated clusters, for learning to place tasks.

Each of E clusters works through an episode: tasks of some scenario at some load, arriving at empty queues. One step
places the current task of every cluster and shows the next. Queues, memory and durations follow the same `place` as
the cluster, so an episode gives the numbers that `Cluster.run` would give. A step costs under a microsecond per
cluster; the state is arrays of shape (E, devices).

    env = QueueEnv(64, seed=1)
    env.features, env.masked_cost            observation of the agent: (E, features), (E, actions)
    reward, over = env.step(actions)   reward = -(cost in typical task times) * (1 - gamma)
    env.restart(over)                  new episodes where the old ones are over

An episode is never "terminated": the stream of tasks goes on, and `over` is a truncation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...compiled import device_table
from ...core import Floats, Ints, InvalidInputError, Objective, Platform, workstation
from ...physics import AnalyticPhysics, Physics, Tariff, dollars_per_second
from ...workload.scenarios import Scenario, generate, scenario_named
from .decision_options import (
    ACTIONS,
    FEATURES,
    MAX_COST_RATIO,
    compiled_entry,
    counterfactuals_all,
    describe_all,
    new_task_means,
    option_params,
    step_all,
)

#: Discount of future costs: the agent looks about fifty tasks ahead.
_GAMMA = 0.98
#: From idle to nearly full.
LOADS = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
SCENARIOS = ("mixed", "mixed", "default", "transfer", "small", "low-intensity", "lognormal", "bursty")
#: Workloads to learn from: training uses seeds below 1000, reported figures use seeds from 3000 on.
_TRAINING_SEEDS = range(1000)

Bools = NDArray[np.bool_]


class QueueEnv:
    """E clusters in step; `features`, `masked_cost`, `cost`, `device`, `fraction` describe the tasks to place now.

    Parameters
    ----------
    num_envs
        Number of clusters.
    seed
        Seed of scenarios, loads and workloads.
    platform, physics
        The machine of every cluster; the workstation with analytic physics if left out.
    state, actions
        Kinds of observation and of options, see `decision_options`.
    scenarios, loads
        Each episode draws one of each.
    episode_tasks
        Tasks of an episode.
    workload_seeds
        Each episode draws one.
    objective
        Weights of latency, energy and cost.
    gamma
        Discount of future costs.
    max_cost_ratio
        Options that cost more than this many times the best one are not considered; infinity allows all that fit.
    stagger
        Cut the first episodes short at random, so that a batch holds empty and full queues alike.
    """

    def __init__(
        self,
        num_envs: int = 64,
        *,
        seed: int = 0,
        platform: Platform | None = None,
        physics: Physics | None = None,
        state: str = "queue",
        actions: str = "split",
        scenarios: Sequence[str | Scenario] = SCENARIOS,
        loads: Sequence[float] = LOADS,
        episode_tasks: int = 2000,
        workload_seeds: range = _TRAINING_SEEDS,
        objective: Objective | None = None,
        gamma: float = _GAMMA,
        max_cost_ratio: float = MAX_COST_RATIO,
        stagger: bool = False,
    ) -> None:
        if num_envs < 1:
            raise InvalidInputError("num_envs", ">= 1", num_envs)
        if episode_tasks < 2:
            raise InvalidInputError("episode_tasks", ">= 2", episode_tasks)
        self.num_envs, self.episode_tasks, self.gamma = num_envs, episode_tasks, gamma
        self.stagger = stagger
        self.platform, self.physics = platform or workstation(), physics or AnalyticPhysics()
        self.scenarios = tuple(scenario_named(s) if isinstance(s, str) else s for s in scenarios)
        self.loads, self.workload_seeds = tuple(loads), workload_seeds
        self._devices = device_table(self.platform, self.physics.columns(self.platform))
        dollars = dollars_per_second(self.platform, Tariff())
        self._rates = np.stack([self.platform.column("watts"), dollars])
        self._params = option_params(self.platform, state, actions, objective, max_cost_ratio)
        self._step, self._describe, self._counterfactuals = (
            compiled_entry(step_all),
            compiled_entry(describe_all),
            compiled_entry(counterfactuals_all),
        )

        n, columns = episode_tasks, int(self._devices["column"].max()) + 1
        self._arrival, self._size, self._intensity, self.memory = (np.empty((num_envs, n)) for _ in range(4))
        self.times = np.empty((num_envs, n, columns, 2))
        self.position: Ints = np.zeros(num_envs, np.int64)
        self.free_at: Floats = np.zeros((num_envs, len(self.platform)))
        self.task_means = new_task_means(num_envs)
        self.features = np.zeros((num_envs, FEATURES[state]), np.float32)
        self.cost: Floats = np.zeros((num_envs, ACTIONS))
        self.masked_cost: Floats = np.zeros((num_envs, ACTIONS))
        self.device: Ints = np.zeros((num_envs, ACTIONS), np.int64)
        self.fraction: Floats = np.zeros((num_envs, ACTIONS))
        self.next_features = np.zeros((num_envs, ACTIONS, FEATURES[state]), np.float32)
        self.next_masked_cost: Floats = np.zeros((num_envs, ACTIONS, ACTIONS))
        self.reset(seed)

    def reset(self, seed: int) -> None:
        """Start new episodes in all clusters."""
        self._rng = np.random.default_rng(seed)
        self.restart(np.ones(self.num_envs, np.bool_))
        if self.stagger:
            self.position[:] = self._rng.integers(self.episode_tasks - 1, size=self.num_envs)
            self.task_means[:] = 0.0
            self._describe(np.ones(self.num_envs, np.bool_), self.position, *self._state, *self._options)

    def restart(self, which: Bools) -> None:
        """Give the marked clusters empty queues and another stream of tasks."""
        if not which.any():
            return
        for e in np.flatnonzero(which).tolist():
            self._fill(e)
        self.position[which] = 0
        self.free_at[which] = 0.0
        self.task_means[which] = 0.0
        self._describe(which, self.position, *self._state, *self._options)

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
            chosen[still], realised_cost[still] = -1, 0.0
        if not np.isfinite(realised_cost).all():
            raise InvalidInputError("action", "one that the mask allows", chosen[~np.isfinite(realised_cost)][0])
        self._step(chosen, self.position, *self._state, *self._options)
        return -(1.0 - self.gamma) * realised_cost, self.position == self.episode_tasks - 1

    def counterfactuals(self) -> None:
        """Fill `next_features` and `next_masked_cost`, before a step, with the state after each action."""
        self._counterfactuals(
            self.position, *self._state, *self._options, self.next_features, self.next_masked_cost
        )

    @property
    def rewards_of_all(self) -> Floats:
        """Rewards of all actions, minus infinity where the option does not fit."""
        return -(1.0 - self.gamma) * self.cost

    @property
    def _state(self) -> tuple[object, ...]:
        return (
            self._arrival, self._size, self._intensity, self.memory, self.times,
            self.free_at, self._devices, self._rates, self._params, self.task_means,
        )  # fmt: skip

    @property
    def _options(self) -> tuple[object, ...]:
        return self.features, self.cost, self.masked_cost, self.device, self.fraction

    def _fill(self, e: int) -> None:
        scenario = self.scenarios[self._rng.integers(len(self.scenarios))]
        load = self.loads[self._rng.integers(len(self.loads))]
        workload = generate(
            scenario, self.episode_tasks, self.workload_seeds[self._rng.integers(len(self.workload_seeds))],
            platform=self.platform, physics=self.physics, utilisation=load,
        )  # fmt: skip
        self._arrival[e] = workload.arrival_time
        self._size[e] = workload.size
        self._intensity[e] = workload.compute_intensity
        self.memory[e] = workload.memory_required
        self.times[e] = self.physics.times(workload, self.platform)
