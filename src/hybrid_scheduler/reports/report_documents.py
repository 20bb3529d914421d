"""Report documents: their content, independent of the format, and its conversion to HTML and PDF.

An HTML report is one self-contained file with styles and figures, which sends no requests. A PDF has A4 pages with
numbers, and figures at print resolution.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from ..core import require
from .figure_style import HAIRLINE, INK, QUIET

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A paragraph of text."""

    text: str


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table with text cells.

    The first column names the row; the columns in `words` are left-aligned, all others right-aligned.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    #: Highlighted rows, such as the best.
    strong: frozenset[int] = frozenset()
    words: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class FigureBlock:
    """A figure and its caption."""

    name: str
    figure: Figure
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    """A titled section."""

    title: str
    blocks: Sequence[TextBlock | TableBlock | FigureBlock]


@dataclass(frozen=True, slots=True)
class ReportContent:
    """A whole report.

    Parameters
    ----------
    title, facts, headline
        Title, the line of facts below it, and the main result in a sentence or two.
    sections
        In the order of the document.
    foot
        Text for the foot of every page, such as the run's id.
    """

    title: str
    facts: Sequence[str]
    headline: str
    sections: Sequence[Section]
    foot: str = ""


#: How the numbers of a comparison on seeds come about; METHODOLOGY.md explains it at length.
METHOD = (
    "Every scheduler runs the same tasks on a simulated machine of its own. Each device is a queue, first"
    " in first out; a task may be split between one accelerator and the CPU of its node, and ends when "
    "the later part does. Latency is from arrival to finish, time is the longer of the two parts, "
    "makespan is from the first arrival to the last finish.",
    "The lower bound on the makespan is the best of three relaxations that no schedule can beat: freely "
    "divisible work from any arrival on, the best time of each task alone, and the longest chain of "
    "dependent tasks. The oracle knows realised times and is exact for each task but short-sighted over "
    "queues: it can be beaten.",
    "Seeds are paired: every seed is one workload that all schedulers get, and differences are taken seed"
    " by seed. Intervals are 95 % Student intervals over seeds, widened where the values are skewed; within a "
    "single run they come from batch means. Two schedulers are called different only where the Wilcoxon "
    "signed-rank test, corrected by Holm over all pairs, and the interval of the mean difference both say so; "
    "everything else is too close to call.",
    "Not modelled: contention for memory bandwidth and caches, preemption, failures of devices, and the "
    "time a scheduler itself takes to decide. Backlogs are known exactly. Numbers from the simulation are"
    " no measurements of a real machine.",
)

TRACE_METHOD = (
    *METHOD[:2],
    "The tasks are one trace, so there is one run, and on these tasks its numbers are exact. The intervals "
    "are about more tasks of the same kind: the run is cut into batches of consecutive tasks, and the spread of "
    "the batch means gives a 95 % Student interval, widened where neighbouring batches are alike. Schedulers are "
    "compared batch by batch. They are called different only where the Wilcoxon signed-rank test over batches, "
    "corrected by Holm over all pairs, and the interval of the mean difference both say so; everything else is "
    "too close to call. Makespans, quantiles and load balance belong to the run as a whole and have no interval.",
    METHOD[3],
)

CAPTIONS = {
    "makespan": "From the first arrival to the last finish. Below capacity good schedulers reach the bound.",
    "average_duration": "Latency includes waiting; execution time is what the two parts take once they run.",
    "speed_up": "Ratio to the baseline on the same tasks; above 1 is faster.",
    "cost_comparison": "Rent of busy seconds plus electricity. Idle machines are not billed.",
    "load_balance": "Jain index of busy seconds. It says how evenly work is spread, not whether that is good.",
    "latency_cdf": "Distribution of latencies in one run; the right panel is the slowest tenth.",
    "fraction_distribution": "GPU fraction of each task: the part that runs on an accelerator.",
    "workload": "The tasks of the run whose single tasks are drawn.",
    "allocation": "Share given to accelerators over the course of the run.",
    "gantt": "The best schedulers on the same consecutive tasks.",
    "race": "Mean latency of all tasks so far.",
    "gantt_diff": "Two schedules of the same tasks; each task is coloured by when it ends in the second.",
    "pareto_front": "Means of all three goals. A ring marks schedulers that no other beats on all three.",
    "feature_importance": "Influence of each task property on the predicted durations.",
    "predicted_actual": "Time predicted when the task was placed, against its actual time.",
    "learning_curves": "Errors of predictions made before the outcome was known.",
}


# ------------------------------------------------------------------------------------------ HTML

_HTML_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_HTML_STYLE = """
:root { color-scheme: light; --ink: #1b2530; --quiet: #5a6775; --line: #dce1e7; --wash: #f6f8fa; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink);
  font: 16px/1.55 Inter, "Source Sans 3", "Helvetica Neue", Arial, sans-serif; }
main, header, footer { max-width: 62rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 3rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.3rem; margin: 2.6rem 0 .6rem; padding-top: 1rem; border-top: 1px solid var(--line); }
.facts { color: var(--quiet); margin: 0 0 1.4rem; }
.headline { font-size: 1.15rem; padding: .9rem 1.1rem; background: var(--wash); border-left: 4px solid #157a8b; }
nav { font-size: .95rem; }
nav a { color: #0b5c8a; margin-right: 1rem; white-space: nowrap; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { border-bottom: 2px solid var(--quiet); vertical-align: bottom; font-weight: 600; }
th.words, td.words { text-align: left; white-space: normal; }
th.words:first-child, td.words:first-child { white-space: nowrap; }
tr.strong td { font-weight: 650; background: var(--wash); }
.note, figcaption { color: var(--quiet); font-size: .9rem; }
figure { margin: 1.6rem 0; }
figure img { width: 100%; height: auto; display: block; border: 1px solid var(--line); }
footer { color: var(--quiet); font-size: .85rem; padding-block: 2.5rem; overflow-wrap: anywhere; }
@media print { h2 { break-after: avoid; } figure, table { break-inside: avoid; } nav { display: none; } }
"""


def as_html(report: ReportContent) -> str:
    """Return the report as an HTML file."""
    contents = "".join(
        f'<a href="#{_html_anchor(section)}">{escape(section.title)}</a>' for section in report.sections
    )
    sections = "\n".join(_html_section(section) for section in report.sections)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_HTML_POLICY}">
<title>{escape(report.title)}</title>
<style>{_HTML_STYLE}</style>
</head>
<body>
<header>
<h1>{escape(report.title)}</h1>
<p class="facts">{escape("  ·  ".join(report.facts))}</p>
<p class="headline">{escape(report.headline)}</p>
<nav aria-label="Contents">{contents}</nav>
</header>
<main>
{sections}
</main>
<footer>{escape(report.foot)}</footer>
</body>
</html>
"""


def _html_anchor(section: Section) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in section.title.lower())


def _html_section(section: Section) -> str:
    blocks = "\n".join(_html_block(block) for block in section.blocks)
    return f'<section id="{_html_anchor(section)}">\n<h2>{escape(section.title)}</h2>\n{blocks}\n</section>'


def _html_block(block: TextBlock | TableBlock | FigureBlock) -> str:
    if isinstance(block, TextBlock):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, FigureBlock):
        return (
            f'<figure><img src="data:image/svg+xml;base64,{_svg_image(block.figure, block.name)}" '
            f'alt="{escape(block.caption, quote=True)}"><figcaption>{escape(block.caption)}</figcaption></figure>'
        )
    return _html_table(block)


def _html_table(table: TableBlock) -> str:
    words = table.words | {0}

    def line(row: Sequence[str], tag: str, mark: str = "") -> str:
        kinds = (' class="words"' if index in words else "" for index in range(len(row)))
        scope = ' scope="col"' if tag == "th" else ""
        texts = (escape(text).replace("\n", "<br>") for text in row)
        cells = (f"<{tag}{scope}{kind}>{text}</{tag}>" for kind, text in zip(kinds, texts, strict=True))
        return f"<tr{mark}>{''.join(cells)}</tr>"

    marks = (' class="strong"' if number in table.strong else "" for number in range(len(table.rows)))
    rows = "\n".join(line(row, "td", mark) for row, mark in zip(table.rows, marks, strict=True))
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    body = f"<thead>{line(table.header, 'th')}</thead>\n<tbody>\n{rows}\n</tbody>"
    return f'<div class="scroll"><table>\n{body}\n</table></div>{note}'


def _svg_image(figure: Figure, name: str) -> str:
    """Return an SVG image in base64, with text as outlines, so that no fonts are needed."""
    import matplotlib

    file = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": name}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return base64.b64encode(file.getvalue()).decode()


# ------------------------------------------------------------------------------------------ PDF

_DPI = 220
#: Largest height of a figure in text widths, so that two fit on a page.
_MAX_HEIGHT = 0.64
#: A figure that would shrink below this share gets a whole page, so that its text stays readable.
_MIN_SCALE = 0.8
_WHOLE_PAGE = 1.3
_WASH = "#F6F8FA"
_ACCENT = "#157A8B"
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
        leftMargin=margin, rightMargin=margin, topMargin=18 * mm, bottomMargin=20 * mm, lang="en",
    )  # fmt: skip
    width = A4[0] - 2 * margin
    frame = Frame(
        margin, 20 * mm, width, A4[1] - 38 * mm, leftPadding=0, rightPadding=0, topPadding=0, bottomPadding=0
    )

    def foot(canvas: Any, page: Any) -> None:
        canvas.saveState()
        canvas.setFont("Helvetica", 8)
        canvas.setFillColor(QUIET)
        canvas.drawString(margin, 11 * mm, _ascii(report.foot)[:110])
        canvas.drawRightString(A4[0] - margin, 11 * mm, f"{page.page}")
        canvas.restoreState()

    document.addPageTemplates(PageTemplate(frames=[frame], onPage=foot))
    document.build(list(_pdf_blocks(report, width)))
    return file.getvalue()


def _pdf_styles() -> dict[str, Any]:
    from reportlab.lib.colors import HexColor
    from reportlab.lib.styles import ParagraphStyle

    base = ParagraphStyle("base", fontName="Helvetica", fontSize=9.5, leading=13.5, textColor=HexColor(INK))

    def style(name: str, **more: Any) -> Any:
        return ParagraphStyle(name, parent=base, **more)

    return {
        "text": style("text", spaceAfter=6),
        "title": style("title", fontName="Helvetica-Bold", fontSize=20, leading=24, spaceAfter=4),
        "facts": style("facts", fontSize=9, textColor=HexColor(QUIET), spaceAfter=10),
        "headline": style(
            "headline", fontSize=11, leading=15, spaceBefore=8, spaceAfter=10, backColor=HexColor(_WASH),
            borderPadding=(7, 9, 7, 9), leftIndent=9, rightIndent=9,
        ),
        "section": style(
            "section", fontName="Helvetica-Bold", fontSize=13, leading=16, spaceBefore=14, spaceAfter=6,
            textColor=HexColor(_ACCENT), keepWithNext=1,
        ),
        "caption": style("caption", fontSize=8.5, leading=11, textColor=HexColor(QUIET), spaceAfter=10),
        "cell": style("cell", fontSize=7.5, leading=9.5),
        "number": style("number", fontSize=7.5, leading=9.5, alignment=2),
    }  # fmt: skip


def _pdf_blocks(report: ReportContent, width: float) -> Iterator[Any]:
    from reportlab.platypus import KeepTogether, Paragraph, Spacer

    styles = _pdf_styles()

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
                image = _pdf_image(block, width)
                yield KeepTogether([*before, image, words(block.caption, "caption")])
            else:
                note = words(block.note, "caption") if block.note else Spacer(1, 8)
                parts = [*before, _pdf_table(block, width, styles), Spacer(1, 3), note]
                yield from [KeepTogether(parts)] if len(block.rows) <= 25 else parts


def _pdf_image(picture: FigureBlock, width: float) -> Any:
    from reportlab.platypus import Image

    file = io.BytesIO()
    picture.figure.savefig(file, format="png", dpi=_DPI, metadata={"Software": None})
    file.seek(0)
    across, up = picture.figure.get_size_inches()
    scale = min(width / across, _MAX_HEIGHT * width / up)
    if scale < _MIN_SCALE * width / across:
        scale = min(width / across, _WHOLE_PAGE * width / up)
    return Image(file, across * scale, up * scale, hAlign="LEFT")


def _pdf_table(table: TableBlock, width: float, styles: dict[str, Any]) -> Any:
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
    grid = Grid(content, colWidths=_pdf_widths(table, width), repeatRows=1, hAlign="LEFT")
    grid.setStyle(
        [
            ("VALIGN", (0, 0), (-1, 0), "BOTTOM"),
            ("VALIGN", (0, 1), (-1, -1), "TOP"),
            ("LINEBELOW", (0, 0), (-1, 0), 0.9, HexColor(QUIET)),
            ("LINEBELOW", (0, 1), (-1, -1), 0.4, HexColor(HAIRLINE)),
            ("LEFTPADDING", (0, 0), (-1, -1), 3),
            ("RIGHTPADDING", (0, 0), (-1, -1), 3),
            ("TOPPADDING", (0, 0), (-1, -1), 2.5),
            ("BOTTOMPADDING", (0, 0), (-1, -1), 2.5),
            *(("BACKGROUND", (0, row + 1), (-1, row + 1), HexColor(_WASH)) for row in sorted(table.strong)),
        ]
    )
    return grid


def _pdf_widths(table: TableBlock, width: float) -> list[float]:
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
        return [width + spare * width / sum(longest) for width in longest]
    return [width_needed * width / sum(longest) for width_needed in longest]


def _ascii(text: str) -> str:
    """Return the text in characters of the standard fonts; others are spelled out or dropped."""
    for letter, plain in _PLAIN.items():
        text = text.replace(letter, plain)
    return text.encode("cp1252", "ignore").decode("cp1252")
