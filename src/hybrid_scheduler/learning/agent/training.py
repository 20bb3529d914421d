"""Training of the agent's policy: cells are tuned one by one, and a linear map imitates what was found.

For each of some random cells, evolution searches the constant multipliers that are best there, at a tail that is no
longer than under late binding with its own coefficients. Ridge regression maps the features of the cells to their
logarithms, and is weakened. Ratios are to late binding on the same tasks, as logarithms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...cluster import Cluster
from ...compiled.regime import FEATURES, FIRST_FEATURE, INPUTS, MAX_FEATURE, MAX_LOG, MULTIPLIED
from ...core import Floats, Workload
from .policy import Policy
from .random_cells import TrainingCell, draw_cell

#: Random streams of the cells of training and of checks; those of selection were stream 2.
TRAINING = 1
CHECK = 3
#: Weights of a longer p99 and p99.9, and of the squared logarithms, in the loss of a cell.
_P99 = 3.0
_P999 = 1.0
_SQUARES = 0.003
#: Strength of the ridge; the least standard deviation of a feature.
_RIDGE = 10.0
_LEAST_DEVIATION = 0.05
#: The tails of the imitated policy are longer than those of the tuned cells. It is weakened by this factor, and the
#: logarithms of the accelerators' factor, of the scale of work and of the boost are shifted. Chosen on 300 cells of
#: selection, so that p99 and p99.9 are on average no longer than those of the rule.
SHRINK = 0.8
SHIFTS = {3: -0.09, 9: -0.2, 11: -0.15}

#: Makes a scheduler with the numbers of a policy, or late binding itself from None.
Make = Callable[[Floats | None], Any]


class TuningBudget(NamedTuple):
    """Seeds of a cell, and candidates and rounds of the search."""

    seeds: int = 8
    candidates: int = 16
    rounds: int = 16


#: Budget of the policy that ships, and one of a second for a cell.
FULL = TuningBudget()
SMALL = TuningBudget(seeds=3, candidates=8, rounds=8)


def figures(cluster: Cluster, workload: Workload, scheduler: Any) -> Floats:
    """Return the logarithms of mean, p99 and p99.9 of the latency of a run."""
    latency = cluster.run(workload, scheduler).outcomes.latency
    return np.log([latency.mean(), *np.quantile(latency, (0.99, 0.999))])


def ratios(make: Make, cell: TrainingCell, seeds: Sequence[int], policies: Sequence[Floats]) -> Floats:
    """Return the logarithms of the ratios to late binding by policy and figure, means over seeds."""
    cluster = Cluster(cell.platform, cell.physics)
    found = np.zeros((len(policies), 3))
    for seed in seeds:
        workload = cell.workload(seed)
        base = figures(cluster, workload, make(None))
        found += [figures(cluster, workload, make(policy)) - base for policy in policies]
    return found / len(seeds)


def tune_cell(make: Make, cell: TrainingCell, seed: int, budget: TuningBudget) -> tuple[Floats, Floats]:
    """Return the features of a cell, and the logarithms of its best constant multipliers."""
    cluster = Cluster(cell.platform, cell.physics)
    rng = np.random.default_rng([seed, 12])
    seeds = range(1000 * seed, 1000 * seed + budget.seeds)
    tasks = [cell.workload(number) for number in seeds]
    base = np.mean([figures(cluster, each, make(None)) for each in tasks], axis=0)

    def loss(logs: Floats) -> float:
        agent = make(_constant_policy(logs).numbers)
        mean, p99, p999 = np.mean([figures(cluster, each, agent) for each in tasks], axis=0) - base
        return float(mean + _P99 * max(0.0, p99) + _P999 * max(0.0, p999) + _SQUARES * (logs**2).sum())

    centre = np.zeros(MULTIPLIED)
    spread = np.full(MULTIPLIED, 0.4)
    for _ in range(budget.rounds):
        steps = spread * rng.standard_normal((budget.candidates, MULTIPLIED))
        candidates = np.clip(centre + steps, -MAX_LOG, MAX_LOG)
        order = np.argsort([loss(candidate) for candidate in candidates])
        elite = candidates[order[: budget.candidates // 4]]
        centre = 0.3 * centre + 0.7 * elite.mean(axis=0)
        spread = 0.5 * spread + 0.5 * elite.std(axis=0) + 0.01
    return np.mean([_features_of(make, cluster, each) for each in tasks], axis=0), centre


def _features_of(make: Make, cluster: Cluster, workload: Workload) -> Floats:
    """Return the features at the end of a run under late binding."""
    agent = make(Policy.zeros().numbers)
    cluster.run(workload, agent)
    features: Floats = agent.queue_arrays.regime[FIRST_FEATURE : FIRST_FEATURE + len(FEATURES)].copy()
    return features


def _constant_policy(logs: Floats) -> Policy:
    """Return the policy whose multipliers do not depend on the regime."""
    policy = Policy.zeros()
    policy.linear[:, 0] = logs
    return policy


def imitate(features: Floats, logs: Floats) -> Policy:
    """Return the policy of the ridge regression of tuned logarithms on the features of cells."""
    mean = features.mean(axis=0)
    deviation = np.maximum(features.std(axis=0), _LEAST_DEVIATION)
    scaled = np.clip((features - mean) / deviation, -MAX_FEATURE, MAX_FEATURE)
    inputs = np.column_stack([np.ones(len(features)), scaled])
    ridge = np.diag([1e-3, *np.full(INPUTS - 1, _RIDGE)])
    linear = SHRINK * np.linalg.solve(inputs.T @ inputs + ridge, inputs.T @ logs).T
    for number, shift in SHIFTS.items():
        linear[number, 0] += shift
    return Policy(mean, deviation, np.ascontiguousarray(linear))


def train_policy(
    make: Make,
    cells: int | Sequence[TrainingCell],
    seed: int = 0,
    *,
    budget: TuningBudget = FULL,
    minutes: float = np.inf,
    progress: Callable[[float], None] | None = None,
) -> tuple[Policy, int]:
    """Return a policy that imitates tuned cells, trained in this process, and the number of cells.

    Parameters
    ----------
    make
        Makes the scheduler of a policy.
    cells
        Cells to tune, or a number of random ones.
    seed
        Seed of random cells, of tasks and of the search.
    budget
        Effort for a cell.
    minutes
        Limit of processor time; at least one cell is tuned.
    progress
        Called with the share done.
    """
    count = cells if isinstance(cells, int) else len(cells)
    began = time.process_time()
    tuned: list[tuple[Floats, Floats]] = []
    while len(tuned) < count and (not tuned or time.process_time() - began < 60.0 * minutes):
        number = 10_000 * seed + len(tuned)
        cell = draw_cell(TRAINING, number) if isinstance(cells, int) else cells[len(tuned)]
        tuned.append(tune_cell(make, cell, number, budget))
        if progress is not None:
            progress(len(tuned) / count)
    features, logs = (np.array(column) for column in zip(*tuned, strict=True))
    return imitate(features, logs), len(tuned)
