"""Search for a schedule of the least mean latency with all arrivals known, for late binding to be compared with.

    python -m studies.clairvoyant_order          20 seeds, some eight minutes on one core

Result: docs/results/late_binding_clairvoyant.txt. `late_binding` for the mean alone knows durations, but not which
tasks come next. The search knows both. It starts from the order and the shares that `late_binding` chooses, and
changes them by simulated annealing: the order in which tasks are placed, and the share of each on an accelerator.
A task may be placed before one that arrived earlier, which is then held back. No task is interrupted.

The rules are those of the simulator: a test runs a schedule that was found. Tasks are placed one after the other,
each when it and those before it have arrived, on the CPU and on the accelerator that is free earliest. The search
does not prove an optimum. Its result can be reached if the future is known, and ten times as many steps find 2 to
4 % less. All figures are mean latencies over that of `earliest_finish` on the same tasks.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numba import njit

from hybrid_scheduler.cluster import Cluster, mean_latency_bound
from hybrid_scheduler.core import Floats, Ints, Outcomes, Workload, workstation
from hybrid_scheduler.schedulers import LateBinding, create
from hybrid_scheduler.workload.scenarios import generate, scenario_named

_OUT = Path("docs/results/late_binding_clairvoyant.txt")
#: Share that stands for the one at which both parts end together.
BALANCED = -1.0
#: Temperatures at the start and at the end, in mean latencies; largest mean distance of a move in the order;
#: probability that a move changes a task's share; and from how many mean latencies on a worse schedule is given up.
_HOT, _COLD, _REACH, _SHARE_MOVES, _RECOVERY = 1.0, 0.02, 15.0, 0.4, 1.0


@njit(error_model="numpy", cache=True)
def place_in_order(  # type: ignore[no-untyped-def]
    order, share, arrival, times, limit, states, latency, begin, sure, most, slack, new, found
):
    """Place the tasks of the order from a position on; return the change of the total latency, and where it ends.

    A state is the clock and when each device is free: the CPU, then accelerators in ascending order. `states` and
    `latency` are those before the change, by position; `new` and `found` get those after it. Behind the position
    `sure` it ends where the state is the old one, or where the change is certainly or probably above `most`.
    """
    last = states.shape[1] - 1
    change, new[begin] = 0.0, states[begin]
    for at in range(begin, len(order)):
        task, after = order[at], new[at + 1]
        now = max(new[at, 0], arrival[task])
        cpu_whole, cpu_fixed = times[task, 0, 0], times[task, 0, 1]
        whole, fixed = times[task, 1, 0], times[task, 1, 1]
        cpu, accelerator, part = max(now, new[at, 1]), max(now, new[at, 2]), share[task]
        if part < 0.0:
            part = max(0.0, (cpu + cpu_fixed + cpu_whole - accelerator - fixed) / (cpu_whole + whole))
        part = min(part, limit[task])
        cpu += cpu_fixed + (1.0 - part) * cpu_whole if part < 1.0 else 0.0
        accelerator += fixed + part * whole if part > 0.0 else 0.0
        same = worse = True
        after[0], after[1], slot = now, cpu, 2
        while part > 0.0 and slot < last and new[at, slot + 1] < accelerator:
            after[slot] = max(now, new[at, slot + 1])
            slot += 1
        after[slot] = accelerator
        for d in range(slot + 1, last + 1):
            after[d] = max(now, new[at, d])
        end = max(cpu if part < 1.0 else now, accelerator if part > 0.0 else now)
        found[at] = end - arrival[task]
        change += found[at] - latency[at]
        for d in range(last + 1):
            same &= after[d] == states[at + 1, d]
            worse &= after[d] >= states[at + 1, d]
        if at >= sure and (same or change > most + slack or (worse and change > most)):
            return (change if same else np.inf), at + 1
    return change, len(order)


@njit(error_model="numpy", cache=True)
def anneal(order, share, arrival, times, limit, accelerators, steps, rng):  # type: ignore[no-untyped-def]
    """Change order and shares in place by simulated annealing; return the mean latency."""
    count = len(order)
    states, new = np.full((count + 1, 2 + accelerators), -np.inf), np.empty((count + 1, 2 + accelerators))
    latency, found = np.zeros(count), np.empty(count)
    place_in_order(order, share, arrival, times, limit, states, latency, 0, count, 0.0, 0.0, new, found)
    states[:], latency[:] = new, found
    start = latency.mean()
    for step in range(steps):
        warmth = start * _HOT * (_COLD / _HOT) ** (step / steps)
        most = -warmth * np.log(1.0 - rng.random())
        source = target = rng.integers(0, count)
        task = order[source]
        before = share[task]
        if rng.random() < _SHARE_MOVES:
            kind = rng.integers(0, 4)
            near = min(max(before + 0.1 * rng.standard_normal(), 0.0), 1.0)
            share[task] = near if kind == 3 else float(kind) if kind < 2 else BALANCED
        else:
            way = rng.exponential(_REACH * rng.random() ** 2) + 1.0
            target += int(way) if rng.random() < 0.5 else -int(way)
            if not 0 <= target < count:
                continue
            move(order, source, target)
        low, high = min(source, target), max(source, target)
        change, end = place_in_order(
            order, share, arrival, times, limit, states, latency, low, high, most, _RECOVERY * start, new, found
        )
        if change <= most:
            states[low : end + 1], latency[low:end] = new[low : end + 1], found[low:end]
        else:
            share[task] = before
            move(order, target, source)
    return latency.mean()


@njit(error_model="numpy", cache=True)
def move(order, source, target):  # type: ignore[no-untyped-def]
    """Move an entry of the order to another position."""
    task, way = order[source], 1 if target > source else -1
    for at in range(source, target, way):
        order[at] = order[at + way]
    order[target] = task


def first_order(outcomes: Outcomes) -> Ints:
    """Return the tasks in the order in which `late_binding` placed them: when the longer part starts."""
    on_cpu = outcomes.cpu_time >= outcomes.accelerator_time
    return np.argsort(np.where(on_cpu, outcomes.cpu_start, outcomes.accelerator_start), kind="stable")


def find_schedule(workload: Workload, steps: int, seed: int = 0) -> tuple[Ints, Floats, float]:
    """Return order, shares and mean latency of a schedule on the workstation, found with all arrivals known."""
    rule, cluster = LateBinding(1000.0, 0.0), Cluster()
    outcomes = cluster.run(workload, rule).outcomes
    assert rule.setting.times is not None
    times = np.ascontiguousarray(rule.setting.times.table(workload))
    accelerators = cluster.platform.accelerators
    limit = np.minimum(1.0, cluster.platform.devices[accelerators[0]].memory / workload.memory_required)
    order, share = first_order(outcomes), outcomes.fraction.copy()
    rng = np.random.default_rng(seed)
    mean = anneal(order, share, workload.arrival_time, times, limit, len(accelerators), steps, rng)
    return order, share, mean


def measure(seed: int, steps: int) -> Floats:
    """Return the mean latencies of late binding, the search and the lower bound over that of `earliest_finish`."""
    cluster = Cluster()
    workload = generate(scenario_named("mixed"), 2000, seed, platform=workstation(), utilisation=0.95)
    reference, late = (
        cluster.run(workload, rule).outcomes.latency.mean()
        for rule in (create("earliest_finish"), LateBinding(1000.0, 0.0))
    )
    _, _, mean = find_schedule(workload, steps)
    bound = mean_latency_bound(workload, cluster.platform, cluster.physics)
    return np.array([late / reference, mean / reference, bound / reference])


def _line(name: str, row: Floats) -> str:
    late, search, bound = row
    return f"{name:<10}{late:12.3f}{search:9.3f}{bound:13.3f}{search / late:21.3f}"


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="number of workloads")
    parser.add_argument("--first", type=int, default=3000, help="first seed")
    parser.add_argument("--steps", type=int, default=10_000_000, help="changes that the search tries for each seed")
    parser.add_argument("--out", type=Path, default=_OUT, help="file to write")
    options = parser.parse_args()
    lines = [f"{'seed':<10}{'mean alone':>12}{'search':>9}{'lower bound':>13}{'search ÷ mean alone':>21}"]
    rows = []
    for seed in range(options.first, options.first + options.seeds):
        rows.append(measure(seed, options.steps))
        lines.append(_line(str(seed), rows[-1]))
        print(lines[-1], flush=True)
    ratios = np.array([search / late for late, search, _ in rows])
    lines.append(_line("all seeds", np.mean(rows, axis=0)))
    lines.append(f"least and largest search ÷ mean alone: {ratios.min():.3f} {ratios.max():.3f}")
    command = f"python -m studies.clairvoyant_order --seeds {options.seeds} --first {options.first}"
    setting = "mixed tasks at load 0.95, 2,000 of each seed, mean latency over earliest_finish"
    text = "\n".join([f"{command} --steps {options.steps}", setting, "", *lines, ""])
    options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
