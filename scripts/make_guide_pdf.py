"""The whole guide as one printable PDF, printed by a browser. Run with the project's Python.

python scripts/make_guide_pdf.py [guide.pdf]

Pages and their order come from mkdocs.yml. markdown-it-py turns them into one HTML document. Chromium
(Debian's package, or CHROMIUM names one) prints it with the headings as bookmarks.
"""

from __future__ import annotations

import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from find_browser import find_browser
from guide_book.pages import Page, pages, to_html

#: Longest time that the browser may take, in milliseconds.
_TIMEOUT_MS = 120_000
_FOOTER = """<div style="font: 7pt sans-serif; color: #5B6472; width: 100%; margin: 0 16mm; display: flex;
justify-content: space-between"><span>Hybrid ML Scheduler VERSION</span><span class="pageNumber"></span></div>"""


def make(target: Path, everything: Sequence[Page] | None = None) -> None:
    """Write the PDF."""
    from playwright.sync_api import sync_playwright

    from hybrid_scheduler import __version__

    program = find_browser()
    if program is None:
        sys.exit("error: no browser prints the guide\nhint: install chromium, or set CHROMIUM")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        document = Path(folder) / "guide.html"
        document.write_text(to_html(everything or pages(), __version__), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            page = browser.new_page()
            page.goto(document.as_uri(), timeout=_TIMEOUT_MS)
            page.pdf(
                path=target,
                prefer_css_page_size=True,
                print_background=True,
                outline=True,
                tagged=True,
                display_header_footer=True,
                header_template="<span></span>",
                footer_template=_FOOTER.replace("VERSION", __version__),
            )
        finally:
            browser.close()


def main(arguments: list[str]) -> int:
    parser = ArgumentParser(description="Write the whole guide as one printable PDF.")
    parser.add_argument("file", nargs="?", type=Path, default=Path("guide.pdf"), help="file to write (%(default)s)")
    target: Path = parser.parse_args(arguments).file
    make(target)
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
