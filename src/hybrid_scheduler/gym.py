"""Gymnasium environment of the scheduling problem, for any reinforcement-learning library.

    import gymnasium
    import hybrid_scheduler.gym                                   # registers the environment

    env = gymnasium.make("HybridScheduler-v0", scenarios=["mixed"], loads=[0.7])
    envs = gymnasium.make_vec("HybridScheduler-v0", num_envs=64)  # one array program, not 64 objects

One step places one task. Observation: the queues and the task as `learning/dqn/decision_options.py` describes them.
Actions: five ways to place it. Reward: minus its latency in typical task times, times 1 - gamma.
``info["action_mask"]`` marks what fits into memory; an action that does not fit runs on the CPU instead. An episode
is `episode_tasks` tasks long and ends by truncation: the stream of tasks itself never ends. Options are those of
`QueueEnv`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .core import Floats, Ints, InvalidInputError, MissingExtraError
from .learning.dqn.decision_options import ACTIONS
from .learning.dqn.q_network import Floats32
from .learning.dqn.queue_env import Bools, QueueEnv

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ModuleNotFoundError as error:
    raise MissingExtraError("gymnasium", "hybrid_scheduler.gym") from error

ENVIRONMENT = "HybridScheduler-v0"
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
        self.num_envs, self.render_mode = num_envs, render_mode
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


def register() -> None:
    """Register the environment with Gymnasium, if it is not registered yet."""
    if ENVIRONMENT not in gymnasium.registry:
        gymnasium.register(
            ENVIRONMENT,
            entry_point=f"{__name__}:{HybridSchedulerEnv.__name__}",
            vector_entry_point=f"{__name__}:{HybridSchedulerVectorEnv.__name__}",
        )


register()
