"""Summary of a run, and the evidence that a verdict on several schedulers reads.

Names mean the same in tables, JSON, API and dashboard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..core import Floats, Outcomes, Platform
from ..core.energy_and_cost import EnergyAndCost
from ..core.outcome import CLIPPED, FAILED, MOVED_TO_CPU, PAGED

#: Label of the scheduler that places each task best alone and does not see the tasks behind it.
PER_TASK_BEST = "Per-task best (oracle)"
#: Remark in labels that sentences leave out.
_KNOWS = " (knows durations)"
#: Name of that scheduler: it is compared, but it does not compete.
_REFERENCE = "oracle"


def jain_index(loads: Floats) -> float:
    """Return Jain's fairness index: 1 if all loads are equal, 1/n if one device has all the load.

    Examples
    --------
    >>> import numpy as np
    >>> from hybrid_scheduler.metrics import jain_index
    >>> jain_index(np.array([1.0, 1.0])), jain_index(np.array([1.0, 0.0]))
    (1.0, 0.5)
    """
    total = float(loads.sum())
    return 1.0 if total == 0 else total**2 / (len(loads) * float((loads**2).sum()))


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean, quantiles and maximum of a column."""

    mean: float
    p50: float
    p95: float
    p99: float
    p999: float
    max: float

    @classmethod
    def of(cls, values: Floats) -> Spread:
        """Return the statistics of these values; NaN if there are none."""
        if len(values) == 0:
            return cls(*(float("nan"),) * 6)
        p50, p95, p99, p999 = np.quantile(values, (0.5, 0.95, 0.99, 0.999)).tolist()
        return cls(float(values.mean()), p50, p95, p99, p999, float(values.max()))


@dataclass(frozen=True, slots=True)
class Summary:
    """One scheduler's run in numbers: seconds, joules and dollars; None where a value was not computed.

    `compare` returns one per scheduler. Failed tasks count in `tasks` and `failed` only.

    Parameters
    ----------
    tasks
        Number of tasks.
    failed, clipped, moved_to_cpu
        Tasks that failed, ran with a smaller fraction, or ran on the CPU, because they exceed accelerator memory.
    makespan
        Seconds from the first arrival to the last finish.
    makespan_over_bound
        Makespan over its lower bound.
    throughput
        Completed tasks per second of the makespan.
    time
        Execution seconds per task, without waiting.
    latency
        Seconds per task from arrival to finish: `wait` plus `time`.
    latency_over_bound
        Mean latency over its lower bound.
    wait
        Seconds per task from arrival to start.
    mean_slowdown
        Mean of latency over the isolated optimum of the same task.
    mean_regret
        Mean latency in seconds above that of the scheduler ``"oracle"``, on the same tasks.
    energy
        Joules of busy devices.
    energy_blended
        Joules by another formula: fraction-weighted watts times the whole execution time of a task.
    energy_idle
        Joules of idle devices, from the first arrival to the last finish.
    cost, cost_rent, cost_electricity
        Dollars that the tariff counts, and both parts: rent and electricity.
    mean_gpu_fraction
        Mean share of a task that ran on an accelerator.
    cpu_only_share
        Share of tasks that ran on a CPU alone.
    load_balance, load_balance_gpu
        Jain's index of busy seconds, over all devices and over all accelerators; 1 is perfectly even.
    utilization
        Busy share of the makespan, by device.
    average_utilization
        Mean of these shares.
    paged
        Tasks whose data moved between an accelerator and its host, because they exceed its memory.
    decided_by
        Share of the tasks that each policy of a learned scheduler decided, such as ``"agent"``; empty for
        schedulers with one policy.

    Examples
    --------
    >>> from hybrid_scheduler import WorkloadGenerator, compare
    >>> workload = WorkloadGenerator(seed=1).generate_workload(50, utilisation=0.5)
    >>> summary = compare(workload, ["greedy"]).summaries["greedy"]
    >>> summary.tasks, summary.failed, summary.latency.mean >= summary.time.mean
    (50, 0, True)
    """

    tasks: int
    failed: int
    clipped: int
    moved_to_cpu: int
    makespan: float
    makespan_over_bound: float | None
    throughput: float
    time: Spread
    latency: Spread
    latency_over_bound: float | None
    wait: Spread
    mean_slowdown: float | None
    mean_regret: float | None
    energy: float
    energy_blended: float
    energy_idle: float
    cost: float
    cost_rent: float
    cost_electricity: float
    mean_gpu_fraction: float
    cpu_only_share: float
    load_balance: float
    load_balance_gpu: float
    utilization: dict[str, float]
    average_utilization: float
    decided_by: dict[str, float] = field(default_factory=dict)
    paged: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return a flat dictionary for JSON: spreads become mean_time, p50_latency and so on."""
        flat: dict[str, Any] = {}
        for name, value in asdict(self).items():
            if name in ("time", "latency", "wait"):
                flat.update({f"{statistic}_{name}": number for statistic, number in value.items()})
            elif value or name != "paged":  # only runs of that memory policy have the key
                flat[name] = value
        return flat


def summarise(
    outcomes: Outcomes,
    platform: Platform,
    busy: Floats,
    charges: EnergyAndCost,
    *,
    bound: float | None = None,
    latency_bound: float | None = None,
    isolated: Floats | None = None,
    oracle_latency: Floats | None = None,
    decision_counts: Mapping[str, int] | None = None,
) -> Summary:
    """Return the summary of a run. Failed tasks are counted and otherwise left out.

    Parameters
    ----------
    outcomes
        Results of all tasks.
    platform
        Devices.
    busy
        Busy seconds of each device.
    charges
        Energy and cost of each task.
    bound
        Lower bound of the makespan in seconds.
    latency_bound
        Lower bound of the mean latency in seconds.
    isolated
        Isolated optimum of each task in seconds, for the slowdown.
    oracle_latency
        Latency of each task under the oracle, for the regret.
    decision_counts
        Tasks that each policy of the scheduler has decided.
    """
    done = outcomes.completed
    latency = outcomes.latency[done]
    time = outcomes.time[done]
    first = float(outcomes.workload.arrival_time[0])
    makespan = float(outcomes.finish[done].max()) - first if done.any() else 0.0
    shares = busy / makespan if makespan > 0 else np.zeros(len(platform))
    idle_watts = platform.column("idle_watts")
    accelerators = platform.accelerators
    fraction = outcomes.fraction[done]
    return Summary(
        tasks=len(outcomes),
        failed=outcomes.count(FAILED),
        clipped=outcomes.count(CLIPPED),
        moved_to_cpu=outcomes.count(MOVED_TO_CPU),
        makespan=makespan,
        makespan_over_bound=makespan / bound if bound else None,
        throughput=float(done.sum()) / makespan if makespan > 0 else 0.0,
        time=Spread.of(time),
        latency=Spread.of(latency),
        latency_over_bound=float(latency.mean()) / latency_bound if latency_bound and done.any() else None,
        wait=Spread.of(outcomes.wait[done]),
        mean_slowdown=None if isolated is None or not done.any() else float((latency / isolated[done]).mean()),
        mean_regret=None if oracle_latency is None else _mean_difference(outcomes.latency, oracle_latency),
        energy=float(charges.energy[done].sum()),
        energy_blended=float(charges.energy_blended[done].sum()),
        energy_idle=float((idle_watts * (makespan - busy)).sum()),
        cost=float(charges.cost[done].sum()),
        cost_rent=float(charges.rent[done].sum()),
        cost_electricity=float(charges.electricity[done].sum()),
        mean_gpu_fraction=float(fraction.mean()) if done.any() else 0.0,
        cpu_only_share=float((fraction == 0).mean()) if done.any() else 0.0,
        load_balance=jain_index(busy),
        load_balance_gpu=jain_index(busy[accelerators]) if len(accelerators) else 1.0,
        utilization={d.name: float(share) for d, share in zip(platform.devices, shares, strict=True)},
        average_utilization=float(shares.mean()),
        paged=outcomes.count(PAGED),
        decided_by=shares_of(decision_counts or {}),
    )


def shares_of(counts: Mapping[str, int]) -> dict[str, float]:
    """Return counts as shares of their sum; empty if nothing was counted."""
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()} if total else {}


def queue_grows(arrival: Floats, latency: Floats, isolated: Floats) -> bool:
    """Return whether latency keeps growing, so that its mean depends on the length of the run.

    That is the case if the last quarter of the tasks takes more than three times as long as the first, and more
    than ten times as long as on an empty machine. A batch, whose tasks all arrive at once, never counts.
    """
    quarter = len(arrival) // 4
    if quarter == 0 or arrival[0] == arrival[-1]:
        return False
    first = latency[:quarter]
    last = latency[-quarter:]
    if np.isnan(first).all() or np.isnan(last).all():
        return False
    late = float(np.nanmean(last))
    return late > 3 * float(np.nanmean(first)) and late > 10 * float(isolated[-quarter:].mean())


def win_rates(latencies: dict[str, Floats]) -> dict[str, dict[str, float]]:
    """Return how often each scheduler has the lower latency than each other one; ties are not wins."""
    return {
        row: {column: float((latencies[row] < latencies[column]).mean()) for column in latencies if column != row}
        for row in latencies
    }


def _mean_difference(latency: Floats, reference: Floats) -> float | None:
    both = ~(np.isnan(latency) | np.isnan(reference))
    return float((latency[both] - reference[both]).mean()) if both.any() else None


@dataclass(frozen=True, slots=True)
class DeviceLoad:
    """Load of one device within the window of the evidence.

    Parameters
    ----------
    name, kind
        The device.
    busy
        Busy share of the window.
    work
        Share of all work that was sent to it since the run began.
    backlog, backlog_before
        Seconds of queued work at the end of the window and at its start.
    backlog_peak
        Most seconds of queued work within the window, where known.
    """

    name: str
    kind: str
    busy: float
    work: float
    backlog: float = 0.0
    backlog_before: float = 0.0
    backlog_peak: float = 0.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """Numbers of one scheduler that the rules read; seconds, joules and dollars per task.

    Parameters
    ----------
    name, label
        The scheduler's specification and its name for people.
    tasks
        Number of tasks.
    mean_latency, half_width
        Mean and half of its 95 % interval; None where there is no interval.
    mean_time, mean_wait, p99_latency, mean_energy, mean_cost
        Further means and a quantile; None where unknown.
    devices, window
        Load of the devices, and the stretch of time that it is about.
    device_seconds
        Busy device seconds per task.
    split_share, memory_share
        Share of tasks that were split, and that did not fit into an accelerator's memory.
    transfer_seconds, transfer_share
        Seconds of copying per task, and as a share of accelerator time.
    growing
        Whether latency keeps growing, so that its mean depends on the length of the run.
    swing
        Mean latency of the worst batch over that of the median batch.
    state
        State of a learned scheduler.
    decided_by
        Share of the tasks that each of its policies decided.
    drift_at, retrained_at
        Time of the last drift that was found, and of the model after it.
    worst_task
        The task that waited longest in the window.
    """

    name: str
    label: str
    tasks: int
    mean_latency: float | None
    half_width: float | None = None
    mean_time: float | None = None
    mean_wait: float | None = None
    p99_latency: float | None = None
    mean_energy: float | None = None
    mean_cost: float | None = None
    devices: tuple[DeviceLoad, ...] = ()
    window: tuple[float, float] | None = None
    device_seconds: float | None = None
    split_share: float = 0.0
    memory_share: float = 0.0
    transfer_seconds: float = 0.0
    transfer_share: float = 0.0
    growing: bool = False
    swing: float | None = None
    state: str = "ready"
    decided_by: dict[str, float] = field(default_factory=dict)
    drift_at: float | None = None
    retrained_at: float | None = None
    worst_task: int | None = None

    @property
    def reference(self) -> bool:
        """Whether this is the per-task best, which does not compete."""
        return self.name.partition("(")[0].strip() == _REFERENCE

    @property
    def knows_durations(self) -> bool:
        """Whether the scheduler was given durations."""
        return self.reference or self.label.endswith(_KNOWS)

    @property
    def known_label(self) -> str:
        """The label without its remark on durations; "Per-task best (oracle)" for the reference."""
        return PER_TASK_BEST if self.reference else self.label.removesuffix(_KNOWS)
