"""Plan of a small sweep, and what it has written so far."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hybrid_scheduler.experiments.spec import ExperimentSpec
from hybrid_scheduler.experiments.sweep import CELLS, TABLE, Cell, cells_of
from hybrid_scheduler.workload.scenarios import scenario_named


def plan(tasks: int = 60, seeds: int = 2, loads: Sequence[float] = (0.5, 0.9)) -> list[Cell]:
    """Return the cells of two schedulers at several loads, and with all tasks at once."""
    mixed = ExperimentSpec(scenario_named("mixed"), tasks, ("greedy", "oracle"))
    questions = [replace(mixed, utilisation=load) for load in loads] + [replace(mixed, batch=True)]
    return cells_of(questions, range(3000, 3000 + seeds))


def table(folder: Path) -> bytes:
    """Return the table that a sweep has written."""
    return (folder / TABLE).read_bytes()


def lines_of(folder: Path) -> int:
    """Return the number of cells that a sweep has finished."""
    try:
        return (folder / CELLS).read_bytes().count(b"\n")
    except OSError:
        return 0
