"""Ablation of the agent's state and actions: the published forms beside ours, after the same training.

    python -m studies.agent_ablations             a few minutes on one core

Result: docs/results/learning/ablations.txt. Every form trains in simulation for equally many updates with
counterfactual replay, then places tasks that it was not trained on and keeps learning. The table holds ratios to
`earliest_finish`, which knows durations, with 95 % t-intervals of the pairs. `min_completion` also knows durations
and cannot split: no form without shares can do much better.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hybrid_scheduler.cluster import Cluster
from hybrid_scheduler.core import Floats
from hybrid_scheduler.core.scheduler_protocols import Scheduler
from hybrid_scheduler.experiments import FIRST_REPORTED_SEED
from hybrid_scheduler.schedulers import create
from hybrid_scheduler.schedulers.rl_agent import RLAgent
from hybrid_scheduler.workload.scenarios import generate, scenario_named

from .learned_quality import REFERENCE, interval

#: (state, actions); the last is the published agent.
FORMS = (("queue", "split"), ("queue", "placement"), ("task", "split"), ("task", "placement"))
COLUMNS = ("mean latency", "p99 latency", "busiest GPU's share")


def trained(state: str, actions: str, updates: int, **environment: Any) -> RLAgent:
    """Return one form of the agent, trained in an environment with the arguments of `QueueEnv`."""
    agent = RLAgent(state=state, actions=actions, durations="forest")  # no guard: the network itself is compared
    agent.pretrain(updates, **environment)
    return agent


def figures(schedulers: Mapping[str, Scheduler], load: float, tasks: int, seed: int) -> dict[str, Floats]:
    """Return one row of `COLUMNS` for each scheduler; with four equal GPUs the last is 0.25 if all work alike."""
    workload = generate(scenario_named("mixed"), tasks, seed, utilisation=load)
    rows = {}
    for name, scheduler in {REFERENCE: create(REFERENCE), **schedulers}.items():
        result = Cluster().run(workload, scheduler, seed=seed)
        latency, gpus = result.outcomes.latency, result.busy[result.platform.accelerators]
        rows[name] = np.array([latency.mean(), np.quantile(latency, 0.99), gpus.max() / max(gpus.sum(), 1e-12)])
    reference = np.array([*rows.pop(REFERENCE)[:2], 1.0])
    return {name: row / reference for name, row in rows.items()}


def study(
    forms: Sequence[tuple[str, str]],
    updates: int,
    load: float,
    tasks: int,
    seeds: Sequence[int],
    progress: Callable[[str], None] = lambda name: None,
) -> dict[str, tuple[Floats, Floats]]:
    """Return mean and half width of the 95 % interval of every figure."""
    schedulers: dict[str, Scheduler] = {"min_completion": create("min_completion")}
    for state, actions in forms:
        name = f"state={state}, actions={actions}"
        schedulers[name] = trained(state, actions, updates)
        progress(name)
    tables = [figures(schedulers, load, tasks, seed) for seed in seeds]
    return {name: interval(np.array([table[name] for table in tables])) for name in schedulers}


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=5000, help="of training, 64 tasks placed in each")
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=10, help=f"from {FIRST_REPORTED_SEED} on; at least 2")
    options = parser.parse_args()
    seeds = range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + options.seeds)
    print(
        f"mixed, load {options.load:g}, {options.tasks:,} tasks, {options.seeds} seeds, "
        f"{options.updates:,} updates of training"
    )
    found = study(
        FORMS, options.updates, options.load, options.tasks, seeds,
        lambda name: print(f"  trained {name}", flush=True),
    )  # fmt: skip
    print(f"  {'':32s}" + "".join(f"{name:>22s}" for name in COLUMNS))
    for name, (mean, half) in found.items():
        cells = "".join(f"{value:>14.3f} ± {width:5.3f}" for value, width in zip(mean, half, strict=True))
        print(f"  {name:32s}{cells}")


if __name__ == "__main__":
    main()
