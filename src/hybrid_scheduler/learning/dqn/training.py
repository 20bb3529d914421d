"""Training of the agent in simulation, and of the model that ships with the package.

    python -m hybrid_scheduler.learning.dqn.training rl_agent.safetensors

Training uses workloads with seeds below 1000; reported figures use seeds from 3000 on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...core import HybridSchedulerError
from .decision_options import ACTIONS, FEATURES
from .double_dqn import DQN, DQNSettings
from .model_file import AgentModel, save_model
from .queue_env import QueueEnv

#: Called with (share done, mean reward of the last steps).
Progress = Callable[[float, float], None]
REPORT_EVERY = 500
#: About two minutes on one core.
DEFAULT_UPDATES = 14_000
#: For a few thousand steps in one cluster. Future costs propagate one step per copy of the target network, so the
#: copies are frequent. A nearer horizon and a larger batch avoid overfitting to little experience. All options are
#: scored, so little exploration is needed; more would fill the queues beyond what a good policy sees. Use it with
#: `QueueEnv(max_cost_ratio=inf)` where only the mean counts: the mask protects large tasks at the cost of the mean.
FEW_STEPS = DQNSettings(gamma=0.95, target_every=10, batch=128)
FEW_STEPS_EPSILON = (0.3, 0.02)


def pretrain(
    agent: DQN,
    env: QueueEnv,
    updates: int,
    *,
    epsilon: tuple[float, float] = (0.5, 0.02),
    deadline: float = float("inf"),
    progress: Progress | None = None,
) -> float:
    """Train the agent in all clusters of `env`, one update a step.

    Epsilon and the learning rate fall linearly. The untrained agent is earliest finish, so the first experience is
    that of a sound heuristic with exploration.

    Parameters
    ----------
    agent
        The agent; it is changed in place.
    env
        The clusters it acts in.
    updates
        Number of steps and of updates.
    epsilon
        Share of random actions at the start and at the end.
    deadline
        CPU seconds of this process after which training stops early. How far it gets then depends on the machine.
    progress
        Called every 500 steps with the share done and the mean reward.

    Returns
    -------
    float
        Mean reward of the last quarter.
    """
    rewards = np.zeros(updates)
    began = time.process_time()
    done = 0
    for step in range(updates):
        share = max(step / updates, (time.process_time() - began) / deadline)
        if share >= 1.0:
            break
        rewards[step] = collect(agent, env, epsilon[0] + share * (epsilon[1] - epsilon[0]))
        if len(agent.replay) >= agent.settings.batch:
            agent.update(share)
        done = step + 1
        if done % REPORT_EVERY == 0:
            lately = float(rewards[done - REPORT_EVERY : done].mean())
            if agent.writer is not None:
                agent.writer.add_scalar("dqn/reward", lately, agent.updates)
            if progress is not None:
                progress(share, lately)
    return float(rewards[3 * done // 4 : done].mean())


def collect(agent: DQN, env: QueueEnv, epsilon: float) -> float:
    """Take one step in every cluster, add it to the replay buffer, and return the mean reward."""
    actions = agent.act(env.features, env.masked_cost, epsilon)
    if agent.replay.width == 1:
        features = env.features.copy()
        masked_cost = env.masked_cost.copy()
        rewards, over = env.step(actions)
        agent.replay.add(
            features, masked_cost, actions[:, None], rewards[:, None], env.features[:, None],
            env.masked_cost[:, None],
            np.ones((env.num_envs, 1), np.bool_),
        )  # fmt: skip
    else:
        env.counterfactuals()
        considered = np.isfinite(env.masked_cost)
        all_rewards = np.where(considered, env.rewards_of_all, 0.0)
        agent.replay.add(
            env.features, np.where(considered, env.masked_cost, 0.0), np.arange(ACTIONS), all_rewards,
            env.next_features, env.next_masked_cost, considered,
        )  # fmt: skip
        rewards, over = env.step(actions)
    env.restart(over)
    return float(rewards.mean())


def train_agent(
    seed: int,
    updates: int,
    *,
    replay: str = "counterfactual",
    settings: DQNSettings | None = None,
    minutes: float = float("inf"),
    progress: Progress | None = None,
    log_dir: str | Path | None = None,
    **env_options: Any,
) -> AgentModel:
    """Train a network from random weights.

    Parameters
    ----------
    seed
        Seed of the environment and the agent.
    updates
        Number of updates, one per step of the environment.
    replay
        "counterfactual" to learn from all options, "bandit" to learn from the one taken.
    settings
        Hyperparameters; the defaults if left out.
    minutes
        CPU minutes after which training stops early.
    progress
        Called with the share done and the mean reward.
    log_dir
        Folder for TensorBoard's log of losses and rewards; none is written if left out.
    **env_options
        Further arguments of `QueueEnv`.
    """
    writer = None if log_dir is None else _summary_writer(log_dir)
    env = QueueEnv(seed=seed, stagger=True, **env_options)
    width = 1 if replay == "bandit" else ACTIONS
    agent = DQN(FEATURES, ACTIONS, seed=seed, width=width, settings=settings, writer=writer)
    reward = pretrain(agent, env, updates, deadline=60.0 * minutes, progress=progress)
    if writer is not None:
        writer.close()
    notes = {"seed": seed, "updates": agent.updates, "replay": replay, "mean_reward": reward}
    return AgentModel(agent.settings.gamma, agent.weights.copy(), notes)


def _summary_writer(folder: str | Path) -> Any:
    """Return a writer of TensorBoard logs into a folder; TensorBoard is optional, nothing else here needs it.

    Raises
    ------
    HybridSchedulerError
        If TensorBoard is not installed.
    """
    try:
        from tensorboard.summary import Writer  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        message = f"a log for TensorBoard needs the package tensorboard: {error}"
        raise HybridSchedulerError(message, hint="pip install tensorboard, or train without a log") from error
    return Writer(str(folder))


def train_default_agent(
    path: Path, seed: int = 0, minutes: float = 10.0, progress: Progress | None = None
) -> AgentModel:
    """Train and save the agent that ships with the package.

    The same seed gives the same file if `minutes` suffices.
    """
    model = train_agent(seed, DEFAULT_UPDATES, minutes=minutes, progress=progress)
    save_model(path, model)
    return model


def main() -> None:
    """Train the default agent from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=10.0, help="of CPU time, at most")
    options = parser.parse_args()

    def show(share: float, reward: float) -> None:
        print(f"{share:6.1%}  mean reward {reward:.4f}", flush=True)

    model = train_default_agent(options.path, options.seed, options.minutes, show)
    print(f"wrote {options.path}: {model.notes}")


if __name__ == "__main__":
    main()
