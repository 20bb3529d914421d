"""A report before it has a form: sections of text, tables and figures, for HTML and PDF alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Words:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Cells are text. The first column names the row; `numbers` says which of the others are set to the right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    #: Rows that stand out, such as the best.
    strong: frozenset[int] = frozenset()
    words: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure and what it shows."""

    name: str
    figure: Figure
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    blocks: Sequence[Words | Table | Picture]


@dataclass(frozen=True, slots=True)
class ReportContent:
    """`facts` stand below the title; `headline` is the answer in a sentence or two."""

    title: str
    facts: Sequence[str]
    headline: str
    sections: Sequence[Section]
    #: For the foot of every page, such as the run's id.
    foot: str = ""
    language: str = field(default="en")
