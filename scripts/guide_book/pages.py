"""Pages of the guide in the order of the site's navigation, and as one HTML document for printing."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
STYLE = Path(__file__).with_name("print.css")


def slug(heading: str) -> str:
    """The anchor of a heading, as sites and forges make it."""
    bare = re.sub(r"[^\w\- ]", "", heading.lower().strip())
    return bare.replace(" ", "-")


@dataclass(frozen=True)
class Page:
    """One Markdown file of the guide, and the part of the navigation it stands in."""

    path: Path
    part: str

    @property
    def key(self) -> str:
        """Path below docs, which is also the page's anchor in the book."""
        return self.path.relative_to(DOCS).as_posix()


def pages() -> list[Page]:
    """The pages in the order of the site's navigation, without links to other sites."""
    import yaml

    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    entries = [Page(DOCS / path, part) for entry in nav for part, value in entry.items() for path in _paths(value)]
    return [page for page in entries if page.key != "index.md"]


def _paths(value: Any) -> list[str]:
    if isinstance(value, str):
        return [] if value.startswith("https://") else [value]
    return [path for entry in value for below in entry.values() for path in _paths(below)]


def to_html(book: Sequence[Page], version: str) -> str:
    """Return title, contents and all pages as one HTML document, with the links between pages inside it."""
    keys = {page.key for page in book}
    bodies, contents, part = [], [], ""
    for page in book:
        tokens = _tokens(page, keys)
        title = next(tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open")
        if page.part != part:
            part = page.part
            contents.append(f"<h3>{escape(part)}</h3>")
        contents.append(f'<p><a href="#{page.key}">{_markdown().renderInline(title)}</a></p>')
        body = _markdown().renderer.render(tokens, _markdown().options, {})
        bodies.append(f'<section id="{page.key}">{body}</section>')
    picture = (DOCS / "guide" / "images" / "kitchen.svg").as_uri()
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8">
<title>Hybrid ML Scheduler: the guide</title><style>{STYLE.read_text(encoding="utf-8")}</style></head><body>
<header><h1>Hybrid ML Scheduler</h1><p class="subtitle">The guide</p><img src="{picture}" alt="">
<p>Version {escape(version)}. Every number comes with the command that makes it.</p></header>
<nav><h1>Contents</h1><div>{"".join(contents)}</div></nav>{"".join(bodies)}</body></html>"""


def _markdown() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table")


def _tokens(page: Page, keys: set[str]) -> list[Any]:
    """Return the tokens of a page with anchors at its headings, and links and pictures that work in the book."""
    text = re.sub(r"<!--.*?-->", "", page.path.read_text(encoding="utf-8"), flags=re.DOTALL)
    tokens: list[Any] = _markdown().parse(text)
    for position, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrs["id"] = f"{page.key}#{slug(_plain(tokens[position + 1]))}"
        for child in token.children or ():
            if child.type == "image":
                child.attrs["src"] = (page.path.parent / str(child.attrs["src"])).resolve().as_uri()
            elif child.type == "link_open":
                child.attrs["href"] = _target(str(child.attrs["href"]), page, keys)
    return tokens


def _plain(inline: Any) -> str:
    return "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline"))


def _target(link: str, page: Page, keys: set[str]) -> str:
    """Return where a link leads in the book; links to files outside of it lead nowhere."""
    if re.match(r"[a-z]+:", link):
        return link
    path, _, anchor = link.partition("#")
    key = posixpath.normpath(posixpath.join(posixpath.dirname(page.key), path)) if path else page.key
    if key not in keys:
        return ""
    return f"#{key}#{anchor}" if anchor else f"#{key}"
