"""Smoothness of panning and zooming in the Gantt chart over 50,000 tasks; run it on an idle machine.

    python benchmarks/gantt_bench.py [--tasks 50000] [--moves 300]

A real server fills a run as fast as it can, then pauses; Debian's chromium (software rendering) opens it, a real
pointer drags and a real wheel zooms. Printed: the time from frame to frame (the browser shows at most 60 a second)
and the main thread's share of it. Nothing here asserts a time.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "faults"), str(ROOT / "scripts")]

from process import Served, served  # noqa: E402

from build_dashboard import ensure_dashboard  # noqa: E402

ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
_COUNT_FRAMES = """() => {
    const frames = [];
    let last = null;
    window.stopCounting = () => { window.counting = false; return frames; };
    window.counting = true;
    const tick = now => {
        if (last !== null) frames.push(now - last);
        last = now;
        if (window.counting) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
}"""


def fill(server: Served, tasks: int) -> None:
    with server.client() as client:
        while (done := client.get("/api/status").json()["tasks_processed"]) < tasks:
            print(f"\r{done:8,} tasks", end="", file=sys.stderr, flush=True)
            time.sleep(0.5)
        client.post("/api/pause").raise_for_status()
    print(file=sys.stderr)


def busy_seconds(session) -> float:
    values = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
    return float(values["TaskDuration"])


def measured(name: str, page: Page, session, act) -> None:
    page.evaluate(_COUNT_FRAMES)
    before = busy_seconds(session)
    act()
    frames = page.evaluate("() => window.stopCounting()")
    busy = 1000 * (busy_seconds(session) - before) / len(frames)
    ordered = sorted(frames)
    p95 = ordered[int(0.95 * (len(ordered) - 1))]
    print(
        f"{name:28s} {len(frames):5d} frames   median {statistics.median(frames):5.1f} ms   p95 {p95:5.1f} ms   "
        f"longest {ordered[-1]:5.1f} ms   main thread {busy:5.1f} ms a frame   (33 ms)",
        flush=True,
    )


def pan_and_zoom(page: Page, session, moves: int) -> None:
    chart = page.get_by_role("img", name="Gantt chart of").or_(page.locator("[aria-label^='Gantt chart of']")).first
    chart.scroll_into_view_if_needed()
    page.get_by_role("button", name="Show the whole range").click()
    box = chart.bounding_box()
    assert box is not None
    middle, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def drag() -> None:
        page.mouse.move(middle, y)
        page.mouse.down()
        for step in range(moves):
            page.mouse.move(middle + 150 * ((step % 60) - 30) / 30, y)
        page.mouse.up()

    def wheel() -> None:
        page.mouse.move(middle, y)
        page.keyboard.down("Control")
        for step in range(moves):
            page.mouse.wheel(0, -25 if step % 120 < 60 else 25)
        page.keyboard.up("Control")

    measured("whole run, pan", page, session, drag)
    measured("zoom in and out", page, session, wheel)
    for _ in range(6):
        page.get_by_role("button", name="Zoom in").first.click()
    measured("zoomed in 17 times, pan", page, session, drag)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=50_000)
    parser.add_argument("--moves", type=int, default=300)
    options = parser.parse_args()
    ensure_dashboard(ROOT)
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, served(Path(folder), "--speed", "1000") as server:
        fill(server, options.tasks)
        print(f"{os.cpu_count()} cores, load before: {os.getloadavg()[0]:.1f}")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.add_init_script("localStorage.setItem('hs.tour', 'done')")
            with page.expect_response(lambda answer: "/gantt" in answer.url, timeout=60_000) as history:
                page.goto(f"{server.url}/compare?range=all")
            page.wait_for_load_state("networkidle")
            drawn = len(history.value.json()["task_id"])
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable")
            status = httpx.get(f"{server.url}/api/status").json()
            print(f"{status['tasks_processed']:,} tasks, paused; {drawn:,} blocks from the history in the chart")
            pan_and_zoom(page, session, options.moves)
            browser.close()


if __name__ == "__main__":
    main()
