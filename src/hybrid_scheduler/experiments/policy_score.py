"""Score of a policy, which is a scheduler in a plug-in file: lower bound over mean latency, by cases and seeds.

The score of a run is ``lower bound / mean latency``. No policy can exceed 1. The score of a seed is the geometric
mean over all cases, and the score of a policy the mean over seeds with Student's interval. Beside it stand the
ratios to references that know durations. Cases in which the policy is worst are cut down to a few tasks that show
the same, and can be replayed as a trace.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..cluster import Machine, Noise
from ..core import Floats, InvalidInputError, Workload, platform_named
from ..engine import Comparison
from ..metrics.statistics import Interval, t_interval
from ..schedulers import create
from ..workload.csv_file import write_csv
from ..workload.scenarios import scenario_named
from . import FIRST_DEVELOPMENT_SEED
from .policy_sandbox import PolicyDisqualifiedError, PolicySandbox
from .spec import ExperimentSpec

#: Schedulers with which policies are compared; they know expected durations.
REFERENCES = ("earliest_finish", "price_index", "late_binding")
#: Seeds of the public set. Reported scores use others: seeds from `FIRST_REPORTED_SEED` on, or sealed ones.
PUBLIC_SEEDS = range(FIRST_DEVELOPMENT_SEED, FIRST_DEVELOPMENT_SEED + 5)
_TASKS = 400
#: Most tasks of a worst case, fewest tasks, and the share of the ratio that a smaller case must keep.
_MAX_TRACE = 100
_MIN_TRACE = 8
_KEPT = 0.9
_WORST_CASES = 3

#: Runs one workload on a machine, and returns the latency of every task.
Runner = Callable[[Machine, Workload], Floats]


@dataclass(frozen=True, slots=True)
class ScoreCase:
    """Kind of workload on which policies are scored.

    Parameters
    ----------
    scenario, utilisation
        Scenario of the tasks and offered load.
    platform
        Name of the platform.
    noise
        Sigma of the log-normal noise on durations.
    tasks
        Tasks per seed.
    """

    scenario: str
    utilisation: float
    platform: str = "workstation"
    noise: float = 0.0
    tasks: int = _TASKS

    @property
    def name(self) -> str:
        """Name in tables."""
        where = "" if self.platform == "workstation" else f", {self.platform}"
        return f"{self.scenario} at {self.utilisation:g}{where}" + (f", noise {self.noise:g}" if self.noise else "")

    @property
    def references(self) -> ExperimentSpec:
        """The references on these tasks."""
        machine = Machine(platform_named(self.platform), noise=Noise(self.noise))
        return ExperimentSpec(scenario_named(self.scenario), self.tasks, REFERENCES, machine, self.utilisation)


#: Cases of the public set: light and heavy load, transfers, heavy tails, bursts, other machines, and noise.
CASES = (
    ScoreCase("mixed", 0.7),
    ScoreCase("mixed", 0.95),
    ScoreCase("transfer", 0.85),
    ScoreCase("pareto", 0.9),
    ScoreCase("bursty", 0.9),
    ScoreCase("mixed", 0.9, "laptop"),
    ScoreCase("mixed", 0.9, "mixed-gpus"),
    ScoreCase("mixed", 0.7, noise=0.3),
)


@dataclass(frozen=True)
class ScoredRun:
    """Run of one policy on one case and seed, beside the references on the same tasks."""

    case: ScoreCase
    seed: int
    latency: Floats
    references: Comparison

    @property
    def score(self) -> float:
        """Lower bound over mean latency, in (0, 1]."""
        assert self.references.latency_bound is not None
        return self.references.latency_bound / float(self.latency.mean())

    def ratio(self, name: str) -> float:
        """Return the mean latency over that of a reference."""
        return float(self.latency.mean()) / self.references.summaries[name].latency.mean

    def tail_ratio(self, name: str) -> float:
        """Return the p99 latency over that of a reference."""
        return float(np.quantile(self.latency, 0.99)) / self.references.summaries[name].latency.p99

    @property
    def best(self) -> str:
        """The reference with the least mean latency."""
        return max(REFERENCES, key=self.ratio)


@dataclass(frozen=True)
class WorstTrace:
    """Small case in which the policy does much worse than the best reference, as a native CSV trace."""

    case: str
    ratio: float
    reference: str
    tasks: int
    trace: str


@dataclass(frozen=True)
class PolicyScore:
    """Score of one policy.

    Parameters
    ----------
    name
        Name of the policy.
    runs
        Its runs, seed by seed.
    disqualified
        Reason why the policy is out, if it is.
    worst
        Small traces in which it does worst.
    sandboxed
        Whether the kernel filtered system calls; None for a scheduler of the package.
    """

    name: str
    runs: tuple[ScoredRun, ...] = ()
    disqualified: str | None = None
    worst: tuple[WorstTrace, ...] = field(default=())
    sandboxed: bool | None = None

    @cached_property
    def interval(self) -> Interval:
        """The score with its 95 % interval over seeds; 0 if the policy is disqualified."""
        if self.disqualified or not self.runs:
            return Interval(0.0, 0.0, 0.0)
        values = np.array([_geometric(run.score for run in runs) for runs in self._by(lambda run: run.seed)])
        if len(values) < 2:
            return Interval(float(values[0]), float("nan"), float("nan"))
        return t_interval(values)

    def by_case(self) -> Iterator[tuple[str, dict[str, float]]]:
        """Yield the name and the figures of each case, means over its seeds."""
        for runs in self._by(lambda run: run.case.name):
            yield runs[0].case.name, _figures(runs)

    def figures(self) -> dict[str, float]:
        """Return the ratios over all cases and seeds: geometric means."""
        return _figures(self.runs) if self.runs and not self.disqualified else {}

    def as_dict(self) -> dict[str, Any]:
        """Return score, flat metrics and artifacts: the form that evolutionary program search expects."""
        interval = self.interval
        metrics = {"combined_score": interval.mean, **self.figures()}
        if interval.low == interval.low:
            metrics |= {"score_low": interval.low, "score_high": interval.high}
        if not self.disqualified:
            for name, figures in self.by_case():
                metrics |= {f"{name}: {key}": value for key, value in figures.items()}
        return {
            "policy": self.name,
            "combined_score": interval.mean,
            "metrics": metrics,
            "artifacts": {
                "disqualified": self.disqualified,
                "system_calls_filtered": self.sandboxed,
                "worst_cases": [vars(case) for case in self.worst],
            },
        }

    def _by(self, key: Callable[[ScoredRun], Any]) -> list[list[ScoredRun]]:
        groups: dict[Any, list[ScoredRun]] = {}
        for run in self.runs:
            groups.setdefault(key(run), []).append(run)
        return list(groups.values())


def _geometric(values: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


def _figures(runs: Sequence[ScoredRun]) -> dict[str, float]:
    figures = {"mean_over_floor": _geometric(1.0 / run.score for run in runs)}
    for name in REFERENCES:
        figures[f"mean_over_{name}"] = _geometric(run.ratio(name) for run in runs)
        figures[f"p99_over_{name}"] = _geometric(run.tail_ratio(name) for run in runs)
    return figures


class ScoreSet:
    """Cases and seeds, with the reference values that all policies share.

    Parameters
    ----------
    seeds
        Seeds; the public ones if left out.
    cases
        Cases; the public ones if left out.
    """

    def __init__(self, seeds: Sequence[int] = PUBLIC_SEEDS, cases: Sequence[ScoreCase] = CASES) -> None:
        self.seeds = seeds
        self.cases = cases
        self._references: dict[tuple[str, int], Comparison] = {}

    def __len__(self) -> int:
        return len(self.seeds) * len(self.cases)

    def runs(self, runner: Runner) -> Iterator[ScoredRun]:
        """Yield the runs of one policy, seed by seed, so that every case is seen early."""
        for seed in self.seeds:
            for case in self.cases:
                spec = case.references
                references = self._references.get((case.name, seed)) or spec.run(seed)
                self._references[case.name, seed] = references
                yield ScoredRun(case, seed, runner(spec.on_seed(seed), references.workload), references)

    def score(
        self,
        name: str,
        runner: Runner,
        *,
        show_worst: bool = False,
        progress: Callable[[ScoredRun], None] | None = None,
    ) -> PolicyScore:
        """Return the score of one policy; a policy that breaks a rule is disqualified, and keeps its runs.

        Parameters
        ----------
        name
            Name of the policy.
        runner
            Function that runs it; see `built_in`.
        show_worst
            Whether to look for small traces in which it does worst.
        progress
            Called after each run.
        """
        done: list[ScoredRun] = []
        try:
            for run in self.runs(runner):
                done.append(run)
                if progress:
                    progress(run)
            worst = self._worst(done, runner) if show_worst else ()
        except PolicyDisqualifiedError as error:
            where = f"{self.cases[len(done) % len(self.cases)].name}, " if len(done) < len(self) else ""
            return PolicyScore(name, tuple(done), f"{where}{error.args[0].removeprefix('disqualified ')}")
        return PolicyScore(name, tuple(done), worst=tuple(worst))

    def _worst(self, runs: Sequence[ScoredRun], runner: Runner) -> Iterator[WorstTrace]:
        """Yield the worst cases against the best reference, each of another case."""
        worst: dict[str, ScoredRun] = {}
        for run in sorted(runs, key=lambda run: -run.ratio(run.best)):
            worst.setdefault(run.case.name, run)
        for run in islice(worst.values(), _WORST_CASES):
            machine = run.case.references.on_seed(run.seed)
            workload = run.references.workload
            name = run.best
            excess = run.latency - run.references.results[name].outcomes.latency
            rows, ratio = _smaller(_worst_window(excess), machine, workload, runner, built_in(name))
            text = io.StringIO()
            write_csv(workload.subset(rows), text)
            yield WorstTrace(run.case.name, ratio, name, len(rows), text.getvalue())


def _worst_window(excess: Floats) -> Any:
    """Return the consecutive rows with the largest sum of excess latency."""
    length = min(_MAX_TRACE, len(excess))
    sums = np.convolve(excess, np.ones(length), "valid")
    return np.arange(length) + int(sums.argmax())


def _smaller(rows: Any, machine: Machine, workload: Workload, runner: Runner, other: Runner) -> tuple[Any, float]:
    """Halve a window as long as the ratio of both mean latencies stays about the same."""

    def ratio(window: Any) -> float:
        part = workload.subset(window)
        return float(runner(machine, part).mean() / other(machine, part).mean())

    best = ratio(rows)
    while len(rows) >= 2 * _MIN_TRACE:
        half = len(rows) // 2
        tried = [
            (ratio(window), window) for window in (rows[:half], rows[half // 2 : half // 2 + half], rows[half:])
        ]
        value, window = max(tried, key=lambda one: one[0])
        if value < _KEPT * best:
            break
        best = max(best, value)
        rows = window
    return rows, ratio(rows)


def built_in(spec: str) -> Runner:
    """Return a runner for a scheduler of the package."""
    return lambda machine, workload: machine.run(workload, create(spec)).outcomes.latency


def score_policy(
    name: str,
    source: str,
    chosen: ScoreSet,
    sandbox: PolicySandbox,
    *,
    show_worst: bool = True,
    progress: Callable[[ScoredRun], None] | None = None,
) -> PolicyScore:
    """Return the score of a policy that runs in a sandbox.

    Parameters
    ----------
    name, source
        Name and Python source of the policy.
    chosen
        Cases and seeds.
    sandbox
        Sandbox to run it in.
    show_worst
        Whether to look for small traces in which it does worst; never for sealed seeds, whose tasks stay secret.
    progress
        Called after each run.

    Examples
    --------
    >>> from hybrid_scheduler.experiments.policy_sandbox import PolicySandbox
    >>> from hybrid_scheduler.experiments.policy_score import ScoreCase, ScoreSet, score_policy
    >>> chosen = ScoreSet([1000], [ScoreCase("mixed", 0.5, tasks=20)])
    >>> with PolicySandbox() as sandbox:
    ...     bad = score_policy("bad", "def decide(task, view): return 1, 2.0", chosen, sandbox)
    >>> bad.disqualified
    'mixed at 0.5, at task 0: fraction must be in [0, 1], got 2.0'
    """

    def run(machine: Machine, workload: Workload) -> Floats:
        with sandbox.policy(source) as policy:
            return machine.run(workload, policy).outcomes.latency

    result = chosen.score(name, run, show_worst=show_worst, progress=progress)
    return replace(result, sandboxed=sandbox.system_calls_filtered)


def sealed_seeds(path: Path) -> list[int]:
    """Return the seeds of a file: a JSON list of whole numbers, or an object with such a list named ``seeds``.

    Raises
    ------
    InvalidInputError
        If the file holds no such list; its content is not repeated.
    """
    allowed = "a JSON file with at least 2 different whole numbers from 0 to 2^63 - 1"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InvalidInputError("path", allowed, str(path)) from None
    seeds = content.get("seeds") if isinstance(content, dict) else content
    if (
        not isinstance(seeds, list)
        or not all(type(seed) is int and 0 <= seed < 2**63 for seed in seeds)
        or len(set(seeds)) != len(seeds)
        or len(seeds) < 2
    ):
        raise InvalidInputError("path", allowed, str(path))
    return seeds
