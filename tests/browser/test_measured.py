"""Measured runs in the dashboard: marked as measured, with real devices and without unknown numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from measured_examples import PLATFORM, measured_run
from page_checks import Open, seconds, wait_until_settled
from playwright.sync_api import expect
from process import Served

from hybrid_scheduler.live import MeasuredRun, measured_to_json

Store = Callable[[MeasuredRun], str]


@pytest.fixture
def store(server: Served) -> Iterator[Store]:
    """Store a measured run and return its id; it is deleted at the end, because other tests share the server."""
    stored: list[str] = []
    with server.client() as api:

        def store(run: MeasuredRun) -> str:
            answer = api.post("/api/runs", json=measured_to_json(run)).raise_for_status()
            stored.append(answer.json()["run_id"])
            return stored[-1]

        yield store
        for run_id in stored:
            api.delete(f"/api/runs/{run_id}").raise_for_status()


def test_measured_run_is_marked_as_measured(server: Served, store: Store, open_page: Open) -> None:
    stored = store(measured_run(60))
    with server.client() as api:
        live = api.get("/api/status").json()["run_id"]
        run = api.get(f"/api/runs/{stored}").json()
        schedulers = {one["name"]: one["label"] for one in api.get("/api/schedulers").json()}
    page = open_page(server.url, "/history")
    wait_until_settled(page)
    row = page.locator("#runs").get_by_role("row").filter(has_text=stored[-8:])
    expect(row).to_contain_text("measured")
    expect(row).to_contain_text("kernels: sort")

    page = open_page(server.url, f"/run/{stored}")
    wait_until_settled(page)
    head = page.get_by_role("region", name="Run", exact=True)
    expect(head).to_contain_text("measured")
    expect(head).to_contain_text("bench")
    expect(head).to_contain_text("the measured times cannot")
    table = page.get_by_role("table", name="Comparison of the run")
    for one in run["comparison"]:
        line = table.get_by_role("row").filter(has_text=schedulers[one["name"]])
        expect(line).to_contain_text(seconds(one["mean_latency"]))
        expect(line).to_contain_text("–")  # energy and dollars
    for device in ("cpu_wide", "cpu_narrow"):
        expect(page.locator("main")).to_contain_text(re.compile(device.replace("_", "[ _]"), re.IGNORECASE))

    page = open_page(server.url, f"/diff?a={stored}&b={live}")
    wait_until_settled(page)
    expect(page.get_by_role("note").first).to_contain_text("Run A was measured, run B was simulated")


def test_names_with_markup_stay_text(server: Served, store: Store, open_page: Open) -> None:
    markup = "<img src=x onerror=window.ran=1><b>bold</b>"
    named = measured_run(12, scenario=markup, platform=replace(PLATFORM, name=markup), config={markup: markup})
    stored = store(named)
    with server.client() as api:
        live = api.get("/api/status").json()["run_id"]
    for path in ("/history", f"/run/{stored}", f"/diff?a={stored}&b={live}"):
        page = open_page(server.url, path)
        wait_until_settled(page)
        expect(page.get_by_text(markup).first).to_be_attached()
        assert page.evaluate("[window.ran, document.querySelectorAll('main img, main b').length]") == [None, 0]
