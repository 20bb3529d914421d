"""NumPy-style docstrings as Markdown."""

from __future__ import annotations

import re
from html import escape
from textwrap import dedent

_HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
#: Sections whose entries are a name with an indented description.
_LISTS = {"Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns"}


def as_markdown(docstring: str) -> str:
    """Return a docstring with its sections as bold titles, lists and code blocks.

    NumPy's underlined titles would become headings of the page.
    """
    summary, *rest = _HEADING.split(docstring)
    parts = [escape(summary.strip(), quote=False)]
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        parts.append(f"**{title}**\n\n{_section(title, body.strip())}")
    return "\n\n".join(parts)


def _section(title: str, body: str) -> str:
    if title == "Examples":
        return f"```pycon\n{body}\n```"
    if title not in _LISTS:
        return escape(body, quote=False)
    entries = re.split(r"\n(?=\S)", body)
    lines = []
    for entry in entries:
        name, _, description = entry.partition("\n")
        words = " ".join(dedent(description).split())
        lines.append(f"- `{name}`: {escape(words, quote=False)}" if words else f"- `{name}`")
    return "\n".join(lines)
