"""PDF reports: A4, numbered pages, figures at print resolution."""

from __future__ import annotations

import io
from collections.abc import Iterator
from html import escape
from typing import Any

from ..core import require
from .report_documents import FigureBlock, ReportContent, TableBlock, TextBlock

_DPI = 220
#: Largest height of a figure in text widths, so that two fit on a page.
_HIGHEST = 0.64
#: A figure that would shrink below this share gets a whole page, so that its text stays readable.
_SMALLEST, _WHOLE_PAGE = 0.8, 1.3
_INK, _QUIET, _LINE, _WASH, _ACCENT = "#1B2530", "#5A6775", "#DCE1E7", "#F6F8FA", "#157A8B"
#: Letters that the PDF's own fonts lack.
_PLAIN = {"→": "to", "ρ": "load", "≤": "at most", "≥": "at least", "−": "-"}


def as_pdf(report: ReportContent) -> bytes:
    """Return the report as a PDF file; it holds no date, so the same report gives the same bytes."""
    require("reportlab", "a PDF")
    from reportlab.lib.pagesizes import A4
    from reportlab.lib.units import mm
    from reportlab.platypus import BaseDocTemplate, Frame, PageTemplate

    file = io.BytesIO()
    margin = 20 * mm
    document = BaseDocTemplate(
        file, pagesize=A4, title=report.title, author="hybrid-scheduler", subject=report.headline, invariant=1,
        leftMargin=margin, rightMargin=margin, topMargin=18 * mm, bottomMargin=20 * mm, lang=report.language,
    )  # fmt: skip
    width = A4[0] - 2 * margin
    frame = Frame(
        margin, 20 * mm, width, A4[1] - 38 * mm, leftPadding=0, rightPadding=0, topPadding=0, bottomPadding=0
    )

    def foot(canvas: Any, page: Any) -> None:
        canvas.saveState()
        canvas.setFont("Helvetica", 8)
        canvas.setFillColor(_QUIET)
        canvas.drawString(margin, 11 * mm, _ascii(report.foot)[:110])
        canvas.drawRightString(A4[0] - margin, 11 * mm, f"{page.page}")
        canvas.restoreState()

    document.addPageTemplates(PageTemplate(frames=[frame], onPage=foot))
    document.build(list(_story(report, width)))
    return file.getvalue()


def _styles() -> dict[str, Any]:
    from reportlab.lib.colors import HexColor
    from reportlab.lib.styles import ParagraphStyle

    base = ParagraphStyle("base", fontName="Helvetica", fontSize=9.5, leading=13.5, textColor=HexColor(_INK))

    def style(name: str, **more: Any) -> Any:
        return ParagraphStyle(name, parent=base, **more)

    return {
        "text": style("text", spaceAfter=6),
        "title": style("title", fontName="Helvetica-Bold", fontSize=20, leading=24, spaceAfter=4),
        "facts": style("facts", fontSize=9, textColor=HexColor(_QUIET), spaceAfter=10),
        "headline": style(
            "headline", fontSize=11, leading=15, spaceBefore=8, spaceAfter=10, backColor=HexColor(_WASH),
            borderPadding=(7, 9, 7, 9), leftIndent=9, rightIndent=9,
        ),
        "section": style(
            "section", fontName="Helvetica-Bold", fontSize=13, leading=16, spaceBefore=14, spaceAfter=6,
            textColor=HexColor(_ACCENT), keepWithNext=1,
        ),
        "caption": style("caption", fontSize=8.5, leading=11, textColor=HexColor(_QUIET), spaceAfter=10),
        "cell": style("cell", fontSize=7.5, leading=9.5),
        "number": style("number", fontSize=7.5, leading=9.5, alignment=2),
    }  # fmt: skip


def _story(report: ReportContent, width: float) -> Iterator[Any]:
    from reportlab.platypus import KeepTogether, Paragraph, Spacer

    styles = _styles()

    def words(text: str, style: str) -> Any:
        return Paragraph(escape(_ascii(text)), styles[style])

    yield words(report.title, "title")
    yield words("  ·  ".join(report.facts), "facts")
    yield words(report.headline, "headline")
    for section in report.sections:
        title = words(section.title, "section")
        for number, block in enumerate(section.blocks):
            # Keep a title together with the first block of its section.
            before = [title] if number == 0 else []
            if isinstance(block, TextBlock):
                yield KeepTogether([*before, words(block.text, "text")])
            elif isinstance(block, FigureBlock):
                image = _image(block, width)
                yield KeepTogether([*before, image, words(block.caption, "caption")])
            else:
                note = [words(block.note, "caption")] if block.note else [Spacer(1, 8)]
                short = len(block.rows) <= 25
                parts = [_table(block, width, styles), Spacer(1, 3), *note]
                if short:
                    yield KeepTogether([*before, *parts])
                else:
                    yield from [*before, *parts]


def _image(picture: FigureBlock, width: float) -> Any:
    from reportlab.platypus import Image

    file = io.BytesIO()
    picture.figure.savefig(file, format="png", dpi=_DPI, metadata={"Software": None})
    file.seek(0)
    across, up = picture.figure.get_size_inches()
    scale = min(width / across, _HIGHEST * width / up)
    if scale < _SMALLEST * width / across:
        scale = min(width / across, _WHOLE_PAGE * width / up)
    return Image(file, across * scale, up * scale, hAlign="LEFT")


def _table(table: TableBlock, width: float, styles: dict[str, Any]) -> Any:
    from reportlab.lib.colors import HexColor
    from reportlab.platypus import Paragraph
    from reportlab.platypus import Table as Grid

    words = table.words | {0}

    def cell(text: str, column: int, *, bold: bool) -> Any:
        markup = escape(_ascii(text)).replace("\n", "<br/>")
        return Paragraph(f"<b>{markup}</b>" if bold else markup, styles["cell" if column in words else "number"])

    content = [[cell(text, column, bold=True) for column, text in enumerate(table.header)]] + [
        [cell(text, column, bold=number in table.strong) for column, text in enumerate(row)]
        for number, row in enumerate(table.rows)
    ]
    grid = Grid(content, colWidths=_widths(table, width), repeatRows=1, hAlign="LEFT")
    grid.setStyle(
        [
            ("VALIGN", (0, 0), (-1, 0), "BOTTOM"),
            ("VALIGN", (0, 1), (-1, -1), "TOP"),
            ("LINEBELOW", (0, 0), (-1, 0), 0.9, HexColor(_QUIET)),
            ("LINEBELOW", (0, 1), (-1, -1), 0.4, HexColor(_LINE)),
            ("LEFTPADDING", (0, 0), (-1, -1), 3),
            ("RIGHTPADDING", (0, 0), (-1, -1), 3),
            ("TOPPADDING", (0, 0), (-1, -1), 2.5),
            ("BOTTOMPADDING", (0, 0), (-1, -1), 2.5),
            *(("BACKGROUND", (0, row + 1), (-1, row + 1), HexColor(_WASH)) for row in sorted(table.strong)),
        ]
    )
    return grid


def _widths(table: TableBlock, width: float) -> list[float]:
    """Return column widths in proportion to the longest text of each column."""
    from reportlab.pdfbase.pdfmetrics import stringWidth

    longest = []
    for column, head in enumerate(table.header):
        bold = [*head.split("\n"), *(table.rows[row][column] for row in table.strong)]
        widths = [stringWidth(_ascii(text), "Helvetica-Bold", 7.5) for text in bold]
        widths += [stringWidth(_ascii(row[column]), "Helvetica", 7.5) for row in table.rows]
        longest.append(max(widths) + 7)
    spare = width - sum(longest)
    if spare >= 0:
        return [one + spare * one / sum(longest) for one in longest]
    return [one * width / sum(longest) for one in longest]


def _ascii(text: str) -> str:
    """Return the text in characters of the standard fonts; others are spelled out or dropped."""
    for letter, plain in _PLAIN.items():
        text = text.replace(letter, plain)
    return text.encode("cp1252", "ignore").decode("cp1252")
