"""Copies of METHODOLOGY.md and RESULTS.md in the guide, with adapted links."""

from __future__ import annotations

import re

from .tools import ROOT

#: page at the root -> page in docs/guide
COPIES = {"METHODOLOGY.md": "methodology.md", "RESULTS.md": "results.md"}
_LINK = re.compile(r"\]\(([^)#\s]+)")


def root_page(name: str) -> str:
    note = f"<!-- Written by scripts/make_reference.py: change {name}, not this page. -->\n\n"
    return note + _LINK.sub(lambda found: f"]({_moved(found[1])}", (ROOT / name).read_text(encoding="utf-8"))


def _moved(link: str) -> str:
    """As seen from docs/guide instead of the root."""
    if link in COPIES:
        return COPIES[link]
    return link if "://" in link else "../" + link.removeprefix("docs/")
