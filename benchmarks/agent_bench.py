"""CPU time of learned decisions, and of the Gymnasium environment.

    python benchmarks/agent_bench.py

Result: docs/results/learning/agent_speed.txt. A decision includes the prediction of durations and learning from its
outcome; a task that waits is looked at several times until it starts. With 100 waiting tasks, 100 are there at the
start, and more come as fast as the machine can run them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from hybrid_scheduler import Cluster, Workload, create
from hybrid_scheduler.learning.queue_env import QueueEnv
from hybrid_scheduler.workload.scenarios import generate, scenario_named

SCHEDULERS = ("hybrid_ml", "hybrid_ml(binding=late)", "rl_agent", "rl_agent(known=True)")
_TASKS = 2000
_WAITING = 100


def crowded() -> Workload:
    """Return tasks of which 100 are there at the start, and the others come at the machine's capacity."""
    tasks = generate(scenario_named("mixed"), _TASKS, 1, utilisation=1.0)
    arrival = tasks.arrival_time - tasks.arrival_time[_WAITING]
    return Workload(**{**tasks.columns(), "arrival_time": np.maximum(arrival, 0.0)})


def best_of(work: Callable[[], object], rounds: int = 5) -> float:
    """Return the least CPU seconds of a call: a shared machine interrupts, but does not make the work longer."""
    work()
    seconds = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)


def env_steps_per_second(steps: int = 2000, num_envs: int = 64) -> float:
    env = QueueEnv(num_envs, seed=1)

    def walk() -> None:
        for _ in range(steps):
            env.restart(env.step(env.cost.argmin(axis=1))[1])

    return steps * num_envs / best_of(walk, 1)


def main() -> None:
    print("$ python benchmarks/agent_bench.py        (two shared cores)")
    print(f"environment: {env_steps_per_second():,.0f} steps per CPU second")
    print("CPU microseconds per decision, 2,000 tasks")
    streams = {
        "load 0.7": generate(scenario_named("mixed"), _TASKS, 1, utilisation=0.7),
        f"{_WAITING} waiting": crowded(),
    }
    for name in SCHEDULERS:
        for stream, tasks in streams.items():
            seconds = best_of(lambda: Cluster().run(tasks, create(name)))  # noqa: B023 - called at once
            print(f"  {name + ', ' + stream:45s}{1e6 * seconds / _TASKS:8.2f}")


if __name__ == "__main__":
    main()
