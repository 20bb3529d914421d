"""Figure gallery: complete."""

from pathlib import Path

from hybrid_scheduler.reports.figures import FIGURES

DOCS = Path(__file__).parents[2] / "docs"


def test_every_figure_is_in_the_gallery():
    page = (DOCS / "guide" / "gallery.md").read_text(encoding="utf-8")
    assert {path.stem for path in (DOCS / "images" / "gallery").glob("*.png")} == set(FIGURES)
    for name in FIGURES:
        assert f"../images/gallery/{name}.png" in page
        assert f"`--figures {name}`" in page
