"""Gymnasium environments of the scheduling problem, for any reinforcement-learning library.

    import gymnasium
    import hybrid_scheduler.gym                                   # registers the environments

    env = gymnasium.make("HybridScheduler-v0", scenarios=["mixed"], loads=[0.7])
    envs = gymnasium.make_vec("HybridScheduler-v0", num_envs=64)  # one array program, not 64 objects

One step places one task. Observation: the queues and the task as `learning/decision_options.py` describes them.
Actions: five ways to place it. Reward: minus its latency in typical task times, times 1 - gamma.
``info["action_mask"]`` marks what fits into memory; an action that does not fit runs on the CPU instead. An episode
is `episode_tasks` tasks long and ends by truncation: the stream of tasks itself never ends. Options are those of
`QueueEnv`.

    env = gymnasium.make("HybridScheduler-Queue-v0", loads=[0.9])

Here tasks wait in one queue, and one step chooses the task that is planned next; see `QueueOrderEnv`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cluster import Cluster, isolated_optimum
from .cluster.event_loop import EventLoop
from .core import Floats, Floats32, Ints, InvalidInputError, MissingExtraError, Platform, workstation
from .learning.decision_options import ACTIONS, Bools
from .learning.queue_env import LOADS, SCENARIOS, QueueEnv
from .physics import AnalyticPhysics, Physics
from .schedulers import LateBinding
from .workload.scenarios import Scenario, generate, scenario_named

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ModuleNotFoundError as error:
    raise MissingExtraError("gymnasium", "hybrid_scheduler.gym") from error

ENVIRONMENT = "HybridScheduler-v0"
_QUEUE_ENVIRONMENT = "HybridScheduler-Queue-v0"
#: Bound of the observations: features are shares and logarithms far below it.
_BOUND = 100.0
#: Tasks that an episode places, unless the option says otherwise.
_EPISODE_TASKS = 2000
Info = dict[str, Any]


def _space(env: QueueEnv) -> Any:
    return spaces.Box(-_BOUND, _BOUND, (env.features.shape[1],), np.float32)


def _queue_env(num_envs: int, options: dict[str, Any]) -> QueueEnv:
    """Return clusters with one task more than an episode places: the last observation shows it."""
    given = dict(options)
    tasks = given.pop("episode_tasks", _EPISODE_TASKS)
    if tasks < 1:
        raise InvalidInputError("episode_tasks", ">= 1", tasks)
    return QueueEnv(num_envs, episode_tasks=tasks + 1, **given)


def _step(env: QueueEnv, actions: Ints, still: Bools | None = None) -> tuple[Floats, Bools]:
    """Take a step; actions that do not fit into memory run on the CPU."""
    if not ((actions >= 0) & (actions < ACTIONS)).all():
        raise InvalidInputError("action", f"from 0 to {ACTIONS - 1}", actions.tolist())
    fits = np.isfinite(env.cost[np.arange(env.num_envs), actions])
    return env.step(np.where(fits, actions, 0), still)


def _mask(env: QueueEnv) -> NDArray[np.int8]:
    return np.isfinite(env.cost).astype(np.int8)


class HybridSchedulerEnv(gymnasium.Env[Floats32, np.int64]):
    """Environment with one cluster.

    Parameters
    ----------
    render_mode
        Unused; there is no rendering.
    options
        Options of `QueueEnv`, e.g. ``scenarios`` and ``loads``.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own form

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        self.render_mode = render_mode
        self._env = _queue_env(1, options)
        self._over = False
        self.observation_space = _space(self._env)
        self.action_space = spaces.Discrete(ACTIONS)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Floats32, Info]:
        """Start a new episode; see `gymnasium.Env.reset`."""
        super().reset(seed=seed)
        self._env.reset(int(self.np_random.integers(2**31)))
        self._over = False
        return self._observation()

    def step(self, action: np.int64) -> tuple[Floats32, float, bool, bool, Info]:
        """Place the current task; see `gymnasium.Env.step`."""
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode is over: call reset() before the next step()")
        rewards, over = _step(self._env, np.array([action], np.int64))
        self._over = bool(over[0])
        features, info = self._observation()
        return features, float(rewards[0]), False, self._over, info

    def _observation(self) -> tuple[Floats32, Info]:
        return self._env.features[0].copy(), {"action_mask": _mask(self._env)[0]}


class HybridSchedulerVectorEnv(VectorEnv[Floats32, Ints, NDArray[Any]]):
    """Environment with many clusters. The step after an episode's end resets that cluster.

    Parameters
    ----------
    num_envs
        Number of clusters.
    render_mode
        Unused; there is no rendering.
    options
        Options of `QueueEnv`.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(self, num_envs: int = 1, render_mode: str | None = None, **options: Any) -> None:
        self.num_envs = num_envs
        self.render_mode = render_mode
        self._env = _queue_env(num_envs, options)
        self._over = np.zeros(num_envs, np.bool_)
        self.single_observation_space = _space(self._env)
        self.single_action_space = spaces.Discrete(ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Floats32, Info]:
        """Start a new episode; see `gymnasium.Env.reset`."""
        super().reset(seed=seed)
        self._env.reset(int(self.np_random.integers(2**31)))
        self._over[:] = False
        return self._env.features.copy(), self._info()

    def step(self, actions: Ints) -> tuple[Floats32, NDArray[Any], NDArray[Any], NDArray[Any], Info]:
        """Place the current task; see `gymnasium.Env.step`."""
        env = self._env
        env.restart(self._over)
        rewards, self._over = _step(env, np.asarray(actions, np.int64), self._over)
        return env.features.copy(), rewards, np.zeros(self.num_envs, np.bool_), self._over.copy(), self._info()

    def _info(self) -> Info:
        return {"action_mask": _mask(self._env), "_action_mask": np.ones(self.num_envs, np.bool_)}


# ------------------------------------------------------------------------------------------ order of a queue

#: Features of one waiting task, and of the queue with the devices.
_TASK_FEATURES = 6
_QUEUE_FEATURES = 9
#: Episodes that are drawn until one has a choice between tasks.
_MAX_DRAWS = 100


class QueueOrderEnv(gymnasium.Env[Floats32, np.int64]):
    """Environment with a common queue: a step chooses the waiting task that is planned next.

    Tasks wait as under `late_binding`, which also says where a chosen task runs and how it is split. It starts if
    it can start now; else it keeps its planned place, and the agent chooses among the others while a device is
    idle. Candidates are the first waiting tasks in the order of ``late_binding(deferred=0)``, so that action 0 at
    every step is that scheduler. Decisions without an alternative are made by the environment.

    Observation: for each candidate its age, its priced work, its seconds on a CPU and on an accelerator, whether it
    fits into an accelerator's memory and whether it can be split; then the length and the work of the queue, and
    idle share and backlogs of CPUs and accelerators. Times are logarithms in typical task times of the machine.
    Reward: minus the seconds by which the total latency has grown, in typical task times. ``info["action_mask"]``
    marks the candidates; any other action takes the first. An episode ends by truncation when all tasks have
    started; its last reward includes the time until they end.

    Parameters
    ----------
    render_mode
        Unused; there is no rendering.
    candidates
        Number of waiting tasks to choose from.
    platform, physics
        The machine; the workstation with analytic physics if left out.
    scenarios, loads, workload_seeds
        Each episode draws one of each.
    episode_tasks
        Tasks of an episode.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own form

    def __init__(
        self,
        render_mode: str | None = None,
        *,
        candidates: int = 8,
        platform: Platform | None = None,
        physics: Physics | None = None,
        scenarios: Sequence[str | Scenario] = SCENARIOS,
        loads: Sequence[float] = LOADS,
        workload_seeds: range = range(1000),
        episode_tasks: int = 500,
    ) -> None:
        if candidates < 2:
            raise InvalidInputError("candidates", ">= 2", candidates)
        if episode_tasks < 2:
            raise InvalidInputError("episode_tasks", ">= 2", episode_tasks)
        self.render_mode = render_mode
        self.candidates = candidates
        self.episode_tasks = episode_tasks
        self._cluster = Cluster(platform or workstation(), physics or AnalyticPhysics())
        known = [scenario_named(s) if isinstance(s, str) else s for s in scenarios]
        #: What each episode draws one of: scenarios, seeds and loads.
        self._choices = known, workload_seeds, list(loads)
        length = candidates * _TASK_FEATURES + _QUEUE_FEATURES
        self.observation_space = spaces.Box(-_BOUND, _BOUND, (length,), np.float32)
        self.action_space = spaces.Discrete(candidates)
        self._over = True

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Floats32, Info]:
        """Start a new episode; see `gymnasium.Env.reset`.

        Raises
        ------
        InvalidInputError
            If the loads are so low that two tasks hardly ever wait at the same time.
        """
        super().reset(seed=seed)
        for _ in range(_MAX_DRAWS):
            self._over = self._begin()
            if not self._over:
                return self._observation()
        allowed = "high enough that two tasks wait at the same time"
        raise InvalidInputError("loads", allowed, self._choices[2], hint="try 0.7 or more")

    def _begin(self) -> bool:
        """Draw an episode and go on to its first choice; return True if it has none."""
        draw = self.np_random.integers
        scenarios, seeds, loads = self._choices
        scenario = scenarios[draw(len(scenarios))]
        seed = seeds[draw(len(seeds))]
        load = loads[draw(len(loads))]
        platform = self._cluster.platform
        physics = self._cluster.physics
        tasks = generate(scenario, self.episode_tasks, seed, platform=platform, physics=physics, utilisation=load)
        self._cluster.reset()
        self._rule = LateBinding(deferred=0.0)
        known = self._cluster.start_scheduler(self._rule, tasks)
        assert known is not None
        self._loop = EventLoop(self._cluster, self._rule, known)
        self._loop.release(tasks)
        self._finish = np.full(len(tasks), np.inf)
        self._typical = float(isolated_optimum(tasks, platform, physics).mean())
        seconds = known.table(tasks).sum(axis=2)[:, known.columns] / self._typical
        on_cpu = seconds[:, platform.is_cpu].min(axis=1)
        other = seconds[:, ~platform.is_cpu].min(axis=1) if len(platform.accelerators) else on_cpu
        memory = max((platform.devices[d].memory for d in platform.accelerators.tolist()), default=0.0)
        self._about = np.column_stack(
            [np.log(on_cpu), np.log(other), tasks.memory_required <= memory, tasks.divisible]
        )
        self._counted = 0.0
        return self._advance()

    def step(self, action: np.int64) -> tuple[Floats32, float, bool, bool, Info]:
        """Plan the chosen task; see `gymnasium.Env.step`."""
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode is over: call reset() before the next step()")
        if not 0 <= action < self.candidates:
            raise InvalidInputError("action", f"from 0 to {self.candidates - 1}", int(action))
        self._plan(int(action) if action < len(self._rule.candidates) else 0)
        over = self._over = self._advance()
        features, info = self._observation()
        arrived = self._rule.released
        now = np.inf if over else self._loop.asked_at
        total = float((np.minimum(now, self._finish[:arrived]) - self._loop.tasks.arrival_time[:arrived]).sum())
        reward = (self._counted - total) / self._typical
        self._counted = total
        return features, reward, False, over, info

    def latencies(self) -> Floats:
        """Return the latency of each task of an episode that is over, in seconds."""
        return self._finish - self._loop.tasks.arrival_time

    def _advance(self) -> bool:
        """Run until there is a choice; return whether all tasks have started."""
        rule = self._rule
        while True:
            while rule.may_start(self._loop.asked_at):
                if len(rule.candidates) > 1:
                    return False
                self._plan(0)
            rule.candidates = []
            if self._loop.advance_to_ask() == np.inf:
                return True
            rule.begin_pass(self._loop.waiting, self._loop.begin_ask())

    def _plan(self, choice: int) -> None:
        """Plan a candidate, and start it if it can start now."""
        start = self._rule.plan_next(self._loop.asked_at, choice)
        if start is not None:
            row = int(self._loop.waiting.rows[start[0]])
            self._loop.start(*start)
            self._finish[row] = self._loop.outcomes[row].finish
            np.maximum(self._rule.planned, self._cluster.free_at_view, out=self._rule.planned)

    def _observation(self) -> tuple[Floats32, Info]:
        chosen = [row for _, row in self._rule.candidates[: self.candidates]]
        features = np.zeros((self.candidates, _TASK_FEATURES))
        mask = np.zeros(self.candidates, np.int8)
        if chosen:
            mask[: len(chosen)] = 1
            age = self._loop.asked_at - self._loop.tasks.arrival_time[chosen]
            work = np.array([self._rule.waiting[row].work for row in chosen])
            features[: len(chosen), 0] = np.log1p(age / self._typical)
            features[: len(chosen), 1] = np.log(work / self._typical)
            features[: len(chosen), 2:] = self._about[chosen]
        is_cpu = self._cluster.platform.is_cpu
        backlog = np.zeros(len(is_cpu)) if self._over else np.maximum(self._rule.planned - self._loop.asked_at, 0.0)
        backlog = np.log1p(backlog / self._typical)
        cpus = backlog[is_cpu]
        others = backlog[~is_cpu]
        rest = others if len(others) else cpus
        open_tasks = len(self._rule.candidates)
        waiting = max(0.0, float(self._rule.queue_arrays.totals[0]))
        queue = [
            np.log1p(len(self._rule.waiting)), np.log1p(waiting / self._typical), np.log1p(open_tasks),
            (cpus == 0.0).mean(), cpus.mean(), (rest == 0.0).mean(), rest.min(), rest.mean(), rest.max(),
        ]  # fmt: skip
        found = np.clip(np.concatenate([features.ravel(), queue]), -_BOUND, _BOUND)
        return found.astype(np.float32), {"action_mask": mask}


def register() -> None:
    """Register the environments with Gymnasium, if they are not registered yet."""
    if ENVIRONMENT not in gymnasium.registry:
        gymnasium.register(
            ENVIRONMENT,
            entry_point=f"{__name__}:{HybridSchedulerEnv.__name__}",
            vector_entry_point=f"{__name__}:{HybridSchedulerVectorEnv.__name__}",
        )
    if _QUEUE_ENVIRONMENT not in gymnasium.registry:
        gymnasium.register(_QUEUE_ENVIRONMENT, entry_point=f"{__name__}:{QueueOrderEnv.__name__}")


register()
