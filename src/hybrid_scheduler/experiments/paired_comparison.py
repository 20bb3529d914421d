"""Paired comparison of schedulers over seeds, with the statistical tests of `metrics`.

Every seed is one workload that all schedulers get. Seeds run in as many processes as there are cores; the result of
a seed does not depend on where or beside which others it ran.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..cluster import RunResult
from ..core import Floats, InvalidInputError, UnknownNameError
from ..engine import Comparison
from ..engine.comparison import label_of
from ..metrics import Spread, Summary
from ..metrics.statistics import (
    HIGHER,
    LOWER,
    RELEVANT_SHARE,
    TOO_CLOSE,
    Interval,
    Pair,
    bootstrap_interval,
    compare_pairs,
    dependent_interval,
    exact_pairs,
    fewest_seeds,
    lag1_autocorrelation,
    sequential_verdict,
    skewed_interval,
    trend_direction,
    values_needed,
)
from ..metrics.summary import Evidence
from ..metrics.verdict import Verdict
from ..metrics.verdict import judge as judge_evidence
from .process_pool import cores, in_order
from .spec import MEANS, SUMS, ExperimentSpec, batch_values

#: Metrics of which more is better; of all others less is.
_HIGHER_IS_BETTER = frozenset({"throughput", "load_balance", "load_balance_gpu", "average_utilization"})
SEEDS = "seeds"
BATCHES = "batches"
_RUNS = "runs"
DEFAULT_METRIC = "mean_latency"
#: Metrics whose values in a trace are correlated over the busy periods of the queues.
_OF_LATENCY = frozenset({"mean_latency", "mean_wait", "mean_slowdown", "mean_regret"})
#: Mean latency over mean execution time up to which queues do not matter.
_WITHOUT_QUEUES = 1.05
#: Seeds between two checks of the sequential variant, however many processes there are.
_SEEDS_PER_CHECK = 5
#: Seed of the bootstrap: the same table every time.
_RESAMPLING_SEED = 20_261_115


@dataclass(frozen=True, slots=True)
class SeedRun:
    """Results of one seed: each scheduler's summary as flat numbers, and a digest of every task's outcome."""

    seed: int
    lower_bound: float | None
    metrics: dict[str, dict[str, float | None]]
    digests: dict[str, str]
    #: For a trace, by scheduler and metric: one value per batch. Else empty.
    batches: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    #: Numbers that explain the results; empty for a run that was read from a log.
    evidence: dict[str, Evidence] = field(default_factory=dict)


def run_seed(spec: ExperimentSpec, seed: int, progress: Callable[[str, int], None] | None = None) -> SeedRun:
    """Run one seed and keep its summary."""
    return seed_run(spec, seed, spec.run(seed, progress))


def seed_run(spec: ExperimentSpec, seed: int, comparison: Comparison) -> SeedRun:
    """Return the part of a comparison that is kept."""
    metrics = {
        name: {key: value for key, value in summary.as_dict().items() if not isinstance(value, dict)}
        for name, summary in comparison.summaries.items()
    }
    digests = {name: _outcome_digest(result) for name, result in comparison.results.items()}
    trace = spec.trace
    cut = trace is not None and trace.why_no_interval is None
    batches = batch_values(comparison, trace.batches) if trace and cut else {}
    evidence = {name: comparison.evidence(name) for name in comparison.results}
    return SeedRun(seed, comparison.lower_bound, metrics, digests, batches, evidence)


def _outcome_digest(result: RunResult) -> str:
    """Return the SHA-256 over all columns of the outcomes; equal on all machines that compute the same numbers."""
    digest = hashlib.sha256()
    outcomes = result.outcomes
    for column in (
        outcomes.workload.task_id, outcomes.device, outcomes.fraction, outcomes.cpu_start, outcomes.cpu_time,
        outcomes.accelerator_start, outcomes.accelerator_time, outcomes.status,
    ):  # fmt: skip
        little = column.astype(column.dtype.newbyteorder("<"), copy=False)
        # All NaN mean "did not run", whatever their bits.
        same = np.where(np.isnan(little), np.nan, little) if little.dtype.kind == "f" else little
        digest.update(np.ascontiguousarray(same).tobytes())
    return digest.hexdigest()


# ------------------------------------------------------------------------------------------ running


#: Called with (what was done, seeds done so far).
Progress = Callable[[str, int], None]


def run_seeds(
    spec: ExperimentSpec,
    seeds: Sequence[int],
    *,
    processes: int | None = None,
    progress: Progress | None = None,
) -> Iterator[SeedRun]:
    """Run all seeds and yield their results in order.

    Parameters
    ----------
    spec
        Tasks, machine and schedulers.
    seeds
        The seeds.
    processes
        Number of processes; one per core if left out.
    progress
        Called with the seed and the number of seeds done.
    """
    workers = min(processes or cores(), len(seeds))
    if workers < 1:
        raise InvalidInputError("processes", "at least 1", processes)
    report = progress or (lambda *_: None)
    report(f"seed {seeds[0]}", 0)
    for done, run in enumerate(in_order(partial(run_seed, spec), seeds, workers), 1):
        report(f"seed {run.seed}", done)
        yield run


def compare_seeds(
    spec: ExperimentSpec,
    seeds: Sequence[int],
    *,
    metric: str = DEFAULT_METRIC,
    baseline: str | None = None,
    until_clear: bool = False,
    processes: int | None = None,
    progress: Progress | None = None,
) -> PairedComparison:
    """Run paired seeds for a comparison.

    Parameters
    ----------
    spec
        Tasks, machine and schedulers.
    seeds
        The seeds, at least 2.
    metric
        Number of the summary that `until_clear` looks at.
    baseline
        Scheduler that the others are compared with; the first if left out.
    until_clear
        Stop as soon as every scheduler differs significantly from the baseline.

        A fixed graph without noise is stopped after two equal seeds: one run then is the exact result.
    processes
        Number of processes; one per core if left out.
    progress
        Called with the seed and the number of seeds done.

    Raises
    ------
    InvalidInputError
        If the specification is a trace, or there are fewer than 2 seeds.
    UnknownNameError
        If the metric or the baseline is unknown.
    """
    if spec.trace:
        raise InvalidInputError("seeds", "those of a scenario: a trace is one run", f"a trace, {spec.name}")
    if len(seeds) < 2:
        raise InvalidInputError("seeds", "at least 2, for an interval", len(seeds))
    reference_name = baseline_of(spec, baseline)
    runs: list[SeedRun] = []
    check_metric(metric)
    # A process per core is not worth starting for the two runs that most such graphs need.
    workers = 1 if spec.repeats_itself else processes
    for run in run_seeds(spec, seeds, processes=workers, progress=progress):
        if spec.repeats_itself and len(runs) == 1 and run.digests == runs[0].digests:
            return PairedComparison(spec, tuple(runs))
        runs.append(run)
        look = len(runs) % _SEEDS_PER_CHECK == 0 and len(runs) < len(seeds)
        if until_clear and look and _is_clear(PairedComparison(spec, tuple(runs)).samples(metric), reference_name):
            break
    return PairedComparison(spec, tuple(runs), stopped_early=len(runs) < len(seeds))


def compare_trace(
    spec: ExperimentSpec, seed: int, progress: Callable[[str, int], None] | None = None
) -> PairedComparison:
    """Run a trace once and compare the schedulers batch by batch.

    Parameters
    ----------
    spec
        Trace, machine and schedulers.
    seed
        Seed of noise and of schedulers that draw.
    progress
        Called with the scheduler's name and the tasks done.

    Raises
    ------
    InvalidInputError
        If the specification is not a trace, or the trace cannot be cut into batches.
    """
    if spec.trace is None:
        raise InvalidInputError("spec", "about a trace", f"the scenario {spec.name}")
    why = spec.trace.why_no_interval
    if why is not None:
        hint = "hybrid-scheduler simulate --trace and report --trace show the run without intervals"
        raise InvalidInputError(
            "trace", "a stream of tasks, for intervals within it", f"{spec.name}: {why}", hint=hint
        )
    run = run_seed(spec, seed, progress)
    if not run.batches:
        raise InvalidInputError("trace", "tasks that every scheduler completes", f"{spec.name}: most failed")
    return PairedComparison(spec, (run,))


def baseline_of(spec: ExperimentSpec, name: str | None) -> str:
    """Return the scheduler that all are compared with: the named one, or the first."""
    if name is None:
        return spec.schedulers[0]
    if name not in spec.schedulers:
        raise UnknownNameError("baseline", name, spec.schedulers)
    return name


def _known_metrics() -> list[str]:
    """Return the names of a summary's single numbers, as in its flat form."""
    spread = [f"{field.name}_{name}" for name in ("time", "latency", "wait") for field in fields(Spread)]
    return [field.name for field in fields(Summary) if field.type not in ("Spread", "dict[str, float]")] + spread


def check_metric(metric: str, *, one_run: bool = False) -> None:
    """Refuse an unknown metric and, for `one_run` over a trace, one that its batches do not have."""
    if metric not in _known_metrics():
        raise UnknownNameError("metric", metric, _known_metrics())
    if one_run and metric not in (*MEANS, *SUMS):
        allowed = f"one that batches of a trace have: {', '.join((*MEANS, *SUMS))}"
        raise InvalidInputError("metric", allowed, metric, hint="a trace is one run, with one value of the others")


def _is_clear(samples: dict[str, Floats], baseline: str) -> bool:
    others = [name for name in samples if name != baseline]
    return all(
        sequential_verdict(samples[name] - samples[baseline], len(others)) != TOO_CLOSE
        for name in others
        if not np.array_equal(samples[name], samples[baseline])
    )


# ------------------------------------------------------------------------------------------ statistics


@dataclass(frozen=True, slots=True)
class SchedulerRank:
    """Row of one scheduler. `pair` is its test against the baseline; None for the baseline itself."""

    name: str
    value: Interval
    #: None for a trace.
    bootstrap: Interval | None
    ratio: float
    pair: Pair | None
    #: Mean latency minus the oracle's on the same seeds, and makespan and mean latency over their bounds; None
    #: where not computed.
    regret: Interval | None
    over_bound: Interval | None
    latency_over_bound: Interval | None = None

    @property
    def verdict(self) -> str:
        """Verdict against the baseline."""
        return self.pair.verdict if self.pair else "baseline"

    @property
    def test_cells(self) -> tuple[str, str, str]:
        """Cells of tables: p, effect, and pairs won and lost against the baseline."""
        if self.pair is None:
            return "–", "–", "–"
        p = self.pair.p_holm
        p_cell = "exact" if math.isnan(p) else "<0.0001" if p < 1e-4 else f"{p:.4f}"
        return p_cell, f"{self.pair.rank_biserial:+.2f}", f"{self.pair.wins}/{self.pair.losses}"


@dataclass(frozen=True, slots=True)
class PairwiseTests:
    """Tests of all pairs of schedulers on one metric, and the schedulers, best first."""

    metric: str
    baseline: str
    seeds: int
    ranking: tuple[SchedulerRank, ...]
    pairs: dict[tuple[str, str], Pair]
    #: What the values are: seeds, batches of one trace, or one run that every seed repeats.
    unit: str = SEEDS
    #: The largest correlation between neighbouring batches in a difference from the baseline.
    neighbour_correlation: float = 0.0
    #: For a trace that is too short for some intervals: about how many tasks each of these schedulers needs.
    tasks_needed: dict[str, int] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether every seed repeats the same run: differences are exact, and there is nothing to test."""
        return self.unit == _RUNS

    @property
    def less_is_better(self) -> bool:
        """Whether smaller values of the metric are better."""
        return self.metric not in _HIGHER_IS_BETTER

    def better(self, verdict: str) -> bool:
        """Whether a verdict means better."""
        return verdict == (LOWER if self.less_is_better else HIGHER)

    def worse(self, verdict: str) -> bool:
        """Whether a verdict means worse."""
        return verdict == (HIGHER if self.less_is_better else LOWER)

    def relevant(self, pair: Pair) -> bool:
        """Whether a difference is significant or exact, and at least 1 % of the baseline's mean."""
        reference = abs(self.rank_of(self.baseline).value.mean)
        return pair.verdict != TOO_CLOSE and abs(pair.difference.mean) >= RELEVANT_SHARE * reference

    def verdict_text(self, pair: Pair) -> str:
        """Return better or worse, with "by less than 1 %" if that is not relevant; too close, or too few seeds."""
        if pair.verdict == TOO_CLOSE:
            return "equal" if self.exact else self.too_few or TOO_CLOSE
        word = "better" if self.better(pair.verdict) else "worse"
        return word if self.relevant(pair) else f"{word} by < 1 %"

    @property
    def seeds_needed(self) -> int:
        """Fewest seeds with which any pair could differ significantly."""
        return fewest_seeds(max(1, len(self.pairs) // 2))

    @property
    def too_few(self) -> str | None:
        """Words for fewer seeds than any significant difference needs; None where there are enough."""
        enough = self.exact or self.seeds >= self.seeds_needed
        return None if enough else f"too few {self.unit}: {self.seeds_needed} needed"

    def rank_of(self, name: str) -> SchedulerRank:
        """Return the row of one scheduler."""
        return next(rank for rank in self.ranking if rank.name == name)

    def won_cells(self, row: str) -> list[str]:
        """Return, for each scheduler of the ranking, how often `row` won; a star marks a significant lead."""
        cells = []
        for rank in self.ranking:
            pair = self.pairs.get((row, rank.name))
            if pair is None:
                cells.append("·")
                continue
            won = pair.wins if self.less_is_better else pair.losses
            cells.append(f"{won}{'*' if self.better(pair.verdict) else ' '}")
        return cells

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""

        def interval(one: Interval | None) -> list[float] | None:
            return None if one is None else [one.mean, one.low, one.high]

        def pair(one: Pair) -> dict[str, Any]:
            names = ("p", "p_holm", "rank_biserial", "dz", "wins", "losses", "ties")
            plain = {name: getattr(one, name) for name in names}
            bounds = {"difference": interval(one.difference), "bootstrap": interval(one.bootstrap)}
            words = (self.too_few or TOO_CLOSE) if one.verdict == TOO_CLOSE else one.verdict
            return {**bounds, **plain, "relevant": self.relevant(one), "verdict": words}

        return {
            "metric": self.metric,
            "baseline": self.baseline,
            "unit": self.unit,
            self.unit: self.seeds,
            **({"neighbours_alike": self.neighbour_correlation} if self.unit == BATCHES else {}),
            **({"tasks_needed": self.tasks_needed} if self.unit == BATCHES else {}),
            "schedulers": {
                rank.name: {
                    "mean": interval(rank.value),
                    "bootstrap": interval(rank.bootstrap),
                    "ratio_to_baseline": rank.ratio,
                    "against_baseline": None if rank.pair is None else pair(rank.pair),
                    "regret": interval(rank.regret),
                    "makespan_over_bound": interval(rank.over_bound),
                    "latency_over_bound": interval(rank.latency_over_bound),
                }
                for rank in self.ranking
            },
            "pairs": [{"first": a, "second": b, **pair(test)} for (a, b), test in self.pairs.items()],
        }


@dataclass(frozen=True)
class PairedComparison:
    """Results of all seeds of one specification."""

    spec: ExperimentSpec
    runs: tuple[SeedRun, ...]
    stopped_early: bool = False

    @property
    def one_run(self) -> bool:
        """Whether it is a trace, whose batches are compared."""
        return self.spec.trace is not None

    def samples(self, metric: str) -> dict[str, Floats]:
        """Return one value per seed, or per batch of a trace, for every scheduler."""
        check_metric(metric)
        if self.one_run and metric in self.runs[0].batches[self.spec.schedulers[0]]:
            return {name: np.array(self.runs[0].batches[name][metric]) for name in self.spec.schedulers}
        return self.by_seed(metric)

    def by_seed(self, metric: str) -> dict[str, Floats]:
        """Return one value per seed for every scheduler; a trace has one."""
        return {
            # Results that an older version saved have fewer metrics.
            name: np.array([_number(run.metrics[name].get(metric)) for run in self.runs])
            for name in self.spec.schedulers
        }

    @cached_property
    def metrics(self) -> list[str]:
        """Names of the numbers in each summary."""
        return list(next(iter(self.runs[0].metrics.values())))

    def test_pairs(self, metric: str = DEFAULT_METRIC, baseline: str | None = None) -> PairwiseTests:
        """Test every pair of schedulers on one metric.

        Raises
        ------
        InvalidInputError
            If a run lacks the metric.
        UnknownNameError
            If the metric or the baseline is unknown.
        """
        check_metric(metric, one_run=self.one_run)
        samples = self.samples(metric)
        reference_name = baseline_of(self.spec, baseline)
        missing = [name for name, values in samples.items() if not np.isfinite(values).all()]
        if missing:
            raise InvalidInputError("metric", "one that every run has", metric, where=missing[0])
        rng = np.random.default_rng(_RESAMPLING_SEED)
        exact = self.spec.repeats_itself and len(self.runs) == 1
        idle = [name for name in samples if metric in _OF_LATENCY and self._slowdown(name) <= _WITHOUT_QUEUES]
        pairs = (
            exact_pairs(samples)
            if exact
            else compare_pairs(samples, rng, one_run=self.one_run, without_queues=idle)
        )
        reference = float(samples[reference_name].mean())
        ranking = [
            SchedulerRank(
                name,
                self._mean_interval(metric, name, values),
                None if self.one_run or exact else bootstrap_interval(values, rng),
                float(values.mean()) / reference if reference else math.nan,
                pairs.get((name, reference_name)),
                self.interval("mean_regret", name),
                self.interval("makespan_over_bound", name),
                self.interval("latency_over_bound", name),
            )
            for name, values in samples.items()
        ]
        best_first = sorted(ranking, key=lambda s: s.value.mean, reverse=metric in _HIGHER_IS_BETTER)
        count = len(samples[reference_name])
        if not self.one_run:
            unit = _RUNS if exact else SEEDS
            return PairwiseTests(metric, reference_name, count, tuple(best_first), pairs, unit)
        needed = {
            name: self.tasks_needed(name)
            for name in samples
            if metric in _OF_LATENCY and self.tasks_needed(name) > self.spec.tasks
        }
        gaps = [values - samples[reference_name] for values in samples.values()]
        correlation = max(lag1_autocorrelation(gap) for gap in gaps if not trend_direction(gap))
        return PairwiseTests(metric, reference_name, count, tuple(best_first), pairs, BATCHES, correlation, needed)

    @property
    def latency_bound(self) -> float | None:
        """Lower bound on the mean latency, the mean over the seeds; None where it was not computed."""
        name = self.spec.schedulers[0]
        means = self.by_seed(DEFAULT_METRIC)[name]
        ratios = self.by_seed("latency_over_bound")[name]
        return float((means / ratios).mean()) if np.isfinite(ratios).all() else None

    def verdict(self, tests: PairwiseTests, detailed: Comparison | None = None) -> Verdict | None:
        """Return the leader by mean latency and the causes; None for tests of another metric.

        Parameters
        ----------
        tests
            Tests of all pairs.
        detailed
            A run of one seed that explains the losses; by default the first seed, if it was run and not read.
        """
        if tests.metric != DEFAULT_METRIC:
            return None
        explained = self.runs[0].evidence
        if detailed is not None:
            explained = {name: detailed.evidence(name) for name in detailed.results}
        evidence = [
            self._mean_evidence(rank, explained.get(rank.name) or Evidence(rank.name, label_of(rank.name), 0, None))
            for rank in tests.ranking
        ]

        def differs(first: str, second: str) -> bool | None:
            return None if tests.too_few else tests.pairs[first, second].verdict != TOO_CLOSE

        return judge_evidence(evidence, self.latency_bound, differs=differs, too_few=tests.too_few)

    def _mean_evidence(self, rank: SchedulerRank, one_seed: Evidence) -> Evidence:
        """Return the evidence of one seed with the means over all seeds."""
        name = rank.name

        def mean(metric: str) -> float | None:
            values = self.by_seed(metric)[name]
            return float(values.mean()) if np.isfinite(values).all() else None

        tasks = self.by_seed("tasks")[name]
        done = tasks - self.by_seed("failed")[name]
        half = rank.value.half_width
        return replace(
            one_seed,
            tasks=int(tasks.sum()),
            mean_latency=rank.value.mean,
            half_width=half if math.isfinite(half) else None,
            mean_time=mean("mean_time"),
            mean_wait=mean("mean_wait"),
            p99_latency=mean("p99_latency"),
            mean_energy=float((self.by_seed("energy")[name] / done).mean()),
            mean_cost=float((self.by_seed("cost")[name] / done).mean()),
        )

    def interval(self, metric: str, name: str) -> Interval | None:
        """Return the interval of one scheduler's number; None where a run lacks it.

        A single value is its own interval.
        """
        values = self.samples(metric)[name]
        if not np.isfinite(values).all():
            return None
        return self._mean_interval(metric, name, values)

    def _mean_interval(self, metric: str, name: str, values: Floats) -> Interval:
        if len(values) == 1:
            return Interval(float(values[0]), float(values[0]), float(values[0]))
        if not self.one_run:
            return skewed_interval(values)
        if metric in _OF_LATENCY and self.tasks_needed(name) > self.spec.tasks:
            return Interval(float(values.mean()), -math.inf, math.inf)
        return dependent_interval(values)

    def tasks_needed(self, name: str) -> int:
        """Return how many tasks a trace needs for an interval of this scheduler's latency; 0 for a scenario."""
        if self.spec.trace is None:
            return 0
        return values_needed(self._slowdown(name), self.spec.trace.workload.duration_estimate)

    def _slowdown(self, name: str) -> float:
        """Return mean latency over mean execution time of the first run."""
        numbers = self.runs[0].metrics[name]
        latency = _number(numbers["mean_latency"])
        time = _number(numbers["mean_time"])
        return latency / time if time > 0 else 1.0


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
