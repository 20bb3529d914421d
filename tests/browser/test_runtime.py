"""A program on real devices in the dashboard: its calls appear while it runs, and it is stored when it ends."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
from page_checks import Open, wait_until_settled
from playwright.sync_api import expect
from process import Served

import hybrid_scheduler as hs
from hybrid_scheduler.testing import FakeAccelerator


@hs.auto
def step(x: Any) -> Any:
    """Take one step."""
    return x * 2 + 1


@hs.auto
def total(x: Any) -> Any:
    """Add everything up."""
    return x.sum()


def test_program_is_followed_while_it_runs_and_stored_at_its_end(server: Served, open_page: Open) -> None:
    gate = threading.Event()
    page = open_page(server.url, "/runtime")
    fake = FakeAccelerator(capacity=2 * 80_000)
    with hs.HybridExecutor(
        "round_robin", accelerators=[fake], history=False, cores=2, dashboard=server.url
    ) as executor:
        assert executor.stream is not None
        run_id = executor.stream.run_id
        values = [executor.submit(step, np.full((100, 100), float(i))) for i in range(20)]
        sums = [executor.submit(total, one) for one in values]
        waiting = executor.submit(hs.task()(lambda: gate.wait(60)))
        for one in sums:
            one.result(timeout=60)
        program = page.get_by_role("region", name="Program")
        expect(program).to_contain_text("running for")
        expect(program).to_contain_text("measured")
        expect(program).to_contain_text(re.compile(r"40\s*1 unfinished"))
        table = page.get_by_role("table", name="Functions of the program")
        expect(table.get_by_role("row").filter(has_text="step")).to_contain_text("20")
        expect(table.get_by_role("row").filter(has_text="total")).to_contain_text("20")
        devices = page.get_by_role("table", name="Queues and memory of the devices")
        expect(devices.get_by_role("row").filter(has_text="fake_0")).to_contain_text("160 kB")
        expect(program).to_contain_text(re.compile(r"[1-9]\d* evicted"))
        chart = page.get_by_role("img", name="40 calls on 2 devices")
        expect(chart).to_contain_text("fake_0 copies")
        chart.locator("g.cursor-pointer").first.dispatch_event("click")  # bars of neighbours may cover it
        expect(page.get_by_text("run, predicted")).to_be_visible()
        gate.set()
        assert waiting.result(timeout=60)
    expect(program).to_contain_text("ended after")
    page.get_by_role("link", name="stored run").click()
    wait_until_settled(page)
    head = page.get_by_role("region", name="Run", exact=True)
    expect(head).to_contain_text(run_id)
    expect(head).to_contain_text("measured")
    with server.client() as api:
        assert api.get(f"/api/runs/{run_id}").json()["tasks"] == 41
        api.delete(f"/api/runs/{run_id}").raise_for_status()
