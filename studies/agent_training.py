"""Training of the policy by which `rl_agent` adapts late binding to the regime.

    python -m studies.agent_training --jobs 16                    ten minutes on 16 cores, from nothing
    python -m studies.agent_training --inputs                     constants; with names, those features alone
    python -m studies.agent_training --machine workstation        on one machine, at all scenarios and loads

Result: hybrid_scheduler/models/rl_agent.safetensors, which ships, and docs/results/learning/agent_training.json
with the curve and with figures on cells of selection, which training has not seen. How it trains:
`hybrid_scheduler/learning/agent/training.py`. It trains twice: first with limits for the tails of all cells
together; then, from there on, also for those of each cell, which costs most of what the mean had gained. The policy
is their mix. `studies/agent_policies` has the two whose mix ships, of 363 and 286 steps, and the ablations.
"""

from __future__ import annotations

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hybrid_scheduler.compiled.regime import FEATURES
from hybrid_scheduler.core import Floats
from hybrid_scheduler.core.platform import platform_named
from hybrid_scheduler.learning.agent.model_file import SHIPPED_MODEL, AgentModel, load_model
from hybrid_scheduler.learning.agent.policy import Policy
from hybrid_scheduler.learning.agent.random_cells import SELECTION, TrainingCell, cell_of, draw_cell
from hybrid_scheduler.learning.agent.training import HIGH_LOAD, TrainingBudget, ratios, train_policy
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.schedulers.rl_agent import KnownAgent
from hybrid_scheduler.workload.scenarios import scenario_named

_OUT = Path("docs/results/learning/agent_training.json")
_FIGURES = ("mean", "p99", "p99.9")
_LEAST_LOAD = 0.6
#: Share of the first policy in their mix, chosen on cells of `studies.agent_safety` from 50,000 on.
_FIRST_SHARE = 0.6
#: Seeds of a cell in a step.
_SEEDS = 4
#: Scenarios for training on one machine.
_ONE_MACHINE = (
    "default",
    "mixed",
    "small",
    "transfer",
    "low-intensity",
    "lognormal",
    "pareto",
    "bursty",
    "diurnal",
)
_CHECK_SEED = 6_000_000
_CHECK_SEEDS = 8


def _check(policy: Floats, number: int) -> tuple[float, list[float]]:
    """Return the load of a cell of selection and the ratios of a policy there."""
    cell = draw_cell(SELECTION, number)
    seeds = range(_CHECK_SEED + _CHECK_SEEDS * number, _CHECK_SEED + _CHECK_SEEDS * (number + 1))
    return cell.load, ratios(KnownAgent, cell, seeds, [policy])[:, 0].mean(axis=0).tolist()


def _cells_of(machine: str) -> list[TrainingCell]:
    """Return a machine with every scenario at loads from 0.3 to 0.97."""
    return [
        cell_of(platform_named(machine), AnalyticPhysics(), scenario_named(name), load)
        for name in _ONE_MACHINE
        for load in np.linspace(0.3, 0.97, 12)
    ]


def summary(found: Floats, loads: Floats) -> dict[str, Any]:
    """Return geometric means of ratios, also at high load, the worst cell, and the share above 1.01."""
    rows: dict[str, Any] = {}
    for title, least in (("busy", _LEAST_LOAD), ("high load", HIGH_LOAD), ("calm", 0.0)):
        chosen = loads >= least if least else loads < _LEAST_LOAD
        if not chosen.any():
            continue
        means = dict(zip(_FIGURES, np.exp(found[chosen].mean(axis=0)).round(4).tolist(), strict=True))
        worst = round(float(np.exp(found[chosen, 0].max())), 4)
        above = round(float((found[chosen, 0] > np.log(1.01)).mean()), 4)
        rows[title] = {"cells": int(chosen.sum()), **means, "worst mean": worst, "above 1.01": above}
    return rows


def _write(options: argparse.Namespace, policy: Policy, notes: dict[str, Any]) -> None:
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(notes) + "\n", encoding="utf-8")
    kept = {name: notes[name] for name in ("seed", "cells", "steps")}
    AgentModel(policy, kept).save_model(options.model)


def main() -> None:
    """Train from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=_OUT, help="file of the curve and the check")
    parser.add_argument("--model", type=Path, default=SHIPPED_MODEL, help="file of the policy")
    parser.add_argument("--again", action="store_true", help="only check the policy of the file again")
    parser.add_argument("--minutes", type=float, default=np.inf, help="limit of each training")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cells", type=int, default=1200, help="cells to train on")
    parser.add_argument("--inputs", nargs="*", default=FEATURES, help="features that the policy sees")
    parser.add_argument("--machine", help="train on this machine instead of random ones")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=160, help="cells of a step")
    parser.add_argument("--check", type=int, default=300, help="cells of the check")
    options = parser.parse_args()
    # In this process first: the others then need not compile.
    ratios(KnownAgent, draw_cell(SELECTION, 0), [1], [Policy.zeros().numbers])
    curve: list[list[float]] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        map_ = partial(pool.map, chunksize=1)
        if options.again:
            policy = load_model(options.model).policy
            notes = json.loads(options.out.read_text(encoding="utf-8"))
        else:
            start: Policy | None = None
            policies = []
            for cell_tails in (False, True):
                policy, cells = train_policy(
                    KnownAgent,
                    _cells_of(options.machine) if options.machine else options.cells,
                    options.seed,
                    budget=TrainingBudget(options.steps, options.batch, _SEEDS, cell_tails),
                    inputs=options.inputs,
                    start=start,
                    minutes=options.minutes,
                    map_=map_,
                    curve=curve,
                )
                policies.append(policy.linear)
                start = policy
            policy = replace(policy, linear=_FIRST_SHARE * policies[0] + (1.0 - _FIRST_SHARE) * policies[1])
            notes = {"seed": options.seed, "cells": cells, "steps": len(curve), "curve": curve}
            _write(options, policy, notes)
        loads, rows = zip(*map_(partial(_check, policy.numbers), range(options.check)), strict=True)
    notes["check"] = summary(np.array(rows), np.array(loads))
    print(json.dumps(notes["check"], indent=1), flush=True)
    _write(options, policy, notes)


if __name__ == "__main__":
    main()
