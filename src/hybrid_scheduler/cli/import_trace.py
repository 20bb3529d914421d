"""`hybrid-scheduler import`: traces in other formats, stored as traces of this program."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ..core import InvalidInputError
from .command_context import CommandContext, option_names
from .options import Inputs, parsed, with_options
from .printer import Column, Printer

if TYPE_CHECKING:
    from ..workload import ReadReport
    from ..workload.trace_formats import ValueSource

#: Bad rows that the terminal lists; --json lists up to 1,000.
_SHOWN = 5


@with_options(("indivisible", "platform"), columns={"names": ("--map",)})
def import_trace(
    command: CommandContext,
    inputs: Inputs,
    file: Path,
    /,
    format: str | None = None,
    name: str | None = None,
    scale: float = 1.0,
    load: str | None = None,
    columns: list[str] | None = None,
    skip_bad: bool = False,
    force: bool = False,
) -> None:
    """Import a trace from another format into data/workload_traces.

    The command prints how it read each column, which rows it could not use, and the load that the tasks offer to
    the machine. A file with errors is not imported. A file whose name ends in .gz is decompressed.

    \b
    Examples:
      hybrid-scheduler import jobs.swf --scale 0.001
      hybrid-scheduler import openb_pod_list_default.csv --name pods --skip-bad --load 0.7
      hybrid-scheduler import week.csv --name clean --skip-bad
      hybrid-scheduler import own.csv --map "seconds=end - start" --map arrival_time=submitted
      hybrid-scheduler simulate --trace pods

    Parameters
    ----------
    file : FILE
        The trace to read.
    format : NAME
        swf, wfformat, alibaba, azure, gavel, philly or csv; detected from the file by default.
    name : NAME
        Name of the new trace; the file's own name by default.
    scale : X
        Multiply all times and MB: 0.001 turns an hour into 3.6 seconds.
    load : SHARE
        Stretch the arrivals to this share of the machine's capacity.
    columns : VALUE=SOURCE
        Source of a value of other tables: size, seconds, arrival_time, memory_required or compute_intensity as
        COLUMN, 'END - START', 'MS * 0.001' or a number; may be repeated, and is guessed by default.
    skip_bad
        Leave bad rows out instead of refusing the file.
    force
        Replace an existing trace of that name.
    """
    from ..workload.scenarios import offered_load, stretch_arrivals
    from ..workload.trace_files import save_workload
    from ..workload.trace_formats import FORMATS, detect_format, import_table, import_trace
    from .inputs import TRACE_FOLDER, overload_text

    if not file.is_file():
        raise InvalidInputError("FILE", "a file that exists", str(file))
    machine = inputs.settings(command).machine()
    wanted = None if load is None else parsed("--load", load, "a number > 0", float)
    called = name or (Path(file.stem).stem if file.suffix.lower() == ".gz" else file.stem)
    if not called or called.startswith(".") or any(mark in called for mark in '/\\:*?"<>|\0'):
        raise InvalidInputError("--name", "a bare name, without folders", called)
    target = TRACE_FOLDER / f"{called}.csv"
    if target.exists() and not force:
        raise InvalidInputError("--name", "one that is not taken", called, hint="--force replaces the trace")
    if columns and format:
        raise InvalidInputError("--map", "left out with --format", columns)
    found = format or (None if columns else detect_format(file))
    mapping = _mapping(file, columns) if found is None else None
    with option_names(mapping="--map"):
        if mapping is None:
            workload, report = import_trace(file, found, scale=scale, skip_bad=skip_bad)
        else:
            workload, report = import_table(file, mapping, scale=scale, skip_bad=skip_bad)
    if inputs.indivisible:
        workload = workload.indivisible()
    if wanted is not None:
        with option_names(load="--load"):
            workload = stretch_arrivals(workload, wanted, machine.platform, machine.physics)
    offered = offered_load(workload, machine.platform, machine.physics)
    target.parent.mkdir(parents=True, exist_ok=True)
    save_workload(workload, target)
    document = {
        "trace": called,
        "file": target.as_posix(),
        "format": found,
        "platform": machine.platform.name,
        "offered_load": offered,
        "rows_rejected": report.rows_rejected,
        **asdict(report),
    }
    title, word = ("table", "line") if found is None else (FORMATS[found].title, FORMATS[found].word)

    def show() -> None:
        _show(command.printer, title, word, report, target)
        if offered is not None:
            command.printer.text()
            command.printer.text(f"offered load: {offered:.3g} times the capacity of {machine.platform.name}")
            if offered > 1:
                command.printer.report("warning", overload_text(called, offered, machine.platform.name))
        command.printer.note(f"next: hybrid-scheduler simulate --trace {called}")

    command.printer.outcome(document, show)


def _mapping(file: Path, given: list[str] | None) -> dict[str, ValueSource] | None:
    """Return the sources of a table's values: those that were given, and guesses for the others.

    None if the file is no table, or its columns do not say what they are.
    """
    from ..workload.trace_formats import ValueSource, first_rows, guess_mapping

    sources = {}
    for item in given or ():
        value, equals, source = (part.strip() for part in item.partition("="))
        if not (equals and source):
            raise InvalidInputError("--map", "VALUE=SOURCE, such as seconds=run_time", item)
        with option_names(mapping="--map"):
            sources[value] = ValueSource.parsed(source)
    try:
        mapping = guess_mapping(first_rows(file, 1))
    except InvalidInputError:
        if given:
            raise
        return None
    if {"size", "seconds"} & sources.keys():
        mapping = {name: source for name, source in mapping.items() if name not in ("size", "seconds")}
    mapping |= sources
    complete = "arrival_time" in mapping and {"size", "seconds"} & mapping.keys()
    return mapping if given or complete else None


def _show(printer: Printer, title: str, word: str, report: ReadReport, target: Path) -> None:
    printer.text(f"{title}: {report.rows_kept} of {report.rows_read} tasks kept as {target.as_posix()}")
    printer.text()
    printer.table(
        [
            Column("column", list(report.mapping), number=False),
            Column("taken from", list(report.mapping.values()), number=False, flexible=True),
        ]
    )
    if report.notes:
        printer.text()
    for note in report.notes:
        printer.text(note)
    if report.rows_rejected:
        behind = report.dependents_rejected
        why = f", {behind} of them because they depend on one that was left out" if behind else ""
        printer.text()
        printer.text(f"{report.rows_rejected} rows left out{why}, for example")
        for bad in report.rejected[:_SHOWN]:
            printer.text(f"  {word} {bad.line}: {bad.field} {bad.reason}")
