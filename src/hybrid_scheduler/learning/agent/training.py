"""Training of the agent's policy by its gradient, on random machines and streams of tasks.

Each step draws some cells. On each, the policy runs with its logarithms shifted by a random vector, once in each
direction, on the same tasks; the difference of the two runs tells how the latency changes along the vector (Spall,
1992; policy gradients with a Gaussian policy and antithetic pairs). The objective is the mean latency, with the
tails as constraints on averages over many cells, whose multipliers follow by dual ascent: it is linear in what is
measured. A limit on the tail of each single cell would punish its noise, and the policy would only become cautious.
What was beyond a limit on a cell in its earlier trials weighs more there. All figures are logarithms of ratios to
late binding on the same tasks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...cluster import Cluster
from ...compiled.regime import FEATURES, FIRST_FEATURE, INPUTS, MULTIPLIED
from ...core import Floats, Ints, Workload
from .policy import Policy
from .random_cells import TRAINING, TrainingCell, draw_cell

HIGH_LOAD = 0.85
#: Standard deviation of the shifts of the logarithms.
_SHIFT = 0.1
#: Step of the weights at the beginning, in their own units (Adam); decay of the means of gradients and squares.
_RATE = 0.015
_DECAY = 0.9
_SQUARE_DECAY = 0.99
#: Limit of p99 and p99.9 over all cells and over those at high load. Then the first multipliers of these
#: constraints, all cells before those at high load, their step and their limit.
_TAIL_LIMIT = -0.005
_TIGHT_TAIL_LIMIT = -0.015
_TAIL_WEIGHTS = ((0.2, 0.2), (0.4, 0.6))
_TAIL_RATE = 0.3
_MAX_TAIL_WEIGHT = 3.0
#: Limits of mean, p99 and p99.9 of a single cell, with blurred edges; from where on a cell is far beyond its limit,
#: and the largest shares of such cells. First weights beyond the limits, and their limit. Memory of what
#: was measured on a cell.
_CELL_LIMITS = np.array([0.002, 0.0, 0.0])
_CELL_EDGES = np.array([0.003, 0.01, 0.02])
_FAR = np.array([0.01, 0.025, 0.04])
_FAR_SHARES = np.array([0.02, 0.05, 0.05])
_CELL_WEIGHTS = (6.0, 2.0, 0.5)
_MAX_CELL_WEIGHT = 40.0
_LEVEL_MEMORY = 0.75
#: The policy is the mean of those of the last part of the steps.
_AVERAGED = 0.25
_LEAST_DEVIATION = 0.2
#: Deviation of a feature that is not to count.
_ANY_DEVIATION = 1e6
_LARGEST_SEED = 2**31
#: Random cells in a limited time: to draw one takes up to a tenth of a second.
_LEAST_CELLS = 4.0
_CELLS_PER_MINUTE = 100.0

Bools = NDArray[np.bool_]
#: Makes a scheduler with the numbers of a policy, or late binding itself from None.
Make = Callable[[Floats | None], Any]


class TrainingBudget(NamedTuple):
    """Steps, cells of a step, seeds of a cell, and whether the tails of single cells have limits too.

    The default takes ten minutes on one core.
    """

    steps: int = 400
    cells: int = 64
    seeds: int = 2
    cell_tails: bool = False


USUAL = TrainingBudget()
#: Budget of seconds.
SMALL = TrainingBudget(steps=40, cells=8)


@dataclass(frozen=True)
class Trial:
    """What shifted policies gave on one cell.

    Parameters
    ----------
    features
        Features of the regime, means over runs.
    shifts
        Shifts of the logarithms by seed.
    slopes
        By seed, the change of mean, p99 and p99.9 along the shift.
    level
        Mean, p99 and p99.9 of the policy itself, means over runs.
    """

    features: Floats
    shifts: Floats
    slopes: Floats
    level: Floats


def figures(cluster: Cluster, workload: Workload, scheduler: Any) -> Floats:
    """Return the logarithms of mean, p99 and p99.9 of the latency of a run."""
    latency = cluster.run(workload, scheduler).outcomes.latency
    return np.log([latency.mean(), *np.quantile(latency, (0.99, 0.999))])


def ratios(make: Make, cell: TrainingCell, seeds: Iterable[int], policies: Sequence[Floats]) -> Floats:
    """Return the ratios to late binding by seed, policy and figure."""
    cluster = Cluster(cell.platform, cell.physics)
    rows = []
    for seed in seeds:
        workload = cell.workload(seed)
        base = figures(cluster, workload, make(None))
        rows.append([figures(cluster, workload, make(policy)) - base for policy in policies])
    return np.array(rows)


def try_shifts(make: Make, policy: Policy, budget: TrainingBudget, drawn: tuple[TrainingCell, int]) -> Trial:
    """Run shifted policies on a cell, with a seed for tasks and shifts."""
    cell, seed = drawn
    rng = np.random.default_rng([seed, 12])
    shifts = _SHIFT * rng.standard_normal((budget.seeds, MULTIPLIED))
    features = []
    found = []
    cluster = Cluster(cell.platform, cell.physics)
    for shift in shifts:
        workload = cell.workload(int(rng.integers(_LARGEST_SEED)))
        agents = [make(_shifted(policy, sign * shift).numbers) for sign in (0.0, 1.0, -1.0)]
        found.append([figures(cluster, workload, agent) for agent in (make(None), *agents)])
        features.append(_features_of(agents[0]))
    base, centre, up, down = np.array(found).transpose(1, 0, 2)
    slopes = (up - down) / (2.0 * _SHIFT**2)
    return Trial(np.mean(features, axis=0), shifts, slopes, (centre - base).mean(axis=0))


def _shifted(policy: Policy, logs: Floats) -> Policy:
    linear = policy.linear.copy()
    linear[:, 0] += logs
    return replace(policy, linear=linear)


def _features_of(agent: Any) -> Floats:
    features: Floats = agent.queue_arrays.regime[FIRST_FEATURE : FIRST_FEATURE + len(FEATURES)].copy()
    return features


def _first_policy(trials: Sequence[Trial], inputs: Sequence[str]) -> Policy:
    """Return a policy that changes nothing yet, with features standardised over cells.

    Fewer cells than weights of a multiplier cannot tell what depends on the features: then only constants count.
    """
    features = np.array([trial.features for trial in trials])
    unseen = [len(features) < INPUTS or name not in inputs for name in FEATURES]
    deviation = np.where(unseen, _ANY_DEVIATION, np.maximum(features.std(axis=0), _LEAST_DEVIATION))
    return replace(Policy.zeros(), mean=features.mean(axis=0), deviation=deviation)


class PolicyTraining:
    """Weights of a policy while they are trained.

    Parameters
    ----------
    policy
        The policy to begin with.
    high
        Which cells are at high load.
    cell_tails
        Whether the tails of single cells have limits too.
    """

    def __init__(self, policy: Policy, high: Bools, cell_tails: bool = False) -> None:
        self.policy = policy
        self.high = high
        self.tail_limit = _TIGHT_TAIL_LIMIT if cell_tails else _TAIL_LIMIT
        self.limited = np.array([True, cell_tails, cell_tails])
        self.steps = 0
        self.tail_weights = np.array(_TAIL_WEIGHTS)
        self.cell_weights = np.array(_CELL_WEIGHTS) * self.limited
        self.levels = np.full((len(high), 3), np.nan)
        self.mean = np.zeros(policy.linear.shape)
        self.square = np.zeros(policy.linear.shape)

    def step(self, chosen: Ints, trials: Sequence[Trial], rate: float) -> Floats:
        """Change the weights after trials of the chosen cells; return the means of the figures."""
        level = np.array([trial.level for trial in trials])
        weights = self._weights_of(chosen, level)
        by_cell = [
            (trial.slopes @ weight) @ trial.shifts / len(trial.shifts)
            for trial, weight in zip(trials, weights, strict=True)
        ]
        inputs = self.policy.inputs(np.array([trial.features for trial in trials]))
        gradient = np.array(by_cell).T @ inputs / len(trials)
        self.steps += 1
        self.mean += (1.0 - _DECAY) * (gradient - self.mean)
        self.square += (1.0 - _SQUARE_DECAY) * (gradient**2 - self.square)
        mean = self.mean / (1.0 - _DECAY**self.steps)
        square = self.square / (1.0 - _SQUARE_DECAY**self.steps)
        self.policy = replace(self.policy, linear=self.policy.linear - rate * mean / (np.sqrt(square) + 1e-6))
        self._follow_constraints(level[:, 1:], self.high[chosen])
        return level.mean(axis=0)

    def _weights_of(self, chosen: Ints, level: Floats) -> Floats:
        """Return the weights of mean, p99 and p99.9 of each cell, and note what was measured.

        What was beyond a cell's limit in earlier trials counts more. Their noise is not that of the slopes.
        """
        known = self.levels[chosen]
        beyond = 1.0 / (1.0 + np.exp(-np.clip((np.nan_to_num(known) - _CELL_LIMITS) / _CELL_EDGES, -30.0, 30.0)))
        memory = np.where(np.isnan(known), 0.0, _LEVEL_MEMORY)
        self.levels[chosen] = memory * np.nan_to_num(known) + (1.0 - memory) * level
        tails = self.tail_weights[0] + self.high[chosen][:, None] * self.tail_weights[1]
        overall = np.column_stack([np.ones(len(chosen)), tails])
        return overall + self.cell_weights * beyond

    def _follow_constraints(self, tails: Floats, high: Bools) -> None:
        for row, cells in enumerate((np.ones(len(tails), bool), high)):
            if cells.any():
                change = _TAIL_RATE * (tails[cells].mean(axis=0) - self.tail_limit) * cells.mean()
                self.tail_weights[row] = np.clip(self.tail_weights[row] + change, 0.0, _MAX_TAIL_WEIGHT)
        far = (self.levels[~np.isnan(self.levels[:, 0])] > _FAR).mean(axis=0)
        weights = self.cell_weights + self.limited * (far - _FAR_SHARES)
        self.cell_weights = np.clip(weights, 0.0, _MAX_CELL_WEIGHT)


def train_policy(
    make: Make,
    cells: int | Sequence[TrainingCell],
    seed: int = 0,
    *,
    budget: TrainingBudget = USUAL,
    inputs: Sequence[str] = FEATURES,
    start: Policy | None = None,
    minutes: float = np.inf,
    map_: Callable[..., Iterable[Any]] = map,
    progress: Callable[[float], None] | None = None,
    curve: list[list[float]] | None = None,
) -> tuple[Policy, int]:
    """Return a trained policy and the number of cells.

    Parameters
    ----------
    make
        Makes the scheduler of a policy.
    cells
        Cells to train on, or a number of random ones; a time limit allows fewer.
    seed
        Seed of random cells, of tasks and of shifts.
    budget
        Steps and their size.
    inputs
        Features that it sees.
    start
        Policy to begin with, instead of one that changes nothing.
    minutes
        Time limit; at least one step is made.
    map_
        Maps a function over cells; that of a pool of processes trains in parallel.
    progress
        Called with the share done.
    curve
        Gets mean, p99, p99.9 and the weights of tails and of single cells after each step.
    """
    began = time.monotonic()
    if isinstance(cells, int):
        count = int(min(cells, max(_LEAST_CELLS, _CELLS_PER_MINUTE * minutes)))
        cells = list(map_(partial(draw_cell, TRAINING), range(10_000 * seed, 10_000 * seed + count)))
    rng = np.random.default_rng([seed, 13])
    high = np.array([cell.load >= HIGH_LOAD for cell in cells])

    def trials_of(policy: Policy) -> tuple[Ints, list[Trial]]:
        chosen = rng.choice(len(cells), min(budget.cells, len(cells)), replace=False)
        drawn = [(cells[i], int(rng.integers(_LARGEST_SEED))) for i in chosen]
        return chosen, list(map_(partial(try_shifts, make, policy, budget), drawn))

    training = PolicyTraining(start or _first_policy(trials_of(Policy.zeros())[1], inputs), high, budget.cell_tails)
    last: list[Floats] = []
    share = 0.0
    while share < 1.0:
        level = training.step(*trials_of(training.policy), _RATE * (1.0 - share))
        share = max(training.steps / budget.steps, (time.monotonic() - began) / (60.0 * minutes))
        if share > 1.0 - _AVERAGED:
            last.append(training.policy.linear)
        if curve is not None:
            weights = [*training.tail_weights.ravel(), *training.cell_weights]
            curve.append(np.round([*level, *weights], 5).tolist())
        if progress is not None:
            progress(min(share, 1.0))
    return replace(training.policy, linear=np.mean(last, axis=0)), len(cells)
