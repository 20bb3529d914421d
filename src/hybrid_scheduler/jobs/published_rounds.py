"""Published gains of policies that know how fast each job is on each accelerator.

Narayanan and others: Heterogeneity-aware cluster scheduling policies for deep learning
workloads. OSDI 2020.
The published jobs are drawn at random, so that only the order of the policies and their relative gains compare.

Rounds are taken as infinitely short: between arrivals and ends of jobs, each job has a share of time on each kind
of accelerator, and the shares are the solution of a linear program. A policy that does not know speeds solves the
same program as if all kinds were equally fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core import Floats, Ints
from .gavel_trace import Throughputs, read_gavel_trace
from .published_cell import MeanOfValues

_KINDS = ("v100", "p100", "k80")
#: Accelerators of each kind, as in the published simulations.
_EACH = 36
#: Weight of all progress beside that of the least served job, so that no accelerator idles.
_SPARE = 1e-3
_SEEDS = 5
#: Work that arrives, relative to what the accelerators could do if every job ran at its mean speed.
_LOAD = 1.0
Matrix = NDArray[np.float64]
#: Shares of time on each kind, from rates (steps per second), accelerators and steps left of each job.
Policy = Callable[[Matrix, Ints, Floats], Matrix]


def _shares(rates: Matrix, gpus: Ints, target: Floats) -> Matrix:
    """Return the shares with which the least ratio of progress to target is largest."""
    from scipy.optimize import linprog

    jobs, kinds = rates.shape
    count = jobs * kinds
    weights = (rates / target[:, None]).ravel()
    rows = np.repeat(np.arange(jobs), kinds)
    progress = np.zeros((jobs, count + 1))
    progress[rows, np.arange(count)] = -weights
    progress[:, count] = 1.0
    time = np.zeros((jobs, count + 1))
    time[rows, np.arange(count)] = 1.0
    held = np.zeros((kinds, count + 1))
    held[np.tile(np.arange(kinds), jobs), np.arange(count)] = np.repeat(gpus, kinds)
    limits = np.concatenate((np.zeros(jobs), np.ones(jobs), np.full(kinds, float(_EACH))))
    scale = weights.max()
    solved = linprog(
        np.append(-_SPARE * weights / scale / jobs, -1.0 / scale), np.vstack((progress, time, held)), limits
    )
    shares: Matrix = np.maximum(solved.x[:count].reshape(jobs, kinds), 0.0)
    return shares


def _unknowing(rates: Matrix) -> Matrix:
    return (rates > 0).astype(float)


def _greedy(rates: Matrix, gpus: Ints, order: Ints, fastest: bool) -> Matrix:
    """Return whole shares in an order: on the fastest free kind, or on the one with most free accelerators."""
    free = np.full(rates.shape[1], float(_EACH))
    shares = np.zeros_like(rates)
    for job in order:
        fits = (free >= gpus[job]) & (rates[job] > 0)
        if fits.any():
            kind = int(np.argmax(np.where(fits, rates[job] if fastest else free, -1.0)))
            shares[job, kind] = 1.0
            free[kind] -= gpus[job]
    return shares


POLICIES: dict[str, Policy] = {
    "FIFO": lambda rates, gpus, left: _greedy(rates, gpus, np.arange(len(gpus)), False),
    "Max-min": lambda rates, gpus, left: _shares(_unknowing(rates), gpus, np.ones(len(gpus))),
    "Gavel max-min": lambda rates, gpus, left: _shares(rates, gpus, rates.mean(axis=1)),
    "Gavel makespan": lambda rates, gpus, left: _shares(rates, gpus, left),
    "Shortest first on the fastest": lambda rates, gpus, left: _greedy(
        rates, gpus, np.argsort(left / rates.max(axis=1)), True
    ),
}
RULE = "Shortest first on the fastest"


@dataclass(frozen=True)
class _RoundJobs:
    submit: Floats
    steps: Floats
    gpus: Ints
    rates: Matrix


def simulate_shares(jobs: _RoundJobs, policy: Policy) -> Floats:
    """Return the end of every job."""
    left = jobs.steps.copy()
    end = np.full(len(left), np.nan)
    now = float(jobs.submit[0])
    while np.isnan(end).any():
        active = np.flatnonzero((jobs.submit <= now) & np.isnan(end))
        later = jobs.submit[jobs.submit > now]
        arrival = float(later.min()) if len(later) else np.inf
        if not len(active):
            now = arrival
            continue
        rates = jobs.rates[active]
        speed = (policy(rates, jobs.gpus[active], left[active]) * rates).sum(axis=1)
        with np.errstate(divide="ignore"):
            seconds = np.where(speed > 0, left[active] / speed, np.inf)
        step = min(float(seconds.min()), arrival - now)
        left[active] -= speed * step
        now += step
        end[active[(seconds <= step * (1 + 1e-9)) | (left[active] <= 1e-9 * jobs.steps[active])]] = now
    return end


@dataclass(frozen=True)
class GainCell(MeanOfValues):
    """One policy and measure: hours per seed, and gain over the policy that does not know speeds."""

    measure: str
    policy: str
    values: tuple[float, ...]
    gain: float
    published: float | None
    rule: float
    bound: float

    @property
    def verdict(self) -> str:
        """Comparison of the order in words."""
        if self.published is None:
            return "not in the published figures"
        return "same order" if self.gain > 1.0 else "other order"


#: Measure, policies, the one that does not know speeds, the one that does, and its published gain.
_TABLES = (
    ("makespan", ("FIFO", "Gavel makespan", RULE), "FIFO", "Gavel makespan", 1.4),
    ("mean completion time", ("FIFO", "Max-min", "Gavel max-min", RULE), "Max-min", "Gavel max-min", 3.5),
)


def gain_table(trace: str | Path, throughputs: Throughputs, *, seeds: int = _SEEDS) -> Iterator[list[GainCell]]:
    """Yield the cells of each measure for the jobs of a trace.

    The makespan is that of the file's jobs, all at once. For the mean completion time, jobs of the file are drawn
    and arrive one after the other at random.

    Parameters
    ----------
    trace
        File of jobs.
    throughputs
        As `read_throughputs` returns them.
    seeds
        Number of drawn sequences.

    Raises
    ------
    InvalidInputError
        If the file cannot be used.
    """
    log = read_gavel_trace(trace, throughputs).log
    keys = [(name, int(gpus)) for name, gpus in zip(log.name, log.processors, strict=True)]
    rates = np.array([[throughputs[kind].get(key, 0.0) for kind in _KINDS] for key in keys])
    steps = log.run_time * rates[:, 0]
    jobs = _RoundJobs(np.zeros(len(log)), steps, log.processors, rates)
    drawn = [_drawn(jobs, seed) for seed in range(seeds)]
    for measure, names, unknowing, knowing, published in _TABLES:
        sets = [jobs] if measure == "makespan" else drawn
        hours = {}
        for name in names:
            spent = [simulate_shares(own, POLICIES[name]) - own.submit for own in sets]
            total = [float(seconds.max() if measure == "makespan" else seconds.mean()) for seconds in spent]
            hours[name] = tuple(seconds / 3600 for seconds in total)
        alone = [float((own.steps / own.rates.max(axis=1)).mean()) / 3600 for own in sets]
        bound = _least_makespan(jobs) / 3600 if measure == "makespan" else float(np.mean(alone))
        mean = {name: float(np.mean(values)) for name, values in hours.items()}
        yield [
            GainCell(
                measure, name, values, mean[unknowing] / mean[name], published if name == knowing else None,
                mean[RULE], bound,
            )
            for name, values in hours.items()
        ]  # fmt: skip


def _least_makespan(jobs: _RoundJobs) -> float:
    """Return the makespan if shares could be kept until all jobs end at once: no policy is faster."""
    shares = _shares(jobs.rates, jobs.gpus, jobs.steps)
    speed = (shares * jobs.rates).sum(axis=1)
    return float((jobs.steps / speed).max())


def _drawn(jobs: _RoundJobs, seed: int) -> _RoundJobs:
    """Return jobs drawn from those of a file, with random arrivals."""
    random = np.random.Generator(np.random.PCG64(seed))
    rows = random.integers(len(jobs.steps), size=len(jobs.steps))
    mean = np.where(jobs.rates > 0, jobs.rates, np.nan)
    work = jobs.steps / np.nanmean(mean, axis=1) * jobs.gpus
    gap = float(work.mean()) / (_EACH * len(_KINDS)) / _LOAD
    submit = np.cumsum(random.exponential(gap, len(rows)))
    return _RoundJobs(submit, jobs.steps[rows], jobs.gpus[rows], jobs.rates[rows])
