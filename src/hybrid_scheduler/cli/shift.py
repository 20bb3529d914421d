"""`hybrid-scheduler shift`: recovery of learned schedulers after a shift in the workload."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from .command_context import CommandContext
from .metric_table import named
from .options import Inputs, with_options
from .printer import NOTHING, Column, Printer, significant

if TYPE_CHECKING:
    from ..experiments.distribution_shift import ShiftRow


_SEEDS = 20
_REMARKS = (
    "ratio: sum of times over the optimum's, on the same tasks: every scheduler of a seed sees the same stream",
    "the published forest is frozen_forest, the published agent dqn; FAILED: a larger sum than every baseline",
    "hybrid_ml and dqn know only the executed choice, as on real hardware; the forests also get "
    "the times of both devices from the simulation",
    "recovered: the first task from which 20 in a row cost at most 5 % more than the optimum; "
    f"{NOTHING} if that did not happen on every seed",
)


@with_options(("first_seed",))
def shift(command: CommandContext, inputs: Inputs) -> None:
    """Measure how schedulers react when the workload changes.

    Training tasks are large and compute-bound, so the GPU is always faster; the 500 test tasks are small and
    transfer much data, so the CPU is. The table shows the published numbers beside the measured ones.

    Example: hybrid-scheduler shift --seeds 5

    Parameters
    ----------
    seeds
        Number of seeds, at least 2; 20 by default. Each has its own tasks.
    """
    command.settings()
    from ..experiments.distribution_shift import TEST_TASKS, TRAINING_TASKS, shift_study

    seeds = inputs.seed_range(_SEEDS, least=2)
    with command.printer.progress(len(seeds)) as update:

        def progress(words: str) -> None:
            # "seed 1003: greedy"
            update(words, int(words.split()[1].rstrip(":")) - seeds[0])

        rows = shift_study(len(seeds), first_seed=seeds[0], progress=progress)
    document = {
        "seeds": len(seeds),
        "first_seed": seeds[0],
        "training_tasks": TRAINING_TASKS,
        "test_tasks": TEST_TASKS,
        "policies": [asdict(row) for row in rows],
    }
    command.printer.outcome(document, lambda: _show(command.printer, rows, seeds, TRAINING_TASKS, TEST_TASKS))


def _show(printer: Printer, rows: list[ShiftRow], seeds: range, training: int, test: int) -> None:
    facts = [
        f"{test} tasks after {training:,} of the other kind",
        f"{len(seeds)} seeds from {seeds[0]} on",
        "serial physics, one task at a time",
    ]
    printer.result(
        [facts],
        [
            Column("scheduler", [named(row.name) for row in rows], number=False),
            Column("published\nsum, s", [_two_decimals(row.published_total) for row in rows], 3),
            Column("published\nratio", [_two_decimals(row.published_ratio) for row in rows], 2),
            Column("measured\nsum, s", [_two_decimals(row.total) for row in rows], 1),
            Column("measured\nratio ± 95 %", [_interval(row) for row in rows]),
            Column("worst\nseed", [_three_decimals(row.worst_ratio) for row in rows], 4),
            Column("status\npublished", [row.published_status or NOTHING for row in rows], 1, number=False),
            Column("status\nmeasured", [row.status for row in rows], 1, number=False),
            Column("tasks to recover\nmedian (worst)", [_recovery(row) for row in rows], 0),
        ],
        remarks=_REMARKS,
    )


def _two_decimals(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _three_decimals(value: float) -> str:
    return f"{value:.3f}" if value < 10 else significant(value)


def _interval(row: ShiftRow) -> str:
    return f"{row.ratio:.3f} ± {row.ratio_interval:.3f}"


def _recovery(row: ShiftRow) -> str:
    if row.recovery_median is None:
        return NOTHING
    return f"{row.recovery_median:g} ({row.recovery_worst})"
