"""Placement of real kernels by learners after 200 of them, over many streams with the H200's measured times.

    python -m studies.kernel_learning --seeds 60              a minute or two on one core
    python -m studies.kernel_learning --policies --out FILE   schedulers as executors have them, and other forms

Result: quoted in docs/results/h200/README.md and docs/guide/schedulers/learned.md. One run on a real machine says
little: the order of the kernels and the disturbances vary. So the machine is simulated from its profile, with
disturbances as seen on it: times vary, now and then milliseconds are added, some kernels take twice as long at
times, and a GPU's first run of a size pays for plans. Each kernel runs alone. Only executed parts are learned
from; after 200 kernels, 200 at other sizes are scored. With --split kernels may be divided; each part then pays
for its start, and the devices slow each other down.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from hybrid_scheduler.core import Decision, Floats, Online, Outcome, Platform, Setting, Task, View
from hybrid_scheduler.experiments import FIRST_REPORTED_SEED
from hybrid_scheduler.learning.duration.duration_files import load_prior
from hybrid_scheduler.learning.duration.hierarchical_learner import HierarchicalLearner
from hybrid_scheduler.learning.duration.learner_state import MEASURED_FIT, MEASURED_LIMITS
from hybrid_scheduler.physics import ProfiledPhysics
from hybrid_scheduler.profiling.calibration import calibrate, platform_of
from hybrid_scheduler.profiling.hardware_profile import profile_named
from hybrid_scheduler.profiling.kernels import KERNELS
from hybrid_scheduler.runtime.device_discovery import DevicePool, as_platform
from hybrid_scheduler.runtime.executor_scheduler import executor_scheduler
from hybrid_scheduler.runtime.kernel_split import can_split
from hybrid_scheduler.runtime.kernel_stream import as_workload, make_stream

LEARNING = 200
_LARGEST = 8192
_LIMITS = {"sort": 2048}
#: Spread of ordinary runs; how often something adds milliseconds, and how many; seconds of a first run on the GPU.
_SIGMA, _OFTEN, _ADDED, _FIRST = 0.12, 0.04, (2e-3, 9e-3), 1.5e-3
#: Kernels that are bound by memory, and how often they take twice as long on the CPU.
_BIMODAL, _TWICE = ("sparse", "elementwise"), 0.2
#: Slowdown of a part while the other one runs, and the seconds that each part pays for its start.
_SLOWDOWN, _START = 1.2, (0.15e-3, 0.4e-3)


@cache
def machine(name_or_path: str) -> Platform:
    """Return a profile's machine as the executor describes it: nothing is known of its speed."""
    return as_platform([DevicePool(one.name, one.kind) for one in platform_of(profile_named(name_or_path)).devices])


@cache
def _physics(name_or_path: str) -> ProfiledPhysics:
    return calibrate(profile_named(name_or_path)).physics


#: Schedulers that are compared: as executors have them, from nothing, without a part, and as simulated by default.
POLICIES: dict[str, Callable[[], Online]] = {
    "hybrid_ml": lambda: executor_scheduler("hybrid_ml"),
    "rl_agent": lambda: executor_scheduler("rl_agent"),
    "hybrid_ml, from nothing": lambda: executor_scheduler("hybrid_ml(model=None)"),
    "hybrid_ml, no local correction": lambda: HierarchicalLearner(False, MEASURED_LIMITS, prior=load_prior()),
    "hybrid_ml, cautious trials": lambda: HierarchicalLearner(False, prior=load_prior(), local=MEASURED_FIT),
    "hybrid_ml(measured=False)": lambda: executor_scheduler("hybrid_ml(measured=False)"),
}


def choice_ratio(spec: str, seed: int, profile: str = "h200", split: bool = False) -> float:
    """Return the seconds of the choices over the seconds of the best device, both undisturbed."""
    return choice_ratios(executor_scheduler(spec), seed, profile, split)[1]


def choice_ratios(policy: Online, seed: int, profile: str = "h200", split: bool = False) -> tuple[float, float]:
    """Return the ratio of the choices to the best device among the first 200 kernels, and among the others."""
    calls = [
        call
        for half in (0, 1)
        for call in make_stream(list(KERNELS), LEARNING, seed=seed, largest=_LARGEST, half=half, limits=_LIMITS)
    ]
    workload = as_workload(calls, [1000.0 * row for row in range(len(calls))])
    platform = machine(profile)
    seconds = _physics(profile).times(workload, platform).sum(axis=2)
    policy.start(Setting(platform, seed=seed))
    rng, idle, nan = np.random.default_rng(seed), np.zeros(len(platform)), float("nan")
    ran: set[tuple[str, int]] = set()
    gpu = platform.devices[1].kind == "gpu"
    chosen = np.zeros(len(calls))
    for row, call in enumerate(calls):
        task = replace(workload[row], divisible=split and _divisible(workload[row]))
        now = task.arrival_time
        share = _whole(policy.decide(task, View(now, idle, platform)), split)
        parts = _parts(share, seconds[row])
        chosen[row] = parts.max()
        parts *= rng.lognormal(0.0, _SIGMA)
        parts[parts > 0] += rng.uniform(*_ADDED) * (rng.random() < _OFTEN)
        if share > 0 and gpu and (call.kind, call.size) not in ran:
            ran.add((call.kind, call.size))
            parts[1] += _FIRST
        if share < 1 and call.kind in _BIMODAL and rng.random() < _TWICE:
            parts[0] *= 2
        host, there = parts.tolist()
        policy.observe(
            Outcome(
                task.task_id, int(share > 0), share, now, now if host else nan, host, now if there else nan, there
            )
        )
    first, later = slice(None, LEARNING), slice(LEARNING, None)
    best = seconds.min(axis=1)
    return float(chosen[first].sum() / best[first].sum()), float(chosen[later].sum() / best[later].sum())


def _whole(decision: Decision, split: bool) -> float:
    return decision.fraction if split else float(decision.fraction >= 0.5)


def _divisible(task: Task) -> bool:
    return can_split(task.kind, KERNELS[task.kind].bytes_in(int(task.size)))


def _parts(share: float, whole: Floats) -> Floats:
    """Return the undisturbed seconds on the CPU and on the GPU."""
    shares = np.array([1.0 - share, share])
    return shares * whole if share in (0.0, 1.0) else shares * whole * _SLOWDOWN + _START


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedulers", default="hybrid_ml,rl_agent")
    parser.add_argument("--seeds", type=int, default=60, help=f"streams, seeds from {FIRST_REPORTED_SEED} on")
    parser.add_argument("--profile", default="h200", help="name of a built-in profile, or a file")
    parser.add_argument("--split", action="store_true", help="kernels may be divided")
    parser.add_argument("--policies", action="store_true", help="compare forms of the learners")
    parser.add_argument("--out", type=Path, help="file for the comparison of policies")
    options = parser.parse_args()
    seeds = range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + options.seeds)
    if options.policies:
        text = compared(seeds, options.profile)
        print(text)
        if options.out is not None:
            options.out.write_text(text, encoding="utf-8")
        return
    print(f"{'scheduler':12s}{'streams':>9s}{_HEADER}")
    for spec in options.schedulers.split(","):
        found = np.array([choice_ratio(spec, seed, options.profile, options.split) for seed in seeds])
        print(f"{spec:12s}{len(found):9d}{_row(found)}", flush=True)


_HEADER = f"{'mean':>8s}{'median':>8s}{'p90':>8s}{'worst':>8s}{'above 1.10':>12s}"


def _row(found: Floats) -> str:
    middle, high = np.quantile(found, (0.5, 0.9))
    above = int((found > 1.10).sum())
    return f"{found.mean():8.3f}{middle:8.3f}{high:8.3f}{found.max():8.3f}{above:12d}"


def compared(seeds: range, profile: str) -> str:
    """Return a table of the policies: the first 200 kernels, and the 200 after them."""
    lines = [
        f"{len(seeds)} streams, seeds from {seeds[0]} on; seconds of the choices over those of the best device."
    ]
    lines += [f"{'policy':34s}{'kernels':>10s}{_HEADER}"]
    for name, make in POLICIES.items():
        ratios = np.array([choice_ratios(make(), seed, profile) for seed in seeds])
        for column, kernels in enumerate(("first 200", "next 200")):
            lines.append(f"{name if column == 0 else '':34s}{kernels:>10s}{_row(ratios[:, column])}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
