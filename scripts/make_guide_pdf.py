"""The whole guide as one printable PDF. Run with the project's Python.

python scripts/make_guide_pdf.py [guide.pdf]

Pages and their order come from mkdocs.yml. Only the project's own packages are needed: markdown-it-py reads the
pages, reportlab sets them, the fonts are those that matplotlib brings. The same pages give the same bytes.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from guide_book.drawing import Drawing
from guide_book.pages import DOCS, Page, pages, read
from guide_book.setter import ACCENT, LINE, MUTED, Setter


def _fonts() -> None:
    import matplotlib
    from reportlab.lib.fonts import addMapping
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    faces = {
        "Sans": "DejaVuSans", "Sans-Bold": "DejaVuSans-Bold", "Sans-Italic": "DejaVuSans-Oblique",
        "Sans-BoldItalic": "DejaVuSans-BoldOblique", "Mono": "DejaVuSansMono", "Mono-Bold": "DejaVuSansMono-Bold",
    }  # fmt: skip
    for name, file in faces.items():
        pdfmetrics.registerFont(TTFont(name, str(folder / f"{file}.ttf")))
    for family in ("Sans", "Sans-Bold"):  # bold inside a heading stays bold
        start = "Sans-Bold" if family == "Sans-Bold" else "Sans"
        addMapping(family, 0, 0, start)
        addMapping(family, 1, 0, "Sans-Bold")
        addMapping(family, 0, 1, "Sans-Italic" if start == "Sans" else "Sans-BoldItalic")
        addMapping(family, 1, 1, "Sans-BoldItalic")
    for bold in (0, 1):
        for italic in (0, 1):
            addMapping("Mono", bold, italic, "Mono-Bold" if bold else "Mono")


def make(target: Path, everything: Sequence[Page] | None = None) -> int:
    """Write the PDF; returns its number of pages."""
    from reportlab.lib.colors import HexColor
    from reportlab.lib.pagesizes import A4
    from reportlab.lib.styles import ParagraphStyle
    from reportlab.lib.units import mm
    from reportlab.platypus import BaseDocTemplate, Frame, PageBreak, PageTemplate, Paragraph, Spacer
    from reportlab.platypus.tableofcontents import TableOfContents

    from hybrid_scheduler import __version__

    _fonts()
    book = list(everything or pages())
    for page in book:
        read(page)
    width = A4[0] - 44 * mm

    class Book(BaseDocTemplate):  # type: ignore[misc]
        """Remembers which page it is on, for the running head, the outline and the contents."""

        chapter = ""

        def afterFlowable(self, flowable: Any) -> None:
            heading = getattr(flowable, "heading", None)
            if heading is None:
                return
            level, words, key = heading
            if level <= 1:
                self.chapter = words
                self.canv.bookmarkPage(f"outline:{key}")
                self.canv.addOutlineEntry(words, f"outline:{key}", level, closed=level == 0)
                self.notify("TOCEntry", (level, escape(words, quote=False), self.page, f"outline:{key}"))

        def beforeDocument(self) -> None:
            self.chapter = "Contents"  # the pass before this one ended elsewhere

    def decorate(canvas: Any, document: Any) -> None:
        if document.page == 1:
            return
        canvas.setFont("Sans", 7.5)
        canvas.setFillColor(HexColor(MUTED))
        canvas.drawString(22 * mm, A4[1] - 13 * mm, document.chapter)
        canvas.drawRightString(A4[0] - 22 * mm, 12 * mm, str(document.page))
        canvas.drawString(22 * mm, 12 * mm, f"Hybrid ML Scheduler {__version__}")
        canvas.setStrokeColor(HexColor(LINE))
        canvas.line(22 * mm, A4[1] - 15 * mm, A4[0] - 22 * mm, A4[1] - 15 * mm)

    document = Book(
        str(target), pagesize=A4, leftMargin=22 * mm, rightMargin=22 * mm, topMargin=20 * mm, bottomMargin=20 * mm,
        title="Hybrid ML Scheduler: the guide", author="Hybrid ML Scheduler developers", invariant=1,
    )  # fmt: skip
    frame = Frame(22 * mm, 20 * mm, width, A4[1] - 40 * mm, 0, 0, 0, 0)
    document.addPageTemplates(PageTemplate("page", [frame], onPageEnd=decorate))
    setter = Setter(book, width)
    styles = setter.styles
    contents = TableOfContents(dotsMinLevel=1)
    contents.levelStyles = [
        ParagraphStyle("toc0", styles["p"], fontName="Sans-Bold", fontSize=9.5, spaceBefore=5, spaceAfter=1),
        ParagraphStyle("toc1", styles["p"], fontSize=8.5, leading=11, leftIndent=12, spaceAfter=0),
    ]
    subtitle = ParagraphStyle("sub", styles["part"], fontName="Sans", fontSize=18, textColor=HexColor(ACCENT))
    story: list[Any] = [
        Spacer(1, 60 * mm),
        Paragraph("Hybrid ML Scheduler", styles["part"]),
        Paragraph("The guide", subtitle),
        Spacer(1, 12 * mm),
        Drawing(DOCS / "guide" / "images" / "kitchen.svg", width).result,
        Spacer(1, 10 * mm),
        Paragraph(f"Version {__version__}. Every number comes with the command that makes it.", styles["p"]),
        PageBreak(),
        Paragraph("Contents", styles["h1"]),
        contents,
    ]  # fmt: skip
    part = ""
    for page in book:
        story.append(PageBreak())
        if page.part != part:
            part = page.part
            title = Paragraph(part, styles["part"])
            title.heading = (0, part, f"part:{part}")
            story += [title, Spacer(1, 6 * mm)]
        story += setter.page(page)
    document.multiBuild(story)
    return int(document.page)


def main(arguments: list[str]) -> int:
    parser = ArgumentParser(description="Write the whole guide as one printable PDF.")
    parser.add_argument("file", nargs="?", type=Path, default=Path("guide.pdf"), help="file to write (%(default)s)")
    target: Path = parser.parse_args(arguments).file
    count = make(target)
    print(f"{target}: {count} pages, {target.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
