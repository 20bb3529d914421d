"""Training of the policy by which `rl_agent` adapts late binding to the regime.

    python -m studies.agent_training --jobs 16                    some minutes on 16 cores
    python -m studies.agent_training --again                      fits and checks again, from the stored cells

Result: hybrid_scheduler/models/rl_agent.safetensors, which ships, and docs/results/learning/agent_training.json
with the tuned cells and a check on cells that training has not seen. Both are written again and again: a run that
is interrupted leaves what it has. How it trains: `hybrid_scheduler/learning/agent/training.py`.

What did not work: evolution strategies on the map itself (20 pairs of 96 cells a step), from the imitated map on,
lost 3 to 5 % of the mean within 60 steps, because the noise of the tails rewards caution. A hidden layer of 16
units beside the linear map was as good as the map alone (0.9192 and 0.9200 on 160 cells).
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hybrid_scheduler.core import Floats
from hybrid_scheduler.learning.agent.model_file import SHIPPED_MODEL, AgentModel
from hybrid_scheduler.learning.agent.policy import Policy
from hybrid_scheduler.learning.agent.random_cells import draw_cell
from hybrid_scheduler.learning.agent.training import (
    CHECK,
    TRAINING,
    TuningBudget,
    imitate,
    ratios,
    tune_cell,
)
from hybrid_scheduler.schedulers.rl_agent import KnownAgent

_OUT = Path("docs/results/learning/agent_training.json")
_FIGURES = ("mean", "p99", "p999")
_HIGH_LOAD = 0.85
_CHECK_SEED = 6_000_000
_CHECK_SEEDS = 4


def _tune(number: int) -> tuple[list[float], list[float]]:
    features, logs = tune_cell(KnownAgent, draw_cell(TRAINING, number), number, TuningBudget())
    return features.round(4).tolist(), logs.round(4).tolist()


def _check(policies: Sequence[Floats], number: int, part: int = CHECK) -> tuple[float, list[list[float]]]:
    """Return the load of a cell and the ratios of policies there."""
    cell = draw_cell(part, number)
    seeds = [_CHECK_SEED + _CHECK_SEEDS * number + k for k in range(_CHECK_SEEDS)]
    return cell.load, ratios(KnownAgent, cell, seeds, policies).tolist()


def summary(found: Floats, loads: Floats) -> dict[str, Any]:
    """Return geometric means of ratios, also at high load, the worst cell, and the share above 1.01."""
    high = loads >= _HIGH_LOAD
    row: dict[str, Any] = {"cells": len(found)}
    for figure, name in enumerate(_FIGURES):
        row[name] = round(float(np.exp(found[:, figure].mean())), 4)
        row[f"{name} at high load"] = round(float(np.exp(found[high, figure].mean())), 4) if high.any() else None
    row["worst mean"] = round(float(np.exp(found[:, 0].max())), 4)
    row["above 1.01"] = round(float((found[:, 0] > np.log(1.01)).mean()), 4)
    return row


class Training:
    """A training with its files."""

    def __init__(self, options: argparse.Namespace, pool: ProcessPoolExecutor) -> None:
        self.options = options
        self.pool = pool
        stored = json.loads(options.out.read_text(encoding="utf-8")) if options.again else {}
        self.notes: dict[str, Any] = {"seed": options.seed, "features": [], "logs": [], **stored}

    def tune(self) -> None:
        """Tune cells until the time is up or there are enough."""
        options = self.options
        began = time.monotonic()
        numbers = iter(range(10_000 * options.seed, 10_000 * options.seed + options.cells))
        waiting: set[Future[Any]] = set()
        while True:
            while len(waiting) < options.jobs and time.monotonic() - began < 60.0 * options.minutes:
                number = next(numbers, None)
                if number is None:
                    break
                waiting.add(self.pool.submit(_tune, number))
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                features, logs = future.result()
                self.notes["features"].append(features)
                self.notes["logs"].append(logs)
            self.write()

    def policy(self) -> Policy:
        """Return the policy that imitates the tuned cells."""
        return imitate(np.array(self.notes["features"]), np.array(self.notes["logs"]))

    def check(self) -> None:
        """Compare the policy with late binding on cells that were never seen."""
        found = self.pool.map(partial(_check, [self.policy().numbers]), range(self.options.check))
        loads, rows = zip(*found, strict=True)
        self.notes["check"] = summary(np.array(rows)[:, 0], np.array(loads))
        print(json.dumps(self.notes["check"]), flush=True)
        self.write()

    def write(self) -> None:
        """Write the policy and the notes."""
        self.options.out.parent.mkdir(parents=True, exist_ok=True)
        self.options.out.write_text(json.dumps(self.notes) + "\n", encoding="utf-8")
        notes = {"seed": self.notes["seed"], "cells": len(self.notes["logs"])}
        AgentModel(self.policy(), notes).save_model(self.options.model)


def main() -> None:
    """Train from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=_OUT, help="file of the notes")
    parser.add_argument("--model", type=Path, default=SHIPPED_MODEL, help="file of the policy")
    parser.add_argument("--again", action="store_true", help="take the tuned cells from the file of the notes")
    parser.add_argument("--minutes", type=float, default=30.0, help="limit of the tuning")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cells", type=int, default=400, help="cells to tune, at most")
    parser.add_argument("--check", type=int, default=300, help="cells of the check")
    options = parser.parse_args()
    # In this process first: the others then need not compile.
    ratios(KnownAgent, draw_cell(CHECK, 0), [1], [Policy.zeros().numbers])
    with ProcessPoolExecutor(options.jobs) as pool:
        training = Training(options, pool)
        if not options.again:
            training.tune()
        training.check()


if __name__ == "__main__":
    main()
