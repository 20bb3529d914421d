"""Published or common claims about these schedulers, each tested.

A claim says within which range a number should lie. It holds if the 95 % interval of the measured number lies
inside, fails if it lies outside, and is open otherwise.

    python -m studies.published_claims          about ten minutes on two cores

Result: printed; `python -m studies.results_book` writes it into RESULTS.md.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hybrid_scheduler.core import Floats, workstation
from hybrid_scheduler.engine import compare
from hybrid_scheduler.experiments.paired_comparison import PairedComparison, compare_seeds
from hybrid_scheduler.experiments.spec import ExperimentSpec, single_threaded
from hybrid_scheduler.learning import OfflineTrainer
from hybrid_scheduler.metrics.statistics import Interval, t_interval
from hybrid_scheduler.physics import AnalyticPhysics, Tariff, dollars_per_second
from hybrid_scheduler.workload.scenarios import generate, scenario_named

HOLDS, FAILS, OPEN = "yes", "no", "open: the interval crosses the edge"


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim: `words` is the claim, `what` the number that tests it."""

    words: str
    what: str
    interval: Interval
    low: float = -math.inf
    high: float = math.inf

    @property
    def verdict(self) -> str:
        """Whether the claim holds."""
        if self.low <= self.interval.low and self.interval.high <= self.high:
            return HOLDS
        return FAILS if self.interval.high < self.low or self.interval.low > self.high else OPEN

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        one = self.interval
        return {"claim": self.words, "what": self.what, "measured": [one.mean, one.low, one.high],
                "claimed": [self.low, self.high], "verdict": self.verdict}  # fmt: skip


def claims(studies: dict[str, PairedComparison], *, seeds: Sequence[int], tasks: int) -> list[Claim]:
    """Test all claims; `studies` are the comparisons of the results page by their key."""
    low = studies["low"]
    batch = _study("mixed", ("cpu_only", "round_robin", "hybrid_ml", "oracle"), None, tasks // 2, seeds)
    return [
        *_speed(low, batch),
        *_oracle(tasks, seeds),
        *_money(low, batch),
        *_learning(tasks, seeds),
        *_placement(seeds),
    ]


def _study(
    scenario: str, schedulers: tuple[str, ...], load: float | None, tasks: int, seeds: Sequence[int]
) -> PairedComparison:
    spec = ExperimentSpec(scenario_named(scenario), tasks, schedulers, utilisation=load, batch=load is None)
    return compare_seeds(spec, seeds)


def _ratio(found: PairedComparison, metric: str, above: str, below: str) -> Interval:
    samples = found.samples(metric)
    return t_interval(samples[above] / samples[below])


def _speed(low: PairedComparison, batch: PairedComparison) -> list[Claim]:
    latency = _ratio(low, "mean_latency", "round_robin", "hybrid_ml")
    times = low.samples("mean_time")
    saved = t_interval(1.0 - times["hybrid_ml"] / times["round_robin"])
    span = _ratio(batch, "makespan", "round_robin", "hybrid_ml")
    return [
        Claim("Hybrid ML is 1.05 to 1.15 times as fast as round robin",
              "latency of round robin / Hybrid ML, default at 0.1", latency, 1.05, 1.15),
        Claim("Hybrid ML saves 15 to 20 % of the time against round robin",
              "share of execution time saved, default at 0.1", saved, 0.15, 0.20),
        Claim("Hybrid ML is 1.2 to 1.4 times as fast as round robin",
              "makespan of round robin / Hybrid ML, mixed batch", span, 1.2, 1.4),
    ]  # fmt: skip


def _oracle(tasks: int, seeds: Sequence[int]) -> list[Claim]:
    found = _study("mixed", ("min_completion", "oracle", "earliest_finish"), 0.1, tasks, seeds)
    whole = _ratio(found, "mean_latency", "min_completion", "oracle")
    loaded = _study("mixed", ("price_index", "oracle"), 0.95, tasks, seeds)
    beaten = _ratio(loaded, "mean_latency", "price_index", "oracle")
    return [
        Claim("Placing whole tasks comes within 5 % of the oracle", "latency of the best whole placement / oracle, "
              "mixed at 0.1", whole, 1.0, 1.05),
        Claim("The oracle cannot be beaten", "latency of price_index / oracle, mixed at 0.95", beaten, 1.0),
    ]  # fmt: skip


def _money(low: PairedComparison, batch: PairedComparison) -> list[Claim]:
    cost = _ratio(batch, "cost", "oracle", "cpu_only")
    tariff, platform = Tariff(), workstation()
    dollars = dollars_per_second(platform, tariff)
    shares = []
    for seed in (run.seed for run in low.runs):
        workload = generate(scenario_named("mixed"), 2000, seed, batch=True)
        table = AnalyticPhysics().times(workload, platform)[:, AnalyticPhysics().columns(platform)]
        whole: Floats = table.sum(axis=2)
        shares.append(float((whole[:, 0] * dollars[0] < whole[:, 1] * dollars[1]).mean()))
    energy = _ratio(low, "energy", "oracle", "round_robin")
    return [
        Claim("Speed costs five times the money", "cost of the oracle / CPU only, mixed batch", cost, 4.5, 5.5),
        Claim("With rent the CPU is cheaper for every task", "share of mixed tasks",
              t_interval(np.array(shares)), 1.0),
        Claim("Using the GPUs saves energy", "energy of the oracle / round robin, default at 0.1",
              energy, 0.0, 1.0),
    ]  # fmt: skip


def _learning(tasks: int, seeds: Sequence[int]) -> list[Claim]:
    some = list(seeds)[:5] if len(seeds) > 5 else list(seeds)
    errors, scores = [], []
    for seed in some:
        workload = generate(scenario_named("mixed"), 1000, seed, batch=True)
        trainer = OfflineTrainer("random_forest", target="fraction", seed=seed)
        with tempfile.TemporaryDirectory() as folder, single_threaded(["hybrid_ml"]):
            found = trainer.run_full_pipeline(workload, Path(folder) / "forest.skops")
        errors.append(found["metrics"]["mae"])
        scores.append(found["metrics"]["test_r2"])
    scratch = _study("mixed", ("hybrid_ml(model=None)", "earliest_finish"), 0.5, min(tasks, 1000), some)
    warm = _first_tasks(scratch, 100)
    concentration = t_interval(np.array([_concentration(seed) for seed in some]))
    return [
        Claim("A forest predicts the best fraction with an error of 0.05 to 0.15", "mean absolute error, "
              "1,000 mixed tasks", t_interval(np.array(errors)), 0.05, 0.15),
        Claim("Its R² is 0.78 to 0.82", "test R²", t_interval(np.array(scores)), 0.78, 0.82),
        Claim("A learner needs 1,000 tasks to warm up", "latency without a model / earliest finish, "
              "tasks 101 to 200, mixed at 0.5", warm, 1.05),
        Claim("An agent that sees only the task and picks a device by name sends everything to one device",
              "share of 100 tasks in a row on their most used device, tasks 1,001 to 2,000, mixed at 0.5",
              concentration, 0.9, 1.0),
    ]  # fmt: skip


def _first_tasks(found: PairedComparison, block: int) -> Interval:
    """Return the latency of the second block of tasks over the reference's, seed by seed."""
    ratios = []
    for run in found.runs:
        results = found.spec.run(run.seed).results
        mine, reference = (results[name].outcomes.latency[block : 2 * block] for name in found.spec.schedulers)
        ratios.append(float(mine.mean() / reference.mean()))
    return t_interval(np.array(ratios))


def _concentration(seed: int) -> float:
    """Return the share of 100 tasks in a row on their most used device, once the agent no longer explores."""
    scheduler = "rl_agent(state=task,actions=placement)"
    spec = ExperimentSpec(scenario_named("mixed"), 2000, (scheduler,), utilisation=0.5)
    device = spec.run(seed).results[scheduler].outcomes.device
    return float(np.mean([np.bincount(device[i : i + 100]).max() / 100 for i in range(1000, 2000, 100)]))


def _placement(seeds: Sequence[int]) -> list[Claim]:
    small = []
    for seed in seeds:
        workload = generate(scenario_named("mixed"), 2000, seed, utilisation=0.1)
        outcomes = compare(workload, ["oracle"]).results["oracle"].outcomes
        small.append(float(outcomes.fraction[workload.memory_required < 200].mean()))
    words = "Tasks below 200 MB do not go to a GPU"
    return [
        Claim(words, "GPU fraction the oracle gives them, mixed at 0.1", t_interval(np.array(small)), 0.0, 0.05)
    ]


def main() -> None:
    """Test all claims from the command line."""
    from .results_book import claim_lines, parse_options, run_cases

    tasks, seeds = parse_options(__doc__)
    found = run_cases(tasks, seeds, only=("low",))
    print("\n".join(claim_lines(claims(found, seeds=seeds, tasks=tasks))))


if __name__ == "__main__":
    main()
