"""Speed and quality of the agent, beside Stable-Baselines3 in one run.

    python benchmarks/agent_bench.py speed                      about a minute on one core
    python benchmarks/agent_bench.py quality                    3,000 steps, 20 paired seeds, a quarter of an hour
    python benchmarks/agent_bench.py quality --steps 10000 --only "Stable-Baselines3;ours, counterfactual"

Result: docs/results/learning/agent_bench.txt.

Speed, equal settings: batch 64, one update a step, network 256-256, replay 50,000, one environment, one thread.

Quality, equal steps: one environment, one update a step, the same network, replay, learning rate, reward and the
freedom to take any action that fits. Ours adds known costs, counterfactual replay, and settings for few steps that
were chosen on training seeds 100 to 117. The peer runs with the settings above and gamma 0.98, and once more with
gamma, batch, target network and exploration of those settings. Costs are latencies in typical task times.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from scipy import stats

from hybrid_scheduler import Cluster, View, create, workstation
from hybrid_scheduler.experiments import FIRST_REPORTED_SEED
from hybrid_scheduler.learning.dqn.decision_options import ACTIONS, FEATURES, MAX_COST_RATIO
from hybrid_scheduler.learning.dqn.double_dqn import DQN
from hybrid_scheduler.learning.dqn.model_file import load_model
from hybrid_scheduler.learning.dqn.queue_env import QueueEnv
from hybrid_scheduler.learning.dqn.training import FEW_STEPS, FEW_STEPS_EPSILON, collect, pretrain
from hybrid_scheduler.metrics.statistics import t_half_width
from hybrid_scheduler.schedulers.rl_agent import SHIPPED_MODEL, RLAgent
from hybrid_scheduler.workload.scenarios import generate, scenario_named

#: Scored actions per remembered task.
WIDTHS = {"ours": 1, "ours, counterfactual": ACTIONS}
ONE_CASE = {"scenarios": ["mixed"], "loads": [0.9], "episode_tasks": 500}
#: Exploration as Stable-Baselines3 has it, over half of a short run.
PEER = {
    "gamma": 0.98,
    "batch_size": 64,
    "target_update_interval": 50,
    "exploration_initial_eps": 1.0,
    "exploration_fraction": 0.5,
}
PEER_AS_OURS = {
    "gamma": FEW_STEPS.gamma,
    "batch_size": FEW_STEPS.batch,
    "target_update_interval": FEW_STEPS.target_every,
    "exploration_initial_eps": FEW_STEPS_EPSILON[0],
    "exploration_fraction": 1.0,
}
#: First seed of the reported trainings; earlier settings were tried on the seeds before it.
FIRST_SEED = FIRST_REPORTED_SEED + 100


def env_steps_per_second(steps: int = 2000, num_envs: int = 64) -> float:
    env = QueueEnv(num_envs, seed=1)
    began = time.process_time()
    for _ in range(steps):
        env.restart(env.step(env.masked_cost.argmin(axis=1))[1])
    return steps * num_envs / (time.process_time() - began)


def decision_microseconds(tasks: int = 2000) -> dict[str, float]:
    """Time the network alone; options and network; and `decide` with learned durations."""
    env = QueueEnv(64, seed=1, **ONE_CASE)
    agent = DQN(FEATURES, ACTIONS, seed=0)
    workload = generate(scenario_named("mixed"), tasks, 1, utilisation=0.5)
    guarded = RLAgent()
    results = {
        "network, one row": _each(lambda i: agent.act_row(env.features[i % 64], env.masked_cost[i % 64]), 20_000),
    }
    view = View(0.0, np.zeros(5), workstation())
    view.free_at.flags.writeable = False
    rows = list(workload)
    Cluster().run(workload, guarded)
    results["decide with the regression and the guard"] = _each(
        lambda i: guarded.decide(rows[i % tasks], view), 10_000
    )
    hybrid = create("hybrid_ml")
    Cluster().run(workload, hybrid)
    results["hybrid_ml decides"] = _each(lambda i: hybrid.decide(rows[i % tasks], view), 10_000)
    return results


def _each(work, count: int, rounds: int = 5) -> float:
    work(0)
    best = np.inf
    for _ in range(rounds):
        began = time.process_time()  # a shared machine interrupts, but does not make the work longer
        for i in range(count // rounds):
            work(i)
        best = min(best, (time.process_time() - began) / (count // rounds))
    return best * 1e6


def _peer(seed: int, settings: dict[str, float] = PEER):
    import gymnasium
    from stable_baselines3 import DQN as Peer

    import hybrid_scheduler.gym  # noqa: F401

    return Peer(
        "MlpPolicy", gymnasium.make("HybridScheduler-v0", gamma=settings["gamma"], **ONE_CASE),
        learning_rate=1e-3, buffer_size=50_000, learning_starts=64, train_freq=1, gradient_steps=1,
        exploration_final_eps=0.02, policy_kwargs={"net_arch": [256, 256]}, seed=seed, device="cpu", **settings,
    )  # fmt: skip


def _learn(agent: DQN, env: QueueEnv, steps: int) -> None:
    """Train in one environment, one update a step, with the peer's exploration."""
    for step in range(steps):
        collect(agent, env, max(0.02, 1.0 - 2.0 * step / steps))
        if len(agent.replay) >= 64:
            agent.update(step / steps)


def learning_speed(rounds: int = 8, steps: int = 400) -> dict[str, float]:
    """Return learning steps per CPU second, interleaved so that all see the same machine load; median of ratios."""
    peer = _peer(0)
    ours = {name: DQN(FEATURES, ACTIONS, seed=0, width=width) for name, width in WIDTHS.items()}
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


# -------------------------------------------------------------------- quality

Policy = Callable[[QueueEnv], np.ndarray]


def _trained_peer(seed: int, steps: int, settings: dict[str, float]) -> tuple[Policy, float]:
    peer = _peer(seed, settings)
    peer.learn(steps)
    return lambda env: peer.predict(env.features, deterministic=True)[0], np.inf


def _trained_ours(seed: int, steps: int, width: int) -> tuple[Policy, float]:
    agent = DQN(FEATURES, ACTIONS, seed=seed, width=width, settings=FEW_STEPS)
    env = QueueEnv(1, seed=seed, gamma=FEW_STEPS.gamma, max_cost_ratio=np.inf, **ONE_CASE)
    pretrain(agent, env, steps, epsilon=FEW_STEPS_EPSILON)
    return lambda env: agent.act(env.features, env.masked_cost), np.inf


def _shipped(seed: int, steps: int) -> tuple[Policy, float]:
    """Trained for long, on every scenario and load; its mask protects large tasks."""
    agent = DQN(FEATURES, ACTIONS, seed=seed, weights=load_model(SHIPPED_MODEL).weights)
    return lambda env: agent.act(env.features, env.masked_cost), MAX_COST_RATIO


#: Each returns a policy and how bad an action it may take, as a multiple of the best one's cost.
LEARNERS: dict[str, Callable[[int, int], tuple[Policy, float]]] = {
    "Stable-Baselines3": partial(_trained_peer, settings=PEER),
    "Stable-Baselines3, our settings": partial(_trained_peer, settings=PEER_AS_OURS),
    **{name: partial(_trained_ours, width=width) for name, width in WIDTHS.items()},
    "ours, as shipped": _shipped,
}
BEST = "ours, counterfactual"


def learned_quality(steps: int, seeds: range, names: list[str], jobs: int = 1) -> dict[str, np.ndarray]:
    """Return mean cost and p99 over earliest finish, for each learner and seed, after as many steps."""
    found: list[list[np.ndarray]] = []
    with ProcessPoolExecutor(jobs, initializer=_use_one_thread) as pool:
        for seed, pairs in zip(seeds, pool.map(partial(_of_seed, steps, names), seeds), strict=True):
            found.append(pairs)
            print(f"  {seed}", *(f"{mean:.4f}/{tail:.4f}" for mean, tail in pairs), sep="  ", flush=True)
    return {name: np.array([pairs[column] for pairs in found]) for column, name in enumerate(names)}


def _of_seed(steps: int, names: list[str], seed: int) -> list[np.ndarray]:
    reference = _costs(lambda env: env.cost.argmin(axis=1), np.inf)
    return [_costs(*LEARNERS[name](seed, steps)) / reference for name in names]


def _use_one_thread() -> None:
    import torch  # Stable-Baselines3 runs on it

    torch.set_num_threads(1)


def _costs(policy: Policy, max_cost_ratio: float) -> np.ndarray:
    """Return mean and 99th percentile of cost over 32 episodes that were used for no training and no choice."""
    unseen = range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + 100)
    env = QueueEnv(32, seed=9, workload_seeds=unseen, max_cost_ratio=max_cost_ratio, **ONE_CASE)
    costs = []
    for _ in range(ONE_CASE["episode_tasks"] - 1):
        actions = np.asarray(policy(env))
        fits = np.isfinite(env.cost[np.arange(env.num_envs), actions])
        paid, _ = env.step(
            np.where(fits, actions, 0)
        )  # as in the Gymnasium environment: a task that does not fit runs on the CPU
        costs.append(-paid)
    return np.array([np.mean(costs), np.quantile(costs, 0.99)])


def _as_text(values: np.ndarray) -> str:
    """Return mean cost and p99 as text, each with its 95 % interval over seeds."""
    pairs = zip(values.mean(axis=0), t_half_width(values), strict=True)
    return "".join(f"{mean:>12.3f} ± {half:.3f}" for mean, half in pairs)


def show_quality(found: dict[str, np.ndarray]) -> None:
    print(f"  {'over earliest finish, 95 % intervals':40s}{'mean cost':>20s}{'p99':>20s}{'worst mean':>12s}")
    for name, pairs in found.items():
        print(f"  {name:40s}{_as_text(pairs)}{pairs[:, 0].max():>12.3f}")
    for name, pairs in found.items():
        if BEST in found and name != BEST:
            difference = found[BEST] - pairs
            chance = stats.wilcoxon(difference[:, 0]).pvalue  # ranks, so that one outlier does not dominate
            better = (
                f"no worse on {(difference[:, 0] <= 0).sum()} of {len(pairs)} seeds, signed ranks p {chance:.3g}"
            )
            print(f"  {BEST} - {name:36s}{_as_text(difference)}  {better}")


# -------------------------------------------------------------------- commands


def show_speed() -> None:
    print(f"environment: {env_steps_per_second():,.0f} steps per CPU second")
    for title, measure in (
        ("CPU microseconds", decision_microseconds),
        ("learning, batch 64, one update a step", learning_speed),
    ):
        print(title)
        for name, value in measure().items():
            print(f"  {name:40s}{value:12,.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("speed", "quality", "all"), default="all")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--only", help="names of learners, separated by ';'")
    parser.add_argument("--jobs", type=int, default=1, help="seeds that run at once")
    options = parser.parse_args()
    names = options.only.split(";") if options.only else list(LEARNERS)
    _use_one_thread()
    create("rl_agent")  # imports everything before the clocks start
    if options.part != "quality":
        show_speed()
    if options.part != "speed":
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        print(f"mixed 0.9, {options.steps:,} steps; per seed mean cost / p99: {'; '.join(names)}")
        show_quality(learned_quality(options.steps, seeds, names, options.jobs))


if __name__ == "__main__":
    main()
