"""`hybrid-scheduler trace RUN_DIR`: a recorded run for chrome://tracing and ui.perfetto.dev."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .command_context import CommandContext


def trace(
    context: typer.Context,
    run_dir: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The folder of a recorded run.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The trace to write.")] = Path(
        "trace.json"
    ),
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Which seed of a comparison; the first if not given.")
    ] = None,
) -> None:
    """Write a run as a trace: one process per scheduler, one row per device, one block per executed part.

    Open the file in ui.perfetto.dev or chrome://tracing. Seconds of the simulation are seconds of the trace.

    Example: hybrid-scheduler trace results/tails -o trace.json
    """
    command: CommandContext = context.obj
    command.settings()
    import json

    from ..core import HybridSchedulerError, InvalidInputError
    from ..experiments.run_record import HEAVY, read_run
    from ..reports.perfetto_trace import comparison_parts, perfetto_trace
    from .compile_notice import announced

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
        announced(command.printer.note),
        command.printer.progress(spec.tasks * len(spec.schedulers)) as bar,
    ):
        done = dict.fromkeys(spec.schedulers, 0)

        def advance(scheduler: str, count: int) -> None:
            done[scheduler] += count
            bar(scheduler, sum(done.values()))

        content = perfetto_trace(comparison_parts(spec.run(chosen, advance)))
    try:
        out.write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise HybridSchedulerError(f"cannot write {out}: {error.strerror or error}") from error
    blocks = sum(1 for event in content["traceEvents"] if event["ph"] == "X")
    command.printer.text(f"{out}: {blocks:,} blocks of {len(spec.schedulers)} schedulers, seed {chosen}")
