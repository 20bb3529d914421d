"""Printer of all commands: results to stdout, messages and progress to stderr, tables that fit the terminal.

Less important columns of a table are left out before a line would wrap. Everything that is printed passes through
`as_text`: names in files and messages of foreign code are neither markup nor commands to the terminal.
"""

from __future__ import annotations

import io
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..core.canonical_json import pretty_json

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: Seconds until a progress bar appears: one that vanishes at once only flickers. The spinner of a command that
#: starts needs a quarter of them, because its imports took a while before.
BAR_AFTER_S = 0.2


#: Control characters, and those that reverse the direction of writing, as characters that a terminal shows.
_SHOWN = {
    **{code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"},
    0x7F: 0x2421,
    **dict.fromkeys((*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD),
}


#: Sign and style of a check by its status.
_SIGNS = {"ok": ("✓", "green"), "info": ("·", "dim"), "warning": ("!", "yellow"), "failed": ("✗", "red")}


def as_text(text: str | Text, style: str = "") -> Text:
    """Return text without markup, in which control characters are shown instead of sent to the terminal."""
    if isinstance(text, str):
        return Text(text.translate(_SHOWN), style=style)
    shown = text.copy()
    shown.plain = shown.plain.translate(_SHOWN)
    return shown


class Printer:
    """Writer to stdout and stderr as they are when it is created."""

    def __init__(self, *, quiet: bool = False) -> None:
        for stream in (sys.stdout, sys.stderr):
            # A glyph that the terminal's encoding lacks becomes "?" instead of an exception.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")
        self.quiet = quiet
        #: Whether results are JSON documents instead of tables.
        self.as_json = False
        self._out = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
        self._err = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
        self._live: _Live | None = None

    # ---------------------------------------------------------------- results

    def outcome(self, document: Any, table: Callable[[], None]) -> None:
        """Print the result of a command: its JSON document with --json, else what `table` prints."""
        if self.as_json:
            self.document(document)
        else:
            table()

    def document(self, content: Any) -> None:
        """Print one strict JSON document, in one write."""
        self.calm()
        self._out.file.write(pretty_json(content))
        self._out.file.flush()

    def text(self, text: str | Text = "", style: str = "") -> None:
        """Print a line of the result; on a terminal it wraps between words."""
        self.calm()
        if self.width and text:
            self._out.print(Padding(as_text(text, style), (0, 1), expand=False))
        else:
            self._out.print(as_text(text, style), soft_wrap=True)

    def result(
        self, facts: Iterable[Sequence[str]], columns: Sequence[Column], headline: str = "",
        remarks: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """Print rows of facts, a table between blank lines, a headline, and remarks."""
        self.lines(facts)
        self.text()
        self.table(columns)
        self.text()
        if headline:
            self.text(headline, "bold")
        for remark in remarks:
            self.text(remark, "dim")

    def lines(self, rows: Iterable[Sequence[str]]) -> None:
        """Print rows of facts."""
        for row in rows:
            self.facts(row)

    def facts(self, facts: Sequence[str]) -> None:
        """Print short facts in a row; where they do not fit, the line breaks between two of them."""
        row = ""
        for fact in facts:
            longer = f"{row} · {fact}" if row else fact
            if row and self.width and cell_len(longer) > self.width - 2:
                self.text(row)
                longer = fact
            row = longer
        if row:
            self.text(row)

    def checks(self, found: Iterable[tuple[str, str, str, str | None]], summary: str) -> None:
        """Print a sign, a name and a detail per check, with hints on lines of their own, and a summary."""
        rows: list[tuple[str | Text, str, str | Text]] = []
        for name, status, detail, hint in found:
            rows.append((Text(*_SIGNS[status]), name, detail))
            if hint:
                rows.append(("", "", Text.assemble(("hint:", "bold cyan"), f" {hint}")))
        signs, names, details = zip(*rows, strict=True)
        self.table(
            [
                Column("", signs, number=False),
                Column("", names, number=False),
                Column("", details, number=False, flexible=True),
            ]
        )
        self.text(summary)

    def tables(self, *tables: Sequence[Column]) -> None:
        """Print tables with blank lines between them."""
        for number, columns in enumerate(tables):
            if number:
                self.text()
            self.table(columns)

    def table(self, columns: Sequence[Column]) -> None:
        """Print a table; on a terminal only the columns that fit."""
        self.calm()
        rendered = table(columns, self.width)
        if self.width:
            self._out.print(Padding(rendered, (0, 0, 0, 1), expand=False))
            return
        # A pipe has no width: allow any line length, and strip the blanks at the end.
        endless = Console(file=io.StringIO(), width=10_000, color_system=None)
        with endless.capture() as capture:
            endless.print(rendered)
        for line in capture.get().splitlines():
            self.text(line.rstrip())

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None when the result goes into a pipe or a file."""
        return self._out.width if self._out.is_terminal else None

    # ---------------------------------------------------------------- messages

    def note(self, text: str) -> None:
        """Print a remark to stderr, unless the user wants only results."""
        if not self.quiet:
            self._err.print(as_text(text, "dim"), soft_wrap=True)

    def report(self, kind: str, text: str) -> None:
        """Print ``error: ...``, ``hint: ...`` or ``warning: ...`` to stderr, always as one line."""
        style = {"error": "bold red", "warning": "bold yellow", "hint": "bold cyan"}.get(kind, "dim")
        line = Text.assemble((f"{kind}:", style), " ", " ".join(text.split("\n")))
        self._err.print(as_text(line), soft_wrap=True)

    @contextmanager
    def progress(self, total: int) -> Iterator[Callable[[str, int], None]]:
        """Show a progress bar on a terminal.

        Parameters
        ----------
        total
            Units of the whole run.

        Yields
        ------
        callable
            Takes a description of the present step and the units done so far.
        """
        if self.quiet or not self._err.is_terminal:
            yield lambda *_: None
            return
        live = self._show(total)

        def update(description: str, done: int) -> None:
            live.bar.update(live.task, description=as_text(description).plain, completed=done)

        try:
            yield update
        finally:
            self.calm()

    def busy(self) -> None:
        """Show a spinner on a terminal until the first result or progress bar."""
        if not self.quiet and self._err.is_terminal:
            self._show(None)
            self.doing("starting")

    def doing(self, words: str) -> None:
        """Describe the present step beside the spinner or the bar, if there is one."""
        if self._live is not None:
            self._live.bar.update(self._live.task, description=as_text(words).plain)

    def calm(self) -> None:
        """Remove the spinner or the bar."""
        if self._live is not None:
            self._live.timer.cancel()
            self._live.timer.join()
            self._live.bar.stop()
            self._live = None

    def _show(self, total: int | None) -> _Live:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn
        from rich.progress import TimeRemainingColumn as TimeLeft

        self.calm()
        columns = [] if total is None else [BarColumn(), TaskProgressColumn(), TimeLeft()]
        words = TextColumn("{task.description}", markup=False)
        bar = Progress(SpinnerColumn(), words, *columns, console=self._err, transient=True)
        timer = threading.Timer(BAR_AFTER_S / 4 if total is None else BAR_AFTER_S, bar.start)
        timer.daemon = True
        timer.start()
        self._live = _Live(bar, bar.add_task("", total=total), timer)
        return self._live


class _Live(NamedTuple):
    """What moves on the terminal, and the timer that shows it."""

    bar: Progress
    task: TaskID
    timer: threading.Timer


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore interrupts within this block, where one would leave half a result."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# ------------------------------------------------------------------------------------------ tables

_GAPS = (2, 1)
_MARGIN = 1
#: Columns of this rank and above are for wide terminals; they never reduce the gap between the others.
EXTRA = 10


@dataclass(frozen=True)
class Column:
    """A column of a table.

    The header may have two lines. Columns of rank 0 always stay; of the others the highest rank is left out first.
    """

    header: str
    cells: Sequence[str | Text]
    rank: int = 0
    number: bool = True
    best: frozenset[int] = frozenset()
    #: Text that takes the remaining width and wraps.
    flexible: bool = False

    @property
    def width(self) -> int:
        """Width in characters."""
        if self.flexible:
            return 24
        texts = [*self.header.split("\n"), *(str(cell) for cell in self.cells)]
        return max(map(cell_len, texts))


def table(columns: Sequence[Column], width: int | None) -> RenderableType:
    """Return a renderable table; without a width, which means a pipe, it has no rule below the header."""
    kept, gap = fitting(columns, width)
    rendered = Table(
        box=SIMPLE_HEAD if width else None,
        padding=(0, gap - 1 if width else gap, 0, 0),  # the box itself puts one space between columns
        pad_edge=False,
        show_edge=False,
        show_header=any(column.header for column in kept),
        header_style="bold",
        border_style="dim",
    )
    lines = max(column.header.count("\n") for column in kept)
    for column in kept:
        side: JustifyMethod = "right" if column.number else "left"
        header = (
            "\n" * (lines - column.header.count("\n")) + column.header
        )  # short headers are aligned at the bottom
        rendered.add_column(as_text(Text(header, justify=side)), justify=side, no_wrap=not column.flexible)
    for row in range(len(kept[0].cells)):
        rendered.add_row(*(_cell(column, row) for column in kept))
    return rendered


def fitting(columns: Sequence[Column], width: int | None) -> tuple[list[Column], int]:
    """Return the columns that fit side by side, by importance, and the gap between them."""
    if width is None:
        return list(columns), _GAPS[0]
    for gap in _GAPS:
        kept = _kept(columns, width - _MARGIN, gap)
        if all(index in kept for index, column in enumerate(columns) if column.rank < EXTRA):
            break
    return [columns[index] for index in sorted(kept)], gap


def _kept(columns: Sequence[Column], width: int, gap: int) -> set[int]:
    kept: set[int] = set()
    remaining = width + gap
    for index in sorted(range(len(columns)), key=lambda i: columns[i].rank):
        remaining -= columns[index].width + gap
        if remaining < 0 and columns[index].rank > 0:
            break
        kept.add(index)
    return kept


def _cell(column: Column, row: int) -> Text:
    cell = column.cells[row]
    text = as_text(cell)
    if row in column.best:
        text.stylize("bold green")
    return text


NOTHING = "–"


def significant(value: float | None) -> str:
    """Return three significant digits (1.02, 23.4, 0.0307, 812000), or a dash for None and NaN."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    rounded, _, exponent = f"{value:.2e}".partition("e")  # rounding first: 9.996 has the exponent of 10.0
    power = int(exponent)
    if not -4 <= power <= 5:
        return f"{rounded}e{power}"
    return f"{float(f'{rounded}e{power}'):.{max(0, 2 - power)}f}"


def three_decimals(value: float | None) -> str:
    """Return three decimals, for indices between 0 and 1, where 0.998 and 0.980 should line up."""
    return NOTHING if value is None or math.isnan(value) else f"{value:.3f}"


def percent(share: float | None) -> str:
    """Return a share as whole per cent."""
    return NOTHING if share is None or math.isnan(share) else f"{100 * share:.0f}%"


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: its symbol and its size in base units."""

    symbol: str
    size: float = 1.0

    def show(self, value: float | None) -> str:
        """Return a value of the base unit as a number in this unit, without the symbol."""
        return significant(None if value is None else value / self.size)


SECONDS = (Unit("µs", 1e-6), Unit("ms", 1e-3), Unit("s"))
JOULES = (Unit("mJ", 1e-3), Unit("J"), Unit("kJ", 1e3), Unit("MJ", 1e6), Unit("GJ", 1e9))
BYTES = (Unit("B"), Unit("kB", 1e3), Unit("MB", 1e6), Unit("GB", 1e9))
DOLLARS = (Unit("µ$", 1e-6), Unit("m$", 1e-3), Unit("$"))


def unit_for(values: Iterable[float | None], units: tuple[Unit, ...]) -> Unit:
    """Return the largest unit in which the median of the values is at least 1."""
    known = [value for value in values if value is not None and math.isfinite(value) and value > 0]
    middle = median(known) if known else 1.0
    fitting = [unit for unit in units if unit.size <= middle]
    return fitting[-1] if fitting else units[0]


def with_unit(value: float | None, units: tuple[Unit, ...]) -> str:
    """Return one number with its unit, such as "201 s"."""
    unit = unit_for([value], units)
    return f"{unit.show(value)} {unit.symbol}"
