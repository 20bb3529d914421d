"""Conversion of Markdown tokens to reportlab paragraphs, lists, tables, code and pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from .drawing import Drawing
from .pages import DOCS, Page, slug

INK, MUTED, ACCENT, PAPER, LINE = "#1F2937", "#5B6472", "#0E7490", "#F5F4EE", "#D6D3C8"
#: Points: a picture leaves space for its heading on the page.
_TALLEST = 560.0


class Setter:
    """Markdown tokens to flowables."""

    def __init__(self, everything: Sequence[Page], width: float) -> None:
        from reportlab.lib.colors import HexColor
        from reportlab.lib.enums import TA_LEFT
        from reportlab.lib.styles import ParagraphStyle

        self.width = width
        self.anchors = {key for page in everything for key in self._anchors(page)}
        ink = HexColor(INK)
        base = ParagraphStyle(
            "base", fontName="Sans", fontSize=9.2, leading=13.4, textColor=ink, alignment=TA_LEFT, spaceAfter=6
        )

        def style(name: str, size: float, leading: float, **more: Any) -> Any:
            return ParagraphStyle(name, base, fontSize=size, leading=leading, **more)

        bold, paper = {"fontName": "Sans-Bold"}, HexColor(PAPER)
        boxed = {"backColor": paper, "borderPadding": (5, 6, 5, 6), "leftIndent": 6, "rightIndent": 6}
        self.styles = {
            "p": base,
            "h1": style("h1", 18, 23, spaceBefore=2, spaceAfter=10, **bold),
            "h2": style("h2", 12.5, 17, spaceBefore=12, spaceAfter=5, keepWithNext=1, **bold),
            "h3": style("h3", 10, 14, spaceBefore=9, spaceAfter=3, keepWithNext=1, **bold),
            "li": style("li", 9.2, 13.4, spaceAfter=3),
            "cell": style("cell", 7.6, 10.2, spaceAfter=0, splitLongWords=1),
            "head": style("head", 7.6, 10.2, spaceAfter=0, **bold),
            "code": style("code", 7.3, 10, fontName="Mono", spaceBefore=2, spaceAfter=8, **boxed),
            "part": style("part", 30, 38, **bold),
        }

    @staticmethod
    def _anchors(page: Page) -> Iterator[str]:
        yield page.key
        for i, token in enumerate(page.tokens):
            if token.type == "heading_open":
                yield f"{page.key}#{slug(plain(page.tokens[i + 1]))}"

    # ---------------------------------------------------------------- inline

    def inline(self, token: Any, page: Page, *, size: float = 9.2) -> str:
        out: list[str] = []
        closing: list[str] = []
        for child in token.children or ():
            kind = child.type
            if kind == "text":
                out.append(escape(child.content, quote=False))
            elif kind in ("softbreak", "hardbreak"):
                out.append(" " if kind == "softbreak" else "<br/>")
            elif kind == "code_inline":
                out.append(f'<font face="Mono" size="{size * 0.9:.1f}">{escape(child.content, quote=False)}</font>')
            elif kind in ("strong_open", "strong_close", "em_open", "em_close"):
                tag = "b" if kind.startswith("strong") else "i"
                out.append(f"</{tag}>" if kind.endswith("close") else f"<{tag}>")
            elif kind == "link_open":
                target = self._target(str(child.attrs["href"]), page)
                out.append(f'<a href="{escape(target)}" color="{ACCENT}">' if target else "<font>")
                closing.append("</a>" if target else "</font>")
            elif kind == "link_close":
                out.append(closing.pop())
        return "".join(out)

    def _target(self, href: str, page: Page) -> str:
        if re.match(r"https?:|mailto:", href):
            return href
        path, _, anchor = href.partition("#")
        file = (page.path.parent / path).resolve() if path else page.path
        if not file.is_relative_to(DOCS):
            return ""
        key = file.relative_to(DOCS).as_posix() + (f"#{anchor}" if anchor else "")
        return f"#{key}" if key in self.anchors else ""

    # ---------------------------------------------------------------- blocks

    def page(self, page: Page) -> list[Any]:
        self.story: list[Any] = []
        self._blocks(page.tokens, page)
        return self.story

    def _blocks(self, tokens: Sequence[Any], page: Page) -> None:
        from reportlab.platypus import Paragraph, Spacer

        i = 0
        while i < len(tokens):
            token = tokens[i]
            if token.type == "heading_open":
                self._heading(token, tokens[i + 1], page)
                i += 3
            elif token.type == "paragraph_open":
                self._paragraph(tokens[i + 1], page)
                i += 3
            elif token.type in ("fence", "code_block"):
                self._code(token.content)
                i += 1
            elif token.type == "table_open":
                end = self._end(tokens, i, "table")
                self._table(tokens[i:end], page)
                i = end + 1
            elif token.type in ("bullet_list_open", "ordered_list_open"):
                end = self._end(tokens, i, token.type.removesuffix("_open"))
                self._list(tokens[i + 1 : end], page, ordered=token.type.startswith("ordered"))
                i = end + 1
            elif token.type == "hr":
                self.story.append(Spacer(1, 8))
                i += 1
            elif token.type == "inline":
                self.story.append(Paragraph(self.inline(token, page), self.styles["p"]))
                i += 1
            else:
                i += 1

    @staticmethod
    def _end(tokens: Sequence[Any], start: int, kind: str) -> int:
        depth = 0
        for i in range(start, len(tokens)):
            depth += (tokens[i].type == f"{kind}_open") - (tokens[i].type == f"{kind}_close")
            if depth == 0:
                return i
        return len(tokens)

    def _heading(self, token: Any, words: Any, page: Page) -> None:
        from reportlab.platypus import Paragraph

        level = min(int(token.tag[1]), 3)
        names = f'<a name="{page.key}#{slug(plain(words))}"/>'
        if level == 1:
            names = f'<a name="{page.key}"/>' + names
        made = Paragraph(names + self.inline(words, page), self.styles[f"h{level}"])
        made.heading = (level, plain(words), page.key if level == 1 else f"{page.key}#{slug(plain(words))}")
        self.story.append(made)

    def _paragraph(self, words: Any, page: Page) -> None:
        from reportlab.platypus import Paragraph, Spacer

        pictures = [child for child in words.children or () if child.type == "image"]
        if pictures and len(words.children) == 1:
            self._picture(str(pictures[0].attrs["src"]), page)
            return
        if text := self.inline(words, page).strip():
            self.story.append(Paragraph(text, self.styles["p"]))
        else:
            self.story.append(Spacer(1, 1))

    def _picture(self, source: str, page: Page) -> None:
        from reportlab.lib.utils import ImageReader
        from reportlab.platypus import Image, Spacer

        path = (page.path.parent / source).resolve()
        if path.suffix == ".svg":
            self.story.append(Drawing(path, self.width).result)
        else:
            w, h = ImageReader(str(path)).getSize()
            width = min(self.width, 430.0, _TALLEST * w / h)
            self.story.append(Image(str(path), width, width * h / w))
        self.story.append(Spacer(1, 8))

    def _code(self, text: str) -> None:
        from reportlab.platypus import XPreformatted

        most = int((self.width - 14) / (7.3 * 0.602))
        lines = [part for line in text.rstrip("\n").split("\n") for part in folded(line, most)]
        for start in range(0, len(lines), 60):  # a block longer than a page is cut
            self.story.append(
                XPreformatted(escape("\n".join(lines[start : start + 60]), quote=False), self.styles["code"])
            )

    def _list(self, tokens: Sequence[Any], page: Page, *, ordered: bool) -> None:
        from reportlab.platypus import ListFlowable, ListItem, Spacer

        outer, items, i = self.story, [], 0
        while i < len(tokens):
            end = self._end(tokens, i, "list_item")
            self.story = []
            self._blocks(tokens[i + 1 : end], page)
            for one in self.story:
                if hasattr(one, "style") and one.style.name == "base":
                    one.style = self.styles["li"]
            items.append(ListItem(self.story, leftIndent=14))
            i = end + 1
        self.story = outer
        kind = {"bulletType": "1"} if ordered else {"bulletType": "bullet", "start": "•"}
        self.story.append(
            ListFlowable(items, leftIndent=14, bulletFontName="Sans", bulletFontSize=8.5, bulletColor=MUTED, **kind)
        )
        self.story.append(Spacer(1, 5))

    def _table(self, tokens: Sequence[Any], page: Page) -> None:
        from reportlab.lib.colors import HexColor
        from reportlab.platypus import LongTable, Paragraph, Spacer, TableStyle

        rows: list[list[Any]] = []
        lengths: list[list[tuple[float, float]]] = []
        head = True
        for token in tokens:
            if token.type == "tr_open":
                rows.append([])
                lengths.append([])
            elif token.type == "thead_close":
                head = False
            elif token.type == "inline":
                style = self.styles["head" if head else "cell"]
                rows[-1].append(Paragraph(self.inline(token, page, size=7.6), style))
                words = plain(token)
                wide = 1.15 if head else 1.0  # bold
                lengths[-1].append((wide * len(words), wide * max(map(len, re.split(r"\s", words)), default=0)))
        if not rows:
            return
        columns = len(rows[0])
        whole = [max((row[i][0] for row in lengths if i < len(row)), default=1.0) for i in range(columns)]
        longest = [max((row[i][1] for row in lengths if i < len(row)), default=1.0) for i in range(columns)]
        made = LongTable(rows, colWidths=column_widths(whole, longest, self.width), repeatRows=1, hAlign="LEFT")
        made.setStyle(
            TableStyle(
                [
                    ("VALIGN", (0, 0), (-1, -1), "TOP"),
                    ("LINEBELOW", (0, 0), (-1, 0), 0.9, HexColor(ACCENT)),
                    ("LINEBELOW", (0, 1), (-1, -1), 0.35, HexColor(LINE)),
                    ("LEFTPADDING", (0, 0), (-1, -1), 3),
                    ("RIGHTPADDING", (0, 0), (-1, -1), 5),
                    ("TOPPADDING", (0, 0), (-1, -1), 2.5),
                    ("BOTTOMPADDING", (0, 0), (-1, -1), 3.5),
                ]
            )
        )
        self.story += [made, Spacer(1, 9)]


def plain(token: Any) -> str:
    """The words of an inline token, without marks."""
    return "".join(
        child.content for child in token.children or () if child.type in ("text", "code_inline", "softbreak")
    )


def folded(line: str, most: int) -> list[str]:
    """A line of code that is too long goes on in the next, indented."""
    parts: list[str] = []
    while len(line) > most:
        at = line.rfind(" ", len(line) - len(line.lstrip()) + 20, most)
        at = most if at < 0 else at
        parts.append(line[:at])
        line = "    " + line[at:].lstrip()
    return [*parts, line]


def column_widths(whole: Sequence[float], longest: Sequence[float], width: float) -> list[float]:
    """As much as each column wants, or a fair part of it; none narrower than its longest word."""
    letter, padding = 4.55, 9.0
    least = [min(n, 30.0) * letter + padding for n in longest]
    wanted = [max(min(n, 90.0) * letter + padding, low) for n, low in zip(whole, least, strict=True)]
    if sum(wanted) <= width:
        return wanted
    if sum(least) >= width:
        return [low * width / sum(least) for low in least]
    spare = width - sum(least)
    over = [want - low for want, low in zip(wanted, least, strict=True)]
    return [low + spare * more / sum(over) for low, more in zip(least, over, strict=True)]
