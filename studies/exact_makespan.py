"""Exact optimum of small batches by CP-SAT, as a check of the lower bound and of the schedulers.

    python -m studies.exact_makespan          a minute or two on one core

Result: docs/results/evidence/exact.txt. All tasks are there at time 0 and do not depend on each other, so the order
on a device does not matter: the makespan is the load of the busiest device. The solver chooses the accelerator of
each task and its share there. It works in whole numbers, shares in hundredths and seconds in ticks; its optimum and
its proven bound are those of that grid, a fraction of a per cent from the true ones. Needs the extra `exact`
(ortools).
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybrid_scheduler.cluster import makespan_bound
from hybrid_scheduler.core import (
    Floats,
    HybridSchedulerError,
    InvalidInputError,
    Platform,
    Workload,
    require,
    workstation,
)
from hybrid_scheduler.experiments import FIRST_REPORTED_SEED
from hybrid_scheduler.physics import AnalyticPhysics, Physics
from hybrid_scheduler.workload.scenarios import generate, scenario_named

MOST_TASKS = 60
_PARTS = 100
_TICKS = 20_000
#: Fewest tasks for which the solver's linear relaxation is worth its time.
_RELAX_FROM = 13


@dataclass(frozen=True, slots=True)
class Optimum:
    """`makespan` is that of a schedule that exists; `proven` is the solver's lower bound."""

    makespan: float
    proven: float
    optimal: bool
    device: tuple[int, ...]
    fraction: tuple[float, ...]


def exact_makespan(
    workload: Workload,
    platform: Platform | None = None,
    physics: Physics | None = None,
    *,
    effort: float = 20.0,
) -> Optimum:
    """Return the optimum of a batch.

    Parameters
    ----------
    workload
        At most `MOST_TASKS` tasks that all arrive at once, without dependencies.
    platform, physics
        A single node; the workstation with analytic physics if left out.
    effort
        The solver's deterministic time, roughly seconds: the same result on every machine.

    Raises
    ------
    InvalidInputError
        If the workload or the platform is none of the above.
    HybridSchedulerError
        If ortools is not installed, or no schedule was found in time.
    """
    platform, physics = platform or workstation(), physics or AnalyticPhysics()
    _check(workload, platform)
    table = physics.times(workload, platform)[:, physics.columns(platform)]
    shares, chosen, proven, optimal = _solve(workload, platform, table, effort)
    device = np.where(chosen >= 0, chosen, 0)
    load = _loads(table, platform, device, shares)
    return Optimum(float(load.max()), proven, optimal, tuple(device.tolist()), tuple(shares.tolist()))


def _check(workload: Workload, platform: Platform) -> None:
    if len(workload) > MOST_TASKS:
        raise InvalidInputError("tasks", f"at most {MOST_TASKS} for an exact optimum", len(workload))
    if workload.has_dependencies or float(np.ptp(workload.arrival_time)) > 0:
        raise InvalidInputError("workload", "a batch without dependencies for an exact optimum", "another one")
    if int(platform.is_cpu.sum()) != 1:
        raise InvalidInputError("platform", "a single node for an exact optimum", platform.name)


def _solve(workload: Workload, platform: Platform, table: Floats, effort: float) -> tuple[Floats, Any, float, bool]:
    require("ortools", "an exact optimum")
    from ortools.sat.python import cp_model

    cpu = int(np.flatnonzero(platform.is_cpu)[0])
    gpus = platform.accelerators.tolist()
    memory = platform.column("memory")
    tick = float(table[:, cpu].sum()) / _TICKS
    whole, fixed = (np.rint(table[:, :, part] / tick).astype(np.int64) for part in (0, 1))
    model = cp_model.CpModel()
    span = model.new_int_var(0, int(whole[:, cpu].sum() + fixed[:, cpu].sum()) * _PARTS, "span")
    loads: dict[int, list[Any]] = {device: [] for device in [cpu, *gpus]}
    share: dict[tuple[int, int], Any] = {}
    uses: dict[tuple[int, int], Any] = {}
    for i in range(len(workload)):
        for d in gpus:
            needed = float(workload.memory_required[i])
            most = _PARTS if needed <= memory[d] else math.floor(_PARTS * memory[d] / needed)
            uses[i, d] = model.new_bool_var(f"u{i},{d}")
            share[i, d] = model.new_int_var(0, most, f"f{i},{d}")
            model.add(share[i, d] <= most * uses[i, d])
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
    solver = cp_model.CpSolver()
    # One worker and a deterministic clock: the same answer every time.
    solver.parameters.num_workers, solver.parameters.random_seed = 1, 0
    solver.parameters.max_deterministic_time = effort
    solver.parameters.relative_gap_limit = 0.0005
    solver.parameters.linearization_level = 2 if len(workload) >= _RELAX_FROM else 1
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise HybridSchedulerError("the solver found no schedule in its time", hint="fewer tasks, or more effort")
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
