"""New runs over REST: settings, previews, labels, traces in other formats, reports and replay commands."""

import io
import json
from contextlib import nullcontext
from dataclasses import asdict, replace
from html import escape
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes import OTHER_RUN, RUN

from hybrid_scheduler.core import InvalidInputError, platform_named
from hybrid_scheduler.live import LiveConfig, RunLabels
from hybrid_scheduler.live.commands import DescribeRun
from hybrid_scheduler.metrics.summary import Evidence
from hybrid_scheduler.metrics.verdict import judge
from hybrid_scheduler.physics import Slowdown, Tariff
from hybrid_scheduler.reports.run_tables import StoredResults
from hybrid_scheduler.schedulers import register, unregister
from hybrid_scheduler.schedulers.greedy import Greedy
from hybrid_scheduler.server.engine_control import LocalEngineControl
from hybrid_scheduler.server.errors import ApiError
from hybrid_scheduler.server.new_runs import BeginRun, ConfiguredRun, StartOptions, chosen_machine
from hybrid_scheduler.server.routes.strict_route import stored_run
from hybrid_scheduler.server.run_replay import replay_of
from hybrid_scheduler.server.schemas.catalogue import MachineOption, ScenarioPreview, TraceInspection
from hybrid_scheduler.server.schemas.simulation import RunPreview
from hybrid_scheduler.server.whatif_worker import EvidenceJob, compute_evidence
from hybrid_scheduler.workload import generate, load_workload
from hybrid_scheduler.workload.scenarios import scenario_named

LAB = "name: lab\ndevices: [{name: cpu, kind: cpu}, {name: gpu, count: 2, memory: 24000}]"
SLOW = {"device": "gpu_1", "factor": 3.0, "start": 10.0, "until": 20.0}
HOME = LiveConfig(schedulers=("greedy", "oracle"), seed=1)
CSV = {"Content-Type": "text/csv"}


# ------------------------------------------------------------------------------------------ beginning


async def test_new_run_gets_its_settings_and_labels(client, context):
    body = {
        "scenario": "mixed", "load": 0.4, "seed": 7, "speed": 4.0, "platform": "laptop",
        "schedulers": [{"name": "greedy"}, {"name": "oracle", "parameters": {"grid": 11}}],
        "name": "Laptop", "tags": ["a", "b"], "note": "first",
    }  # fmt: skip
    answer = await client.post("/api/simulation/runs", json=body)
    assert answer.status_code == 201
    begin, describe = context.control.orders
    options = begin.options
    assert options.schedulers == ("greedy", "oracle(grid=11)")
    assert (options.scenario, options.utilisation, options.seed, options.platform) == ("mixed", 0.4, 7, "laptop")
    assert describe == DescribeRun(answer.json()["run_id"], RunLabels("Laptop", ("a", "b"), "first"))


async def test_new_run_repeats_a_stored_one(client, context):
    assert (await client.post("/api/simulation/runs", json={"repeats": RUN, "seed": 8})).status_code == 201
    (begin,) = context.control.orders
    options = begin.options
    assert (options.repeats, options.seed) == ({"seed": 42}, 8)


@pytest.mark.parametrize(
    ("body", "field", "allowed"),
    [
        ({"load": -1}, "load", "greater than or equal to 0.001"),
        ({"platform": "toaster"}, "platform", "one of accelerators"),
        ({"profile": "h300"}, "profile", "one of cpu_only, h200"),
        ({"platform": "laptop", "profile": "h200"}, "profile", "left out where `platform` is given"),
        ({"trace": "week", "scenario": "mixed"}, "trace", "left out where `scenario` is given"),
        ({"platform_yaml": "a: [1"}, "platform_yaml", "line 1: valid YAML"),
        ({"platform_yaml": "a: &x 1\nb: *x"}, "platform_yaml", "written without aliases"),
        ({"platform_yaml": "when: 2020-99-99"}, "platform_yaml", "valid YAML"),
        (
            {"platform_yaml": "devices:\n" + "- {name: a, count: 9999}\n" * 700},
            "platform_yaml",
            "devices: at most 10,000 in all",
        ),
        ({"platform_yaml": LAB.replace("24000", "0x" + "f" * 300)}, "platform_yaml", "line 2: valid YAML"),
        ({"platform_yaml": "a: !!bool maybe"}, "platform_yaml", "valid YAML"),
        ({"platform_yaml": "a: !!int ''"}, "platform_yaml", "valid YAML"),
        ({"platform_yaml": "a: !!timestamp soon"}, "platform_yaml", "valid YAML"),
        ({"platform_yaml": "a: " + "[" * 2000}, "platform_yaml", "at most 16 levels of brackets"),
        ({"platform_yaml": LAB.replace("memory", "memori")}, "platform_yaml", "device 2: key: one of name"),
        ({"platform_yaml": LAB.replace("2,", "5000,")}, "platform_yaml", "a machine of at most 1024 devices"),
        ({"schedulers": [{"name": "gredy"}]}, "schedulers", "one of cpop"),
        ({"schedulers": [{"name": "heft"}]}, "schedulers", "online and central schedulers"),
        ({"schedulers": [{"name": "oracle", "parameters": {"grid": -4}}]}, "schedulers.oracle", "grid: 0"),
        ({"schedulers": [{"name": "oracle", "parameters": {"gird": 4}}]}, "schedulers.oracle", "parameter of"),
        (
            {"schedulers": [{"name": "rl_agent", "parameters": {"model": "x"}}]},
            "schedulers.rl_agent",
            "model: left",
        ),
        ({"schedulers": [{"name": "dqn", "parameters": {"model": 7}}]}, "schedulers.dqn", "model: left"),
        ({"slowdown": {**SLOW, "factor": 1}}, "slowdown.factor", "greater than 1"),
        ({"slowdown": {**SLOW, "until": 10}}, "slowdown.until", "after the start (10 s)"),
        ({"slowdown": {**SLOW, "every": 5}}, "slowdown.every", "longer than the slowdown (10 s)"),
        ({"slowdown": {**SLOW, "device": "gpu_7"}}, "slowdown.device", "one of cpu, gpu, gpu_0"),
        ({"slowdown": SLOW, "platform": "laptop"}, "slowdown.device", "one of cpu, gpu, gpu_0"),
        ({"repeats": "00000000000000000000000000"}, "repeats", "the id of a stored, simulated run"),
    ],
)
async def test_every_bad_setting_is_named_with_what_is_allowed(client, body, field, allowed):
    answer = await client.post("/api/simulation/preview", json=body)
    assert answer.status_code == 422
    (problem,) = answer.json()["error"]["fields"]
    assert problem["field"] == field
    assert problem["allowed"].startswith(allowed)


async def test_preview_has_load_limits_and_shape(client):
    body = {"platform_yaml": LAB, "schedulers": [{"name": "greedy"}, {"name": "oracle"}]}
    answer = await client.post("/api/simulation/preview", json=body)
    found = RunPreview.model_validate_json(answer.content)
    assert (found.platform.name, found.platform.cpus, found.platform.devices) == ("lab", 1, 3)
    assert found.rate == pytest.approx(found.load * found.capacity)
    assert [limit.scheduler for limit in found.limits] == ["greedy"]
    assert sum(found.shape.sizes) == sum(found.shape.intensities) >= 200


async def test_machines_and_scenarios_are_listed_for_the_page(client):
    machines = [MachineOption.model_validate(one) for one in (await client.get("/api/machines")).json()]
    assert [one.name for one in machines if one.kind == "profile"] == [
        "cpu_only", "h200", "starpu_mirage", "starpu_sirocco",
    ]  # fmt: skip
    previews = [ScenarioPreview.model_validate(one) for one in (await client.get("/api/scenarios/previews")).json()]
    assert {one.name for one in previews} >= {"default", "bursty", "diurnal"}
    bursty = next(one for one in previews if one.name == "bursty").shape
    even = next(one for one in previews if one.name == "mixed").shape
    assert max(bursty.arrivals) > 1.5 * max(even.arrivals)


def test_machine_is_a_preset_a_text_or_a_profile():
    machine = HOME.machine
    assert chosen_machine(machine, StartOptions()) is machine
    assert chosen_machine(machine, StartOptions(platform="laptop")).platform == platform_named("laptop")
    measured = chosen_machine(machine, StartOptions(profile="h200"))
    assert (measured.platform.name, measured.physics.name) == ("profiled", "profiled")
    assert chosen_machine(measured, StartOptions(platform="laptop")).physics.name == "analytic"


class _Engine:
    def __init__(self):
        self.config = None

    def status(self):
        return None

    def send(self, command):
        self.config = command.config
        raise InvalidInputError("seed", "any", "reached")


async def begun(options, home=HOME):
    engine = _Engine()
    with pytest.raises(InvalidInputError, match="reached"):
        await LocalEngineControl(engine, ConfiguredRun(home, scenario_named)).run(BeginRun(options))
    return engine.config


async def test_repeated_run_keeps_its_own_machine_and_changes_what_is_given():
    stored = replace(HOME, platform=platform_named("laptop"), tariff=Tariff(0.3), seed=9, schedulers=("random",))
    config = await begun(StartOptions(repeats=stored.as_dict() | {"changes": [], "submitted": 2}))
    assert config.as_dict() == stored.as_dict()
    config = await begun(StartOptions(repeats=stored.as_dict(), seed=3, platform="mixed-gpus"))
    assert (config.seed, config.platform.name, config.tariff) == (3, "mixed-gpus", Tariff(0.3))


async def test_run_of_another_version_cannot_be_repeated():
    control = LocalEngineControl(_Engine(), ConfiguredRun(HOME, scenario_named))
    with pytest.raises(InvalidInputError, match="repeats: must be a run that this program can repeat"):
        await control.run(BeginRun(StartOptions(repeats={"seed": 42})))


# ------------------------------------------------------------------------------------------ labels


async def test_labels_change_one_by_one(client):
    await client.patch(f"/api/runs/{RUN}", json={"name": "First", "tags": ["a"]})
    answer = await client.patch(f"/api/runs/{RUN}", json={"note": "because"})
    assert answer.status_code == 200
    known = (await client.get(f"/api/runs/{RUN}")).json()
    assert (known["name"], known["tags"], known["note"]) == ("First", ["a"], "because")
    await client.patch(f"/api/runs/{RUN}", json={"name": ""})
    assert (await client.get("/api/runs")).json()["runs"][1]["name"] == ""


async def test_labels_of_unknown_runs_and_long_labels_are_refused(client):
    assert (await client.patch("/api/runs/00000000000000000000000000", json={"name": "x"})).status_code == 404
    assert (await client.patch(f"/api/runs/{RUN}", json={"name": "x" * 121})).status_code == 422
    assert (await client.patch(f"/api/runs/{RUN}", json={"tags": [""]})).status_code == 422


# ------------------------------------------------------------------------------------------ traces

JOBS = "job,start,end,mem\n" + "".join(f"{i},{100 + i},{110 + 2 * i},{i}\n" for i in range(1, 50))
BAD = JOBS + "50,abc,200,60\n51,300,290,1\n"
MAPPING = {
    "seconds": {"column": "end", "minus": "start"},
    "arrival_time": {"column": "start"},
    "memory_required": {"column": "mem", "factor": 2},
}


async def inspected(client, content, headers=CSV, **query):
    answer = await client.post("/api/traces/inspect", params=query, headers=headers, content=content)
    assert answer.status_code == 200, answer.text
    return TraceInspection.model_validate_json(answer.content)


async def test_foreign_table_shows_its_columns_before_it_is_mapped(client):
    found = await inspected(client, JOBS)
    assert (found.format, found.rows_read, found.shape) == (None, 0, None)
    assert [column.name for column in found.columns] == ["job", "start", "end", "mem"]
    assert found.columns[1].first == ["101", "102", "103"]


async def test_mapped_table_lists_bad_rows_and_the_offered_load(client):
    found = await inspected(client, BAD, mapping=json.dumps(MAPPING))
    assert (found.rows_read, found.rows_kept) == (51, 49)
    assert [(bad.line, bad.field, bad.got) for bad in found.rejected] == [
        (51, "end", "200 - abc"),
        (52, "end", "290 - 300"),
    ]
    assert found.mapping["memory_required"] == "mem times 2"
    slower = await inspected(client, BAD, mapping=json.dumps(MAPPING), platform="laptop")
    assert slower.offered_load > found.offered_load > 0
    rescaled = await inspected(client, BAD, mapping=json.dumps(MAPPING), load=0.5)
    assert rescaled.offered_load == pytest.approx(0.5)


async def test_mapped_table_is_stored_as_a_trace_of_this_program(client, context):
    query = {"name": "jobs", "mapping": json.dumps(MAPPING)}
    refused = await client.post("/api/traces", params=query, headers=CSV, content=BAD)
    assert refused.status_code == 422
    assert "jobs.csv, line 51" in refused.json()["error"]["message"]
    answer = await client.post("/api/traces", params=query | {"skip_bad": True}, headers=CSV, content=BAD)
    assert (answer.status_code, answer.json()["tasks"]) == (201, 49)
    tasks = load_workload(context.options.traces / "jobs.csv")
    assert (tasks.arrival_time[0], tasks.memory_required[0]) == (0.0, 2.0)
    assert [path.name for path in context.options.traces.iterdir()] == ["jobs.csv"]


async def test_parquet_table_can_be_mapped(client):
    sink = io.BytesIO()
    pq.write_table(pa.table({"begin": [5.0, 6.0, 9.0], "work": [10, 20, None]}), sink)
    kind = {"Content-Type": "application/vnd.apache.parquet"}
    mapping = json.dumps({"size": {"column": "work"}, "arrival_time": {"column": "begin"}})
    found = await inspected(client, sink.getvalue(), kind, mapping=mapping)
    assert (found.rows_kept, [(bad.line, bad.got) for bad in found.rejected]) == (2, [(3, "")])


async def test_swf_and_workflow_files_are_recognised(client):
    job = "1 0 5 100 4 -1 -1 4 200 -1 1 1 1 1 1 1 -1 -1\n"
    found = await inspected(
        client, "; Version: 2\n" + job + job.replace("1 0", "2 9", 1), {"Content-Type": "text/plain"}
    )
    assert (found.format, found.rows_kept) == ("swf", 2)
    unknown = await inspected(client, "hello", {"Content-Type": "text/plain"})
    assert unknown.error.allowed.startswith("one of alibaba")


@pytest.mark.parametrize(
    "mapping", ["{", "[]", '{"size": 3}', '{"size": {"file": "x"}}', '{"size": {"column": 4}}']
)
async def test_malformed_mapping_is_refused(client, mapping):
    answer = await client.post("/api/traces/inspect", params={"mapping": mapping}, headers=CSV, content=JOBS)
    assert answer.status_code == 422
    assert answer.json()["error"]["fields"][0]["field"] == "mapping"


async def test_mapping_of_a_missing_column_is_reported_with_the_known_ones(client):
    mapping = json.dumps(MAPPING | {"arrival_time": {"column": "strat"}})
    found = await inspected(client, JOBS, mapping=mapping)
    assert (found.error.field, found.error.got) == ("mapping.arrival_time", "strat")
    assert "start" in found.error.allowed


# ------------------------------------------------------------------------------------------ reports and replay


@pytest.mark.parametrize(("kind", "start"), [("html", b"<!doctype html>"), ("pdf", b"%pdf")])
def test_report_of_a_stored_run(kind, start):
    config = replace(HOME, schedulers=("greedy", "round_robin"))
    rows = [
        {
            "task_id": i, "size": 100.0 + i, "compute_intensity": 0.5, "memory_required": 1.0,
            "arrival_time": 0.1 * i, "kind": "generic", "divisible": True,
        }
        for i in range(20)
    ]  # fmt: skip
    content = compute_evidence(EvidenceJob(RUN, config.as_dict(), rows, kind))
    assert content[:15].lower().startswith(start)


def test_report_says_what_the_run_says_not_what_its_newest_tasks_give():
    verdict = judge(
        [Evidence("greedy", "Greedy", 6_199, 1.25, 0.125), Evidence("random", "Random", 6_199, 80.0, 2.0)]
    )
    unknown = dict.fromkeys(("p99_latency", "mean_time", "latency_over_bound", "makespan", "load_balance"))
    rows = [
        {**unknown, "name": row.name, "mean_latency": row.mean_latency, "latency_ci95": row.half_width,
         "mean_energy": 2.5, "mean_cost": 0.001, "window": 1000}
        for row in verdict.rows
    ]  # fmt: skip
    tasks = [asdict(task) for task in generate(HOME.scenario, 20, 3)]
    config = replace(HOME, schedulers=("greedy", "random"))
    stored = StoredResults(rows, verdict.as_dict())
    text = compute_evidence(EvidenceJob("Night shift", config.as_dict(), tasks, "html", stored)).decode()
    for words in (
        "Night shift", verdict.sentence, "6,199 tasks", "1.25 ± 0.12", "80.0 ± 2.0",
        verdict.rows[1].reasons[0].text, "The newest 20 tasks of the run, simulated again",
    ):  # fmt: skip
        assert escape(words) in text


async def test_report_of_an_unknown_run_is_refused(client):
    assert (await client.get("/api/runs/00000000000000000000000000/report")).status_code == 404
    assert (await client.get(f"/api/runs/{RUN}/report?format=doc")).status_code == 422
    assert (await client.get(f"/api/runs/{OTHER_RUN}/report")).status_code == 422


def run_of(config, **more):
    return {
        "run_id": RUN, "source": "simulated", "scenario": config.scenario.name, "load": config.load, "tasks": 300,
        "schedulers": list(config.schedulers), "config": config.as_dict(), **more,
    }  # fmt: skip


def replayed(config, later=None, **more):
    run = run_of(config, **more)
    run["config"] |= later or {}
    return replay_of(run, "http://host")


def test_plain_run_is_repeated_by_one_command():
    found = replayed(HOME)
    assert found["commands"] == [
        "hybrid-scheduler simulate --scenario waves --utilisation 0.125 --tasks 300 --seed 1 "
        "--schedulers greedy,oracle --platform workstation"
    ]
    assert (found["exact"], found["notes"]) == (True, [])


def test_changed_run_is_repeated_from_its_stored_tasks():
    later = {"changes": [{"task": 120, "change": "scenario bursty at 0.3 of capacity"}], "submitted": 2}
    found = replayed(HOME, later, scenario="bursty")
    assert found["commands"][0] == f"curl -o tasks-{RUN}.csv 'http://host/api/export/tasks.csv?run_id={RUN}'"
    assert f"simulate --trace tasks-{RUN}.csv --seed 1" in found["commands"][1]
    assert found["notes"] == ["from task 120: scenario bursty at 0.3 of capacity", "tasks that clients sent: 2"]


def test_own_machine_is_repeated_from_the_evidence_file():
    machine = chosen_machine(HOME.machine, StartOptions(platform_yaml=LAB))
    found = replayed(replace(HOME, platform=machine.platform), tasks=9000)
    assert found["commands"][1] == f"hybrid-scheduler report --verify evidence-{RUN}.html"
    assert not found["exact"]
    assert "newest 5,000 of 9,000" in found["notes"][0]


def test_machine_noise_and_goal_are_named():
    platform = chosen_machine(HOME.machine, StartOptions()).platform
    config = replace(HOME, platform=replace(platform, devices=platform.devices[:3]), memory_policy="to_cpu")
    (command,) = replayed(config)["commands"]
    assert command.startswith("NUM_GPUS=2 MEMORY_PER_GPU=8000 hybrid-scheduler simulate")
    assert command.endswith("--platform workstation --memory-policy to_cpu")


def test_slowdown_of_a_new_run_is_named():
    (command,) = replayed(replace(HOME, slowdown=Slowdown.from_dict({**SLOW, "every": 60.0})))["commands"]
    assert command.endswith("--platform workstation --slowdown device=gpu_1,factor=3,start=10,until=20,every=60")


async def test_configured_slowdown_belongs_to_scenario_and_machine():
    home = replace(HOME, slowdown=Slowdown.from_dict(SLOW))
    for options, expected in [
        (StartOptions(seed=2), SLOW),
        (StartOptions(slowdown="none"), None),
        (StartOptions(scenario="waves"), None),
        (StartOptions(platform="laptop"), None),
        (StartOptions(scenario="mixed", slowdown={**SLOW, "device": "gpu"}), {**SLOW, "device": "gpu"}),
        (StartOptions(repeats=home.as_dict(), seed=3), SLOW),
        (StartOptions(repeats=HOME.as_dict()), None),
    ]:
        found = (await begun(options, home)).slowdown
        assert (None if found is None else found.as_dict()) == expected, options


def test_plug_ins_are_named_with_their_digest():
    register("always_greedy")(type("AlwaysGreedy", (Greedy,), {"__module__": __name__}))
    try:
        found = replayed(replace(HOME, schedulers=("always_greedy",)))
    finally:
        unregister("always_greedy")
    assert found["commands"][0].startswith("hybrid-scheduler --plugin test_new_runs.py simulate")
    assert found["notes"][0].startswith("plug-in test_new_runs.py, SHA-256 ")


def test_measured_run_has_no_command():
    assert replay_of(run_of(HOME, source="measured"), "http://host") is None


@pytest.mark.parametrize(("live", "looks"), [("new", 3), ("another", 1)])
async def test_run_that_has_just_begun_is_waited_for(live, looks):
    rows = [None, None, {"run_id": "new"}]

    class Repository:
        async def run(self, run_id):
            return rows.pop(0)

    class Control:
        async def status(self):
            return {"run_id": live}

    context = SimpleNamespace(repository=Repository(), control=Control())
    with nullcontext() if live == "new" else pytest.raises(ApiError, match="there is no run new"):
        assert await stored_run(context, "new")
    assert len(rows) == 3 - looks
