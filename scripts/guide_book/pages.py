"""Pages of the guide in the order of the site's navigation, as Markdown tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"


def slug(heading: str) -> str:
    """The anchor of a heading, as sites and forges make it."""
    bare = re.sub(r"[^\w\- ]", "", heading.lower().strip())
    return bare.replace(" ", "-")


@dataclass
class Page:
    """One Markdown file of the guide, and the part of the navigation it stands in."""

    path: Path
    part: str
    tokens: list[Any] = field(default_factory=list)

    @property
    def key(self) -> str:
        return self.path.relative_to(DOCS).as_posix()


def pages() -> list[Page]:
    """The pages in the order of the site's navigation, without links to other sites."""
    import yaml

    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    found = [Page(DOCS / path, part) for entry in nav for part, value in entry.items() for path in _paths(value)]
    return [page for page in found if page.key != "index.md"]


def _paths(value: Any) -> list[str]:
    if isinstance(value, str):
        return [] if value.startswith("https://") else [value]
    return [path for entry in value for below in entry.values() for path in _paths(below)]


def read(page: Page) -> None:
    from markdown_it import MarkdownIt

    text = re.sub(r"<!--.*?-->", "", page.path.read_text(encoding="utf-8"), flags=re.DOTALL)
    page.tokens = MarkdownIt("commonmark").enable("table").parse(text)
