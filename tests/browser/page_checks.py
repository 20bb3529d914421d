"""Helpers that read and drive a page of the dashboard."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fault_scale import FULL
from playwright.sync_api import Page, expect
from process import Served

ROOT = Path(__file__).parents[2]
AXE = ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
SCHEDULERS = "round_robin,random,greedy,hybrid_ml,rl_agent,oracle"
Open = Callable[..., Page]
THEMES = ("dark", "light")
#: Of live runs: fast enough that there is something to see, slow enough to leave the cores to other tests.
SPEED = 5
#: Limits of the design are multiplied by this, because other tests run beside these ones, on all cores.
#: `./run_tests.sh --faults` checks the limits themselves.
BUSY = 1 if FULL else 4


def significant(value: float, digits: int = 3) -> str:
    """As the dashboard writes numbers."""
    text = f"{value:.{digits}g}"
    if "e" in text:
        text = f"{float(text):.{0 if abs(value) >= 1 else 6}f}"
    whole, dot, rest = text.partition(".")
    rest = rest.ljust(max(0, digits - len(whole.lstrip("-0") or "")), "0") if dot or len(whole) < digits else rest
    return f"{int(whole):,}".replace("-", "−") + (f".{rest}" if rest else "")


def seconds(value: float) -> str:
    """As the dashboard writes times."""
    for factor, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")):
        if float(f"{abs(value):.3g}") >= factor:
            return f"{significant(value / factor)} {unit}"
    return "0 s"


def short_label(label: str) -> str:
    """A label without its remark in parentheses, as in narrow columns."""
    return label.partition(" (")[0]


def check_figures(page: Page, verdict: dict[str, Any]) -> None:
    """The multiples of the headline are those of the server's verdict."""
    figures = page.get_by_test_id("gap")
    for ratio in (verdict["lead"], verdict["over_floor"]):
        if ratio is not None and (ratio != verdict["lead"] or verdict["certainty"] != "close"):
            larger = max(ratio, 1 / ratio)
            expect(figures).to_contain_text(f"{larger:,.{max(0, 1 - math.floor(math.log10(larger)))}f} ×")


def make_two_runs(server: Served) -> tuple[str, str]:
    """A run that goes on and one that has ended before it, both new, with some tasks of ours among their own."""
    sent = [{"size": 300 * n, "compute_intensity": n / 16, "memory_required": 100} for n in range(1, 16)]
    with server.client() as api:
        runs = []
        for seed in (5, 7):
            api.post("/api/simulation/stop").raise_for_status()
            runs.append(api.post("/api/simulation/start", json={"seed": seed, "speed": SPEED}).json()["run_id"])
            for task in sent:
                api.post("/api/tasks", json=task).raise_for_status()
    ended, newest = runs
    assert newest != ended
    return newest, ended


def write_sweep(folder: Path) -> None:
    """A stored sweep of 3 schedulers, 4 loads and 2 seeds, in which greedy is slow at high loads."""
    folder.mkdir(parents=True)
    factors = {"greedy": 20.0, "earliest_finish": 2.0, "oracle": 1.0}
    cells = [
        {"scheduler": name, "scenario": "mixed", "platform": "workstation", "load": load, "batch": False,
         "noise": 0.0, "seed": seed, "tasks": 100, "mean_latency": 0.05 * factor * (1 + load) + 0.001 * seed,
         "p95_latency": 0.2 * factor * (1 + load), "mean_time": 0.05, "energy": 400.0 * load, "cost": 0.002}
        for name, factor in factors.items() for load in (0.1, 0.3, 0.5, 0.7) for seed in (1, 2)
    ]  # fmt: skip
    (folder / "cells.jsonl").write_text("".join(json.dumps(cell) + "\n" for cell in cells))


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


def wait_until_settled(page: Page) -> None:
    """Nothing is being loaded any more: every widget has data, or says why not."""
    page.get_by_role("heading").first.wait_for()
    page.wait_for_function("() => !document.querySelector('.skeleton')", timeout=90_000)


def set_theme(page: Page, theme: str) -> None:
    if page.locator("html").get_attribute("data-theme") != theme:
        # Not by the keyboard, which may belong to a field.
        page.evaluate("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 't', bubbles: true}))")
        page.locator(f"html[data-theme={theme}]").wait_for()


def note_words(page: Page) -> None:
    """From now on the page notes when its connection pill says another word, in milliseconds since 1970."""
    page.evaluate(
        """() => {
            window.said = [];
            const pill = document.querySelector('[data-testid=connection]');
            const note = () => {
                const word = pill.children[1].innerText;
                if (word !== window.said.at(-1)?.[0]) window.said.push([word, Date.now()]);
            };
            new MutationObserver(note).observe(pill, {subtree: true, childList: true, characterData: true});
            note();
        }"""
    )


def said_at(page: Page, word: str) -> float:
    """The Unix second at which the pill last began to say this word."""
    return float(page.evaluate("word => window.said.findLast(([said]) => said === word)[1]", word)) / 1000


_WCAG = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
#: The rules whose result depends on colours.
_COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}


def _violations(page: Page, rules: dict[str, object]) -> list[str]:
    """What axe finds against these rules, in a line each."""
    found = page.evaluate(
        """async rules => (await axe.run(document, {runOnly: rules, resultTypes: ['violations']})).violations
            .map(v => `${v.id}: ${v.nodes.length} x ${v.nodes[0].html.slice(0, 160)}`)""",
        rules,
    )
    return list(found)


NO_VIOLATIONS: dict[str, list[str]] = {theme: [] for theme in THEMES}


def violations_by_theme(page: Page) -> dict[str, list[str]]:
    """Return what axe finds against WCAG 2.2 AA in both themes; they differ in nothing but colours."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = {}
    for theme, rules in zip(THEMES, (_WCAG, _COLOURS), strict=True):
        set_theme(page, theme)
        found[theme] = _violations(page, rules)
    return found
