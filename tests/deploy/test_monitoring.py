"""Prometheus and Grafana ask for what the server says: every metric and every label, against a running one."""

import json
import re
import shutil
import subprocess
import sys
import time

import pytest
import yaml
from borrowed_environment import ROOT
from prometheus_client.parser import text_string_to_metric_families
from running_server import started

PROMETHEUS = ROOT / "deploy" / "prometheus"
GRAFANA = ROOT / "deploy" / "grafana"
RULES = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
DASHBOARD = json.loads((GRAFANA / "dashboards" / "hybrid-scheduler.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
#: Labels that Prometheus adds to everything it scrapes.
ADDED = {"job", "instance"}


def expressions() -> list[str]:
    asked = [target["expr"] for panel in PANELS for target in panel["targets"]]
    return asked + [rule["expr"] for rule in RULES]


def spoken(expression: str) -> list[tuple[str, set[str]]]:
    """(metric, labels it is chosen by) wherever an expression names one of ours."""
    found = re.findall(r"(hybrid_scheduler_\w+)(?:\{([^}]*)\})?", expression)
    return [(name, set(re.findall(r"(\w+)\s*[=!]", labels))) for name, labels in found]


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> dict[str, set[str]]:
    """The labels of every series that a server with a learning scheduler has after its first tasks."""
    folder = tmp_path_factory.mktemp("metrics")
    command = [sys.executable, "-m", "hybrid_scheduler", "serve", "--port", "0", "--speed", "50"]
    command += ["--schedulers", "greedy,hybrid_ml"]
    with started(command, folder, {"PATH": "", "HOME": str(folder)}) as server, server.client() as client:
        end = time.monotonic() + 120
        while True:
            labels: dict[str, set[str]] = {}
            for family in text_string_to_metric_families(client.get("/api/metrics").text):
                labels.setdefault(family.name, set())
                for sample in family.samples:
                    labels.setdefault(sample.name, set()).update(sample.labels)
            finished = "quantile" in labels["hybrid_scheduler_run_latency_quantile_seconds"]
            if (
                finished and "hybrid_scheduler_http_requests_total" in labels
            ):  # a request counts once it is answered
                return labels
            assert time.monotonic() < end, "no task was finished"


@pytest.mark.slow
def test_every_metric_and_label_exists(exported):
    for expression in expressions():
        known = set()
        for name, labels in spoken(expression):
            assert name in exported, expression
            assert labels <= exported[name] | ADDED, expression
            known |= exported[name]
        for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
            assert {label.strip() for label in group.split(",")} <= known | ADDED, expression


@pytest.mark.slow
def test_legends_name_labels_that_exist(exported):
    for panel in PANELS:
        for target in panel["targets"]:
            known = set().union(*(exported[name] for name, _ in spoken(target["expr"])))
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= known, panel["title"]


@pytest.mark.slow
def test_no_metric_is_forgotten(exported):
    shown = {name.removesuffix("_bucket") for text in expressions() for name, _ in spoken(text)}
    families = {name.removesuffix("_created").removesuffix("_total").removesuffix("_bucket") for name in exported}
    families = {re.sub(r"_(count|sum)$", "", name) for name in families}
    assert families == {name.removesuffix("_total") for name in shown}


def test_every_panel_has_description_unit_and_source():
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(numbers) == len(set(numbers))
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)
    for panel in PANELS:
        assert panel["description"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_panels_do_not_overlap():
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        columns, rows = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        cells = {(x, y) for x in columns for y in rows}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_alerts_say_what_to_do():
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


def test_monitoring_files_reference_existing_targets():
    settings = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
    assert [(PROMETHEUS / name).is_file() for name in settings["rule_files"]] == [True]
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    (job,) = settings["scrape_configs"]
    host, port = job["static_configs"][0]["targets"][0].split(":")
    assert services[host]["command"][-2:] == ["--port", port]
    assert (
        job["authorization"]["credentials_file"].removeprefix("/run/secrets/") in services["prometheus"]["secrets"]
    )
    sources = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "prometheus.yml").read_text())
    assert sources["datasources"][0]["url"] == "http://prometheus:9090"
    providers = yaml.safe_load((GRAFANA / "provisioning" / "dashboards" / "files.yml").read_text())["providers"]
    places = [volume.split(":")[1] for volume in services["grafana"]["volumes"]]
    assert providers[0]["options"]["path"] in places
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{providers[0]['options']['path']}/hybrid-scheduler.json"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_settings_alerts_and_panels(tmp_path):
    (tmp_path / "token").write_text("secret")
    text = (PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8")
    (tmp_path / "prometheus.yml").write_text(text.replace("/run/secrets/api_token", str(tmp_path / "token")))
    for file in (PROMETHEUS / "alerts.yml", ROOT / "tests" / "deploy" / "alerts_test.yml"):
        shutil.copy(file, tmp_path)
    # Grafana's own variables are not PromQL: with values in their place every panel is a rule that must parse.
    shown = [target["expr"] for panel in PANELS for target in panel["targets"]]
    rules = [
        {"record": f"panel:{number}", "expr": text.replace("$__rate_interval", "1m").replace("$job", "x")}
        for number, text in enumerate(shown)
    ]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    for words in (
        ["check", "config", "prometheus.yml"],
        ["check", "rules", "panels.yml"],
        ["test", "rules", "alerts_test.yml"],
    ):
        done = subprocess.run(["promtool", *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
