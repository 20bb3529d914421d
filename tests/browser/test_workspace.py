"""Workspace, saved views and the page of a learned scheduler, compared with the API."""

from __future__ import annotations

import re
from typing import Any

import pytest
from page_checks import NO_VIOLATIONS, THEMES, Open, seconds, violations_by_theme, wait_until_settled
from playwright.sync_api import Locator, Page, expect
from process import Served

Runs = tuple[str, str]


def answer(server: Served, path: str, **query: Any) -> Any:
    with server.client() as api:
        return api.get(path, params=query).raise_for_status().json()


def panel(page: Page, title: str) -> Locator:
    return page.locator("section.panel").filter(has=page.get_by_role("heading", name=title, exact=True))


def handle(page: Page, axis: str, end: str) -> Locator:
    return page.get_by_role("slider", name=f"{axis}, {end} kept")


def test_workspace_overlays_runs_and_a_sweep(server: Served, two_runs: Runs, open_page: Open) -> None:
    page = open_page(server.url, "/workspace")
    wait_until_settled(page)
    sources = panel(page, "Runs and sweeps")
    for name in (*(run_id[-8:] for run_id in two_runs), "demo"):
        sources.get_by_role("checkbox", name=re.compile(name)).check(force=True)
    expect(sources).to_contain_text("3 chosen")
    wait_until_settled(page)
    expect(panel(page, "Curves").get_by_role("img", name=re.compile("2 curves over task"))).to_be_visible()
    panel(page, "Curves").get_by_role("radio", name="load").check(force=True)
    expect(panel(page, "Curves").get_by_role("img", name=re.compile("3 curves over load"))).to_be_visible()
    colours = sources.locator("[aria-hidden=true][style*=background]").evaluate_all(
        "all => all.map(one => getComputedStyle(one).backgroundColor)"
    )
    assert len(set(colours)) == 3
    # The address alone restores the view.
    address = page.url
    for part in (*two_runs, "sweeps=demo", "x=load"):
        assert part in address
    page.reload()
    wait_until_settled(page)
    expect(panel(page, "Runs and sweeps")).to_contain_text("3 chosen")
    expect(panel(page, "Curves").get_by_role("img", name=re.compile("3 curves over load"))).to_be_visible()
    assert violations_by_theme(page) == NO_VIOLATIONS


def test_table_of_the_workspace_equals_the_api(server: Served, two_runs: Runs, open_page: Open) -> None:
    _, ended = two_runs
    comparison = {row["name"]: row for row in answer(server, f"/api/runs/{ended}")["comparison"]}
    cells = [cell for cell in answer(server, "/api/sweeps/demo")["cells"] if cell["scheduler"] == "greedy"]
    page = open_page(server.url, f"/workspace?runs={ended}&sweeps=demo&by=greedy")
    wait_until_settled(page)
    rows = page.get_by_role("table", name="Chosen runs and sweeps").locator("tbody tr")
    expect(rows).to_have_count(2)
    run, sweep = (row.locator("td").all_inner_texts() for row in rows.all())
    assert run[3] == seconds(comparison["greedy"]["p95_latency"])
    assert run[4] == seconds(comparison["greedy"]["mean_time"])
    assert sweep[2] == seconds(sum(cell["mean_latency"] for cell in cells) / len(cells))
    assert sweep[8] == str(len(cells))


@pytest.mark.parametrize("theme", THEMES)
def test_ranges_on_axes_filter_by_keys_and_pointer(server: Served, open_page: Open, theme: str) -> None:
    page = open_page(server.url, "/workspace?sweeps=demo&x=load&by=all", theme=theme)
    wait_until_settled(page)
    parallel = panel(page, "Parallel coordinates")
    expect(parallel).to_contain_text("24 of 24 rows")
    # Names are in the order of the alphabet: the lowest is earliest_finish, the next greedy.
    handle(page, "scheduler", "lowest").press("ArrowUp")
    expect(parallel).to_contain_text("16 of 24 pass the filters")
    expect(handle(page, "scheduler", "lowest")).to_have_attribute("aria-valuetext", "Greedy")
    expect(page).to_have_url(re.compile("keep=scheduler:greedy~oracle"))
    expect(panel(page, "Curves").get_by_role("img", name=re.compile("2 curves"))).to_be_visible()
    handle(page, "load", "highest").press("ArrowDown")
    expect(parallel).to_contain_text("12 of 24 pass the filters")
    page.reload()
    wait_until_settled(page)
    expect(parallel).to_contain_text("12 of 24 pass the filters")
    handle(page, "load", "highest").press("Delete")
    expect(parallel).to_contain_text("16 of 24")
    parallel.get_by_role("button", name="Clear filters").click()
    expect(parallel).to_contain_text("24 of 24 rows")
    # With the pointer: the lower half of the loads.
    page.locator("#parallel").scroll_into_view_if_needed()
    low, high = (handle(page, "load", end).bounding_box() for end in ("lowest", "highest"))
    assert low
    assert high
    x = low["x"] + low["width"] / 2
    page.mouse.move(x, low["y"] - 3)
    page.mouse.down()
    page.mouse.move(x, (low["y"] + high["y"]) / 2, steps=4)
    page.mouse.up()
    expect(parallel).to_contain_text("12 of 24 pass the filters")


def test_axes_are_moved_added_and_removed(server: Served, open_page: Open) -> None:
    page = open_page(server.url, "/workspace?sweeps=demo")
    wait_until_settled(page)
    parallel = panel(page, "Parallel coordinates")

    def order() -> list[str]:
        names = page.get_by_role("slider", name=re.compile("lowest kept")).evaluate_all(
            "all => all.map(one => one.getAttribute('aria-label').split(',')[0])"
        )
        return list(names)

    assert order()[:3] == ["load", "scheduler", "mean latency"]
    parallel.get_by_role("button", name="Axis load").press("Enter")
    page.get_by_role("menuitem", name="Move right").press("Enter")
    assert order()[:2] == ["scheduler", "load"]
    expect(page).to_have_url(re.compile("axes=scheduler,load"))
    parallel.get_by_role("button", name="Add axis").click()
    page.get_by_role("menuitem", name="seed").click()
    assert order()[-1] == "seed"
    parallel.get_by_role("button", name="Axis load").press("Enter")
    page.get_by_role("menuitem", name="Remove the axis").press("Enter")
    assert "load" not in order()


def test_views_are_saved_restored_and_imported(server: Served, open_page: Open) -> None:
    page = open_page(server.url, "/workspace?sweeps=demo&keep=load:0.1~0.3&whatif=num_gpus:8")
    wait_until_settled(page)
    expect(page.get_by_role("slider", name="GPU count")).to_have_value("8")
    table = page.locator("#table")
    table.focus()
    page.keyboard.press("Delete")
    expect(table).to_have_count(0)
    page.get_by_role("button", name="Views").click()
    dialog = page.get_by_role("dialog", name="Saved views")
    dialog.get_by_label("Name of the view").fill("Low loads")
    dialog.get_by_role("button", name="Save this view").click()
    expect(dialog.get_by_role("list", name="Saved views")).to_contain_text("Low loads")
    assert violations_by_theme(page) == NO_VIOLATIONS
    page.keyboard.press("Escape")
    # Another page, another layout: the saved view brings back runs, filter, what-if and layout.
    page.goto(f"{server.url}/compare")
    page.get_by_role("button", name="Saved views").click()
    page.get_by_role("dialog").get_by_role("button", name=re.compile("^Low loads")).click()
    wait_until_settled(page)
    expect(panel(page, "Parallel coordinates")).to_contain_text("12 of 24 pass the filters")
    expect(page.get_by_role("slider", name="GPU count")).to_have_value("8")
    expect(page.locator("#table")).to_have_count(0)
    assert "layout=" in page.url
    # A link is imported under a name; those of other sites are refused.
    page.get_by_role("button", name="Views").click()
    dialog.get_by_label("Name of the view").fill("Given")
    dialog.get_by_label("Link to import").fill("https://elsewhere.example/workspace")
    dialog.get_by_role("button", name="Import").click()
    expect(dialog.get_by_role("alert")).to_contain_text("not a link to this dashboard")
    dialog.get_by_label("Link to import").fill(f"{server.url}/history")
    dialog.get_by_role("button", name="Import").click()
    dialog.get_by_role("button", name=re.compile("^Given")).click()
    expect(page).to_have_url(re.compile("/history"))


def test_removed_widget_leaves_no_hole(server: Served, open_page: Open) -> None:
    page = open_page(server.url, "/workspace")
    wait_until_settled(page)
    before = page.locator("#curves").bounding_box()
    beside = page.locator("#table").bounding_box()
    assert before
    assert beside
    page.locator("#table").focus()
    page.keyboard.press("Delete")
    right = beside["x"] + beside["width"]
    page.wait_for_function(
        "right => Math.abs(document.querySelector('#curves').getBoundingClientRect().right - right) < 2", arg=right
    )


def test_run_is_added_to_the_workspace_from_the_list(server: Served, two_runs: Runs, open_page: Open) -> None:
    _, ended = two_runs
    page = open_page(server.url, "/history")
    wait_until_settled(page)
    row = page.locator("#runs").get_by_role("row").filter(has_text=ended[-8:])
    row.get_by_role("button", name="Actions for").click()
    page.get_by_role("menuitem", name="Add to the workspace").click()
    expect(page).to_have_url(re.compile(f"/workspace.*runs={ended}"))
    expect(panel(page, "Runs and sweeps")).to_contain_text("1 chosen")


@pytest.mark.parametrize("width", [360, 768, 2560])
def test_workspace_fits_the_screen(server: Served, two_runs: Runs, open_page: Open, width: int) -> None:
    page = open_page(server.url, f"/workspace?runs={','.join(two_runs)}&sweeps=demo", width=width)
    wait_until_settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations_by_theme(page) == NO_VIOLATIONS


# ---------------------------------------------------------------- the page of a learned scheduler


def test_learning_page_equals_the_api(server: Served, two_runs: Runs, open_page: Open) -> None:
    _, ended = two_runs
    page = open_page(server.url, f"/run/{ended}")
    wait_until_settled(page)
    page.get_by_role("table", name="Comparison of the run").get_by_role("link", name="Hybrid ML").click()
    expect(page).to_have_url(re.compile(f"/run/{ended}/learning/hybrid_ml"))
    wait_until_settled(page)
    found = answer(server, f"/api/runs/{ended}/learning", scheduler="hybrid_ml")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Hybrid ML")
    table = page.get_by_role("table", name="Accuracy by kind of task")
    kinds = table.locator("tbody tr")
    expect(kinds).to_have_count(len(found["kinds"]))
    first = kinds.first.locator("td").all_inner_texts()
    kind = found["kinds"][0]
    assert first[1] == f"{kind['predictions']:,}"
    assert first[2:4] == [seconds(kind["mean_predicted"]), seconds(kind["mean_actual"])]
    curve = panel(page, "Learning curve")
    expect(curve.get_by_role("img", name=re.compile("typical error"))).to_be_visible()
    curve.get_by_role("radio", name="regret").check(force=True)
    expect(curve.get_by_role("img", name=re.compile("mean regret"))).to_be_visible()
    expect(panel(page, "Importance")).to_contain_text("Of the live run only")
    assert violations_by_theme(page) == NO_VIOLATIONS
    page.get_by_role("navigation", name="Learners of the run").get_by_role("link", name="RL agent").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("RL agent")


def test_learning_page_of_the_live_run_shows_importances(server: Served, two_runs: Runs, open_page: Open) -> None:
    newest, _ = two_runs
    page = open_page(server.url, "/scheduler/hybrid_ml")
    wait_until_settled(page)
    page.get_by_role("link", name="Learning curves").click()
    expect(page).to_have_url(re.compile(f"/run/{newest}/learning/hybrid_ml"))
    wait_until_settled(page)
    expect(panel(page, "Importance").get_by_role("listitem").first).to_be_visible()
    page.goto(f"{server.url}/run/{newest}/learning/greedy")
    wait_until_settled(page)
    expect(page.get_by_role("heading", level=1)).to_contain_text("does not learn")
