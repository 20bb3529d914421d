"""Accessibility of every view in every state and theme, checked by axe (WCAG 2.2 AA), and its widths."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_checks import (
    NO_VIOLATIONS,
    SPEED,
    Open,
    make_two_runs,
    violations_by_theme,
    wait_for_data,
    wait_for_pill,
    wait_until_settled,
)
from playwright.sync_api import Route, expect
from process import Served, served

VIEWS = ("compare", "scheduler", "history", "run", "diff")
NO_RUN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def path_of(view: str, runs: tuple[str, str] = (NO_RUN, NO_RUN)) -> str:
    newest, ended = runs
    paths = {"scheduler": "/scheduler/greedy", "run": f"/run/{ended}", "diff": f"/diff?a={ended}&b={newest}"}
    return paths.get(view, f"/{view}")


@pytest.mark.parametrize("view", VIEWS)
def test_view_of_a_live_run_fits_every_width_and_has_no_accessibility_violations(
    server: Served, two_runs: tuple[str, str], open_page: Open, view: str
) -> None:
    """As loaded on a phone, then in wider windows, and back."""
    path = "/scheduler/hybrid_ml" if view == "scheduler" else path_of(view, two_runs)
    page = open_page(server.url, path, width=360)
    wait_for_pill(page, "Live")
    page.get_by_role("heading", level=2).first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    for width in (768, 1280, 2560, 360, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(
            "w => window.innerWidth === w && document.documentElement.scrollWidth <= w", arg=width
        )
        main = page.locator("main").bounding_box()
        # Wide windows are used, and a phone shows the content on its first screen.
        assert main["width"] >= 0.97 * width
        assert width != 360 or main["y"] < 300
    wait_until_settled(page)
    assert violations_by_theme(page) == NO_VIOLATIONS


@pytest.mark.parametrize("view", VIEWS)
def test_view_without_data_has_no_accessibility_violations(
    empty_server: Served, open_page: Open, view: str
) -> None:
    # A run that is not there is a 404, which the browser notes.
    page = open_page(empty_server.url, path_of(view), allowed=("status of 404",))
    wait_for_pill(page, "Connected")
    wait_until_settled(page)
    hint = "Go to the list of runs" if view in ("run", "diff") else "hybrid-scheduler serve"
    expect(page.get_by_text(hint).first).to_be_visible()
    assert violations_by_theme(page) == NO_VIOLATIONS


@pytest.mark.parametrize("view", VIEWS)
def test_view_with_failing_requests_has_no_accessibility_violations(
    server: Served, two_runs: tuple[str, str], open_page: Open, view: str
) -> None:
    """The stream goes on; whatever is asked for over REST fails."""

    def fail(route: Route) -> None:
        error: dict[str, object] = {
            "id": "0123456789abcdef",
            "code": "internal",
            "message": "it broke",
            "fields": [],
            "hint": None,
        }
        route.fulfill(status=500, json={"error": error})

    page = open_page(server.url, path_of(view, two_runs), allowed=("status of 500",), before=("**/api/**", fail))
    wait_for_pill(page, "Live")
    wait_until_settled(page)
    page.get_by_role("button", name="Retry").first.wait_for()
    assert violations_by_theme(page) == NO_VIOLATIONS


def test_view_without_a_server_has_no_accessibility_violations(
    dashboard: Path, open_page: Open, tmp_path: Path
) -> None:
    """One server for all views: they are open when it goes."""
    with served(tmp_path, "--speed", str(SPEED)) as process:
        runs = make_two_runs(process)
        pages = {view: open_page(process.url, path_of(view, runs), outage=True) for view in VIEWS}
        wait_for_data(pages["compare"])
        for page in pages.values():
            wait_for_pill(page, "Live")
            wait_until_settled(page)
        process.kill()
        found = {}
        for view, page in pages.items():
            # After half a minute without an answer the word is another one; the state is the same.
            page.wait_for_function(
                "() => /Reconnecting|Offline/.test(document.querySelector('[data-testid=connection]').innerText)"
            )
            page.bring_to_front()
            found[view] = violations_by_theme(page)
        assert found == dict.fromkeys(VIEWS, NO_VIOLATIONS)


def test_empty_database_offers_to_start_the_simulation(empty_server: Served, open_page: Open) -> None:
    """The last test with this server: it is empty no longer."""
    page = open_page(empty_server.url)
    page.get_by_role("button", name="Start simulation").first.click()
    wait_for_pill(page, "Live")
    wait_for_data(page)
    with empty_server.client() as api:
        api.post("/api/simulation/stop").raise_for_status()
