"""A job log on a simulated cluster in the dashboard: empty, with a log, with a forecast, on a narrow screen."""

from __future__ import annotations

from page_checks import Open
from playwright.sync_api import expect
from process import Served

#: The first simulation on a machine compiles the simulator.
_COMPILING_MS = 280_000


def test_log_shows_nodes_policies_and_the_forecast_of_a_job(server: Served, open_page: Open) -> None:
    page = open_page(server.url, "/cluster")
    expect(page.get_by_text("No job log yet").first).to_be_visible()
    page.get_by_role("button", name="Try a made-up log").click()
    table = page.get_by_role("table", name="Orders of the queue")
    expect(table).to_be_visible(timeout=_COMPILING_MS)
    expect(table.get_by_role("row").filter(has_text="fair_share")).to_have_count(1)
    expect(page.get_by_role("region", name="Cluster")).to_contain_text("256 GPUs")
    page.get_by_role("button", name="Forecast a job of one hour").click()
    expect(page.get_by_text("90 % interval").first).to_be_visible(timeout=_COMPILING_MS)
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
