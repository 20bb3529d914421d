"""`simulate` from the settings to the document."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

Run = Callable[..., Any]


def refuse(word: str) -> Any:
    raise AssertionError(f"{word} is not JSON")


def document(text: str) -> dict[str, Any]:
    return json.loads(text, parse_constant=refuse)


def test_json_holds_inputs_and_results(run: Run) -> None:
    result = run(
        "simulate", "--json", "--tasks", "100", "--seed", "7", "--scenario", "mixed", "--utilisation", "0.5"
    )
    assert result.exit_code == 0, result.output
    found = document(result.stdout)
    assert found["scenario"] == "mixed"
    assert found["trace"] is None
    assert (found["seed"], found["tasks"], found["utilisation"]) == (7, 100, 0.5)
    assert (found["platform"], found["physics"]) == ("workstation", "analytic")
    assert found["lower_bound"]["makespan"] > 0
    assert list(found["schedulers"]) == [
        "round_robin",
        "random",
        "greedy",
        "gpu_only",
        "random_forest",
        "dqn",
        "hybrid_ml",
        "rl_agent",
        "oracle",
    ]
    for summary in found["schedulers"].values():
        assert {
            "makespan", "mean_time", "mean_latency", "p50_latency", "p95_latency", "p99_latency", "energy", "cost",
            "load_balance", "utilization",
        } <= set(summary)  # fmt: skip


def test_nan_is_null_in_json(run: Run) -> None:
    Path("big.csv").write_text(
        "task_id,size,compute_intensity,memory_required,arrival_time\n0,100,0.5,99999,0\n", encoding="utf-8"
    )
    result = run("simulate", "--json", "--trace", "big.csv", "--memory-policy", "fail", "--schedulers", "greedy")
    found = document(result.stdout)
    assert (found["scenario"], found["trace"], found["utilisation"]) == (None, "big.csv", None)
    assert found["schedulers"]["greedy"]["failed"] == 1
    assert found["schedulers"]["greedy"]["mean_latency"] is None


def test_options_override_environment_and_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("config.yaml").write_text(
        "simulation: {seed: 1, tasks: 11, num_gpus: 1, schedulers: [greedy]}\nworkload: {memory_range: [1, 2]}\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("HYBRID_SIMULATION__TASKS", "12")
    monkeypatch.setenv("NUM_GPUS", "2")
    found = document(run("simulate", "--json", "--seed", "3").stdout)
    assert (found["seed"], found["tasks"]) == (3, 12)
    assert list(found["schedulers"]["greedy"]["utilization"]) == ["cpu", "gpu_0", "gpu_1"]


def test_all_runs_every_compatible_scheduler(run: Run) -> None:
    from hybrid_scheduler.schedulers import schedulers

    found = document(run("simulate", "--json", "--tasks", "40", "--schedulers", "all").stdout)
    assert set(found["schedulers"]) <= set(schedulers())
    assert len(found["schedulers"]) > 8


def test_scheduler_parameters_are_passed_on(run: Run) -> None:
    specs = "round_robin(variant=half),oracle(grid=11),oracle"
    found = document(run("simulate", "--json", "--tasks", "40", "--schedulers", specs).stdout)
    assert list(found["schedulers"]) == ["round_robin(variant=half)", "oracle(grid=11)", "oracle"]


def test_batch_has_no_utilisation(run: Run) -> None:
    Path("config.yaml").write_text("simulation: {utilisation: 0.4}", encoding="utf-8")
    found = document(run("simulate", "--json", "--batch", "--tasks", "40", "--schedulers", "greedy").stdout)
    assert (found["batch"], found["utilisation"]) == (True, None)


def test_trace_is_found_by_name(run: Run) -> None:
    folder = Path("data/workload_traces")
    folder.mkdir(parents=True)
    (folder / "week.csv").write_text(
        "task_id,size,compute_intensity,memory_required,arrival_time\n5,100,0.5,9,0\n", encoding="utf-8"
    )
    assert (
        document(run("simulate", "--json", "--trace", "week", "--schedulers", "greedy").stdout)["trace"]
        == "week.csv"
    )
    result = run("simulate", "--trace", "wek", "--schedulers", "greedy")
    assert result.stderr.splitlines()[-1] == "hint: did you mean 'week'?"


def test_bad_row_of_a_trace_is_named(run: Run) -> None:
    Path("bad.csv").write_text(
        "task_id,size,compute_intensity,memory_required,arrival_time\n0,100,1.5,9,0\n", encoding="utf-8"
    )
    result = run("simulate", "--trace", "bad.csv")
    assert result.exit_code == 2
    assert "bad.csv" in result.stderr
    assert "compute_intensity" in result.stderr


def test_overload_is_a_warning(run: Run) -> None:
    arguments = ("simulate", "--tasks", "20", "--schedulers", "oracle", "--utilisation", "1.5", "--json")
    result = run(*arguments)
    assert result.stderr == "warning: load 1.5 exceeds the machine's capacity: every queue grows\n"
    document(result.stdout)
    assert run(*arguments, "--quiet").stderr == ""


def test_log_file_holds_messages_if_asked_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("simulate", "--tasks", "20", "--schedulers", "oracle")
    assert run(*arguments).stderr == ""
    assert not list(Path().iterdir()), "nothing is left in the user's folder"
    monkeypatch.setenv("LOG_FILE", "logs/app.log")
    assert run(*arguments).stderr == ""
    assert "INFO" in Path("logs/app.log").read_text(encoding="utf-8")
    assert run(*arguments, "--log-level", "info").stderr == "info: simulating 20 tasks with oracle\n"


def test_run_continues_without_a_log_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_FILE", "logs/app.log")
    Path("logs").touch()
    result = run("simulate", "--tasks", "20", "--schedulers", "oracle")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: no log file: cannot write logs/app.log (")
    assert "Per-task best (oracle): 1.1 × the lower bound." in result.stdout


class AtOnce:
    """A timer that does not wait."""

    daemon = True

    def __init__(self, seconds: float, action: Callable[[], None]) -> None:
        self.start = action

    def cancel(self) -> None:
        """Do nothing: it is over."""

    join = cancel


def test_progress_bar_appears_in_a_long_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    arguments = ("simulate", "--json", "--tasks", "50", "--schedulers", "greedy,oracle")
    monkeypatch.setattr("hybrid_scheduler.cli.printer.BAR_AFTER_S", 60.0)
    assert run(*arguments).stderr == ""  # too short for a bar
    monkeypatch.setattr("hybrid_scheduler.cli.printer.threading.Timer", AtOnce)
    result = run(*arguments)
    assert "starting" in result.stderr
    assert "oracle" in result.stderr
    assert "100%" in result.stderr
    document(result.stdout)
    assert run(*arguments, "--quiet").stderr == ""


# ------------------------------------------------------------------------------------------ graphs and files

KERNELS = (
    "task_id,size,compute_intensity,memory_required,arrival_time,kind\n0,512,0.5,1,0,matmul\n1,1024,0.5,1,0.1,fft\n"
)


def test_graph_is_a_scenario_by_name(run: Run) -> None:
    result = run("simulate", "--scenario", "cholesky(tiles=4)", "--schedulers", "heft,greedy")
    assert result.exit_code == 0, result.stderr
    assert "graph cholesky(tiles=4) · 20 tasks" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--scenario", "cholesky(tile=4)"),
            "graph cholesky: must be given with parameters among tiles=8, tile_size=",
        ),
        (("--scenario", "cholesky(tiles=x)"), "--scenario: tiles: must be a whole number >= 1, got 'x'"),
        (("--scenario", "choleski(tiles=4)"), "--scenario: must be one of"),
        (("--scenario", "cholesky", "--tasks", "5"), "--tasks: must be left out with the graph cholesky"),
        (("--physics", "profiled:cpu_only"), "physics: must be a profile with a kernel measured on all of cpu"),
        (("--physics", "profiled:h300"), "--physics: profile: must be one of"),
        (("--physics", "table:none.csv"), "--physics: file: must be one that can be read, got 'none.csv'"),
        (("--physics", "tables:none.csv"), "--physics: must be one of"),
        (("--platform", "none.yaml"), "--platform: file: must be one that can be read, got 'none.yaml'"),
    ],
)
def test_wrong_graph_platform_or_physics_is_explained(options: tuple[str, ...], message: str, run: Run) -> None:
    result = run("simulate", "--schedulers", "greedy", *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_profile_draws_kinds_for_a_scenario(run: Run) -> None:
    result = run("simulate", "--physics", "profiled:h200", "--tasks", "20", "--schedulers", "greedy", "--json")
    assert result.exit_code == 0, result.stderr
    assert document(result.stdout)["physics"] == "profiled"


def test_indivisible_tasks_run_whole(run: Run) -> None:
    options = ("simulate", "--tasks", "30", "--schedulers", "earliest_finish,round_robin", "--indivisible")
    result = run(*options, "--out", "whole")
    assert result.exit_code == 0, result.stderr
    assert "no task is split" in result.stdout
    for name in ("earliest_finish", "round_robin"):
        shares = pd.read_parquet(f"whole/tasks-{name}.parquet")["gpu_fraction"]
        assert set(shares) <= {0.0, 1.0}
    record = json.loads(Path("whole/run.json").read_text(encoding="utf-8"))
    assert record["configuration"]["indivisible"] is True
    assert run("replay", "whole").exit_code == 0


def test_platform_is_read_from_a_file(run: Run) -> None:
    Path("lab.yaml").write_text(
        "name: lab\ndevices:\n- {name: cpu, kind: cpu}\n- {name: gpu, count: 2, memory: 24000}\n", encoding="utf-8"
    )
    result = run("simulate", "--platform", "lab.yaml", "--tasks", "20", "--schedulers", "greedy")
    assert "lab (1 CPU + 2 GPUs)" in result.stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("devices: 3", "lab.yaml: --platform: must be a mapping with a list of devices"),
        (
            "devices: [{name: cpu, kind: cpu}, {nam: x}]",
            "lab.yaml, device 2: --platform: device: must be a mapping with a name",
        ),
        (
            "devices: [{name: cpu, kind: cpu, speed: 2}]",
            "lab.yaml, device 1: --platform: key: must be one of name, kind, node",
        ),
        (
            "devices: [{name: cpu, kind: cpu, watts: hot}]",
            "lab.yaml, device 1: --platform: watts: must be a number, got 'hot'",
        ),
        (
            "devices: [{name: cpu, kind: cpu}, {name: g, memory: -1}]",
            "device g: --platform: device.memory: must be > 0, got -1",
        ),
        ("devices: [", "lab.yaml:1: --platform: must be valid YAML"),
        ("devices: " + "[" * 2000, "lab.yaml: --platform: must be valid YAML, got 'too many levels'"),
        ("when: 2020-99-99", "lab.yaml: --platform: must be valid YAML, got 'month must be in 1..12'"),
    ],
)
def test_bad_platform_file_is_named_with_its_place(content: str, message: str, run: Run) -> None:
    Path("lab.yaml").write_text(content, encoding="utf-8")
    result = run("simulate", "--platform", "lab.yaml", "--tasks", "20", "--schedulers", "greedy")
    assert result.exit_code == 2
    assert message in result.stderr


def test_durations_come_from_a_profile_or_a_table_and_replay(run: Run) -> None:
    Path("kernels.csv").write_text(KERNELS, encoding="utf-8")
    Path("times.csv").write_text("task_id,cpu,gpu\n1,2,3\n0,4,1\n", encoding="utf-8")
    for physics in ("profiled:h200", "table:times.csv"):
        options = ("--trace", "kernels.csv", "--physics", physics, "--platform", "laptop", "--schedulers", "greedy")
        result = run("simulate", *options, "--out", physics.partition(":")[0], "--json")
        assert result.exit_code == 0, result.stderr
        assert document(result.stdout)["physics"] == physics.partition(":")[0]
        assert run("replay", physics.partition(":")[0]).exit_code == 0
    Path("times.csv").write_text("task_id,cpu,gpu\n0,4,1\n1,2,-3\n", encoding="utf-8")
    result = run("simulate", *options)
    assert "times.csv, line 3: --physics: column gpu: must be a number of seconds >= 0, got '-3'" in result.stderr
