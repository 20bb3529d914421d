"""Commands of evaluation: compare, heavy, sweep, replay, report, trace."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybrid_scheduler import InvalidInputError
from hybrid_scheduler.cli.app import app
from hybrid_scheduler.cli.compare import compare, raise_if_slower
from hybrid_scheduler.cli.heavy_simulation import heavy
from hybrid_scheduler.cli.replay import replay, trace
from hybrid_scheduler.cli.report import report
from hybrid_scheduler.cli.sweep import sweep
from hybrid_scheduler.experiments.paired_comparison import PairwiseTests, SchedulerRank
from hybrid_scheduler.metrics.statistics import compare_pairs, skewed_interval

Run = Callable[..., Any]
SMALL = ("--scenario", "mixed", "--utilisation", "0.8", "--tasks", "60")

COMMANDS = (compare, heavy, sweep, replay, report, trace)
for command in COMMANDS:
    if all(known.callback is not command for known in app.registered_commands):
        app.command()(command)


def document(result: Any) -> Any:
    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is not JSON")

    assert result.exit_code == 0, result.output
    return json.loads(result.stdout, parse_constant=refuse)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_help_has_an_example_and_fits(command: Callable[..., None], run: Run) -> None:
    text = run(command.__name__, "--help").stdout
    assert "Example" in text
    assert f"hybrid-scheduler {command.__name__}" in text
    assert max(map(len, text.splitlines())) <= 80


# ------------------------------------------------------------------------------------------ compare


def compared(run: Run, *more: str) -> Any:
    names = ("--schedulers", "earliest_finish,greedy,oracle")
    return run("compare", *SMALL, *names, "--seeds", "8", "--processes", "1", *more)


def test_compare_prints_a_table(run: Run) -> None:
    result = compared(run)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert "8 paired seeds from 3000 on" in lines[0]
    (greedy,) = (line for line in lines if line.startswith("▲ greedy"))
    (oracle,) = (line for line in lines if line.startswith("★ oracle"))
    assert greedy.endswith("worse")
    assert oracle.endswith("too close to call")
    assert any("seeds won by row against column" in line for line in lines)
    assert any("8*" in line for line in lines)


def test_compare_writes_json_and_files(run: Run) -> None:
    found = document(compared(run, "--json", "--metric", "p99_latency", "--baseline", "oracle", "--out", "results"))
    assert (found["metric"], found["baseline"], found["seeds"]) == ("p99_latency", "oracle", 8)
    greedy = found["schedulers"]["greedy"]
    assert greedy["mean"][1] < greedy["mean"][0] < greedy["mean"][2]
    assert greedy["against_baseline"]["verdict"] == "higher"
    assert greedy["against_baseline"]["p_holm"] < 0.05
    assert len(found["pairs"]) == 6
    assert {path.name for path in Path("results").iterdir()} == {
        "comparison.json", "seeds.csv", "run.json", "events.jsonl",
    }  # fmt: skip
    assert len(Path("results/seeds.csv").read_text(encoding="utf-8").splitlines()) == 1 + 8 * 3
    assert "a new or empty folder" in compared(run, "--out", "results").stderr
    kept = run("report", *SMALL, "--keep", "results")
    assert kept.stderr == "error: --keep: must be a new or empty folder, got 'results'\n"


def test_compare_fails_if_slower(run: Run) -> None:
    worse = compared(run, "--fail-if-slower", "greedy")
    assert worse.exit_code == 1
    assert "greedy is worse than earliest_finish" in worse.stderr
    assert "▲ greedy" in worse.stdout  # the table is there all the same
    assert compared(run, "--fail-if-slower", "oracle").exit_code == 0
    assert compared(run, "--fail-if-slower", "earliest_finish").exit_code == 2


def test_gate_that_could_not_fail_is_refused_with_the_seeds_needed(run: Run) -> None:
    options = ("--schedulers", "oracle,cpu_only", "--fail-if-slower", "cpu_only", "--processes", "1")
    few = run("compare", *SMALL, *options, "--seeds", "3")
    assert few.exit_code == 2
    assert "--seeds: must be at least 6 for --fail-if-slower among 2 schedulers, got 3" in few.stderr
    assert run("compare", *SMALL, *options, "--seeds", "6").exit_code == 1


def test_gate_that_is_undecided_names_the_seeds_needed() -> None:
    values = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    worse = values + np.array([0.5, -0.3, 0.6, -0.2, 0.4, -0.1])
    with pytest.raises(InvalidInputError, match=r"decided by more runs: about \d+ seeds, got 'slow worse by 15 %"):
        raise_if_slower(judged(values, worse), "slow")
    raise_if_slower(judged(worse, values), "slow")  # better: the gate passes


def test_significant_difference_below_one_per_cent_is_not_worth_caring_about() -> None:
    values = np.linspace(1.0, 2.0, 12)
    judgement = judged(values, values + 26e-6)
    pair = judgement.pairs["slow", "base"]
    assert (pair.verdict, judgement.relevant(pair)) == ("higher", False)
    assert judgement.verdict_text(pair) == "worse by < 1 %"
    raise_if_slower(judgement, "slow")  # not worth an alarm


def judged(base: np.ndarray, slow: np.ndarray) -> PairwiseTests:
    pairs = compare_pairs({"base": base, "slow": slow}, np.random.default_rng(0))
    standings = tuple(
        SchedulerRank(name, skewed_interval(values), None, float(values.mean() / base.mean()), pair, None, None)
        for name, values, pair in (("base", base, None), ("slow", slow, pairs["slow", "base"]))
    )
    return PairwiseTests("mean_latency", "base", len(base), standings, pairs)


def test_compare_takes_a_graph(run: Run) -> None:
    graph = ("compare", "--scenario", "cholesky(tiles=3)", "--schedulers", "heft,greedy")
    result = run(*graph, "--out", "graph")
    assert result.exit_code == 0, result.output
    assert "graph cholesky(tiles=3) · 10 tasks" in result.stdout
    assert "every seed repeats this run: differences are exact" in result.stdout
    assert run("replay", "graph").exit_code == 0
    found = document(run(*graph, "--json"))
    assert (found["scenario"], found["metric"], found["unit"]) == ("cholesky(tiles=3)", "makespan", "runs")
    assert found["schedulers"]["greedy"]["against_baseline"]["p"] is None
    assert run(*graph, "--fail-if-slower", "greedy").exit_code == 1
    report = run("report", "graph", "--figures", "gantt", "-o", "graph.html")
    assert "Every seed repeats this run" in report.stdout, report.output


def test_graph_refuses_batches_and_tasks(run: Run) -> None:
    for option in ("--batches", "--tasks"):
        result = run("compare", "--scenario", "lu(tiles=2)", "--schedulers", "heft,greedy", option, "5")
        assert result.exit_code == 2
        assert f"{option}: must be left out" in result.stderr


def test_too_few_seeds_are_reported(run: Run) -> None:
    result = run("compare", *SMALL, "--schedulers", "greedy,oracle", "--seeds", "3", "--processes", "1")
    assert "use at least 6" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--seeds", "1"), "--seeds: must be at least 2, for an interval, got 1"),
        (("--metric", "latency"), "metric: must be one of"),
        (("--baseline", "gredy"), "baseline: must be one of"),
        (("--schedulers", "gredy"), "gredy"),
        (("--batch", "--utilisation", "0.5"), "--utilisation: must be left out with --batch"),
    ],
)
def test_compare_refuses_bad_options(options: tuple[str, ...], message: str, run: Run) -> None:
    result = run("compare", *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_narrow_terminal_keeps_the_verdict(run: Run, terminal: Callable[[int], None]) -> None:
    terminal(60)
    lines = compared(run).stdout.splitlines()
    assert max(map(len, lines)) <= 60
    assert any("too close to call" in line for line in lines)


# ------------------------------------------------------------------------------------------ traces


@pytest.fixture
def own_trace(run: Run) -> str:
    from hybrid_scheduler import WorkloadGenerator

    tasks = WorkloadGenerator(2)
    tasks.generate_workload(200, utilisation=0.5)
    tasks.save_workload("mine.csv")
    return "mine.csv"


def test_compare_uses_batches_of_a_trace(own_trace: str, run: Run) -> None:
    result = run("compare", "--trace", own_trace, "--schedulers", "earliest_finish,greedy,oracle", "--out", "kept")
    assert result.exit_code == 0, result.output
    assert "one trace; interval from batch means over 20 batches" in result.stdout
    assert "batches won by row against column" in result.stdout
    (greedy,) = (line for line in result.stdout.splitlines() if line.startswith("▲ greedy"))
    assert greedy.endswith("worse")
    assert run("replay", "kept").exit_code == 0
    assert run("report", "kept", "-o", "kept.html", "--figures", "average_duration").exit_code == 0
    assert "batch means over 20 batches" in Path("kept.html").read_text(encoding="utf-8")
    found = document(
        run("compare", "--trace", own_trace, "--schedulers", "greedy,oracle", "--batches", "5", "--json")
    )
    assert (found["unit"], found["batches"], found["trace"]["name"]) == ("batches", 5, "mine.csv")


def test_sweep_and_report_accept_a_trace(own_trace: str, run: Run) -> None:
    options = ("--trace", own_trace, "--schedulers", "greedy,oracle", "--processes", "1")
    found = document(run("sweep", *options, "--platforms", "laptop,workstation", "--out", "here", "--json"))
    assert [group["platform"] for group in found["groups"]] == ["laptop", "laptop", "workstation", "workstation"]
    assert found["groups"][3]["low"] < found["groups"][3]["mean"] < found["groups"][3]["high"]
    again = document(run("sweep", *options, "--platforms", "laptop,workstation", "--out", "here", "--json"))
    assert again == found
    assert "one trace; interval from batch means" in run("sweep", *options, "--out", "there").stdout
    made = run("report", *options, "-o", "mine.html", "--figures", "makespan", "--keep", "kept")
    assert made.exit_code == 0, made.output
    assert run("replay", "kept").exit_code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("compare", "--seeds", "3"), "--seeds: must be left out with --trace, got 3"),
        (("compare", "--scenario", "mixed"), "--scenario: must be left out with --trace"),
        (("compare", "--until-clear"), "--until-clear: must be left out with --trace"),
        (("compare", "--metric", "makespan"), "metric: must be one that batches of a trace have"),
        (("compare", "--batches", "300"), "--batches: must be from 2 to 20, for 200 tasks, got 300"),
        (("sweep", "--scenarios", "mixed"), "--scenarios: must be left out with --trace"),
        (("report", "--utilisation", "0"), "--utilisation: must be"),
    ],
)
def test_trace_refuses_options_of_scenarios(
    options: tuple[str, ...], message: str, own_trace: str, run: Run
) -> None:
    result = run(options[0], "--trace", own_trace, *options[1:])
    assert result.exit_code == 2
    assert message in result.stderr


def test_trace_too_short_for_its_queues_gets_no_interval(run: Run) -> None:
    from hybrid_scheduler import WorkloadGenerator

    tasks = WorkloadGenerator(2)
    tasks.generate_workload(200, utilisation=0.9)
    tasks.save_workload("busy.csv")
    options = ("compare", "--trace", "busy.csv", "--schedulers", "greedy,oracle")
    result = run(*options)
    assert "±?" in result.stdout
    assert result.stdout.count("↗ keeps changing") == ("↗" in result.stdout)
    assert "Tasks needed: " in result.stdout
    found = json.loads(run(*options, "--json").stdout)
    assert found["tasks_needed"]["greedy"] > 200


def test_load_of_a_trace_is_printed_and_can_be_changed(own_trace: str, run: Run) -> None:
    options = ("--trace", own_trace, "--schedulers", "greedy,oracle", "--json")
    plain = json.loads(run("simulate", *options).stdout)
    assert plain["offered_load"] == pytest.approx(0.5, rel=0.2)
    crowded = run("simulate", *options, "--utilisation", "3")
    assert json.loads(crowded.stdout)["offered_load"] == pytest.approx(3)
    assert "asks for 3 times what workstation can run" in crowded.stderr
    assert "offers 0.5 × capacity" in run("compare", *options[:-1], "--utilisation", "0.5").stdout
    table = run("sweep", *options, "--loads", "0.5,0.8", "--processes", "1")
    assert {row["scenario"] for row in json.loads(table.stdout)["groups"]} == {
        "mine.csv at load 0.5",
        "mine.csv at load 0.8",
    }


def test_simulate_record_can_be_replayed(own_trace: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = ("--schedulers", "random,hybrid_ml,oracle")
    assert run("simulate", *SMALL, *specs, "--noise", "0.1", "--out", "drawn").exit_code == 0
    assert document(run("replay", "drawn", "--json"))["same"] is True
    assert run("simulate", "--trace", own_trace, *specs, "--out", "own").exit_code == 0
    Path(own_trace).unlink()  # the record has its own copy
    assert document(run("replay", "own", "--json"))["lines"] == 3 * (200 + 200 + 1)
    assert run("trace", "own", "-o", "trace.json").exit_code == 0
    monkeypatch.setattr("hybrid_scheduler.cli.result_files.LOGGED_TASKS", 100)
    assert run("simulate", *SMALL, *specs, "--out", "long").exit_code == 0
    assert document(run("replay", "long", "--json"))["lines"] == 3
    assert run("report", "long", "-o", "long.html", "--figures", "makespan").exit_code == 0


# ------------------------------------------------------------------------------------------ heavy


def test_heavy_writes_tables_plots_and_record(run: Run) -> None:
    names = ["round_robin", "greedy", "oracle"]
    result = run("heavy", "--tasks", "400", "--schedulers", ",".join(names), "--seed", "3", "--utilisation", "0.4")
    assert result.exit_code == 0, result.output
    results = Path("data/results")
    table = (results / "heavy_simulation_summary.csv").read_text(encoding="utf-8").splitlines()
    assert table[0].startswith("scheduler,tasks,failed")
    assert [line.split(",")[0] for line in table[1:]] == names
    plots = {path.name for path in (results / "plots").iterdir()}
    assert {"latency_cdf.png", "cost_comparison.png", "makespan.png", "average_duration.png"} <= plots
    assert f"{len(plots)} plots in" in result.stdout
    again = run("replay", str(results / "heavy_simulation"))
    assert again.exit_code == 0
    assert "the same 3 lines again" in again.stdout
    assert "a heavy simulation" in run("trace", str(results / "heavy_simulation")).stderr
    assert not list(results.glob("load-*"))


def test_report_of_heavy_has_one_row_per_scheduler_and_task(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    monkeypatch.setattr("hybrid_scheduler.experiments.heavy_simulation.MIN_TASKS_PER_PROCESS", 10)
    names = ["greedy", "hybrid_ml", "shortest_first"]
    arguments = ("heavy", "--tasks", "30", "--schedulers", ",".join(names), "--batch", "--out", "out")
    assert run(*arguments).exit_code == 0
    report = pd.read_csv("out/heavy_simulation_report.csv")
    summary = pd.read_csv("out/heavy_simulation_summary.csv").set_index("scheduler")
    assert report.groupby("scheduler").task_id.apply(list).to_dict() == {name: list(range(30)) for name in names}
    assert set(report.status) == {"ran"}
    assert set(report.device) <= {"cpu", "gpu_0", "gpu_1", "gpu_2", "gpu_3"}
    for name, rows in report.groupby("scheduler"):
        assert rows.latency.mean() == pytest.approx(summary.mean_latency[name])
        assert rows.energy.sum() == pytest.approx(summary.energy[name])
    monkeypatch.setattr("hybrid_scheduler.cli.heavy_simulation._MOST_ROWS", 89)
    result = run(*arguments)
    assert "no row per task: more than 89" in result.stdout
    assert not Path("out/heavy_simulation_report.csv").exists()


def test_heavy_also_runs_at_half_of_capacity_where_schedulers_differ(run: Run) -> None:
    arguments = ("heavy", "--tasks", "300", "--schedulers", "round_robin,oracle", "--out", "out", "--json")
    found = document(run(*arguments))
    (busy,) = found["at_other_loads"]
    assert (found["utilisation"], busy["utilisation"]) == (0.1, 0.5)
    makespans = [[row["makespan"] for row in one["schedulers"].values()] for one in (found, busy)]
    assert max(makespans[0]) < 1.1 * min(makespans[0])
    assert max(makespans[1]) > 1.5 * min(makespans[1])
    for folder in (Path("out"), Path("out/load-0.5")):
        assert (folder / "heavy_simulation_report.csv").exists()
        assert (folder / "heavy_simulation" / "run.json").exists()
    assert "at_other_loads" not in document(run(*arguments, "--utilisation", "0.3"))


def test_heavy_prints_json(run: Run) -> None:
    found = document(run("heavy", "--tasks", "200", "--schedulers", "greedy", "--out", "here", "--json"))
    assert (found["tasks"], found["quantile_error"]) == (200, 0.001)
    assert found["schedulers"]["greedy"]["tasks"] == 200


def test_heavy_refuses_bad_options(run: Run) -> None:
    assert "at most 5,000,000" in run("heavy", "--tasks", "6000000", "--schedulers", "hybrid_ml").stderr
    Path("file").write_text("", encoding="utf-8")
    assert run("heavy", "--out", "file").exit_code == 2


# ------------------------------------------------------------------------------------------ replay, trace, report


def test_kept_run_can_be_replayed_traced_and_reported(run: Run) -> None:
    made = run(
        "report", *SMALL, "--schedulers", "greedy,oracle", "--seeds", "1", "--keep", "kept", "-o", "one.html",
        "--figures", "makespan,gantt",
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    assert Path("one.html").read_text(encoding="utf-8").count("<figure>") == 2
    found = document(run("replay", "kept", "--json"))
    assert found["same"] is True
    assert found["recorded_sha256"] == found["sha256"]
    assert run("trace", "kept", "-o", "trace.json").exit_code == 0
    events = json.loads(Path("trace.json").read_text(encoding="utf-8"))["traceEvents"]
    assert {event["args"]["name"] for event in events if event["name"] == "process_name"} == {"greedy", "oracle"}
    again = run("report", "kept", "-o", "again.pdf", "--figures", "makespan")
    assert again.exit_code == 0, again.output
    assert Path("again.pdf").read_bytes().startswith(b"%PDF")


def test_evidence_file_is_verified_by_a_replay(run: Run) -> None:
    small = (*SMALL, "--schedulers", "greedy,oracle", "--seeds", "2", "--processes", "1", "--figures", "makespan")
    result = run("report", *small, "--evidence", "evidence.html")
    assert result.exit_code == 0, result.output
    assert not Path("report.html").exists()
    text = Path("evidence.html").read_text(encoding="utf-8")
    assert "hybrid-scheduler report --verify evidence.html" in text
    verified = run("report", "--verify", "evidence.html", "--keep", "unpacked", "--processes", "1")
    assert verified.exit_code == 0, verified.output
    assert "the same 4 lines again, sha256" in verified.stdout
    assert run("replay", "unpacked", "--processes", "1").stdout == verified.stdout

    Path("edited.html").write_text(text.replace("Greedy", "Oracle"), encoding="utf-8")
    Path("cut.html").write_text(text.replace('"zlib_base64": "eN', '"zlib_base64": "eO'), encoding="utf-8")
    for name, message in (
        ("edited.html", "edited.html: the report was changed after it was written"),
        ("cut.html", "cut.html: the embedded run.json was changed after it was written"),
    ):
        refused = run("report", "--verify", name, "--keep", name.removesuffix(".html"))
        assert refused.exit_code == 1
        assert message in refused.stderr
        assert not Path(name.removesuffix(".html")).exists()


def test_evidence_holds_the_tasks_of_a_trace(own_trace: str, run: Run) -> None:
    options = ("--trace", own_trace, "--schedulers", "greedy", "--figures", "makespan")
    result = run("report", *options, "--evidence", "trace.html", "-o", "plain.html")
    assert result.exit_code == 0, result.output
    assert "trace.parquet" in Path("trace.html").read_text(encoding="utf-8")
    assert Path("plain.html").exists()
    Path(own_trace).unlink()
    assert run("report", "--verify", "trace.html").exit_code == 0


_OPENS = '<script type="application/json" id="evidence">'
_EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ("<html></html>", "it holds no run"),
        (_OPENS + "{</script>\n", "Expecting property name"),
        (_OPENS + '{"format": 2}</script>\n', "its format is 2"),
        (
            _OPENS + '{"format": 1, "report_sha256": "", "files": {"../x": {"bytes": 0, "sha256": "' + _EMPTY
            + '", "zlib_base64": ""}}}</script>\n',
            "its files are ../x",
        ),
    ],
)  # fmt: skip
def test_file_without_evidence_is_refused(content: str, hint: str, run: Run) -> None:
    Path("other.html").write_text(content, encoding="utf-8")
    result = run("report", "--verify", "other.html")
    assert result.exit_code == 2
    assert "--verify: must be an evidence file, got 'other.html'" in result.stderr
    assert hint in result.stderr
    assert "--evidence FILE writes one" in result.stderr


def test_report_draws_the_diff_of_two_schedules(run: Run) -> None:
    same = (*SMALL, "--schedulers", "greedy,oracle")
    for noise in ("0", "0.2"):
        assert run("simulate", *same, "--noise", noise, "--seed", "5", "--out", f"run-{noise}").exit_code == 0
    diff = ("report", "run-0", "--figures", "makespan", "--diff", "greedy,oracle", "-o", "diff.html")
    assert run(*diff).exit_code == 0
    assert "Two schedules of the same tasks" in Path("diff.html").read_text(encoding="utf-8")
    assert run(*diff, "--against", "run-0.2").exit_code == 0
    assert run("simulate", *same, "--seed", "6", "--out", "run-other").exit_code == 0
    other = run(*diff, "--against", "run-other")
    assert other.exit_code == 2
    assert "runs: must be two of the same tasks" in other.stderr
    for wrong, message in (
        ("greedy", "--diff: must be two schedulers"),
        ("greedy,heft", "schedulers: must be one of greedy, oracle, got 'heft'"),
    ):
        result = run("report", "run-0", "--diff", wrong)
        assert result.exit_code == 2
        assert message in result.stderr


def test_replay_fails_if_the_result_differs(run: Run) -> None:
    run("compare", *SMALL, "--schedulers", "greedy,oracle", "--seeds", "2", "--processes", "1", "--out", "kept")
    record = json.loads(Path("kept/run.json").read_text(encoding="utf-8"))
    record["configuration"]["tasks"] = 61
    Path("kept/run.json").write_text(json.dumps(record), encoding="utf-8")
    result = run("replay", "kept", "--processes", "1")
    assert result.exit_code == 1
    assert "came out differently: line 1 was" in result.stderr


def test_folder_without_a_run_is_refused(run: Run) -> None:
    for command in ("replay", "trace", "report"):
        result = run(command, "nowhere")
        assert result.exit_code == 2
        assert "the folder of a recorded run" in result.stderr
    Path("empty").mkdir()
    assert "a folder with a run.json" in run("replay", "empty").stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-o", "report.docx"), "ends in .html or .pdf"),
        (("--figures", "gant"), "did you mean 'gantt'?"),
        (("nowhere", "--scenario", "mixed"), "--scenario: must be left out with a RUN_DIR"),
    ],
)
def test_report_refuses_bad_options(options: tuple[str, ...], message: str, run: Run) -> None:
    result = run("report", *options)
    assert result.exit_code == 2
    assert message in result.stderr


# ------------------------------------------------------------------------------------------ sweep


def swept(run: Run, *more: str) -> Any:
    return run(
        "sweep", "--scenarios", "mixed", "--loads", "0.5,batch", "--schedulers", "greedy,oracle", "--tasks", "40",
        "--seeds", "2", "--processes", "1", "--out", "here", *more,
    )  # fmt: skip


def test_repeated_sweep_runs_no_cell_again(run: Run) -> None:
    result = swept(run)
    assert result.exit_code == 0, result.output
    assert "8 cells in here/results.parquet".replace("/", str(Path("a/b"))[1]) in result.stdout
    before = Path("here/results.parquet").read_bytes()
    again = swept(run)
    assert "8 of 8 cells are already finished" in again.stderr
    assert Path("here/results.parquet").read_bytes() == before
    found = document(swept(run, "--json"))
    assert len(found["groups"]) == 4
    assert found["groups"][2]["load"] == "batch"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--backend", "slurm"), "--backend: must be one of local, ray"),
        (("--loads", "much"), "--loads: must be numbers or the word batch"),
        (("--loads", "0"), "--loads: must be finite and > 0"),
        (("--scenarios", "mixd"), "did you mean 'mixed'?"),
        (("--platforms", "mainframe"), "--platform"),
        (("--adversary", "greedy:oracle"), "python -m studies.worst_case_search greedy:oracle"),
        (("--metric", "speed"), "metric: must be one of"),
    ],
)
def test_sweep_refuses_bad_options(options: tuple[str, ...], message: str, run: Run) -> None:
    result = run("sweep", *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_unreachable_ray_cluster_is_an_error(run: Run) -> None:
    pytest.importorskip("ray")
    result = swept(run, "--backend", "ray", "--ray-address", "127.0.0.1:1")
    assert result.exit_code == 2
    assert "nothing answers there" in result.stderr
    assert "hint: run it on this machine with --backend local" in result.stderr
