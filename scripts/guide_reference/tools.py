"""Markdown helpers that all reference pages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
GUIDE = ROOT / "docs" / "guide"
NOTE = "<!-- Written by scripts/make_reference.py: change the code, not this page. -->\n\n"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; bars inside cells are made harmless."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += [
        "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows
    ]
    return "\n".join(lines) + "\n"


def code(value: object) -> str:
    return f"`{value}`" if str(value) else ""


def first_paragraph(text: str | None) -> str:
    return " ".join((text or "").strip().split("\n\n")[0].split())


def sections(parts: Iterable[str]) -> str:
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)
