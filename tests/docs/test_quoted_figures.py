"""Figures in the documents: each agrees with its source in the committed results, and none is without one."""

import json

import pytest

from studies import quoted_figures
from studies.quoted_figures import ROOT, current, documents, lookup, stale, unsourced, updated

ids = {"ids": lambda page: page.relative_to(ROOT).as_posix()}


@pytest.mark.parametrize("page", documents(), **ids)
def test_quoted_figures_agree_with_their_source(page):
    assert stale(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", documents(), **ids)
def test_no_measured_figure_is_without_a_source(page):
    assert unsourced(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", documents(), **ids)
def test_every_comment_is_closed(page):
    text = page.read_text(encoding="utf-8")
    for kind in ("figure", "given"):
        assert text.count(f"<!--{kind}") == text.count(f"<!--/{kind}-->")


@pytest.fixture
def results(tmp_path, monkeypatch):
    (tmp_path / "a.json").write_text(
        json.dumps({"x": {"ratio": [1.26, 1.16, 1.36]}, "rows": [{"name": "b", "n": 3}]})
    )
    (tmp_path / "b.txt").write_text(
        "load 0.7\n  one   1.500 ± 0.100\n  two   2.000 ± 0.200   3.000\nload 0.9\n  two   9\n"
    )
    monkeypatch.setattr(quoted_figures, "ROOT", tmp_path)
    quoted_figures.document.cache_clear()
    return tmp_path


def test_sources_are_json_paths_or_words_of_a_text(results):
    assert lookup("a.json#x > ratio") == [1.26, 1.16, 1.36]
    assert lookup("a.json#x > ratio > ±") == pytest.approx([1.26, 0.1])
    assert lookup("a.json#rows > b > n") == [3.0]
    assert lookup("b.txt#load 0.7 > two") == [2.0, 0.2, 3.0]
    assert lookup("b.txt#load 0.7 > two > 2") == [3.0]
    assert lookup("b.txt#load 0.9 > two") == [9.0]
    for missing in ("none.json#x", "a.json#y", "b.txt#load 0.8", "a.json#x"):
        with pytest.raises(LookupError, match="#"):
            lookup(missing)


def test_quotation_is_rounded_as_it_was_written(results):
    assert current("1.2 ± 0.3", [1.26, 0.1]) == "1.3 ± 0.1"
    assert current("about 2,000 to 3", [1234.5, 3.4]) == "about 1,234 to 3"
    page = "It takes <!--figure: b.txt#load 0.7 > two-->1.90 ± 0.30<!--/figure--> s."
    assert stale(page) == ["1.90 ± 0.30 should be 2.00 ± 0.20: b.txt#load 0.7 > two"]
    assert stale(updated(page)) == []
    assert stale("<!--figure: b.txt#load 0.9 > two-->9 and 8<!--/figure-->") != []


def test_measured_figure_without_a_source_is_found():
    page = "\n".join(
        [
            "At load 0.7 it needs 1.46 times as long.",
            "It needs <!--figure: a.json#x-->1.46<!--/figure--> at 0.7 of capacity.",
            "277 ± 13 times.",
            "Python 3.11 and `0.5` and <!--given-->k·N^1.5<!--/given-->.",
        ]
    )
    assert unsourced(page) == ["At load 0.7 it needs 1.46 times as long.", "277 ± 13 times."]


def test_results_page_is_the_one_that_its_raw_data_give():
    from hybrid_scheduler.core.canonical_json import pretty_json
    from studies.measurements import RAW, Raw
    from studies.results_book import book

    raw = ROOT / "docs" / "results" / "evidence" / RAW
    if not raw.is_file():
        pytest.skip("the results were not measured in this form yet: make results")
    text, document = book(Raw.read(raw))
    assert (ROOT / "RESULTS.md").read_text(encoding="utf-8") == text
    stored = json.loads((raw.parent / "results.json").read_text(encoding="utf-8"))
    assert stored == json.loads(pretty_json(document))
