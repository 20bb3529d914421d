"""Exact optimum of small batches and task graphs by CP-SAT, as a check of lower bounds and schedulers.

    python -m studies.exact_makespan          a minute or two on one core

Result: docs/results/evidence/exact.txt. In a batch all tasks are there at time 0 and do not depend on each other.
The order on a device does not matter: the makespan is the load of the busiest device. The solver chooses the
accelerator of each task and its share there, in hundredths. In a graph, with arrival times or on several CPUs
tasks run whole, and the solver chooses devices and starts; data between tasks takes its transfer time.

Seconds are whole ticks, rounded down, so a proven bound on whole tasks holds for the true durations. For split
tasks it is that of the grid of shares, a fraction of a per cent from the true one. Needs the extra `exact`
(ortools).
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybrid_scheduler.cluster import Cluster, makespan_bound
from hybrid_scheduler.core import (
    Floats,
    HybridSchedulerError,
    InvalidInputError,
    Plan,
    Platform,
    Static,
    Workload,
    require,
    workstation,
)
from hybrid_scheduler.experiments import FIRST_REPORTED_SEED
from hybrid_scheduler.physics import AnalyticPhysics, Physics
from hybrid_scheduler.workload.scenarios import generate, scenario_named

#: Most tasks of a batch and of a graph.
MAX_TASKS, MAX_GRAPH_TASKS = 60, 40
_PARTS = 100
_TICKS = 20_000
#: Ticks of a part that no optimum can contain; larger numbers would overflow the solver.
_LONG = 10.0 * _TICKS * _PARTS
#: Absorbs the rounding of a division whose result is a whole number of ticks.
_ROUNDING = 1e-9
#: Fewest tasks for which the solver's linear relaxation is worth its time.
_RELAX_FROM = 13


@dataclass(frozen=True, slots=True)
class Optimum:
    """`makespan` is that of a schedule that exists; `proven` is the solver's lower bound, never above it."""

    makespan: float
    proven: float
    optimal: bool
    device: tuple[int, ...]
    fraction: tuple[float, ...]
    #: Planned start of each task of a graph; empty for a batch, whose order does not matter.
    start: tuple[float, ...] = ()


def exact_makespan(
    workload: Workload,
    platform: Platform | None = None,
    physics: Physics | None = None,
    *,
    effort: float = 20.0,
) -> Optimum:
    """Return the optimum of a batch, whose tasks may be split, or of a graph, whose tasks run whole.

    Parameters
    ----------
    workload
        At most `MAX_TASKS` tasks that all arrive at once, without dependencies, or `MAX_GRAPH_TASKS` others.
    platform, physics
        The workstation with analytic physics if left out. On several CPUs tasks run whole.
    effort
        The solver's deterministic time, roughly seconds: the same result on every machine.

    Raises
    ------
    InvalidInputError
        If there are too many tasks.
    HybridSchedulerError
        If ortools is not installed, or no schedule was found in time.
    """
    platform, physics = platform or workstation(), physics or AnalyticPhysics()
    batch = not workload.has_dependencies and float(np.ptp(workload.arrival_time)) == 0
    batch = batch and int(platform.is_cpu.sum()) == 1
    most = MAX_TASKS if batch else MAX_GRAPH_TASKS
    if len(workload) > most:
        raise InvalidInputError("tasks", f"at most {most} for an exact optimum", len(workload))
    table = physics.times(workload, platform)[:, physics.columns(platform)]
    if not batch:
        return _exact_graph(workload, platform, physics, table, effort)
    shares, chosen, proven, optimal = _solve(workload, platform, table, effort)
    device = np.where(chosen >= 0, chosen, int(np.flatnonzero(platform.is_cpu)[0]))
    makespan = float(_loads(table, platform, device, shares).max())
    return Optimum(makespan, min(proven, makespan), optimal, tuple(device.tolist()), tuple(shares.tolist()))


def _exact_graph(workload: Workload, platform: Platform, physics: Physics, table: Floats, effort: float) -> Optimum:
    """Return the optimum of whole tasks with dependencies, transfers and arrivals, on any devices."""
    cp_model = _ortools()
    seconds = np.where(workload.memory_required[:, None] <= platform.memory_limit, table.sum(axis=2), np.inf)
    links = physics.links(platform)
    per_mb, startup = links.seconds_per_mb(platform.node), links.startup_seconds(platform.node)
    # One after the other on the best CPU: nothing moves, and everything fits.
    last = float(workload.arrival_time.max()) + float(seconds[:, platform.is_cpu].sum(axis=0).min())
    tick = _tick(last, seconds, workload, per_mb, startup)
    model = cp_model.CpModel()
    horizon = math.ceil(last / tick)
    span = model.new_int_var(0, horizon, "span")
    starts, ends, uses = [], [], {}
    intervals: dict[int, list[Any]] = {d: [] for d in range(len(platform))}
    for i in range(len(workload)):
        starts.append(model.new_int_var(math.floor(workload.arrival_time[i] / tick), horizon, f"s{i}"))
        ends.append(model.new_int_var(0, horizon, f"e{i}"))
        model.add(ends[i] <= span)
        for d in np.flatnonzero(seconds[i] <= last).tolist():
            uses[i, d] = model.new_bool_var(f"u{i},{d}")
            length = math.floor(seconds[i, d] / tick + _ROUNDING)
            intervals[d].append(
                model.new_optional_interval_var(starts[i], length, ends[i], uses[i, d], f"i{i},{d}")
            )
        model.add_exactly_one(uses[i, d] for d in range(len(platform)) if (i, d) in uses)
    for parts in intervals.values():
        model.add_no_overlap(parts)
    for i in range(len(workload)):
        first = workload.parent_start[i]
        for offset, parent in enumerate(workload.parents(i).tolist()):
            data = float(workload.parent_data[first + offset])
            model.add(starts[i] >= ends[parent])
            moved = np.floor((startup + data * per_mb) / tick + _ROUNDING) if data else np.zeros_like(per_mb)
            for d, e in np.argwhere(moved > 0).tolist():
                if (parent, d) in uses and (i, e) in uses:
                    delayed = model.add(starts[i] >= ends[parent] + int(moved[d, e]))
                    delayed.only_enforce_if(uses[parent, d], uses[i, e])
    model.minimize(span)
    solver, status = _solved(cp_model, model, effort, relax=2)
    chosen = np.array([next(d for d in range(len(platform)) if (i, d) in uses and solver.value(uses[i, d]))
                       for i in range(len(workload))])  # fmt: skip
    start = np.array([solver.value(one) for one in starts]) * tick
    finish = np.array([solver.value(one) for one in ends]) * tick
    # The order is the solver's, the seconds are the true ones.
    plan = _Given(Plan(chosen, (~platform.is_cpu[chosen]).astype(np.float64), start, finish))
    outcomes = Cluster(platform, physics).run(workload, plan).outcomes
    makespan = float(outcomes.finish.max() - workload.arrival_time[0])
    proven = solver.best_objective_bound * tick - float(workload.arrival_time[0])
    return Optimum(
        makespan, min(proven, makespan), status == cp_model.OPTIMAL, tuple(chosen.tolist()),
        tuple(plan.given.fraction.tolist()), tuple(outcomes.start.tolist()),
    )  # fmt: skip


class _Given(Static):
    """Scheduler that returns a plan made elsewhere."""

    def __init__(self, given: Plan) -> None:
        self.given = given

    def plan(self, workload: Workload, platform: Platform) -> Plan:
        return self.given


def _tick(last: float, seconds: Floats, workload: Workload, per_mb: Floats, startup: Floats) -> float:
    """Return the unit of the solver: one second where all inputs are whole seconds, else a part of the horizon."""
    data = workload.parent_data[:, None, None] * per_mb
    numbers = np.concatenate([seconds[np.isfinite(seconds)], workload.arrival_time, startup.ravel(), data.ravel()])
    if last <= _TICKS and (numbers == np.rint(numbers)).all():
        return 1.0
    return last / _TICKS if last > 0 else 1.0


def _ortools() -> Any:
    require("ortools", "an exact optimum")
    from ortools.sat.python import cp_model

    return cp_model


def _solved(cp_model: Any, model: Any, effort: float, relax: int) -> tuple[Any, Any]:
    """Run the solver. One worker and a deterministic clock: the same answer every time."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.random_seed = 1, 0
    solver.parameters.max_deterministic_time = effort
    solver.parameters.relative_gap_limit = 0.0005
    solver.parameters.linearization_level = relax
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise HybridSchedulerError("the solver found no schedule in its time", hint="fewer tasks, or more effort")
    return solver, status


def _solve(workload: Workload, platform: Platform, table: Floats, effort: float) -> tuple[Floats, Any, float, bool]:
    cp_model = _ortools()
    cpu = int(np.flatnonzero(platform.is_cpu)[0])
    gpus = platform.accelerators.tolist()
    memory = platform.column("memory")
    fits = workload.memory_required[:, None] <= platform.memory_limit
    # Each task whole on its best device, one after the other: no optimum takes longer.
    longest = float(np.where(fits, table.sum(axis=2), np.inf).min(axis=1).sum())
    tick = longest / _TICKS if longest > 0 else 1.0
    whole, fixed = (np.floor(np.minimum(table[:, :, part] / tick, _LONG)).astype(np.int64) for part in (0, 1))
    model = cp_model.CpModel()
    span = model.new_int_var(0, (_TICKS + 1) * _PARTS, "span")
    loads: dict[int, list[Any]] = {device: [] for device in [cpu, *gpus]}
    share: dict[tuple[int, int], Any] = {}
    uses: dict[tuple[int, int], Any] = {}
    for i in range(len(workload)):
        for d in gpus:
            needed = float(workload.memory_required[i])
            most = _PARTS if needed <= memory[d] else math.floor(_PARTS * memory[d] / needed)
            uses[i, d] = model.new_bool_var(f"u{i},{d}")
            share[i, d] = model.new_int_var(0, most, f"f{i},{d}")
            if not workload.divisible[i] and most < _PARTS:
                model.add(uses[i, d] == 0)
            if workload.divisible[i]:
                model.add(share[i, d] <= most * uses[i, d])
            else:
                model.add(share[i, d] == most * uses[i, d])
            loads[d] += [int(whole[i, d]) * share[i, d], int(fixed[i, d]) * _PARTS * uses[i, d]]
        model.add_at_most_one(uses[i, d] for d in gpus)
        rest = _PARTS - sum(share[i, d] for d in gpus)
        loads[cpu].append(int(whole[i, cpu]) * rest)
        if fixed[i, cpu]:
            on_cpu = model.new_bool_var(f"c{i}")
            model.add(rest <= _PARTS * on_cpu)
            loads[cpu].append(int(fixed[i, cpu]) * _PARTS * on_cpu)
    for terms in loads.values():
        model.add(sum(terms) <= span)
    _break_symmetry(model, _interchangeable(table, platform, gpus), uses)
    model.minimize(span)
    solver, status = _solved(cp_model, model, effort, relax=2 if len(workload) >= _RELAX_FROM else 1)
    shares, chosen = np.zeros(len(workload)), np.full(len(workload), -1)
    for (i, d), variable in share.items():
        if solver.value(variable) > 0:
            shares[i], chosen[i] = solver.value(variable) / _PARTS, d
    proven = solver.best_objective_bound / _PARTS * tick
    return shares, chosen, float(proven), status == cp_model.OPTIMAL


def _interchangeable(table: Floats, platform: Platform, devices: list[int]) -> list[list[int]]:
    """Group devices that take the same seconds for every task and have the same memory and node.

    Equal descriptions are not enough: a table gives each device times of its own.
    """
    groups: dict[tuple[bytes, float, int], list[int]] = {}
    for d in devices:
        key = (table[:, d].tobytes(), platform.devices[d].memory, int(platform.node[d]))
        groups.setdefault(key, []).append(d)
    return list(groups.values())


def _break_symmetry(model: Any, groups: list[list[int]], uses: dict[tuple[int, int], Any]) -> None:
    """Treat interchangeable devices as such: the first task may only use the first of a group, and so on."""
    for members in groups:
        for i in range(len(members)):
            for d in members[i + 1 :]:
                if (i, d) in uses:
                    model.add(uses[i, d] == 0)


def _loads(table: Floats, platform: Platform, device: Any, shares: Floats) -> Floats:
    """Return the seconds of work per device, with the true durations."""
    load = np.zeros(len(platform))
    cpu = int(np.flatnonzero(platform.is_cpu)[0])
    for i, (d, f) in enumerate(zip(device.tolist(), shares.tolist(), strict=True)):
        if f < 1.0:
            load[cpu] += table[i, cpu, 1] + (1.0 - f) * table[i, cpu, 0]
        if f > 0.0:
            load[d] += table[i, d, 1] + f * table[i, d, 0]
    return load


def gaps(scenario: str, tasks: int, seed: int, effort: float) -> dict[str, float]:
    """Return makespans over the lower bound: the exact optimum and some schedulers, on one batch."""
    from hybrid_scheduler.engine import compare

    workload = generate(scenario_named(scenario), tasks, seed, batch=True)
    bound = makespan_bound(workload, workstation(), AnalyticPhysics())
    best = exact_makespan(workload, effort=effort)
    names = ("earliest_finish", "price_index", "fluid_plan")
    summaries = compare(workload, names).summaries
    return {
        "exact": best.makespan / bound,
        "proven": best.proven / bound,
        **{name: summaries[name].makespan / bound for name in names},
    }


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help=f"from {FIRST_REPORTED_SEED} on")
    parser.add_argument("--tasks", type=int, nargs="+", default=[5, 10, 20])
    parser.add_argument("--effort", type=float, default=5.0, help="deterministic seconds of the solver per batch")
    options = parser.parse_args()
    print("mixed, all at once, workstation; makespan over the lower bound, mean (worst) over seeds")
    for count in options.tasks:
        rows = [gaps("mixed", count, FIRST_REPORTED_SEED + i, options.effort) for i in range(options.seeds)]
        cells = "  ".join(
            f"{name} {np.mean([row[name] for row in rows]):.4f} ({max(row[name] for row in rows):.4f})"
            for name in rows[0]
        )
        print(f"{count:4d} tasks  {cells}", flush=True)


if __name__ == "__main__":
    main()
