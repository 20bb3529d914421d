"""Distribution shift: registered schedulers learn from one kind of task, then meet another.

Physics are serial: a share f of a task takes (1 - f) T + f G seconds, so splitting never helps. Tasks are therefore
declared indivisible, and the best decision is all CPU or all GPU. A rule that splits nevertheless takes that many
seconds, as in the published study. In the training regime the GPU always wins; in the 500 tasks that follow the
CPU does, by an order of magnitude. Tasks run one after the other, so all queues are empty.

The published study found that a forest which is never trained again fails here and a deep Q-network does not. Its
table is printed beside ours: its forest is `frozen_forest`, its agent `dqn`. Every scheduler is made by the
registry, decides the same 1,000 training tasks and then the test tasks, and learns from its outcomes alone; the
published forests also get the oracle's labels, as everywhere in the simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..core import Floats, InvalidInputError, Online, Outcome, Setting, View, Workload, workstation
from ..metrics.statistics import t_half_width
from ..physics import SerialPhysics
from ..schedulers import create
from ..workload.argument_checks import parse_spec
from ..workload.scenarios import generate, shift_scenarios
from . import FIRST_REPORTED_SEED

TRAINING_TASKS = 1000
TEST_TASKS = 500
#: Recovered: from here on the next tasks cost at most 5 % more than the optimum.
_RECOVERED_WITHIN = 1.05
_RECOVERED_OVER = 20

#: Specifications of the compared schedulers; rows have their names.
SPECS = (
    "round_robin", "random", "greedy", f"frozen_forest(tasks={TRAINING_TASKS})", "random_forest", "dqn",
    "hybrid_ml",
)  # fmt: skip
_OPTIMAL = "optimal"
_BASELINES = ("round_robin", "random", "greedy")
#: Published: sum of times and mean time of 500 tasks, and status.
PUBLISHED = {
    _OPTIMAL: (12.97, 0.03, "Benchmark"),
    "round_robin": (56.87, 0.11, "Baseline"),
    "random": (67.14, 0.13, "Baseline"),
    "greedy": (18.30, 0.04, "Baseline"),
    "frozen_forest": (122.92, 0.25, "FAILED"),
    "dqn": (21.12, 0.04, "SUCCESS"),
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
        return cls(tasks.indivisible(), table[:, 0], table[:, 1])

    @property
    def optimum(self) -> Floats:
        """Seconds of every task on its better side."""
        return np.minimum(self.cpu, self.gpu)


@dataclass(frozen=True, slots=True)
class ShiftRun:
    """Result of one scheduler on one seed."""

    total: float
    ratio: float
    #: Shifted tasks until recovery; None if it never came.
    recovery: int | None


def run(scheduler: Online, training: Stream, test: Stream, seed: int) -> ShiftRun:
    """Run a scheduler over the training tasks, then over the test tasks, and judge the latter."""
    platform = workstation()
    scheduler.start(Setting(platform, seed))
    now = 0.0
    for stream in (training, test):
        times = np.empty(len(stream.tasks))
        for row, arriving in enumerate(stream.tasks):
            task = replace(arriving, arrival_time=now)
            decision = scheduler.decide(task, View(now, np.full(len(platform), now), platform))
            device = decision.device if decision.fraction > 0.0 else int(platform.cpu_of[decision.device])
            cpu = (1.0 - decision.fraction) * float(stream.cpu[row])
            gpu = decision.fraction * float(stream.gpu[row])
            times[row] = cpu + gpu
            if scheduler.learns:
                starts = (now if cpu > 0.0 else np.nan, now + cpu if gpu > 0.0 else np.nan)
                outcome = Outcome(task.task_id, device, decision.fraction, now, starts[0], cpu, starts[1], gpu)
                if scheduler.wants_labels:
                    labels = np.array([[stream.cpu[row], 0.0], [stream.gpu[row], 0.0]])
                    outcome = replace(outcome, labels=labels)
                scheduler.observe(outcome)
            now += float(times[row])
    taken, least = (
        sliding_window_view(seconds[:-1], _RECOVERED_OVER).sum(axis=1) for seconds in (times, test.optimum)
    )
    recovered = np.flatnonzero(taken <= _RECOVERED_WITHIN * least)
    recovery = int(recovered[0]) if len(recovered) else None
    return ShiftRun(float(times.sum()), float(times.sum() / test.optimum.sum()), recovery)


@dataclass(frozen=True, slots=True)
class ShiftRow:
    """Result of one scheduler over all seeds, with the published figures where there are some."""

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
    published_status: str | None = None
    #: Benchmark, Baseline, or of a learner: FAILED if its sum is above that of every baseline, else SUCCESS.
    status: str = ""


def shift_study(
    seeds: int = 20, *, first_seed: int = FIRST_REPORTED_SEED, progress: Callable[[str], None] | None = None
) -> list[ShiftRow]:
    """Run every scheduler on paired seeds.

    Parameters
    ----------
    seeds
        Number of seeds, at least 2.
    first_seed
        The first of them.
    progress
        Called with the seed and the scheduler that begins.

    Raises
    ------
    InvalidInputError
        If there are fewer than 2 seeds.
    """
    if seeds < 2:
        raise InvalidInputError("seeds", "at least 2, for an interval", seeds)
    return shift_rows([shift_seed(seed, progress) for seed in range(first_seed, first_seed + seeds)])


def shift_seed(seed: int, progress: Callable[[str], None] | None = None) -> dict[str, ShiftRun]:
    """Run every scheduler on one seed."""
    train, shifted = shift_scenarios()
    training = Stream.of(generate(train, TRAINING_TASKS, seed, batch=True))
    test = Stream.of(generate(shifted, TEST_TASKS, seed, batch=True, first_id=TRAINING_TASKS))
    runs = {_OPTIMAL: ShiftRun(float(test.optimum.sum()), 1.0, 0)}
    for spec in SPECS:
        name, _ = parse_spec(spec)
        if progress:
            progress(f"seed {seed}: {name}")
        scheduler = create(spec)
        assert isinstance(scheduler, Online)
        runs[name] = run(scheduler, training, test, seed)
    return runs


def shift_rows(runs: Sequence[dict[str, ShiftRun]]) -> list[ShiftRow]:
    """Return the table of some seeds, one row per scheduler."""
    worst = max(float(np.mean([seed[name].total for seed in runs])) for name in _BASELINES)
    return [_row(name, [seed[name] for seed in runs], worst) for name in runs[0]]


def _row(name: str, runs: list[ShiftRun], worst_baseline: float) -> ShiftRow:
    ratios = np.array([run.ratio for run in runs])
    total = float(np.mean([run.total for run in runs]))
    published_total, _, published_status = PUBLISHED.get(name, (None, None, None))
    recoveries = [run.recovery for run in runs if run.recovery is not None]
    all_recovered = len(recoveries) == len(runs)
    status = "FAILED" if total > worst_baseline else "SUCCESS"
    if name in (_OPTIMAL, *_BASELINES):
        status = "Benchmark" if name == _OPTIMAL else "Baseline"
    return ShiftRow(
        name,
        published_total,
        published_total / PUBLISHED[_OPTIMAL][0] if published_total else None,
        total,
        total / TEST_TASKS,
        float(ratios.mean()),
        float(t_half_width(ratios)),
        float(ratios.max()),
        float(np.median(recoveries)) if all_recovered else None,
        max(recoveries) if all_recovered else None,
        published_status,
        status,
    )
