"""Training the agent in simulation, and making the model that ships with the package.

    python -m hybrid_scheduler.learning.dqn.training rl_agent.pth

Training uses workloads with seeds below 1000; every reported figure uses seeds from 1000 on.
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
_REPORT_EVERY = 500
#: About two minutes on one core.
DEFAULT_UPDATES = 14_000
#: For a few thousand steps in one cluster. What lies ahead reaches a value one step per copy of the target, so
#: the copies have to be frequent; a nearer horizon and a larger batch keep the little that was seen from being
#: overrated; and all options are scored anyway, so little needs to be tried at random: that would only fill the
#: queues beyond what a good policy ever meets. Where the mean is all that counts use it with
#: `QueueEnv(worst_known=inf)`: the mask protects large tasks, and that costs mean latency.
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
    """Let the agent play in all clusters of `env`, one update a step; returns the mean reward of the last quarter.

    Epsilon and the learning rate fall linearly. The untrained agent is earliest finish, so the first experience is
    that of a sound heuristic with exploration. `deadline` is in seconds of CPU time of this process: it stops
    early, and how far it got then depends on the machine.
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
        if done % _REPORT_EVERY == 0:
            lately = float(rewards[done - _REPORT_EVERY : done].mean())
            if agent.writer is not None:
                agent.writer.add_scalar("dqn/reward", lately, agent.updates)
            if progress is not None:
                progress(share, lately)
    return float(rewards[3 * done // 4 : done].mean())


def collect(agent: DQN, env: QueueEnv, epsilon: float) -> float:
    """One step in every cluster, remembered; returns the mean reward."""
    actions = agent.act(env.features, env.known, epsilon)
    if agent.replay.width == 1:
        features, known = env.features.copy(), env.known.copy()
        rewards, over = env.step(actions)
        agent.replay.add(
            features, known, actions[:, None], rewards[:, None], env.features[:, None], env.known[:, None],
            np.ones((env.num_envs, 1), np.bool_),
        )  # fmt: skip
    else:
        env.counterfactuals()
        considered = np.isfinite(env.known)
        all_rewards = np.where(considered, env.rewards_of_all, 0.0)
        agent.replay.add(
            env.features, np.where(considered, env.known, 0.0), np.arange(ACTIONS), all_rewards,
            env.next_features, env.next_known, considered,
        )  # fmt: skip
        rewards, over = env.step(actions)
    env.restart(over)
    return float(rewards.mean())


def train_agent(
    seed: int,
    updates: int,
    *,
    state: str = "queue",
    actions: str = "split",
    replay: str = "counterfactual",
    settings: DQNSettings | None = None,
    minutes: float = float("inf"),
    progress: Progress | None = None,
    log_dir: str | Path | None = None,
    **env_options: Any,
) -> AgentModel:
    """A network trained from nothing. With `log_dir` TensorBoard can show its losses and rewards."""
    writer = None if log_dir is None else summary_writer(log_dir)
    env = QueueEnv(seed=seed, state=state, actions=actions, stagger=True, **env_options)
    width = 1 if replay == "bandit" else ACTIONS
    agent = DQN(FEATURES[state], ACTIONS, seed=seed, width=width, settings=settings, writer=writer)
    reward = pretrain(agent, env, updates, deadline=60.0 * minutes, progress=progress)
    if writer is not None:
        writer.close()
    notes = {"seed": seed, "updates": agent.updates, "replay": replay, "mean_reward": reward}
    return AgentModel(state, actions, agent.settings.gamma, agent.weights.copy(), notes)


def summary_writer(folder: str | Path) -> Any:
    """Writes what TensorBoard shows, into a folder. TensorBoard is optional: nothing else here needs it."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        message = f"a log for TensorBoard needs the package tensorboard: {error}"
        raise HybridSchedulerError(message, hint="pip install tensorboard, or train without a log") from error
    return SummaryWriter(str(folder))


def train_default_agent(
    path: Path, seed: int = 0, minutes: float = 10.0, progress: Progress | None = None
) -> AgentModel:
    """The agent that ships with the package. The same seed gives the same file if `minutes` suffices."""
    model = train_agent(seed, DEFAULT_UPDATES, minutes=minutes, progress=progress)
    save_model(path, model)
    return model


def main() -> None:
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
