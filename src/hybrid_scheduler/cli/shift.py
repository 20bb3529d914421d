"""`hybrid-scheduler shift`: recovery of learned policies after a shift in the workload."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ..experiments import FIRST_REPORTED_SEED as FIRST_SEED
from .command_context import CommandContext
from .options import JsonOption
from .printer import NOTHING, Column, Printer, significant

if TYPE_CHECKING:
    from ..experiments.distribution_shift import ShiftRow


def shift(
    context: typer.Context,
    seeds: Annotated[
        int,
        typer.Option(metavar="N", help="Number of seeds, at least 2; each has its own training and test tasks."),
    ] = 20,
    as_json: JsonOption = False,
) -> None:
    """Measure how policies react when the workload changes.

    Training tasks are large and compute-bound, so the GPU is always faster; the 500 test tasks are small and
    transfer much data, so the CPU is. The table shows the published numbers beside the measured ones.

    Example: hybrid-scheduler shift --seeds 5
    """
    command: CommandContext = context.obj
    command.settings()
    from ..core import InvalidInputError
    from ..experiments.distribution_shift import TEST_TASKS, TRAINING_TASKS, shift_study

    if seeds < 2:
        raise InvalidInputError("--seeds", "at least 2, for an interval", seeds)
    with command.printer.progress(seeds) as update:

        def progress(words: str) -> None:
            # "seed 1003: greedy"
            update(words, int(words.split()[1].rstrip(":")) - FIRST_SEED)

        rows = shift_study(seeds, first_seed=FIRST_SEED, progress=progress)
    if as_json:
        command.printer.document(
            {
                "seeds": seeds,
                "first_seed": FIRST_SEED,
                "training_tasks": TRAINING_TASKS,
                "test_tasks": TEST_TASKS,
                "policies": [asdict(row) for row in rows],
            }
        )
    else:
        _show(command.printer, rows, seeds, TRAINING_TASKS, TEST_TASKS)


def _show(printer: Printer, rows: list[ShiftRow], seeds: int, training: int, test: int) -> None:
    printer.facts(
        [
            f"{test} tasks after {training:,} of the other kind",
            f"{seeds} seeds from {FIRST_SEED} on",
            "serial physics, one task at a time",
        ]
    )
    printer.text()
    printer.table(
        [
            Column("policy", [_name(row.name) for row in rows], number=False),
            Column("published\nsum, s", [_two_decimals(row.published_total) for row in rows], 3),
            Column("published\nratio", [_two_decimals(row.published_ratio) for row in rows], 2),
            Column("measured\nsum, s", [_two_decimals(row.total) for row in rows], 1),
            Column("measured\nratio ± 95 %", [_interval(row) for row in rows]),
            Column("worst\nseed", [_three_decimals(row.worst_ratio) for row in rows], 4),
            Column("tasks to recover\nmedian (worst)", [_recovery(row) for row in rows], 0),
        ]
    )
    printer.text()
    for remark in (
        "ratio: sum of times over the optimum's, on the same tasks: every policy of a seed sees the same stream",
        "hybrid_ml and bandit: only the executed choice is known, as on real hardware; the other learners have "
        "oracle feedback: after each task the simulation reports the times of both devices",
        "recovered: the first task from which 20 in a row cost at most 5 % more than the optimum; "
        f"{NOTHING} if that did not happen on every seed",
    ):
        printer.text(Text(remark, style="dim"))


def _name(name: str) -> Text:
    """Return a policy's name with the glyph of its scheduler, where there is one."""
    from ..schedulers import schedulers

    base, comma, variant = name.partition(",")
    known = schedulers().get("oracle" if base == "optimal" else base)
    mark = (known.look.glyph, known.look.dark) if known else ("·", "dim")
    return Text.assemble(mark, " ", base, (comma + variant, "dim"))


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
