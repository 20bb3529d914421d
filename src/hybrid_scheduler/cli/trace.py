"""`hybrid-scheduler trace RUN_DIR`: a recorded run as a file for Perfetto and chrome://tracing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .command_context import CommandContext


def trace(
    context: typer.Context,
    run_dir: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The folder of a recorded run.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File to write.")] = Path("trace.json"),
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Seed of a comparison; the first by default.")
    ] = None,
) -> None:
    """Write a recorded run as a timeline for ui.perfetto.dev.

    The file has one process per scheduler, one row per device and one block per executed part. It opens in
    ui.perfetto.dev and chrome://tracing; one second of the simulation is one second of the timeline.

    Example: hybrid-scheduler trace results/tails -o trace.json
    """
    command: CommandContext = context.obj
    command.settings()
    import json

    from ..core import HybridSchedulerError, InvalidInputError
    from ..experiments.run_record import HEAVY, read_run
    from ..reports.perfetto_trace import comparison_blocks, perfetto_trace
    from .compile_notice import compile_notice

    record = read_run(run_dir)
    if record.kind == HEAVY:
        raise InvalidInputError(
            "RUN_DIR", "a run whose single tasks can be shown", f"{run_dir}, a heavy simulation",
            hint="simulate --out DIR makes one",
        )  # fmt: skip
    chosen = record.seeds[0] if seed is None else seed
    if chosen not in record.seeds:
        raise InvalidInputError("--seed", f"one of the run's, {record.seeds[0]} to {record.seeds[-1]}", chosen)
    spec = record.spec
    with (
        compile_notice(command.printer.note),
        command.printer.progress(spec.tasks * len(spec.schedulers)) as bar,
    ):
        done = dict.fromkeys(spec.schedulers, 0)

        def advance(scheduler: str, count: int) -> None:
            done[scheduler] += count
            bar(scheduler, sum(done.values()))

        content = perfetto_trace(comparison_blocks(spec.run(chosen, advance)))
    try:
        out.write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise HybridSchedulerError(f"cannot write {out}: {error.strerror or error}") from error
    blocks = sum(1 for event in content["traceEvents"] if event["ph"] == "X")
    command.printer.text(f"{out}: {blocks:,} blocks of {len(spec.schedulers)} schedulers, seed {chosen}")
