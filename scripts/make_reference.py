"""Write the guide's reference pages from the code itself. Run with the project's Python.

python scripts/make_reference.py            writes docs/guide/reference, the schedulers' index and measured tables
python scripts/make_reference.py --check    exit code 1 if a page is not what the code says

REST and WebSocket come from docs/openapi.json (see make_openapi.py), the schedulers' numbers from
docs/guide/schedulers/measured.json (see examples/measure_schedulers.py), the home page from README.md;
everything else from imports.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bootstrap import print_help_if_asked
from guide_reference.command_line import cli_page
from guide_reference.configuration import configuration_page
from guide_reference.database import database_page, database_picture
from guide_reference.home_page import home_page
from guide_reference.measured import scheduler_pages, schedulers_page
from guide_reference.python_names import python_page
from guide_reference.tools import GUIDE, ROOT
from guide_reference.web import metrics_page, rest_page, websocket_page

PAGES: dict[str, Callable[[], str]] = {
    "reference/cli.md": cli_page,
    "reference/configuration.md": configuration_page,
    "reference/python.md": python_page,
    "reference/database.md": database_page,
    "reference/rest.md": rest_page,
    "reference/websocket.md": websocket_page,
    "reference/metrics.md": metrics_page,
    "images/database.svg": database_picture,
    "schedulers/index.md": schedulers_page,
    "../index.md": home_page,
}


def pages() -> Iterator[tuple[Path, str]]:
    """Every page with what it should say."""
    for name, make in PAGES.items():
        yield (GUIDE / name).resolve(), make()
    yield from scheduler_pages()


def stale() -> list[str]:
    """Pages that differ from the code."""
    return [
        path.relative_to(ROOT).as_posix()
        for path, text in pages()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        old = stale()
        print("current" if not old else "out of date: " + ", ".join(old) + "\nrun scripts/make_reference.py")
        return 1 if old else 0
    for path, text in pages():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    print_help_if_asked(__doc__)
    sys.exit(main(sys.argv[1:]))
