"""Views of history, runs, differences, decisions, what-if, playback and exports, compared with the API."""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from threading import Event
from typing import Any

import pytest
from measured_examples import measured_run
from page_checks import SCHEDULERS, Open, check_figures, seconds, wait_for_data, wait_for_pill, wait_until_settled
from PIL import Image
from playwright.sync_api import Locator, Page, expect
from process import Served

from hybrid_scheduler.live import measured_to_json

Runs = tuple[str, str]


def answer(server: Served, path: str, **query: Any) -> Any:
    with server.client() as api:
        return api.get(path, params=query).raise_for_status().json()


def rows_of(table: Locator) -> dict[str, list[str]]:
    """The cells of each row, by its first cell."""
    cells = [row.locator("td, th").all_inner_texts() for row in table.locator("tbody tr").all()]
    return {first.strip(): [one.strip() for one in rest] for first, *rest in cells}


def labels(server: Served) -> dict[str, str]:
    return {one["name"]: one["label"] for one in answer(server, "/api/schedulers")}


def downloaded(page: Page, press: Locator) -> Path:
    with page.expect_download() as waiting:
        press.click()
    return Path(waiting.value.path())


# ---------------------------------------------------------------- runs and differences


def test_history_lists_runs_and_compares_two_selected_ones(server: Served, two_runs: Runs, open_page: Open) -> None:
    newest, ended = two_runs
    page = open_page(server.url, "/history")
    wait_until_settled(page)
    runs = page.locator("#runs")
    for run_id in two_runs:
        expect(runs).to_contain_text(run_id[-8:])
        runs.get_by_role("row").filter(has_text=run_id[-8:]).get_by_role("checkbox").check()
    page.set_viewport_size({"width": 1280, "height": 900})
    assert runs.get_by_role("table").evaluate("t => t.parentElement.scrollWidth <= t.parentElement.clientWidth")
    expect(page).to_have_url(re.compile(f"a={ended}.*b={newest}"))  # the older one is before
    small = page.locator("#diff")
    small.get_by_role("table").wait_for()
    small.get_by_role("link").first.click()
    expect(page).to_have_url(re.compile("/diff"))
    assert newest in page.url
    assert ended in page.url


def test_run_is_deleted_unless_it_is_undone(server: Served, two_runs: Runs, open_page: Open) -> None:
    newest, _ = two_runs
    with server.client() as api:
        run_id = api.post("/api/runs", json=measured_to_json(measured_run(20))).raise_for_status().json()["run_id"]
    page = open_page(server.url, f"/history?a={run_id}")
    wait_until_settled(page)
    runs = page.locator("#runs")
    row = runs.get_by_role("row").filter(has_text=run_id[-8:])
    live = runs.get_by_role("row").filter(has_text=newest[-8:])
    live.get_by_role("button", name="Actions for").click()
    expect(page.get_by_role("menuitem", name="Delete")).to_have_count(0)  # it has not ended
    page.keyboard.press("Escape")

    row.get_by_role("button", name="Actions for").click()
    page.get_by_role("menuitem", name="Delete").click()
    expect(row).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(row).to_have_count(1)
    assert answer(server, f"/api/runs/{run_id}")["tasks"] == 20

    row.get_by_role("button", name="Actions for").click()
    page.get_by_role("menuitem", name="Delete").click()
    with page.expect_response(lambda response: response.request.method == "DELETE"):
        page.get_by_role("button", name="Dismiss").click()
    expect(row).to_have_count(0)
    expect(live).to_have_count(1)
    assert run_id not in page.url
    with server.client() as api:
        assert api.get(f"/api/runs/{run_id}").status_code == 404


def test_run_view_equals_the_api(server: Served, two_runs: Runs, open_page: Open) -> None:
    _, ended = two_runs
    run = answer(server, f"/api/runs/{ended}")
    page = open_page(server.url, f"/run/{ended}")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{run['scenario']}, seed {run['seed']}")
    shown = rows_of(page.get_by_role("table", name="Comparison of the run"))
    assert len(shown) == len(run["comparison"])
    for row in run["comparison"]:
        latency, _, _, p95, p99, took, *_ = shown[labels(server)[row["name"]]]
        half = row["latency_ci95"]
        assert latency.split(" ±")[0].split()[0] == seconds(row["mean_latency"]).split()[0]
        assert ("±" in latency) == (half is not None)
        assert [p95, p99, took] == [seconds(row[key]) for key in ("p95_latency", "p99_latency", "mean_time")]
    verdict = run["verdict"]
    panel = page.get_by_test_id("run-verdict")
    expect(panel.get_by_role("heading", level=2)).to_have_text(verdict["title"])
    check_figures(page, verdict)
    for cause in verdict["why"][:1]:
        expect(panel).to_contain_text(cause["sentence"])
    # The slowest scheduler beside the leader, task by task.
    slowest, leader = verdict["rows"][-1]["name"], verdict["leader"]
    change = answer(server, "/api/gantt/diff", a=ended, scheduler=slowest, other=leader)
    moved, tasks = sum(change["moved"]), len(change["ordinal"])
    words = f"{moved:,} of {tasks:,} tasks run on other devices"
    expect(page.get_by_test_id("gantt-change")).to_contain_text(words)
    panel.get_by_role("button", name="show in Gantt").first.click()
    expect(page).to_have_url(re.compile("focus="))


def test_diff_view_equals_the_api(server: Served, two_runs: Runs, open_page: Open) -> None:
    with server.client() as api:
        try:
            api.post("/api/pause")  # one of the two still runs
            page = open_page(server.url, f"/diff?a={two_runs[1]}&b={two_runs[0]}")
            wait_until_settled(page)
            found = answer(server, "/api/diff", a=two_runs[1], b=two_runs[0])
            for row in found["schedulers"]:
                line = page.locator(f"[data-line={row['name']}]").first
                expect(line).to_contain_text(seconds(row["mean_latency"]["a"]))
                expect(line).to_contain_text(seconds(row["mean_latency"]["b"]))
            for setting in found["changed"]:
                expect(page.locator("main")).to_contain_text(setting)
            expect(page.get_by_test_id("other-tasks")).to_contain_text("different tasks (seed)")
            expect(page.get_by_role("region", name="Run A, before")).to_be_visible()
            page.get_by_role("button", name="Swap A and B").click()  # the older run stays the one before
            expect(page.get_by_role("region", name="Run B, before")).to_contain_text(two_runs[1][-8:])
        finally:
            api.post("/api/resume")


# ---------------------------------------------------------------- decisions


def test_task_drawer_lists_the_decisions_of_all_schedulers(server: Served, open_page: Open) -> None:
    with server.client() as api:
        sent = {"size": 2000, "compute_intensity": 0.7, "memory_required": 300}
        task = api.post("/api/tasks", json=sent).json()["task_id"]
    page = open_page(server.url, f"/compare?task={task}")
    drawer = page.get_by_role("dialog")
    table = drawer.get_by_role("table", name=f"Task {task} by scheduler")
    table.wait_for()
    shown, stored = rows_of(table), answer(server, f"/api/tasks/{task}")
    for name in SCHEDULERS.split(","):
        result = stored["results"][name]
        _, _, waited, took, *_ = shown[labels(server)[name]]
        assert waited == (seconds(result["wait"]) if result["wait"] > 1e-9 else "0 s")
        assert took == seconds(result["actual_time"])
    taken = downloaded(page, drawer.get_by_role("button", name="CSV"))
    with taken.open(encoding="utf-8", newline="") as file:
        lines = {row["scheduler"]: row for row in csv.DictReader(file)}
    for name, row in lines.items():
        assert float(row["time"]) == stored["results"][name]["actual_time"]
    page.keyboard.press("[")
    expect(drawer).to_contain_text(f"Task {task - 1}")
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    assert "task=" not in page.url


def test_unknown_task_opens_a_message(server: Served, open_page: Open) -> None:
    page = open_page(server.url, "/compare?task=999999999", allowed=("status of 404",))
    expect(page.get_by_role("dialog")).to_contain_text("No task 999999999")


# ---------------------------------------------------------------- what-if


def test_what_if_shows_progress_and_then_equals_the_api(server: Served, open_page: Open) -> None:
    asked = Event()
    held: list[Any] = []

    def hold(route: Any) -> None:
        if asked.is_set():
            route.continue_()
        else:
            held.append(route)

    page = open_page(server.url, before=("**/api/whatif", hold))
    wait_for_data(page)
    panel = page.locator("#what-if")
    panel.scroll_into_view_if_needed()
    expect(panel).to_contain_text("Simulating…")
    expect(panel.get_by_role("status")).to_contain_text("until the models are loaded")
    expect(panel.get_by_label("GPU count")).to_be_enabled()
    asked.set()
    for route in held:
        route.continue_()
    expect(panel).to_contain_text("Move a slider to change it.", timeout=120_000)
    slider = panel.get_by_label("GPU count")
    slider.focus()
    with page.expect_response("**/api/whatif") as waiting:
        for _ in range(4):
            page.keyboard.press("ArrowRight")
    expect(panel).to_contain_text("8 GPUs")
    rows = {row["name"]: row for row in waiting.value.json()["schedulers"]}
    expect(panel).to_contain_text("answered in")
    # What is now is the mean of the run, as in the race; a simulation gives the change only.
    with server.client() as api:
        means = {row["name"]: row["mean_latency"] for row in api.post("/api/pause").json()["comparison"]}
    wait_for_pill(page, "Paused")
    shown = rows_of(panel.get_by_role("table"))
    for name, row in rows.items():
        now, then, *_ = shown[labels(server)[name]]
        changed = means[name] * row["latency"]["changed"] / row["latency"]["baseline"]
        assert (now, then) == (seconds(means[name]), seconds(changed))


# ---------------------------------------------------------------- playback


def test_playback_shows_the_means_up_to_the_playhead(server: Served, two_runs: Runs, open_page: Open) -> None:
    page = open_page(server.url, "/history")
    wait_for_pill(page, "Live")
    wait_until_settled(page)
    widget = page.locator("#playback")
    playhead = widget.get_by_role("slider")
    playhead.focus()
    page.keyboard.press("Home")
    expect(widget).to_contain_text("stopped at task id")
    first_stop = playhead.get_attribute("aria-valuenow") or ""
    page.locator("body").press("]")
    expect(playhead).not_to_have_attribute("aria-valuenow", first_stop)
    at = int(playhead.get_attribute("aria-valuenow") or 0)
    expect(widget).not_to_contain_text("Reading single results")
    with server.client() as api:
        query = {"run_id": two_runs[0], "scheduler": "oracle", "limit": at}
        first = api.get("/api/results", params=query).json()["results"]
    assert len(first) == at
    oracle = widget.locator("tr[data-scheduler=oracle]")
    expect(oracle).to_contain_text(seconds(fmean(row["latency"] for row in first)))
    # It stands still while the run goes on, until it is played or let go.
    widget.get_by_role("button", name="Play", exact=True).click()
    expect(widget.get_by_role("button", name="Pause playback")).to_be_visible()
    page.wait_for_function(
        "at => Number(document.querySelector('#playback [role=slider]').getAttribute('aria-valuenow')) > at", arg=at
    )
    widget.get_by_role("button", name="Go to the newest").click()
    expect(widget).to_contain_text("at the newest task")


# ---------------------------------------------------------------- exports


@pytest.mark.parametrize("widget", ["race", "gantt"])
def test_widget_is_exported_as_png(server: Served, open_page: Open, widget: str) -> None:
    page = open_page(server.url)
    wait_for_data(page)
    wait_until_settled(page)
    page.locator(f"#{widget}").get_by_role("button", name="menu").click()
    with Image.open(downloaded(page, page.get_by_role("menuitem", name="PNG"))) as picture:
        assert picture.format == "PNG"
        assert picture.width > 300
        colours = picture.convert("RGB").getcolors(2**24)
    assert colours is not None
    assert len(colours) > 20  # marks and words, not an empty sheet


def test_exported_trace_has_the_busy_times_of_the_api(server: Served, two_runs: Runs, open_page: Open) -> None:
    _, ended = two_runs
    page = open_page(server.url, f"/run/{ended}")
    taken = downloaded(page, page.get_by_role("link", name="Trace for Perfetto"))
    events = json.loads(taken.read_text(encoding="utf-8"))["traceEvents"]
    named = {(one["name"], one["pid"], one["tid"]): one["args"]["name"] for one in events if one["ph"] == "M"}
    busy: dict[tuple[str, str], float] = defaultdict(float)
    for one in events:
        if one["ph"] == "X":
            scheduler = named["process_name", one["pid"], 0]
            busy[scheduler, named["thread_name", one["pid"], one["tid"]]] += one["dur"] / 1e6
    for scheduler in SCHEDULERS.split(","):
        columns = answer(server, f"/api/runs/{ended}/gantt", scheduler=scheduler, limit=200_000)
        assert columns["truncated"] is False
        lanes: dict[str, float] = defaultdict(float)
        for device, start, end in zip(columns["device"], columns["start"], columns["end"], strict=True):
            lanes[columns["devices"][device] if isinstance(device, int) else device] += end - start
        found = {device: total for (who, device), total in busy.items() if who == scheduler}
        assert found == pytest.approx(dict(lanes), rel=1e-6)
