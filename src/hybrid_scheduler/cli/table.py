"""Terminal tables and the numbers in them: less important columns are left out before a line would wrap."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

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
        rendered.add_column(Text(header, justify=side), justify=side, no_wrap=not column.flexible)
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
    text = cell.copy() if isinstance(cell, Text) else Text(cell)
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
