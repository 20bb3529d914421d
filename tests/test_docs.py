"""Python examples of the documentation: those of a page run in order, as one program."""

import re
from pathlib import Path

import pytest

from hybrid_scheduler.schedulers import schedulers, unregister

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = set(schedulers())
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    # A file of its own: compiled rules are cached beside the source they come from.
    (tmp_path / "example.py").write_text("\n".join(blocks), encoding="utf-8")
    try:
        exec(compile("\n".join(blocks), str(tmp_path / "example.py"), "exec"), {"__name__": "example"})
    finally:
        for name in set(schedulers()) - before:
            unregister(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside_the_repository_exist(page):
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
