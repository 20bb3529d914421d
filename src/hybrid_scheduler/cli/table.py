"""A table that always fits: what does not matter most is left out before anything would wrap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

_GAPS = (2, 1)
_MARGIN = 1
#: Columns of this rank and above are for wide screens: never worth moving the others closer together.
EXTRA = 10


@dataclass(frozen=True)
class Column:
    """`header` may have two lines. `rank` 0 always stays; of the others the highest is the first to go."""

    header: str
    cells: Sequence[str | Text]
    rank: int = 0
    number: bool = True
    best: frozenset[int] = frozenset()
    #: Prose: takes the width that is left and is folded there.
    flexible: bool = False

    @property
    def width(self) -> int:
        if self.flexible:
            return 24
        texts = [*self.header.split("\n"), *(str(cell) for cell in self.cells)]
        return max(map(cell_len, texts))


def table(columns: Sequence[Column], width: int | None) -> RenderableType:
    """The rows under each other, with a rule below the header where somebody looks; bare for a pipe (no width)."""
    shown, gap = fitting(columns, width)
    sheet = Table(
        box=SIMPLE_HEAD if width else None,
        padding=(0, gap - 1 if width else gap, 0, 0),  # the box itself puts one space between columns
        pad_edge=False,
        show_edge=False,
        show_header=any(column.header for column in shown),
        header_style="bold",
        border_style="dim",
    )
    lines = max(column.header.count("\n") for column in shown)
    for column in shown:
        side: JustifyMethod = "right" if column.number else "left"
        header = "\n" * (lines - column.header.count("\n")) + column.header  # short ones stand at the bottom
        sheet.add_column(Text(header, justify=side), justify=side, no_wrap=not column.flexible)
    for row in range(len(shown[0].cells)):
        sheet.add_row(*(_cell(column, row) for column in shown))
    return sheet


def fitting(columns: Sequence[Column], width: int | None) -> tuple[list[Column], int]:
    """The columns that fit side by side, the most important ones first served, and the gap between them."""
    if width is None:
        return list(columns), _GAPS[0]
    for gap in _GAPS:
        kept = _kept(columns, width - _MARGIN, gap)
        if all(index in kept for index, column in enumerate(columns) if column.rank < EXTRA):
            break
    return [columns[index] for index in sorted(kept)], gap


def _kept(columns: Sequence[Column], width: int, gap: int) -> set[int]:
    kept: set[int] = set()
    room = width + gap
    for index in sorted(range(len(columns)), key=lambda i: columns[i].rank):
        room -= columns[index].width + gap
        if room < 0 and columns[index].rank > 0:
            break
        kept.add(index)
    return kept


def _cell(column: Column, row: int) -> Text:
    cell = column.cells[row]
    text = cell.copy() if isinstance(cell, Text) else Text(cell)
    if row in column.best:
        text.stylize("bold green")
    return text
