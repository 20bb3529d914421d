"""Runs that are started, repeated, labelled and deleted from the page, compared with the API."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import httpx
import pytest
from page_checks import NO_VIOLATIONS, SPEED, THEMES, Open, seconds, violations_by_theme, wait_until_settled
from playwright.sync_api import Locator, Page, expect
from process import Served, served
from typer.testing import CliRunner

from hybrid_scheduler.cli.app import app

#: Jobs of a cluster: 400 that can be used, one without an arrival, one that ends before it begins.
TABLE = (
    "job,submit_time,start,end,mem_mb\n"
    + "".join(f"{i},{i},{i + 1},{i + 2 + i % 40},{i}\n" for i in range(1, 401))
    + "401,soon,5,6,7\n402,410,420,415,8\n"
)
#: The browser logs every refused request; the page shows the reason beside the field. What-if requests of pages
#: that were opened before may still be computed: the widget asks again.
REFUSED = ("status of 422", "status of 409", "/api/whatif")


@pytest.fixture(scope="module")
def studio_server(dashboard: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of its own, because these tests end its run again and again."""
    settings = {"HYBRID_SIMULATION__SCHEDULERS": "round_robin,greedy,oracle"}
    with served(tmp_path_factory.mktemp("studio"), "--speed", str(SPEED), environment=settings) as process:
        yield process


def answer(server: Served, path: str) -> Any:
    with server.client() as api:
        return api.get(path).raise_for_status().json()


@pytest.fixture(autouse=True)
def _known_run(studio_server: Served) -> None:
    """Every test begins with the same live run, whose schedulers the form takes."""
    names = ("round_robin", "greedy", "oracle")
    body = {"scenario": "default", "seed": 42, "speed": SPEED, "schedulers": [{"name": name} for name in names]}
    with studio_server.client() as api:
        api.post("/api/simulation/runs", json=body).raise_for_status()


def open_studio(page: Page) -> Locator:
    page.get_by_role("button", name="New run").click()
    dialog = page.get_by_role("dialog", name="New run")
    dialog.get_by_text("What will arrive").wait_for()
    return dialog


def started(server: Served, page: Page, dialog: Locator) -> dict[str, Any]:
    """Press the button, wait for the new run, and return it as the API has it."""
    with page.expect_response(re.compile("/api/simulation/runs$")) as begun:
        dialog.get_by_role("button", name="Start", exact=True).click()
    expect(dialog).to_have_count(0)
    run: dict[str, Any] = answer(server, f"/api/runs/{begun.value.json()['run_id']}")
    assert answer(server, "/api/status")["run_id"] == run["run_id"]
    return run


# ---------------------------------------------------------------- starting


def test_run_of_a_scenario_has_the_settings_of_the_form(studio_server: Served, open_page: Open) -> None:
    page = open_page(studio_server.url, allowed=REFUSED)
    dialog = open_studio(page)
    dialog.get_by_role("radio", name="bursty").check()
    dialog.get_by_role("radio", name="Laptop").check()
    dialog.get_by_role("switch", name="Round Robin takes part").click()
    dialog.get_by_label("Share of the machine's capacity").fill("0.55")
    expect(dialog.get_by_text("0.55 of capacity saturates Greedy")).to_be_visible()

    dialog.get_by_role("button", name="Parameters of Per-task best").click()
    grid = dialog.get_by_label("grid, 0 by default")
    grid.fill("-4")
    expect(dialog.get_by_role("alert").filter(has_text="must be grid: 0 (closed form)")).to_be_visible()
    grid.fill("11")
    expect(dialog.get_by_role("alert")).to_have_count(0)

    dialog.get_by_label("Seed", exact=True).fill("7")
    dialog.get_by_label("Name", exact=True).fill("Bursts on a laptop")
    dialog.get_by_label("Tags").fill("baseline,")
    dialog.get_by_label("Note").fill("first try")
    assert violations_by_theme(page) == NO_VIOLATIONS
    run = started(studio_server, page, dialog)
    assert (run["scenario"], run["load"], run["seed"], run["platform"]) == ("bursty", 0.55, 7, "laptop")
    assert run["schedulers"] == ["greedy", "oracle(grid=11)"]
    assert (run["name"], run["tags"], run["note"]) == ("Bursts on a laptop", ["baseline"], "first try")
    expect(page.get_by_role("region", name="Run and schedulers")).to_contain_text("laptop")


def test_slowdown_is_checked_started_and_marked(studio_server: Served, open_page: Open) -> None:
    page = open_page(studio_server.url, allowed=REFUSED)
    dialog = open_studio(page)
    dialog.get_by_role("switch", name="Round Robin takes part").click()
    dialog.get_by_role("switch", name="Hybrid ML takes part").click()
    dialog.get_by_role("switch", name="A device gets slower for a while").click()
    section = dialog.get_by_role("region", name="Slowdown")
    section.get_by_label("Device or kind").fill("gpu_9")
    expect(section.get_by_role("alert")).to_contain_text("must be one of cpu, gpu, gpu_0")
    section.get_by_label("Device or kind").fill("gpu")
    section.get_by_label("From, s").fill("10")
    section.get_by_label("Until, s").fill("4")
    expect(section.get_by_role("alert")).to_contain_text("must be after the start (10 s)")
    section.get_by_label("Until, s").fill("600")
    expect(section.get_by_role("alert")).to_have_count(0)
    assert violations_by_theme(page) == NO_VIOLATIONS
    run = started(studio_server, page, dialog)
    expected = {"device": "gpu", "factor": 3.0, "start": 10.0, "until": 600.0}
    assert run["config"]["physics"]["slowdown"] == expected
    assert "--slowdown device=gpu,factor=3,start=10,until=600" in run["replay"]["commands"][0]

    gantt = page.locator("#gantt")
    expect(gantt.get_by_test_id("slowdown")).to_have_text("4 GPUs 3× slower", timeout=60_000)
    page.get_by_label("Search the log").fill("every GPU")
    expect(page.get_by_role("log")).to_contain_text("tasks on every GPU take 3 times as long from 10 s on")
    page.goto(f"{studio_server.url}/compare?focus=hybrid_ml&range=all")
    mark = page.locator("#gantt").get_by_test_id("drifts")
    mark.wait_for(timeout=60_000)
    noticed = [float(at) for at in (mark.get_attribute("data-at") or "").split()]
    notes = answer(studio_server, "/api/events?type=notification&limit=10000")["events"]
    found = [note["t"] for note in notes if note["run_id"] == run["run_id"] and note["kind"] == "drift"]
    assert 10.0 < noticed[0] < 30.0
    assert set(noticed) <= set(found)


def test_dropped_table_is_mapped_corrected_and_played(studio_server: Served, open_page: Open) -> None:
    page = open_page(studio_server.url, allowed=REFUSED)
    dialog = open_studio(page)
    dialog.get_by_role("radio", name="My trace").check()
    table = {"name": "jobs of a week.csv", "mimeType": "text/csv", "buffer": TABLE.encode()}
    dialog.get_by_label("Trace file").set_input_files(table)
    expect(dialog.get_by_label("Column of the run time")).to_have_value("end")
    expect(dialog.get_by_label("Column to subtract from the run time")).to_have_value("start")
    expect(dialog.get_by_label("Column of the arrival")).to_have_value("submit_time")
    rejected = dialog.get_by_role("region", name="Rejected rows")
    rejected.wait_for(timeout=60_000)  # the server reads the file first
    expect(rejected.get_by_role("row").nth(1)).to_have_text("402submit_timefinite and >= 0, as arrival_timesoon")
    expect(rejected.get_by_role("row").nth(2)).to_contain_text("415 - 420")
    assert violations_by_theme(page) == NO_VIOLATIONS

    start = dialog.get_by_role("button", name="Start", exact=True)
    expect(start).to_be_disabled()
    dialog.get_by_role("button", name="Leave them out").click()
    expect(start).to_be_enabled()
    expect(dialog.get_by_text("every queue grows")).to_be_visible()
    dialog.get_by_role("button", name="Rescale to 0.8").click()
    run = started(studio_server, page, dialog)
    assert (run["scenario"], run["load"]) == ("trace:jobs-of-a-week", pytest.approx(0.8))
    stored = {one["name"] for one in answer(studio_server, "/api/traces")["traces"]}
    assert "jobs-of-a-week" in stored


def test_stored_trace_is_played_and_a_taken_name_is_refused(studio_server: Served, open_page: Open) -> None:
    header = "task_id,size,compute_intensity,memory_required,arrival_time\n"
    rows = "".join(f"{i},{500 + i},0.5,10,{i * 0.2}\n" for i in range(200))
    with studio_server.client() as api:
        kind = {"Content-Type": "text/csv"}
        api.post("/api/traces?name=week", headers=kind, content=header + rows).raise_for_status()
    page = open_page(studio_server.url, allowed=REFUSED)
    dialog = open_studio(page)
    dialog.get_by_role("radio", name="My trace").check()
    dialog.get_by_label("Trace file").set_input_files(
        {"name": "week.csv", "mimeType": "text/csv", "buffer": (header + rows).encode()}
    )
    expect(dialog.get_by_text("Every row can be used.")).to_be_visible()
    dialog.get_by_role("button", name="Start", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("there is a trace named week already")
    assert violations_by_theme(page) == NO_VIOLATIONS
    dialog.get_by_role("button", name="Remove the file").click()
    dialog.get_by_label("Or play a stored trace").select_option("week")
    dialog.get_by_role("switch", name="Begin again at its end").click()
    expect(dialog.get_by_text("200 tasks")).to_be_visible()
    run = started(studio_server, page, dialog)
    assert (run["scenario"], run["config"]["trace"]["repeat"]) == ("trace:week", True)


def test_wrong_settings_stand_beside_their_field(studio_server: Served, open_page: Open) -> None:
    page = open_page(studio_server.url, allowed=REFUSED)
    dialog = open_studio(page)
    dialog.get_by_role("radio", name="YAML").check()
    yaml = dialog.get_by_label("Devices as YAML")
    yaml.fill("devices: [{name: cpu, kind: cpu}, {name: gpu, memori: 3}]")
    machine = dialog.get_by_role("region", name="Machine")
    expect(machine.get_by_role("alert")).to_contain_text("must be device 2: key: one of name, kind")
    yaml.fill("name: lab\ndevices: [{name: cpu, kind: cpu}, {name: gpu, count: 2, memory: 24000}]")
    expect(machine.get_by_role("alert")).to_have_count(0)
    dialog.get_by_label("Seed", exact=True).fill("-3")
    seed = dialog.get_by_role("region", name="Seed, speed and labels")
    expect(seed.get_by_role("alert")).to_contain_text("must be greater than or equal to 0, got -3")
    dialog.get_by_label("Seed", exact=True).fill("3")
    expect(seed.get_by_role("alert")).to_have_count(0)
    run = started(studio_server, page, dialog)
    assert (run["platform"], len(run["config"]["platform"]["devices"])) == ("lab", 3)


def test_own_task_is_sent_and_its_decisions_open(studio_server: Served, open_page: Open) -> None:
    page = open_page(studio_server.url, allowed=REFUSED)
    dialog = open_studio(page)
    dialog.get_by_role("radio", name="One task").check()
    dialog.get_by_label("Size").fill("-5")
    dialog.get_by_role("button", name="Send the task").click()
    expect(dialog.get_by_role("alert")).to_contain_text("must be greater than or equal to 0.001, got -5")
    dialog.get_by_label("Size").fill("1234")
    assert violations_by_theme(page) == NO_VIOLATIONS
    dialog.get_by_role("button", name="Send the task").click()
    expect(page).to_have_url(re.compile(r"task=\d+"))
    task = answer(studio_server, f"/api/tasks/{page.url.partition('task=')[2].partition('&')[0]}")
    assert task["size"] == 1234


def test_studio_fits_every_width(studio_server: Served, open_page: Open) -> None:
    page = open_page(studio_server.url, width=360, allowed=REFUSED)
    dialog = open_studio(page)
    body = "document.querySelector('dialog .overflow-auto')"
    fits = f"() => {body}.scrollWidth - {body}.clientWidth <= 1"
    for width in (360, 768, 1440, 2560):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"w => window.innerWidth === w && ({fits})()", arg=width)
        for source in ("My trace", "One task", "Scenario"):
            dialog.get_by_role("radio", name=source).check()
            assert page.evaluate(fits), (width, source)
        expect(dialog.get_by_role("button", name="Start", exact=True)).to_be_in_viewport()
        if width in (360, 1440):  # the layouts of the other two are those of these
            assert violations_by_theme(page) == NO_VIOLATIONS


# ---------------------------------------------------------------- runs in the list


def row_of(page: Page, run_id: str) -> Locator:
    return page.locator("#runs").get_by_role("row").filter(has=page.locator(f'a[href*="{run_id}"]'))


def choose(page: Page, row: Locator, item: str) -> None:
    row.get_by_role("button", name="Actions for").click()
    page.get_by_role("menuitem", name=item).click()


def test_run_is_stopped_repeated_and_labelled_with_undo(studio_server: Served, open_page: Open) -> None:
    with studio_server.client() as api:
        body = {"scenario": "small", "seed": 11, "speed": SPEED, "platform": "laptop", "name": "Small tasks"}
        run_id = api.post("/api/simulation/runs", json=body).raise_for_status().json()["run_id"]
    page = open_page(studio_server.url, "/history", allowed=REFUSED)
    wait_until_settled(page)
    row = row_of(page, run_id)
    expect(row).to_contain_text("Small tasks")

    choose(page, row, "Stop")
    page.get_by_role("button", name="Undo").click()
    expect(row).to_contain_text("live")
    assert answer(studio_server, "/api/status")["state"] == "running"
    choose(page, row, "Stop")
    with page.expect_response(re.compile("/api/simulation/stop$")):
        page.get_by_role("button", name="Dismiss").click()
    expect(row).to_contain_text("ended")
    assert answer(studio_server, "/api/status")["state"] == "stopped"

    choose(page, row, "Name, tags, note")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("Renamed")
    dialog.get_by_label("Tags").fill("kept")
    dialog.get_by_label("Note").fill("why")
    assert violations_by_theme(page) == NO_VIOLATIONS
    dialog.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("Renamed")
    known = answer(studio_server, f"/api/runs/{run_id}")
    assert (known["name"], known["tags"], known["note"]) == ("Renamed", ["kept"], "why")
    page.get_by_role("button", name="Undo").click()
    expect(row).to_contain_text("Small tasks")
    assert answer(studio_server, f"/api/runs/{run_id}")["tags"] == []

    with page.expect_response(re.compile("/api/simulation/runs$")) as again:
        choose(page, row, "Restart")
    repeated = answer(studio_server, f"/api/runs/{again.value.json()['run_id']}")
    assert repeated["run_id"] != run_id
    assert repeated["config_hash"] == known["config_hash"]


def test_duplicate_opens_the_studio_with_the_settings_of_the_run(studio_server: Served, open_page: Open) -> None:
    with studio_server.client() as api:
        body = {"scenario": "small", "load": 0.3, "seed": 12, "platform": "mixed-gpus", "name": "First"}
        first = api.post("/api/simulation/runs", json=body).raise_for_status().json()["run_id"]
    page = open_page(studio_server.url, f"/run/{first}", allowed=REFUSED)
    page.get_by_role("button", name="Actions for First").click()
    page.get_by_role("menuitem", name="Duplicate and change").click()
    dialog = page.get_by_role("dialog", name="New run")
    expect(dialog.get_by_role("radio", name="Small tasks only")).to_be_checked()
    expect(dialog.get_by_label("Seed", exact=True)).to_have_value("12")
    dialog.get_by_label("Seed", exact=True).fill("13")
    run = started(studio_server, page, dialog)
    assert (run["seed"], run["platform"], run["load"], run["name"]) == (13, "mixed-gpus", 0.3, "First, again")


def test_stopped_run_begins_again_from_the_top_bar(studio_server: Served, open_page: Open) -> None:
    with studio_server.client() as api:
        stopped = api.post("/api/simulation/stop").raise_for_status().json()
    page = open_page(studio_server.url, allowed=REFUSED)
    with page.expect_response(re.compile("/api/simulation/start$")) as begun:
        page.get_by_role("button", name="Restart").click()
    assert begun.value.json()["state"] == "running"
    assert begun.value.json()["run_id"] != stopped["run_id"]


def stored_run(api: httpx.Client, seed: int, speed: int, name: str) -> str:
    """Return a run with some tasks of two rules that repeat exactly, whatever the numbers of the tasks."""
    schedulers = [{"name": "greedy"}, {"name": "earliest_finish"}]
    body = {"scenario": "small", "speed": speed, "name": name, "seed": seed, "schedulers": schedulers}
    run_id: str = api.post("/api/simulation/runs", json=body).raise_for_status().json()["run_id"]
    deadline = time.monotonic() + 60.0
    while api.get("/api/status").raise_for_status().json()["tasks_processed"] < 50:
        assert time.monotonic() < deadline
        time.sleep(0.1)  # the server limits the rate of requests
    return run_id


def stored(api: httpx.Client, run_id: str) -> dict[str, Any]:
    """Return a stopped run once its last tasks are stored."""
    deadline = time.monotonic() + 60.0
    while (run := api.get(f"/api/runs/{run_id}").raise_for_status().json())["tasks"] < run["comparison"][0][
        "tasks"
    ]:
        assert time.monotonic() < deadline
        time.sleep(0.1)  # the server limits the rate of requests
    return dict(run)


def test_page_rest_command_line_and_report_have_the_same_numbers(studio_server: Served, open_page: Open) -> None:
    for seed, speed, name in ((4, 100, "Proof"), (5, 20, ""), (6, 100, "Night shift")):
        with studio_server.client() as api:
            run_id = stored_run(api, seed, speed, name)
            api.post("/api/simulation/stop").raise_for_status()
            run = stored(api, run_id)
            asked = api.get(f"/api/runs/{run_id}/report", params={"limit": 5}, timeout=120.0)
        report = asked.raise_for_status().text
        [command] = run["replay"]["commands"]
        printed = CliRunner().invoke(app, [*shlex.split(command)[1:], "--json"])
        simulated = json.loads(printed.stdout)["schedulers"]
        page = open_page(studio_server.url, f"/run/{run_id}", theme=THEMES[seed % 2], allowed=REFUSED)
        table = page.get_by_role("table", name="Comparison of the run")
        assert escape(run["verdict"]["sentence"]) in report
        expect(page.get_by_test_id("run-verdict")).to_contain_text(run["verdict"]["title"])
        title = name or f"small, seed {seed}"
        assert f"<h1>{title}</h1>" in report
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        for row in run["comparison"]:
            mean = seconds(row["mean_latency"])
            assert mean in report
            expect(table).to_contain_text(mean.split()[0])
            assert simulated[row["name"]]["mean_latency"] == pytest.approx(row["mean_latency"], rel=1e-9)
        for judged in run["verdict"]["rows"]:
            assert all(escape(reason["text"]) in report for reason in judged["reasons"])


def test_report_evidence_and_commands_of_a_run(studio_server: Served, open_page: Open) -> None:
    with studio_server.client() as api:
        run_id = stored_run(api, 4, 100, "Proof")
        api.post("/api/simulation/scenario", json={"scenario": "bursty", "load": 0.2}).raise_for_status()
        api.post("/api/simulation/stop").raise_for_status()
    page = open_page(studio_server.url, f"/run/{run_id}", allowed=REFUSED)
    page.set_default_timeout(120_000)
    for label, ending in (
        ("Report, HTML", "report.html"),
        ("Report, PDF", "report.pdf"),
        ("Evidence", "evidence.html"),
    ):
        with page.expect_download() as waiting:
            button = page.get_by_role("button", name=label)
            button.click()
            expect(button).to_contain_text("computing")
        assert waiting.value.suggested_filename == f"Proof-{run_id[-6:]}-{ending}"
        content = Path(waiting.value.path()).read_bytes()
        assert len(content) > 10_000
    summary = page.get_by_role("region", name="Run", exact=True)
    replay = answer(studio_server, f"/api/runs/{run_id}")["replay"]
    assert len(replay["commands"]) == 2
    for command in replay["commands"]:
        expect(summary.locator("code")).to_contain_text(command.split(" --")[0])
    expect(summary).to_contain_text("scenario bursty at 0.2 of capacity")
