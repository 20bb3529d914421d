"""Home page of the guide: the README with links as seen from docs/."""

from __future__ import annotations

import re

from .tools import ROOT

#: Where the files outside docs/ can be read.
REPOSITORY = "https://github.com/hybrid-ml-scheduler/hybrid-ml-scheduler/blob/main/"
_LINK = re.compile(r"\]\((?![a-z]+://)([^)\s]+)")


def home_page() -> str:
    """Return the text of docs/index.md."""
    note = "<!-- Written by scripts/make_reference.py: change README.md, not this page. -->\n\n"
    return note + _LINK.sub(lambda link: f"]({_moved(link[1])}", (ROOT / "README.md").read_text(encoding="utf-8"))


def _moved(link: str) -> str:
    return link.removeprefix("docs/") if link.startswith("docs/") else REPOSITORY + link
