"""Published claims about these schedulers, each tested in its published meaning.

A claim says within which range a number should lie. It holds if the 95 % interval of the measured number lies
inside, fails if it lies outside, and is open otherwise. Where a document names no metric or workload, every
reasonable reading is a row of its own.

    python -m studies.results_book --measure --only cases,claims,shift --out DIR      about twenty CPU minutes
    python -m studies.results_book --write --out DIR

Result: the tables of RESULTS.md.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hybrid_scheduler.core import Floats, workstation
from hybrid_scheduler.engine import compare
from hybrid_scheduler.experiments.distribution_shift import PUBLISHED as PUBLISHED_SHIFT
from hybrid_scheduler.experiments.distribution_shift import (
    TEST_TASKS,
    ShiftRun,
    shift_rows,
)
from hybrid_scheduler.learning import OfflineTrainer
from hybrid_scheduler.learning.duration.features import features
from hybrid_scheduler.learning.predictors import PREDICTORS
from hybrid_scheduler.metrics.statistics import Interval, skewed_interval
from hybrid_scheduler.physics import AnalyticPhysics, Tariff, dollars_per_second
from hybrid_scheduler.profiling import profile_named
from hybrid_scheduler.workload.scenarios import generate, scenario_named

from .book_cases import BookCase, make_spec

if TYPE_CHECKING:
    from .measurements import Raw

HOLDS, FAILS, OPEN = "yes", "no", "open: the interval crosses the edge"
#: Claims about learning are slow to measure: so many seeds.
_FEW = 5


#: Measures the claims that no command of the program covers.
CLAIMS_COMMAND = "python -m studies.results_book --measure --only claims --out DIR"


#: How many times faster the published agent is than the forest.
PUBLISHED_SPEEDUP = 6.0


def speedup_over_frozen(runs: Sequence[dict[str, ShiftRun]]) -> Floats:
    """Return, by seed, how many times faster the published agent is than the forest that is trained once."""
    return np.array([seed["frozen_forest"].total / seed["dqn"].total for seed in runs])


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim: `words` is the claim, `what` the number that tests it, `command` a way to see it."""

    words: str
    what: str
    interval: Interval
    low: float = -math.inf
    high: float = math.inf
    command: str = CLAIMS_COMMAND

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
                "claimed": [self.low, self.high], "verdict": self.verdict, "command": self.command}  # fmt: skip


def cases(tasks: int) -> list[BookCase]:
    """Return the comparisons that only claims need."""
    naive = ("round_robin", "greedy")
    fixed, learned = ("cpu_only", "gpu_only"), ("hybrid_ml", "rl_agent")
    return [
        BookCase("claims, batch", "", make_spec(
            "mixed", (*fixed, *naive, *learned, "oracle"), None, tasks // 2
        ), "oracle", ""),
        BookCase("claims, low", "", make_spec(
            "mixed", (*fixed, *naive, "min_completion", *learned, "oracle"), 0.1, tasks
        ), "oracle", ""),
        BookCase("claims, busy", "", make_spec("mixed", naive, 0.7, tasks), "greedy", ""),
        BookCase("claims, near", "", make_spec("mixed", ("price_index", "oracle"), 0.95, tasks), "oracle", ""),
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------ measured per seed


def _rent(seed: int, tasks: int) -> float:
    """Return the share of mixed tasks that are cheaper whole on the CPU, with rent and electricity."""
    dollars = dollars_per_second(workstation(), Tariff())
    whole = _whole_seconds(seed, tasks)
    return float((whole[:, 0] * dollars[0] < whole[:, 1] * dollars[1]).mean())


def _whole_seconds(seed: int, tasks: int) -> Floats:
    """Return the seconds of mixed tasks whole on the CPU and whole on a GPU, without queues."""
    platform, physics = workstation(), AnalyticPhysics()
    workload = generate(scenario_named("mixed"), tasks, seed, batch=True)
    table = physics.times(workload, platform)[:, physics.columns(platform)]
    both: Floats = table.sum(axis=2)[:, :2]
    return both


def _speedup(seed: int, tasks: int) -> float:
    """Return how much faster the GPU runs a mixed task, in the mean."""
    whole = _whole_seconds(seed, tasks)
    return float((whole[:, 0] / whole[:, 1]).mean())


def _small_tasks(seed: int, tasks: int) -> float:
    """Return the fraction that the oracle gives a GPU of tasks below 200 MB."""
    workload = generate(scenario_named("mixed"), tasks, seed, utilisation=0.1)
    outcomes = compare(workload, ["oracle"]).results["oracle"].outcomes
    return float(outcomes.fraction[workload.memory_required < 200].mean())


def _raw_reward(seed: int, tasks: int) -> list[float]:
    """Return energy's part of the raw reward's spread, and how often it picks what each goal alone picks.

    Options are shares of 0, 0.1, ..., 1 of a mixed task without queues; the reward is 0.5 s + 0.5 J.
    """
    whole = _whole_seconds(seed, tasks)
    share = np.linspace(0.0, 1.0, 11)
    on_cpu, on_gpu = (1.0 - share) * whole[:, :1], share * whole[:, 1:]
    seconds, joules = np.maximum(on_cpu, on_gpu), 30.0 * on_cpu + 50.0 * on_gpu
    spread, energy_spread = np.ptp(seconds, axis=1), np.ptp(joules, axis=1)
    raw = (0.5 * seconds + 0.5 * joules).argmin(axis=1)
    return [
        float((energy_spread / (spread + energy_spread)).mean()),
        float((raw == joules.argmin(axis=1)).mean()),
        float((raw == seconds.argmin(axis=1)).mean()),
    ]


def _energy_alone(seed: int, tasks: int) -> float:
    """Return the share of mixed tasks that the agent runs on the CPU alone with `energy_weight=1`."""
    name = "rl_agent(energy_weight=1)"
    workload = generate(scenario_named("mixed"), tasks, seed, utilisation=0.1)
    return float(compare(workload, [name], seed=seed).summaries[name].cpu_only_share)


def _forest(seed: int, tasks: int) -> list[float]:
    """Return mean absolute error and R² of a forest that predicts the best fraction."""
    workload = generate(scenario_named("mixed"), tasks // 2, seed, batch=True)
    trainer = OfflineTrainer("random_forest", target="fraction", seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        metrics = trainer.run_full_pipeline(workload, Path(folder) / "forest.skops")["metrics"]
    return [metrics["mae"], metrics["test_r2"]]


def _training(seed: int, tasks: int) -> list[float]:
    """Return R² on its own training data of a forest that predicts durations, and XGBoost's CPU time over its."""
    workload = generate(scenario_named("mixed"), tasks // 2, seed, batch=True)
    train_r2 = OfflineTrainer("random_forest", seed=seed).run_full_pipeline(workload)["metrics"]["train_r2"]
    inputs = features(workload)
    labels = np.log(_whole_seconds(seed, tasks // 2))
    seconds = []
    for name in ("xgboost", "random_forest"):
        model = PREDICTORS[name](seed=seed, n_estimators=100).make()
        began = time.process_time()
        model.fit(inputs, labels)
        seconds.append(time.process_time() - began)
    return [train_r2, seconds[0] / seconds[1]]


def _warm_up(seed: int, tasks: int) -> float:
    """Return the latency of tasks 101 to 200 without a model, over earliest finish."""
    names = ("hybrid_ml(model=None)", "earliest_finish")
    results = make_spec("mixed", names, 0.5, max(200, min(tasks, 1000))).run(seed).results
    mine, reference = (results[name].outcomes.latency[100:200] for name in names)
    return float(mine.mean() / reference.mean())


def _concentration(seed: int, tasks: int) -> float:
    """Return the share of 100 tasks in a row on their most used device, in the second half of a run."""
    scheduler = "dqn"
    count = max(200, tasks)
    device = make_spec("mixed", (scheduler,), 0.5, count).run(seed).results[scheduler].outcomes.device
    return float(np.mean([np.bincount(device[i : i + 100]).max() / 100 for i in range(count // 2, count, 100)]))


#: Name -> function of (seed, tasks).
PER_SEED: dict[str, Callable[[int, int], Any]] = {
    "rent": _rent, "speedup": _speedup, "small tasks": _small_tasks, "raw reward": _raw_reward,
    "energy alone": _energy_alone, "forest": _forest, "training": _training, "warm-up": _warm_up,
    "concentration": _concentration,
}  # fmt: skip
_LEARNING = ("energy alone", "forest", "training", "warm-up", "concentration")


def seeds_of(name: str, seeds: Sequence[int]) -> Sequence[int]:
    """Return the seeds on which a number is measured: few where a learner is trained."""
    return seeds[:_FEW] if name in _LEARNING else seeds


# ------------------------------------------------------------------------------------------ claims


def claims(raw: Raw) -> list[Claim]:
    """Test all claims on measured runs."""
    of = {case.key: raw.comparison(case) for case in cases(raw.tasks)}
    seen = {name: np.array(raw.by_seed("claims", name)) for name in PER_SEED}
    return [*_speed(of), *_oracle(of), *_money(of, seen), *_learning(of, seen), *_machine(), *shift_claims(raw)]


def _ratio(found: Any, metric: str, above: str, below: str) -> Interval:
    samples = found.samples(metric)
    return skewed_interval(samples[above] / samples[below])


def _saved(found: Any, metric: str, mine: str, other: str) -> Interval:
    samples = found.samples(metric)
    return skewed_interval(1.0 - samples[mine] / samples[other])


def _command(kind: str, schedulers: str, metric: str) -> str:
    load = "--batch --tasks 1000" if kind == "batch" else f"--utilisation {kind}"
    return (
        f"hybrid-scheduler compare --scenario mixed {load} --schedulers {schedulers} --metric {metric} --seeds 20"
    )


def _speed(of: dict[str, Any]) -> list[Claim]:
    batch, low = of["claims, batch"], of["claims, low"]
    faster = "Hybrid ML is 1.05 to 1.15 times as fast as greedy"
    saves = "The RL agent's makespan on the mixed workload is 15 to 20 % below that of"
    rows = [
        Claim(faster, "makespan of greedy / Hybrid ML, mixed batch",
              _ratio(batch, "makespan", "greedy", "hybrid_ml"), 1.05, 1.15,
              _command("batch", "greedy,hybrid_ml", "makespan")),
        Claim(faster, "mean latency of greedy / Hybrid ML, mixed at 0.1",
              _ratio(low, "mean_latency", "greedy", "hybrid_ml"), 1.05, 1.15,
              _command("0.1", "greedy,hybrid_ml", "mean_latency")),
        Claim(faster, "mean execution time of greedy / Hybrid ML, mixed at 0.1",
              _ratio(low, "mean_time", "greedy", "hybrid_ml"), 1.05, 1.15,
              _command("0.1", "greedy,hybrid_ml", "mean_time")),
    ]  # fmt: skip
    for other in ("greedy", "round_robin"):
        for kind, found, words in (("batch", batch, "mixed batch"), ("0.1", low, "mixed at 0.1")):
            rows.append(
                Claim(f"{saves} {other}", f"share of makespan saved, {words}",
                      _saved(found, "makespan", "rl_agent", other), 0.15, 0.20,
                      _command(kind, f"{other},rl_agent", "makespan"))
            )  # fmt: skip
    rows.append(
        Claim("Hybrid ML is 1.2 to 1.4 times as fast as round robin", "makespan of round robin / Hybrid ML, "
              "mixed batch", _ratio(batch, "makespan", "round_robin", "hybrid_ml"), 1.2, 1.4,
              _command("batch", "round_robin,hybrid_ml", "makespan"))
    )  # fmt: skip
    return rows


def _oracle(of: dict[str, Any]) -> list[Claim]:
    low, near = of["claims, low"], of["claims, near"]
    return [
        Claim("Placing whole tasks comes within 5 % of the oracle", "mean latency of the best whole placement / "
              "oracle, mixed at 0.1", _ratio(low, "mean_latency", "min_completion", "oracle"), 1.0, 1.05,
              _command("0.1", "oracle,min_completion", "mean_latency")),
        Claim("The oracle cannot be beaten", "mean latency of price_index / oracle, mixed at 0.95",
              _ratio(near, "mean_latency", "price_index", "oracle"), 1.0, math.inf,
              _command("0.95", "oracle,price_index", "mean_latency")),
        Claim("Learned schedulers reach a load balance of 0.90 to 0.95", "Jain index over all devices, Hybrid ML, "
              "mixed batch", skewed_interval(of["claims, batch"].samples("load_balance")["hybrid_ml"]), 0.90, 0.95,
              _command("batch", "greedy,hybrid_ml", "load_balance")),
    ]  # fmt: skip


def _money(of: dict[str, Any], seen: dict[str, Floats]) -> list[Claim]:
    batch, low = of["claims, batch"], of["claims, low"]
    return [
        Claim("Speed costs five times the money", "cost of the oracle / CPU only, mixed batch",
              _ratio(batch, "cost", "oracle", "cpu_only"), 4.5, 5.5, _command("batch", "cpu_only,oracle", "cost")),
        Claim("With rent the CPU is cheaper for every task", "share of mixed tasks",
              skewed_interval(seen["rent"]), 1.0),
        Claim("Using the GPUs saves energy", "energy of GPU only / CPU only, mixed at 0.1",
              _ratio(low, "energy", "gpu_only", "cpu_only"), 0.0, 1.0,
              _command("0.1", "cpu_only,gpu_only", "energy")),
        Claim("Using the GPUs saves energy", "energy of the oracle / CPU only, mixed at 0.1",
              _ratio(low, "energy", "oracle", "cpu_only"), 0.0, 1.0, _command("0.1", "cpu_only,oracle", "energy")),
        Claim("A GPU runs a task 1.7 to 2.5 times as fast", "CPU seconds / GPU seconds with transfer, "
              "mean over mixed tasks", skewed_interval(seen["speedup"]), 1.7, 2.5),
        Claim("`energy_weight=1` always chooses the CPU", "share of mixed tasks on the CPU alone at 0.1",
              skewed_interval(seen["energy alone"]), 0.99, 1.0, "python -m studies.time_energy_pareto"),
        Claim("Raw 0.5 time + 0.5 energy weighs energy alone", "share of mixed tasks for which it picks the share "
              "of energy alone", skewed_interval(seen["raw reward"][:, 1]), 0.99, 1.0),
        Claim("Raw 0.5 time + 0.5 energy weighs both alike", "energy's part of the reward's spread over the shares "
              "of a task", skewed_interval(seen["raw reward"][:, 0]), 0.45, 0.55),
    ]  # fmt: skip


def _learning(of: dict[str, Any], seen: dict[str, Floats]) -> list[Claim]:
    return [
        Claim("A forest predicts the best fraction with an error of 0.05 to 0.15", "mean absolute error, "
              "1,000 mixed tasks", skewed_interval(seen["forest"][:, 0]), 0.05, 0.15),
        Claim("Its R² is 0.78 to 0.82", "test R²", skewed_interval(seen["forest"][:, 1]), 0.78, 0.82),
        Claim("R² on the training data is 0.80 to 0.85", "train R² of durations, 1,000 mixed tasks",
              skewed_interval(seen["training"][:, 0]), 0.80, 0.85),
        Claim("A random forest trains faster than XGBoost", "CPU seconds of XGBoost / random forest, 100 trees "
              "each, 1,000 mixed tasks", skewed_interval(seen["training"][:, 1]), 1.0),
        Claim("A learner needs 1,000 tasks to warm up", "latency without a model / earliest finish, "
              "tasks 101 to 200, mixed at 0.5", skewed_interval(seen["warm-up"]), 1.05),
        Claim("An agent that sees only the task and picks a device by name sends everything to one device",
              "share of 100 tasks in a row on their most used device, second half of 2,000 tasks, mixed at 0.5",
              skewed_interval(seen["concentration"]), 0.9, 1.0),
        Claim("Tasks below 200 MB do not go to a GPU", "GPU fraction the oracle gives them, mixed at 0.1",
              skewed_interval(seen["small tasks"]), 0.0, 0.05),
    ]  # fmt: skip


def _machine() -> list[Claim]:
    """Test what was claimed of an M4 Max on the machine whose profile ships: no M4 Max was at hand."""
    profile = profile_named("h200")
    share, bandwidth = profile.gpu_fraction, profile.cpu_memory_bandwidth
    ratios = [p.cpu_gpu_ratio for p in profile.points if p.kernel == "matmul" and p.cpu_gpu_ratio is not None]
    assert share is not None
    assert bandwidth is not None
    where, command = "H200 machine; M4 Max not at hand", "hybrid-scheduler profile"

    def claim(words: str, what: str, value: float, low: float, high: float) -> Claim:
        return Claim(words, f"{what}, {where}", Interval(value, value, value), low, high, command)

    return [
        claim("The GPU gets 30 to 45 % of the work", "GPU share of a balanced split", share, 0.30, 0.45),
        claim("Memory moves 400 GB/s or more", "GB/s of the CPU's memory", bandwidth / 1e9, 400.0, math.inf),
        claim("The GPU is 60 % faster on matrix products", "CPU time / GPU time, geometric mean over sizes",
              float(np.exp(np.mean(np.log(ratios)))), 1.5, 1.7),
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------ shift study


def shift_runs(raw: Raw) -> list[dict[str, ShiftRun]]:
    """Return the measured runs of the shift study, by seed."""
    seeds = raw.section("shift")
    return [{name: ShiftRun(**one) for name, one in seeds[key].items()} for key in sorted(seeds)]


def shift_table(raw: Raw) -> list[list[str]]:
    """Return the published table of the shift study beside ours, as rows of text."""
    runs = shift_runs(raw)
    rows = []
    for row in shift_rows(runs):
        totals = [one[row.name].total for one in runs]
        published = PUBLISHED_SHIFT.get(row.name)
        inside = "–" if published is None else "yes" if min(totals) <= published[0] <= max(totals) else "no"
        never = row.recovery_worst is None
        rows.append([
            row.name, *(("–", "–") if published is None else (f"{published[0]:.2f}", f"{published[1]:.2f}")),
            row.published_status or "–", row.status, f"{row.total:.2f} ({min(totals):.2f} to {max(totals):.2f})",
            f"{row.total / TEST_TASKS:.3f}", f"{row.ratio:.3f} ± {row.ratio_interval:.3f}",
            "not on every seed" if never else f"after {row.recovery_median:g} (at most {row.recovery_worst})",
            inside,
        ])  # fmt: skip
    return rows


def shift_claims(raw: Raw) -> list[Claim]:
    """Test what the shift study claims about its two learners."""
    runs, command = shift_runs(raw), "hybrid-scheduler shift"
    recovered = np.array([float(seed["dqn"].recovery is not None) for seed in runs])
    lost = np.array([float(seed["frozen_forest"].recovery is None) for seed in runs])
    faster = skewed_interval(speedup_over_frozen(runs))
    return [
        Claim("The agent is about 6 times as fast as the forest trained offline",
              "sum of times of frozen_forest / dqn", faster, PUBLISHED_SPEEDUP - 0.5, PUBLISHED_SPEEDUP + 0.5,
              command),
        Claim("The agent adapts to the other tasks", "share of seeds on which dqn came within 5 % of the optimum "
              "over 20 tasks", skewed_interval(recovered), 0.99, 1.0, command),
        Claim("The forest trained offline does not", "share of seeds on which frozen_forest never came within 5 %",
              skewed_interval(lost), 0.99, 1.0, command),
    ]  # fmt: skip


SHIFT_HEAD = (
    "scheduler", "published sum, s", "published mean, s", "published status", "our status",
    "our sum, s (range over seeds)", "our mean, s", "our sum / optimum", "recovered",
    "published sum within our range",
)  # fmt: skip
