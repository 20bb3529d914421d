"""Printable guide: it builds, and the same pages give the same bytes."""

import re
from pathlib import Path

import pytest

import make_guide_pdf as book
from guide_book.pages import Page, pages, slug
from guide_book.setter import column_widths, folded

#: One page with drawings and lists, one with a wide table, one with long code.
SOME = ("guide/start/kitchen.md", "guide/schedulers/fixed.md", "guide/start/own-trace.md")


def some_pages() -> list[Page]:
    return [page for page in pages() if page.key in SOME]


def test_same_pages_give_the_same_bytes(tmp_path: Path) -> None:
    count = book.make(tmp_path / "one.pdf", some_pages())
    assert 6 <= count <= 20
    first = (tmp_path / "one.pdf").read_bytes()
    assert first.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b", first)) == count
    book.make(tmp_path / "two.pdf", some_pages())
    assert (tmp_path / "two.pdf").read_bytes() == first


@pytest.mark.slow
def test_whole_guide_builds_as_pdf(tmp_path: Path) -> None:
    assert book.make(tmp_path / "guide.pdf") > 100


def test_anchors_equal_those_of_code_hosts() -> None:
    assert slug("Distribution shift") == "distribution-shift"
    assert slug("What's `new`, here?") == "whats-new-here"


def test_long_lines_of_code_are_folded_between_words() -> None:
    lines = folded("hybrid-scheduler simulate --scenario mixed --utilisation 0.7", 40)
    assert [len(line) <= 40 for line in lines] == [True, True]
    assert (
        " ".join(line.strip() for line in lines) == "hybrid-scheduler simulate --scenario mixed --utilisation 0.7"
    )


def test_columns_share_the_width() -> None:
    assert column_widths([5.0, 5.0], [5.0, 5.0], 500.0) == [5 * 4.55 + 9, 5 * 4.55 + 9]
    assert sum(column_widths([10.0, 400.0], [10.0, 12.0], 300.0)) == pytest.approx(300.0)
    assert sum(column_widths([90.0] * 9, [60.0] * 9, 300.0)) == pytest.approx(300.0)


def test_help_is_printed_and_no_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        book.main(["--help"])
    assert end.value.code == 0
    assert "usage:" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
