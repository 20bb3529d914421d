"""HTML reports: one self-contained file with styles and figures, which sends no requests."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING

from .report_documents import FigureBlock, ReportContent, Section, TableBlock, TextBlock

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_STYLE = """
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
    contents = "".join(f'<a href="#{_anchor(section)}">{escape(section.title)}</a>' for section in report.sections)
    sections = "\n".join(_section(section) for section in report.sections)
    return f"""<!doctype html>
<html lang="{report.language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(report.title)}</title>
<style>{_STYLE}</style>
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


def _anchor(section: Section) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in section.title.lower())


def _section(section: Section) -> str:
    blocks = "\n".join(_block(block) for block in section.blocks)
    return f'<section id="{_anchor(section)}">\n<h2>{escape(section.title)}</h2>\n{blocks}\n</section>'


def _block(block: TextBlock | TableBlock | FigureBlock) -> str:
    if isinstance(block, TextBlock):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, FigureBlock):
        return (
            f'<figure><img src="data:image/svg+xml;base64,{_svg(block.figure, block.name)}" '
            f'alt="{escape(block.caption, quote=True)}"><figcaption>{escape(block.caption)}</figcaption></figure>'
        )
    return _table(block)


def _table(table: TableBlock) -> str:
    words = table.words | {0}

    def cells(row: list[str] | tuple[str, ...], tag: str) -> str:
        mark = ' scope="col"' if tag == "th" else ""
        return "".join(
            f"<{tag}{mark}{_class(index in words)}>{escape(text).replace(chr(10), '<br>')}</{tag}>"
            for index, text in enumerate(row)
        )

    def line(number: int, row: list[str]) -> str:
        mark = ' class="strong"' if number in table.strong else ""
        return f"<tr{mark}>{cells(row, 'td')}</tr>"

    rows = "\n".join(line(number, list(row)) for number, row in enumerate(table.rows))
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    head = cells(list(table.header), "th")
    body = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>"
    return f'<div class="scroll"><table>\n{body}\n</table></div>{note}'


def _class(words: bool) -> str:
    return ' class="words"' if words else ""


def _svg(figure: Figure, name: str) -> str:
    """Return an SVG image in base64, with text as outlines, so that no fonts are needed."""
    import matplotlib

    file = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": name}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return base64.b64encode(file.getvalue()).decode()
