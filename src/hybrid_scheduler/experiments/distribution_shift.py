"""Distribution shift study: large compute-bound tasks, then small ones that carry much data.

Isolated tasks under serial physics: a share f takes (1 - f) T + f G seconds, so the best decision is all CPU or all
GPU. In the training regime the GPU always wins; in the 500 tasks that follow the CPU does, by an order of
magnitude. The published study, whose table is printed beside ours, found that a forest fails here and a Q-learner
does not. It measured a forest that is never trained again.

Every policy decides for a task, gets its outcome, and goes on. With feedback `oracle` the outcome holds the seconds
on both sides, with `bandit` only those of the part that ran; `hybrid_ml` always learns from the latter. All
learners start from the same 1000 training tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Protocol

import numpy as np

from ..core import Floats, InvalidInputError, Outcome, Setting, Task, Workload, workstation
from ..learning.dqn.double_dqn import DQN, DQNSettings
from ..learning.dqn.q_network import Floats32
from ..learning.duration.drift import Cusum
from ..learning.duration.features import NUM_FEATURES, features
from ..learning.duration.flat_forest import FlatForest
from ..learning.duration.hierarchical_learner import HierarchicalLearner
from ..learning.duration.online_duration_model import OnlineDurationModel
from ..learning.predictors import RandomForestPredictor
from ..metrics.statistics import t_half_width
from ..physics import SerialPhysics
from ..workload.scenarios import generate, shift_scenarios
from . import FIRST_REPORTED_SEED

TRAINING_TASKS = 1000
TEST_TASKS = 500
#: Recovered: from here on the next tasks cost at most 5 % more than the optimum.
_RECOVERED_WITHIN, _RECOVERED_OVER = 1.05, 20

#: Rows of the forest that Hybrid ML can use.
FOREST = "hybrid_ml(durations=forest)"
#: Published: sum of times, mean time, of 500 tasks.
PUBLISHED = {
    "optimal": (12.97, 0.03),
    "round_robin": (56.87, 0.11),
    "random": (67.14, 0.13),
    "greedy": (18.30, 0.04),
    "static forest": (122.92, 0.25),
    "rl_agent": (21.12, 0.04),
}


@dataclass(frozen=True, slots=True)
class Stream:
    """Tasks with their seconds on either side."""

    tasks: Workload
    cpu: Floats
    gpu: Floats

    @classmethod
    def of(cls, tasks: Workload) -> Stream:
        """Compute the seconds of tasks on both sides."""
        table = SerialPhysics().times(tasks, workstation(1))[:, :, 0]
        return cls(tasks, table[:, 0], table[:, 1])

    @property
    def optimum(self) -> Floats:
        """Seconds of every task on its better side."""
        return np.minimum(self.cpu, self.gpu)

    def time(self, row: int, fraction: float) -> float:
        """Return the seconds of one task with this share on the GPU."""
        return (1.0 - fraction) * float(self.cpu[row]) + fraction * float(self.gpu[row])


class Policy(Protocol):
    """Interface of a policy: it decides the GPU's share of a task, then gets the seconds on both sides."""

    def decide(self, task: Task) -> float:
        """Return the share for the GPU."""

    def observe(self, task: Task, fraction: float, cpu: float, gpu: float) -> None:
        """Learn from the seconds that the task would take on either side."""


class RulePolicy:
    """A policy that does not learn."""

    def __init__(self, share: Callable[[Task], float]) -> None:
        self.decide = share

    def observe(self, task: Task, fraction: float, cpu: float, gpu: float) -> None:
        """Do nothing."""
        pass


class PlainForestPolicy:
    """A random forest of the last 1000 tasks, fitted again every `every` tasks, or never, as published."""

    def __init__(self, training: Stream, seed: int, *, every: int | None = None) -> None:
        self._every, self._seed = every, seed
        self._rows = list(features(training.tasks))
        self._logs = list(np.log(np.stack([training.cpu, training.gpu], axis=1)))
        self._fit()

    def _fit(self) -> None:
        last = slice(-TRAINING_TASKS, None)
        forest = RandomForestPredictor(seed=self._seed).make()
        forest.fit(np.array(self._rows[last]), np.array(self._logs[last]))
        self._forest = FlatForest.of(forest.estimators_, NUM_FEATURES)

    def decide(self, task: Task) -> float:
        """Return 1 if the GPU is predicted to be faster, else 0."""
        cpu, gpu = self._forest.predict(features(Workload.from_tasks([task])))[0][0]
        return float(gpu < cpu)

    def observe(self, task: Task, fraction: float, cpu: float, gpu: float) -> None:
        """Add the task to the training data and refit when due."""
        self._rows.append(features(Workload.from_tasks([task]))[0])
        self._logs.append(np.log([cpu, gpu]))
        if self._every and (len(self._rows) - TRAINING_TASKS) % self._every == 0:
            self._fit()


class RegressionPolicy:
    """Hybrid ML's duration model, which learns from the parts that ran."""

    def __init__(self, training: Stream) -> None:
        self._durations = HierarchicalLearner()
        self._durations.start(Setting(workstation(1)))
        for row, task in enumerate(training.tasks):
            # Half and half: both sides run.
            self.observe(task, 0.5, float(training.cpu[row]), float(training.gpu[row]))

    def decide(self, task: Task) -> float:
        """Return 1 if the GPU is predicted to be faster, else 0."""
        cpu, gpu = self._durations.predict(Workload.from_tasks([task]))[0, :, 0]
        return float(gpu < cpu)

    def observe(self, task: Task, fraction: float, cpu: float, gpu: float) -> None:
        """Learn from the parts that ran."""
        now = float(task.task_id)  # one task after the other
        parts = (now, (1.0 - fraction) * cpu, now, fraction * gpu)
        self._durations.learn_from(task, Outcome(task.task_id, 1, fraction, now, *parts))


class ForestPolicy:
    """Duration model of `hybrid_ml(durations=forest)`, which keeps learning and detects drift."""

    def __init__(self, training: Stream, seed: int, *, feedback: str = "oracle", drift: str = "cusum") -> None:
        self._times = OnlineDurationModel(feedback=feedback, drift=drift)
        self._times.start(workstation(1), seed)
        for row, task in enumerate(training.tasks):
            # Half and half: both sides run, so that bandit feedback has something to learn from as well.
            self.observe(task, 0.5, float(training.cpu[row]), float(training.gpu[row]))

    def decide(self, task: Task) -> float:
        """Return 1 if the GPU is predicted to be faster, else 0."""
        cpu, gpu = self._times.row(task)[:, 0]
        return float(gpu < cpu)

    def observe(self, task: Task, fraction: float, cpu: float, gpu: float) -> None:
        """Learn from the outcome."""
        labels = np.array([[cpu, 0.0], [gpu, 0.0]])
        outcome = Outcome(task.task_id, 1, fraction, 0.0, 0.0, (1.0 - fraction) * cpu, 0.0, fraction * gpu)
        self._times.learn(task, replace(outcome, labels=labels))


class AgentPolicy:
    """A Q-network that predicts -log seconds of each share; its replay buffer is flushed after a drift."""

    SHARES = (0.0, 0.5, 1.0)
    UPDATES_PER_TASK = 8
    _KEPT = 3

    def __init__(self, training: Stream, seed: int, *, counterfactual: bool = True, epsilon: float = 0.0) -> None:
        rows = features(training.tasks)
        self._mean, self._scale = rows.mean(axis=0), rows.std(axis=0)
        self._epsilon, self._counterfactual = epsilon, counterfactual
        width = len(self.SHARES) if counterfactual else 1
        self._dqn = DQN(
            rows.shape[1], len(self.SHARES), seed=seed, width=width, settings=DQNSettings(gamma=0.0, hidden=128)
        )
        self._known = np.zeros((1, len(self.SHARES)))
        for row, task in enumerate(training.tasks):
            taken = int(self._dqn.rng.integers(len(self.SHARES)))
            self._store(task, self.SHARES[taken], float(training.cpu[row]), float(training.gpu[row]))
        for step in range(2 * TRAINING_TASKS):
            self._dqn.update(progress=step / (2 * TRAINING_TASKS))
        self._detector = Cusum()
        self._detector.calibrate(
            np.array(
                [self._residual(task, 1.0, float(training.gpu[row])) for row, task in enumerate(training.tasks)]
            )
        )

    def decide(self, task: Task) -> float:
        """Return the share with the largest value."""
        return self.SHARES[int(self._dqn.act(self._observation(task), self._known, self._epsilon)[0])]

    def observe(self, task: Task, fraction: float, cpu: float, gpu: float) -> None:
        """Add the outcome to the replay buffer and update the network."""
        changed = self._detector.update(self._residual(task, fraction, (1.0 - fraction) * cpu + fraction * gpu))
        self._store(task, fraction, cpu, gpu)
        if changed:
            self._dqn.replay.flush(keep=self._KEPT)
            self._detector.calibrate(np.array([1.0]))  # after a drift only a far larger residual is another one
        for _ in range(self.UPDATES_PER_TASK):
            self._dqn.update()

    def _observation(self, task: Task) -> Floats32:
        row = features(Workload.from_tasks([task]))
        observation: Floats32 = ((row - self._mean) / self._scale).astype(np.float32)
        return observation

    def _residual(self, task: Task, fraction: float, seconds: float) -> float:
        network = self._dqn.network
        network.best(self._observation(task)[0], self._known[0], 0.0)
        return abs(float(network.q[self.SHARES.index(fraction)]) + float(np.log(seconds)))

    def _store(self, task: Task, fraction: float, cpu: float, gpu: float) -> None:
        shares = np.array(self.SHARES if self._counterfactual else (fraction,))
        rewards = -np.log((1.0 - shares) * cpu + shares * gpu)
        actions = np.array([self.SHARES.index(share) for share in shares])
        seen, width = self._observation(task), len(shares)
        self._dqn.replay.add(
            seen,
            self._known,
            actions[None],
            rewards[None],
            np.repeat(seen[None], width, axis=1),
            np.zeros((1, width, len(self.SHARES))),
            np.ones((1, width), np.bool_),
        )


def policies(training: Stream, seed: int) -> Iterator[tuple[str, Callable[[], Policy]]]:
    """Yield the names of the compared policies, each with a function that makes it."""
    draw = np.random.default_rng([seed, 7])
    yield "round_robin", lambda: RulePolicy(lambda task: 0.5 if task.task_id % 2 == 0 else 0.0)
    yield "random", lambda: RulePolicy(lambda task: float(draw.random()))
    yield "greedy", lambda: RulePolicy(lambda task: task.compute_intensity)
    yield "static forest", lambda: PlainForestPolicy(training, seed)
    yield "forest, every 50 tasks", lambda: PlainForestPolicy(training, seed, every=50)
    yield "hybrid_ml", lambda: RegressionPolicy(training)
    yield FOREST, lambda: ForestPolicy(training, seed)
    if find_spec("river"):  # the detector's package is optional
        yield f"{FOREST}, adwin", lambda: ForestPolicy(training, seed, drift="adwin")
    yield f"{FOREST}, bandit", lambda: ForestPolicy(training, seed, feedback="bandit")
    yield "rl_agent", lambda: AgentPolicy(training, seed)
    yield "rl_agent, bandit", lambda: AgentPolicy(training, seed, counterfactual=False, epsilon=0.1)


@dataclass(frozen=True, slots=True)
class ShiftRun:
    """Result of one policy on one seed."""

    total: float
    ratio: float
    #: Shifted tasks until recovery; None if it never came.
    recovery: int | None


def run(policy: Policy, stream: Stream) -> ShiftRun:
    """Run a policy over a stream."""
    times = np.empty(len(stream.tasks))
    for row, task in enumerate(stream.tasks):
        fraction = policy.decide(task)
        times[row] = stream.time(row, fraction)
        policy.observe(task, fraction, float(stream.cpu[row]), float(stream.gpu[row]))
    optimum = stream.optimum
    recovery = None
    for first in range(len(times) - _RECOVERED_OVER):
        window = slice(first, first + _RECOVERED_OVER)
        if times[window].sum() <= _RECOVERED_WITHIN * optimum[window].sum():
            recovery = first
            break
    return ShiftRun(float(times.sum()), float(times.sum() / optimum.sum()), recovery)


@dataclass(frozen=True, slots=True)
class ShiftRow:
    """Result of one policy over all seeds, with the published figure where there is one."""

    name: str
    published_total: float | None
    published_ratio: float | None
    total: float
    mean: float
    ratio: float
    #: Half width of the 95 % t-interval of the ratio.
    ratio_interval: float
    worst_ratio: float
    recovery_median: float | None
    recovery_worst: int | None


def shift_study(
    seeds: int = 20, *, first_seed: int = FIRST_REPORTED_SEED, progress: Callable[[str], None] | None = None
) -> list[ShiftRow]:
    """Run every policy on paired seeds.

    Parameters
    ----------
    seeds
        Number of seeds, at least 2.
    first_seed
        The first of them.
    progress
        Called with the seed and the policy that begins.

    Raises
    ------
    InvalidInputError
        If there are fewer than 2 seeds.
    """
    if seeds < 2:
        raise InvalidInputError("seeds", "at least 2, for an interval", seeds)
    return shift_rows([shift_seed(seed, progress) for seed in range(first_seed, first_seed + seeds)])


def shift_seed(seed: int, progress: Callable[[str], None] | None = None) -> dict[str, ShiftRun]:
    """Run every policy on one seed."""
    train, test = shift_scenarios()
    training = Stream.of(generate(train, TRAINING_TASKS, seed, batch=True))
    stream = Stream.of(generate(test, TEST_TASKS, seed, batch=True, first_id=TRAINING_TASKS))
    runs = {"optimal": ShiftRun(float(stream.optimum.sum()), 1.0, 0)}
    for name, make in policies(training, seed):
        if progress:
            progress(f"seed {seed}: {name}")
        runs[name] = run(make(), stream)
    return runs


def shift_rows(runs: Sequence[dict[str, ShiftRun]]) -> list[ShiftRow]:
    """Return the table of some seeds, one row per policy."""
    return [_row(name, [one[name] for one in runs]) for name in runs[0]]


def _row(name: str, runs: list[ShiftRun]) -> ShiftRow:
    ratios = np.array([one.ratio for one in runs])
    half = float(t_half_width(ratios))
    total = float(np.mean([one.total for one in runs]))
    published = PUBLISHED.get(name)
    recoveries = [one.recovery for one in runs if one.recovery is not None]
    all_recovered = len(recoveries) == len(runs)
    return ShiftRow(
        name,
        published[0] if published else None,
        published[0] / PUBLISHED["optimal"][0] if published else None,
        total,
        total / TEST_TASKS,
        float(ratios.mean()),
        half,
        float(ratios.max()),
        float(np.median(recoveries)) if all_recovered else None,
        max(recoveries) if all_recovered else None,
    )
