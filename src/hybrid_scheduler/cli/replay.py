"""`hybrid-scheduler replay` and `trace`: a recorded run, repeated byte by byte or drawn as a timeline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..core import HybridSchedulerError, InvalidInputError
from .command_context import CommandContext, option_names
from .options import check_file, check_path, with_options
from .printer import Printer

if TYPE_CHECKING:
    from ..experiments.exact_replay import ReplayResult
    from ..experiments.run_record import RunFile


@with_options()
def replay(command: CommandContext, run_dir: Path, /, processes: int | None = None) -> None:
    """Repeat a recorded run and compare its log, byte for byte.

    If a byte differs, the exit code is 1, and the command prints the first different line and the versions that
    have changed since.

    Example: hybrid-scheduler replay results/tails

    Parameters
    ----------
    run_dir : RUN_DIR
        The folder of a recorded run.
    """
    command.settings()
    repeat(command, run_dir, "RUN_DIR", processes)


def repeat(command: CommandContext, run_dir: Path, field: str, processes: int | None) -> None:
    """Repeat the recorded run in a folder, which the option or argument `field` gave, and print the result."""
    from ..experiments.exact_replay import replay

    record = _read_run(run_dir, field)
    total = len(record.seeds) if record.kind == "compare" else record.spec.tasks * len(record.spec.schedulers)
    with command.printer.progress(total) as update:
        found = replay(run_dir, processes=processes, progress=update)
    _show_replay(command.printer, found)


def read_tasks_of_run(run_dir: Path, field: str, hint: str) -> RunFile:
    """Return the record of a run whose single tasks can be shown; a heavy simulation has none.

    Parameters
    ----------
    run_dir
        Folder of the run.
    field
        Option or argument that gave it.
    hint
        What to do with a heavy simulation.

    Raises
    ------
    InvalidInputError
        If the folder holds no such run.
    """
    from ..experiments.run_record import HEAVY

    record = _read_run(run_dir, field)
    if record.kind == HEAVY:
        got = f"{run_dir}, a heavy simulation"
        raise InvalidInputError(field, "a run whose single tasks can be shown", got, hint=hint)
    return record


def _read_run(folder: Path, field: str) -> RunFile:
    from ..experiments.run_record import read_run

    for file in folder.iterdir() if folder.is_dir() else ():
        check_path(field, file)
    with option_names(folder=field):
        return read_run(folder)


def _show_replay(printer: Printer, found: ReplayResult) -> None:
    """Print the result of a replay; raise an error if the run came out differently."""
    if printer.as_json:
        printer.document(
            {
                "run_id": found.record.run_id,
                "kind": found.record.kind,
                "same": found.same,
                "lines": found.record.events_count,
                "recorded_sha256": found.record.events_sha256,
                "sha256": found.sha256,
                "first_difference": None if found.line is None else found.line[0],
                "changed_versions": {name: list(pair) for name, pair in found.changed_versions.items()},
            }
        )
    elif found.same:
        printer.text(
            f"run {found.record.run_id}: the same {found.record.events_count:,} lines again, sha256 {found.sha256}"
        )
    if not found.same:
        changed = ", ".join(f"{name} {was} → {now}" for name, (was, now) in found.changed_versions.items())
        number, before, after = found.line or (0, "", "")
        raise HybridSchedulerError(
            f"run {found.record.run_id} came out differently: "
            f"line {number} was {_short(before)}, now {_short(after)}",
            hint=f"versions have changed since: {changed}" if changed else "the versions are those of the record",
        )


@with_options(json=False, out={"names": ("-o",)})
def trace(
    command: CommandContext, run_dir: Path, /, out: Path = Path("trace.json"), seed: int | None = None
) -> None:
    """Write a recorded run as a timeline for ui.perfetto.dev.

    The file has one process per scheduler, one row per device and one block per executed part. It opens in
    ui.perfetto.dev and chrome://tracing; one second of the simulation is one second of the timeline.

    Example: hybrid-scheduler trace results/tails -o trace.json

    Parameters
    ----------
    run_dir : RUN_DIR
        The folder of a recorded run.
    out : FILE
        File to write.
    seed : N
        Seed of a comparison; the first by default.
    """
    command.settings()
    check_file("--out", out)
    import json

    from ..experiments.run_record import writing
    from ..reports.file_formats import comparison_blocks, perfetto_trace
    from .inputs import total_progress

    record = read_tasks_of_run(run_dir, "RUN_DIR", "simulate --out DIR makes one")
    chosen = record.seeds[0] if seed is None else seed
    if chosen not in record.seeds:
        raise InvalidInputError("--seed", f"one of the run's, {record.seeds[0]} to {record.seeds[-1]}", chosen)
    spec = record.spec
    with command.printer.progress(spec.tasks * len(spec.schedulers)) as update:
        content = perfetto_trace(comparison_blocks(spec.run(chosen, total_progress(spec, update))))
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")
    blocks = sum(1 for event in content["traceEvents"] if event["ph"] == "X")
    command.printer.text(f"{out}: {blocks:,} blocks of {len(spec.schedulers)} schedulers, seed {chosen}")


def _short(text: str) -> str:
    return (text if len(text) <= 160 else text[:157] + "...") or "missing"
