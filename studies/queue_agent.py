"""Agent that chooses which waiting task goes next, against late binding.

    python -m studies.queue_agent                 two CPU minutes of training, then 20 seeds

Result: docs/results/learning/queue_agent.json and .txt. A double DQN learns in `HybridScheduler-Queue-v0` from
random starts, on workload seeds below 1000 and over several loads. Untrained it takes the first candidate, which is
`late_binding`. The table holds ratios of mean and 99th percentile of latency to `late_binding` on the same tasks,
with 95 % t-intervals over seeds from 3000 on. `smallest first` takes the candidate with the least priced work, and
`late_binding(boost=8)` shows how much of the mean the rule itself gains at the cost of the tail.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hybrid_scheduler.cluster import Cluster
from hybrid_scheduler.core import Floats
from hybrid_scheduler.gym import QueueOrderEnv
from hybrid_scheduler.learning.dqn.double_dqn import DQN, DQNSettings
from hybrid_scheduler.metrics.statistics import t_half_width
from hybrid_scheduler.schedulers import create
from hybrid_scheduler.workload import generate, scenario_named

_OUT = Path("docs/results/learning/queue_agent")
_FIRST_SEED = 3000
_CASES = (("mixed", 0.7), ("mixed", 0.95), ("transfer", 0.85))
_TASKS = 2000
#: The same rule on the side of the mean.
_MEAN_FIRST = "late_binding(boost=8)"
_LOADS = (0.7, 0.8, 0.9, 0.95)
#: Steps between two updates, and steps with random choices at the start and at the end.
_UPDATE_EVERY, _EPSILON = 2, (0.3, 0.02)

#: Chooses among the candidates by observation and mask.
Policy = Callable[[Any, Any], int]


def train(minutes: float, seed: int = 0, gamma: float = 0.95) -> tuple[DQN, dict[str, Any]]:
    """Return an agent that was trained for so many CPU minutes, and notes on the training."""
    env = QueueOrderEnv(loads=_LOADS, scenarios=("mixed", "mixed", "default", "transfer"))
    (length,) = env.observation_space.shape or (0,)
    agent = DQN(length, env.candidates, seed=seed, settings=DQNSettings(gamma=gamma, hidden=128))
    began, steps, episodes = time.process_time(), 0, 0
    features, info = env.reset(seed=seed)
    while (share := (time.process_time() - began) / (60.0 * minutes)) < 1.0:
        known = _known(info)
        action = agent.act_row(features, known, _EPSILON[0] + share * (_EPSILON[1] - _EPSILON[0]))
        later, reward, _, over, info = env.step(np.int64(action))
        if not over:  # the last reward holds what runs on after the last choice
            agent.replay.add(
                features[None], known[None], np.array([[action]]), np.array([[(1.0 - gamma) * reward]]),
                later[None, None], _known(info)[None, None], np.ones((1, 1), np.bool_),
            )  # fmt: skip
        features, steps = later, steps + 1
        if over:
            features, info = env.reset()
            episodes += 1
        if steps % _UPDATE_EVERY == 0 and len(agent.replay) >= 1000:
            agent.update(share)
    notes = {"seed": seed, "gamma": gamma, "cpu_minutes": minutes, "steps": steps, "updates": agent.updates}
    return agent, {**notes, "episodes": episodes}


def _known(info: dict[str, Any]) -> Floats:
    return np.where(info["action_mask"] == 1, 0.0, np.inf)


def _latencies(scenario: str, load: float, seed: int, policy: Policy) -> Floats:
    env = QueueOrderEnv(
        scenarios=(scenario,), loads=(load,), workload_seeds=range(seed, seed + 1), episode_tasks=_TASKS
    )
    features, info = env.reset(seed=0)
    over = False
    while not over:
        features, _, _, over, info = env.step(np.int64(policy(features, info)))
    return env.latencies()


def evaluate(agent: DQN, seeds: int) -> list[dict[str, Any]]:
    """Return the ratios of each policy to late binding, by case."""
    random = np.random.default_rng(0)

    def smallest(features: Any, info: Any) -> int:
        count = int(info["action_mask"].sum())
        return int(np.argmin(features[1 : 6 * count : 6]))

    policies: dict[str, Policy] = {
        "agent": lambda features, info: agent.act_row(features, _known(info)),
        "smallest first": smallest,
        "random": lambda features, info: int(random.integers(info["action_mask"].sum())),
    }
    rows = []
    for scenario, load in _CASES:
        ratios: dict[str, list[tuple[float, float]]] = {name: [] for name in (*policies, _MEAN_FIRST)}
        for seed in range(_FIRST_SEED, _FIRST_SEED + seeds):
            reference = _latencies(scenario, load, seed, lambda features, info: 0)
            for name in ratios:
                if name in policies:
                    found = _latencies(scenario, load, seed, policies[name])
                else:
                    tasks = generate(scenario_named(scenario), _TASKS, seed, utilisation=load)
                    found = Cluster().run(tasks, create(name)).outcomes.latency
                tail = np.quantile(found, 0.99) / np.quantile(reference, 0.99)
                ratios[name].append((float(found.mean() / reference.mean()), float(tail)))
        for name, pairs in ratios.items():
            mean, tail = np.array(pairs).T
            rows.append(
                {
                    "case": f"{scenario} at {load}", "policy": name,
                    "mean": float(mean.mean()), "mean_ci95": float(t_half_width(mean)),
                    "p99": float(tail.mean()), "p99_ci95": float(t_half_width(tail)),
                }
            )  # fmt: skip
            print(_line(rows[-1]), flush=True)
    return rows


def _line(row: dict[str, Any]) -> str:
    mean, tail = (f"{row[key]:6.3f} ± {row[f'{key}_ci95']:.3f}" for key in ("mean", "p99"))
    return f"{row['case']:18} {row['policy']:21} {mean}  {tail}"


def main() -> None:
    """Train, evaluate and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0, help="CPU minutes of training")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=_OUT)
    options = parser.parse_args()
    agent, notes = train(options.minutes)
    print(notes, flush=True)
    rows = evaluate(agent, options.seeds)
    head = f"Ratios to late_binding, {_TASKS:,} tasks, {options.seeds} seeds from {_FIRST_SEED}; training {notes}"
    columns = f"{'case':18} {'policy':21} {'mean':>14}  {'p99':>14}"
    text = "\n".join([head, "", columns, *map(_line, rows), ""])
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_suffix(".txt").write_text(text, encoding="utf-8")
    body = json.dumps({"training": notes, "seeds": options.seeds, "tasks": _TASKS, "rows": rows}, indent=1)
    options.out.with_suffix(".json").write_text(body + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
