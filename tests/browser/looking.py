"""What the tests look at on a page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page

ROOT = Path(__file__).parents[2]
AXE = ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
SCHEDULERS = "round_robin,random,greedy,hybrid_ml,rl_agent,oracle"
Open = Callable[..., Page]


def pill(page: Page) -> str:
    return page.get_by_test_id("connection").inner_text()


def wait_for_pill(page: Page, word: str, seconds: float = 30) -> None:
    page.wait_for_function(
        "word => document.querySelector('[data-testid=connection]')?.innerText.includes(word)",
        arg=word,
        timeout=seconds * 1000,
    )


def wait_for_data(page: Page) -> None:
    page.get_by_test_id("headline").get_by_role("heading", level=1).wait_for()


def violations(page: Page) -> list[str]:
    """What axe finds against WCAG 2.2 AA, in a line each."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(
        """async () => (await axe.run(document, {runOnly: {type: 'tag', values:
            ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}})).violations
            .map(v => `${v.id}: ${v.nodes.length} x ${v.nodes[0].html.slice(0, 160)}`)"""
    )
    return list(found)
