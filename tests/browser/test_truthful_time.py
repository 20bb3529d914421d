"""Gantt chart, idle figures and pulse equal the API at every speed and zoom, and the first load is light."""

from __future__ import annotations

import httpx
import pytest
from page_checks import SPEED, THEMES, Open, wait_for_data, wait_until_settled
from playwright.sync_api import Browser, Page
from process import Served

SPEEDS = {"at 1 x": (1, "mixed", 0.4), "at 4 x": (4, "mixed", 0.4), "at 50 x": (50, "mixed", 0.4)}
BURST = {"in a burst": (20, "bursty", 0.9)}
CASES = {**SPEEDS, **BURST}
#: The what-if of the page before may still be computed.
BUSY_WORKER = ("/api/what",)


def busy_by_device(api: httpx.Client, run: str, scheduler: str, start: float, end: float) -> dict[str, float]:
    """Return the busy seconds of every device between two times, from the single parts of all tasks."""
    query = {"scheduler": scheduler, "start": start, "end": end, "limit": 50_000}
    parts = api.get(f"/api/runs/{run}/gantt", params=query).json()
    assert not parts["truncated"]
    busy = dict.fromkeys(parts["devices"], 0.0)
    for device, begin, finish in zip(parts["device"], parts["start"], parts["end"], strict=True):
        busy[device] += max(0.0, min(finish, end) - max(begin, start))
    return busy


def check_gantt(page: Page, api: httpx.Client, run: str, scheduler: str) -> float:
    """Compare the idle share of every lane with the single parts of tasks; return the length of the window.

    All figures are read at once. They stay true while the run goes on, because later tasks cannot start earlier.
    """
    start, known_to, lanes = page.evaluate(
        """scheduler => {
            const {start, knownTo} = document.querySelector('#gantt [data-testid=exact]').dataset;
            const lanes = [...document.querySelectorAll(`#gantt [data-of=${scheduler}][data-idle]`)];
            const idle = lanes.map(({dataset}) => [dataset.device, Number(dataset.idle)]);
            return [Number(start), Number(knownTo), idle];
        }""",
        scheduler,
    )
    busy = busy_by_device(api, run, scheduler, start, known_to)
    assert dict(lanes) == pytest.approx(
        {device: 1.0 - seconds / (known_to - start) for device, seconds in busy.items()}, abs=1e-4
    )
    return float(known_to - start)


@pytest.mark.parametrize("case", CASES)
def test_gantt_idle_figures_and_pulse_equal_the_api(server: Served, open_page: Open, case: str) -> None:
    speed, scenario, load = CASES[case]
    with server.client() as api:
        try:
            api.post("/api/simulation/scenario", json={"scenario": scenario, "load": load}).raise_for_status()
            api.post("/api/simulation/speed", json={"speed": speed}).raise_for_status()
            page = open_page(
                server.url, "/compare?focus=hybrid_ml", theme=THEMES[len(case) % 2], allowed=BUSY_WORKER
            )
            wait_for_data(page)
            page.locator("#gantt [data-testid=exact]").wait_for()
            run = api.get("/api/status").json()["run_id"]
            # The run may be young.
            page.wait_for_function(
                "() => { const {start, knownTo} = document.querySelector('#gantt [data-testid=exact]').dataset;"
                " return knownTo - start > 5; }"
            )
            assert check_gantt(page, api, run, "hybrid_ml") > 5
            # The pulse shows the last minute of every scheduler.
            labels = {one["name"]: one["label"] for one in api.get("/api/schedulers").json()}
            page.wait_for_function(
                "() => { const {start, knownTo} = document.querySelector('[data-testid=pulse-window]').dataset;"
                " return knownTo - start > 0; }"
            )
            drawn = page.evaluate(
                """() => {
                    const {start, knownTo} = document.querySelector('[data-testid=pulse-window]').dataset;
                    const cells = [...document.querySelectorAll('#pulse [data-cell]')];
                    return [start, knownTo, cells.map(cell => [cell.dataset.cell, cell.dataset.busy])];
                }"""
            )
            start, known_to, shares = float(drawn[0]), float(drawn[1]), dict(drawn[2])
            for name in ("greedy", "hybrid_ml"):
                busy = busy_by_device(api, run, name, start, known_to)["cpu"] / (known_to - start)
                assert float(shares[f"{labels[name]}, CPU"]) == pytest.approx(busy, abs=1e-4)
            # Zoomed out the chart is a heat strip of exact busy time. The first case may find a young run.
            page.wait_for_function(
                "() => Number(document.querySelector('#gantt [data-testid=exact]').dataset.knownTo) > 25",
                timeout=60_000,
            )
            page.locator("#gantt").get_by_role("button", name="Show the whole range").click()
            page.wait_for_function(
                "() => { const {start, knownTo} = document.querySelector('#gantt [data-testid=exact]').dataset;"
                " return knownTo - start > 20; }"
            )
            check_gantt(page, api, run, "hybrid_ml")
            # Both are of one update: no bound after the makespan.
            status = api.get("/api/status").json()
            # The bound is of all tasks, also of those that still wait in a queue of their scheduler.
            placed = [row for row in status["comparison"] if not row["waiting"] and row["name"] != "rl_agent"]
            assert len(placed) >= 5
            assert all(status["makespan_bound"] <= row["makespan"] + 1e-9 for row in placed)
        finally:
            api.post("/api/simulation/speed", json={"speed": SPEED})
            api.post("/api/simulation/scenario", json={"scenario": "default"})


def test_first_load_takes_at_most_600_kilobytes(server: Served, browser: Browser) -> None:
    page = browser.new_page()  # its cache is empty
    page.add_init_script("localStorage.setItem('hs.tour', 'done')")
    page.goto(f"{server.url}/compare")
    wait_for_data(page)
    wait_until_settled(page)
    entries = page.evaluate(
        """() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
            .map(entry => [entry.name, entry.transferSize])"""
    )
    page.close()
    # While the slowest widget computes, others already ask for news: of each address the first answer counts.
    first = dict(reversed([(name, size) for name, size in entries]))
    assert sum(first.values()) <= 600_000, sorted(first.items(), key=lambda entry: -entry[1])[:8]
    assert all(size > 0 for name, size in entries if "/assets/" in name)
