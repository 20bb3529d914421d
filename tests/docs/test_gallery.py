"""Figure gallery and copies of the root pages: complete, with working links."""

from pathlib import Path

from guide_reference.root_pages import COPIES, root_page
from hybrid_scheduler.reports.figures import FIGURES

DOCS = Path(__file__).parents[2] / "docs"


def test_every_figure_is_in_the_gallery():
    page = (DOCS / "guide" / "gallery.md").read_text(encoding="utf-8")
    assert {path.stem for path in (DOCS / "images" / "gallery").glob("*.png")} == set(FIGURES)
    for name in FIGURES:
        assert f"../images/gallery/{name}.png" in page
        assert f"--figures {name} " in page


def test_links_of_root_page_copies_exist():
    for name in COPIES:
        page = root_page(name)
        assert "](docs/" not in page
        for part in page.split("](")[1:]:
            link = part.split(")")[0].split("#")[0]
            if link and "://" not in link:
                assert (DOCS / "guide" / link).resolve().exists(), link
