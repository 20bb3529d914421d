"""Printable guide: links and pictures work in one document, and the browser prints it."""

import os
import re
from pathlib import Path

import pytest

import make_guide_pdf as book
from find_browser import find_browser
from guide_book.pages import Page, pages, slug, to_html

#: One page with drawings and lists, one with a wide table, one with long code.
SOME = ("guide/start/kitchen.md", "guide/schedulers/fixed.md", "guide/start/own-trace.md")


def some_pages() -> list[Page]:
    return [page for page in pages() if page.key in SOME]


def test_pages_are_printed(tmp_path: Path) -> None:
    if find_browser() is None and not os.environ.get("CI"):
        pytest.skip("no chromium on this machine")
    book.make(tmp_path / "guide.pdf", some_pages())
    printed = (tmp_path / "guide.pdf").read_bytes()
    assert printed.startswith(b"%PDF-")
    assert 6 <= len(re.findall(rb"/Type /Page\b", printed)) <= 20


def test_links_and_pictures_of_the_whole_guide_exist() -> None:
    html = to_html(pages(), "1.0")
    anchors = set(re.findall(r' id="([^"]+)"', html))
    links = set(re.findall(r' href="#([^"]+)"', html))
    assert len(links) > 100
    assert links - anchors == set()
    pictures = re.findall(r' src="file://([^"]+)"', html)
    assert len(pictures) > 20
    assert [picture for picture in pictures if not Path(picture.replace("%20", " ")).is_file()] == []


def test_anchors_equal_those_of_code_hosts() -> None:
    assert slug("Distribution shift") == "distribution-shift"
    assert slug("What's `new`, here?") == "whats-new-here"


def test_missing_browser_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", "/nowhere/chromium")
    with pytest.raises(SystemExit, match="no browser prints the guide"):
        book.make(tmp_path / "guide.pdf", some_pages())


def test_help_is_printed_and_no_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        book.main(["--help"])
    assert end.value.code == 0
    assert "usage:" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
