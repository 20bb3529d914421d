"""Word count of the hand-written documents, page by page. Standard library only.

python scripts/count_words.py

Counted are words and numbers of text, tables and code. Left out are HTML comments, such as the sources of quoted
figures, and what other programs write: pages that begin with "Written by", and the measured tables of schedulers.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from bootstrap import print_help_if_asked

ROOT = Path(__file__).resolve().parent.parent
#: Largest number of hand-written words of all documents together.
BUDGET = 35_000
_MEASURED = re.compile(r"<!-- measured \w+ -->.*?<!-- /measured -->", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def documents() -> list[Path]:
    """Return every document for readers of the project."""
    names = ("README", "RESULTS", "METHODOLOGY", "CHANGELOG", "CONTRIBUTING", "SECURITY")
    return [*(ROOT / f"{name}.md" for name in names), *sorted((ROOT / "docs").rglob("*.md"))]


def is_generated(text: str) -> bool:
    """Return whether another program writes the whole page."""
    return text.startswith("<!-- Written by ")


def count_words(text: str) -> int:
    """Return the number of hand-written words."""
    if is_generated(text):
        return 0
    return len(re.findall(r"\S*\w\S*", _COMMENT.sub(" ", _MEASURED.sub(" ", text))))


def counts() -> dict[str, int]:
    """Return the hand-written words of each document, by its path."""
    return {
        path.relative_to(ROOT).as_posix(): count_words(path.read_text(encoding="utf-8")) for path in documents()
    }


def main() -> int:
    words = counts()
    for name, count in sorted(words.items(), key=lambda item: -item[1]):
        print(f"{count:6,} {name}")
    total = sum(words.values())
    print(f"{total:6,} of at most {BUDGET:,}")
    return 0 if total <= BUDGET else 1


if __name__ == "__main__":
    print_help_if_asked(__doc__)
    sys.exit(main())
