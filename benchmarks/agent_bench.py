"""How fast does the agent decide and learn? Ratios from one run, beside torch and Stable-Baselines3.

    python benchmarks/agent_bench.py            about five minutes on one core

Equal settings: batch 64, one update a step, network 256-256, replay 50,000, one environment, one torch thread.
"""

from __future__ import annotations

import time

import numpy as np

from hybrid_scheduler import Cluster, View, create, workstation
from hybrid_scheduler.cluster import PhysicsTimes
from hybrid_scheduler.core import Setting
from hybrid_scheduler.learning.dqn import DQN
from hybrid_scheduler.learning.dqn_training import collect
from hybrid_scheduler.learning.q_network import forward
from hybrid_scheduler.learning.queue_env import QueueEnv
from hybrid_scheduler.learning.queue_survey import ACTIONS, FEATURES
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.schedulers.rl_agent import RLAgent
from hybrid_scheduler.workload.scenarios import generate, scenario_named

#: Scored actions per remembered task.
WIDTHS = {"ours": 1, "ours, counterfactual": ACTIONS}
ONE_CASE = {"scenarios": ["mixed"], "loads": [0.9], "episode_tasks": 500}


def env_steps_per_second(steps: int = 2000, num_envs: int = 64) -> float:
    env = QueueEnv(num_envs, seed=1)
    began = time.process_time()
    for _ in range(steps):
        env.restart(env.step(env.known.argmin(axis=1))[1])
    return steps * num_envs / (time.process_time() - began)


def decision_microseconds(tasks: int = 2000) -> dict[str, float]:
    """The network alone, in torch and compiled; survey and network; a whole `decide` with learned durations."""
    env = QueueEnv(64, seed=1, **ONE_CASE)
    agent = DQN(FEATURES["queue"], ACTIONS, seed=0)
    workload = generate(scenario_named("mixed"), tasks, 1, utilisation=0.5)
    told, whole = RLAgent(model=None, learn=False), RLAgent(model=None)
    results = {
        "torch eager, one row": _each(lambda i: _in_torch(agent, env, i % 64), 2000),
        "compiled, one row": _each(lambda i: agent.act_row(env.features[i % 64], env.known[i % 64]), 20_000),
    }
    Cluster().run(workload, whole)
    view = View(0.0, np.zeros(5), workstation())
    view.free_at.flags.writeable = False
    rows = list(workload)
    told.start(Setting(workstation()))
    told.times_ = _Told(workload)  # type: ignore[assignment]
    results["decide, durations at hand"] = _each(lambda i: told.decide(rows[i % tasks], view), 10_000)
    results["durations by the forest"] = _each(lambda i: whole.times_.row(rows[i % tasks]), 10_000)
    whole._learns_values = False
    results["decide with the forest"] = _each(lambda i: whole.decide(rows[i % tasks], view), 10_000)
    whole._learns_values = True
    results["decide with the forest, remembered"] = _each(lambda i: whole.decide(rows[i % tasks], view), 10_000)
    return results


def _in_torch(agent: DQN, env: QueueEnv, i: int) -> int:
    import torch

    future = forward(agent._online_parts, torch.from_numpy(env.features[i : i + 1]))[0].numpy()[0]
    return int((future - 0.02 * env.known[i]).argmax())


class _Told:
    """Durations looked up: what is left is the agent's own work."""

    ready = True

    def __init__(self, workload) -> None:
        table = PhysicsTimes(AnalyticPhysics(), workstation()).table(workload)
        self._rows = dict(zip(workload.task_id.tolist(), table, strict=True))

    def row(self, task):
        return self._rows[task.task_id]


def _each(work, count: int, rounds: int = 5) -> float:
    work(0)
    best = np.inf
    for _ in range(rounds):
        began = time.perf_counter()
        for i in range(count // rounds):
            work(i)
        best = min(best, (time.perf_counter() - began) / (count // rounds))
    return best * 1e6


def _peer(seed: int):
    import gymnasium
    from stable_baselines3 import DQN as Peer

    import hybrid_scheduler.gym  # noqa: F401

    return Peer(
        "MlpPolicy", gymnasium.make("HybridScheduler-v0", **ONE_CASE), learning_rate=1e-3, buffer_size=50_000,
        learning_starts=64, batch_size=64, gamma=0.98, train_freq=1, gradient_steps=1, target_update_interval=50,
        exploration_fraction=0.5, exploration_final_eps=0.02, policy_kwargs={"net_arch": [256, 256]},
        seed=seed, device="cpu",
    )  # fmt: skip


def _learn(agent: DQN, env: QueueEnv, steps: int) -> None:
    """One environment, one update a step, exploration as the peer's."""
    for step in range(steps):
        collect(agent, env, max(0.02, 1.0 - 2.0 * step / steps))
        if len(agent.replay) >= 64:
            agent.update(step / steps)


def learning_speed(rounds: int = 8, steps: int = 400) -> dict[str, float]:
    """Learning steps per CPU second, taken in turns so that a busy machine slows both alike; median of ratios."""
    peer = _peer(0)
    ours = {name: DQN(FEATURES["queue"], ACTIONS, seed=0, width=width) for name, width in WIDTHS.items()}
    envs = {name: QueueEnv(1, seed=0, **ONE_CASE) for name in WIDTHS}
    work = {name: (lambda name=name: _learn(ours[name], envs[name], steps)) for name in WIDTHS}
    work["Stable-Baselines3"] = lambda: peer.learn(steps, reset_num_timesteps=False)
    rates = {name: [] for name in work}
    for _ in range(rounds):
        for name, learn in work.items():
            began = time.process_time()
            learn()
            rates[name].append(steps / (time.process_time() - began))
    result = {f"{name}, steps/s": float(np.median(rate)) for name, rate in rates.items()}
    for name in WIDTHS:
        result[f"{name}, ratio"] = float(np.median(np.divide(rates[name], rates["Stable-Baselines3"])))
    return result


def learned_quality(steps: int = 3000, seeds: range = range(5)) -> dict[str, str]:
    """Mean cost and p99 over earliest finish after as many steps, uninterrupted; one pair per seed."""
    found: dict[str, list[tuple[float, float]]] = {"Stable-Baselines3": [], **{name: [] for name in WIDTHS}}
    for seed in seeds:
        peer = _peer(seed)
        peer.learn(steps)
        act = lambda env, peer=peer: peer.predict(env.features, deterministic=True)[0]  # noqa: E731
        found["Stable-Baselines3"].append(_costs(act))
        for name, width in WIDTHS.items():
            agent = DQN(FEATURES["queue"], ACTIONS, seed=seed, width=width)
            _learn(agent, QueueEnv(1, seed=seed, **ONE_CASE), steps)
            found[name].append(_costs(lambda env, agent=agent: agent.act(env.features, env.known)))
    return {name: "  ".join(f"{mean:.2f}/{tail:.2f}" for mean, tail in pairs) for name, pairs in found.items()}


def _costs(act) -> tuple[float, float]:
    """Mean and 99th percentile of cost over episodes that nobody trained on, as ratios to earliest finish."""
    found = []
    for choose in (act, lambda env: env.cost.argmin(axis=1)):
        env = QueueEnv(32, seed=9, workload_seeds=range(1000, 1100), **ONE_CASE)
        costs = -np.array([env.step(np.asarray(choose(env)))[0] for _ in range(499)])
        found.append((costs.mean(), np.quantile(costs, 0.99)))
    return tuple(np.divide(*found).tolist())


def main() -> None:
    import torch

    torch.set_num_threads(1)
    create("rl_agent")  # imports everything before the clocks start
    print(f"environment: {env_steps_per_second():,.0f} steps per CPU second")
    for title, measure in (
        ("microseconds", decision_microseconds),
        ("learning, batch 64, one update a step", learning_speed),
        ("mean cost / p99 over earliest finish after 3,000 steps, mixed 0.9, per seed", learned_quality),
    ):
        print(title)
        for name, value in measure().items():
            print(f"  {name:40s}", value if isinstance(value, str) else f"{value:12,.2f}")


if __name__ == "__main__":
    main()
