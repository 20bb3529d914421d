"""`execute --store`: a measured run is stored directly or through the server that uses the database."""

import csv
import json
import socket
import subprocess
import time

import pytest
from process import served
from typer.testing import CliRunner

from hybrid_scheduler.cli.app import app
from hybrid_scheduler.storage import DatabaseAddress, SqlJournal
from hybrid_scheduler.storage.integrity_check import verify

pytestmark = pytest.mark.slow
TINY = ("execute", "--sizes", "16,48", "--tasks", "6", "--kernels", "sort,matmul", "--scheduler", "greedy,cpu_only")


def program(folder, *words, **environment):
    """The command in this process, which has loaded the libraries already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in {"CUDA_VISIBLE_DEVICES": "", **environment}.items():
            patch.setenv(name, value)
        done = CliRunner().invoke(app, words, prog_name="hybrid-scheduler")
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)


def runs_of(process):
    with process.client() as client:
        return client.get("/api/runs").json()["runs"]


def live_run(process):
    """The live run. The server is ready as soon as it answers; the run's row is stored a moment later."""
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        newest = runs_of(process)[0]
        if newest["source"] == "simulated":
            assert newest["status"] == "running"
            return newest
        time.sleep(0.05)
    raise AssertionError("the live run was not stored")


def check(process, folder, run_id):
    """The run as the server shows it, beside the files that were written."""
    with process.client() as client:
        run = client.get(f"/api/runs/{run_id}").json()
        assert (run["source"], run["status"], run["tasks"]) == ("measured", "stopped", 6)
        assert run["schedulers"] == [row["name"] for row in run["comparison"]] == ["greedy", "cpu_only"]
        assert run["scenario"] in ("kernels: sort, matmul", "kernels: matmul, sort")
        assert run["config"]["mode"] == "sequential"
        tasks = client.get(f"/api/full_history?run_id={run_id}").json()
    with (folder / "real" / "tasks.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    document = json.loads((folder / "real" / "execution.json").read_text())
    for name in ("greedy", "cpu_only"):
        rows = [row for row in written if row["scheduler"] == name]
        origin = float(rows[0]["submitted"])
        results = [task["results"][name] for task in tasks]
        assert [task["kind"] for task in tasks] == [row["kind"] for row in rows]
        assert [task["size"] for task in tasks] == [float(row["size"]) for row in rows]
        assert [one["device"] for one in results] == [row["device"] for row in rows]
        assert [one["gpu_fraction"] for one in results] == [float(row["fraction"]) for row in rows]
        assert [one["actual_time"] for one in results] == [float(row["measured"]) for row in rows]
        assert [one["latency"] for one in results] == [
            float(row["finished"]) - float(row["submitted"]) for row in rows
        ]
        assert [one["start_time"] for one in results] == [float(row["started"]) - origin for row in rows]
        assert [one["wait"] for one in results] == pytest.approx([float(row["wait"]) for row in rows], abs=1e-9)
        assert [one["energy_consumption"] for one in results] == [
            float(row["joules"]) if row["joules"] else None for row in rows
        ]
        assert sum(one["actual_time"] for one in results) == pytest.approx(
            document["schedulers"][name]["total_seconds"]
        )
    best = [task["optimal_time"] for task in tasks]
    assert sum(best) == pytest.approx(document["best_seconds"])


def test_measured_run_is_stored_without_and_with_a_server(tmp_path):
    first = program(tmp_path, *TINY, "--store", "--out", "real")
    assert first.returncode == 0, first.stderr
    line = first.stdout.strip().splitlines()[-1]
    run_id = line.split()[3].rstrip(";")
    assert line == f"stored as run {run_id}; hybrid-scheduler serve shows it at http://localhost:8000/run/{run_id}"
    assert all(finding.ok for finding in verify(DatabaseAddress.sqlite(tmp_path / "data" / "hybrid_scheduler.db")))
    with served(tmp_path) as process:
        check(process, tmp_path, run_id)
        live = live_run(process)
        port = str(process.port)
        second = program(tmp_path, *TINY, "--store", "--json", "--out", "real", HYBRID_SERVER__PORT=port)
        assert second.returncode == 0, second.stderr
        stored = json.loads(second.stdout)["run_id"]
        check(process, tmp_path, stored)
        runs = runs_of(process)
        assert [(run["run_id"], run["source"]) for run in runs[:2]] == [
            (stored, "measured"),
            (live["run_id"], "simulated"),
        ]
        assert runs[1]["status"] == "running"
        with process.client() as client:
            notifications = client.get("/api/events?type=notification").json()["events"]
        assert [event["run_id"] for event in notifications if event["kind"] == "measured_run"] == [
            run_id,
            live["run_id"],
        ]


def test_a_quick_try_leaves_no_trace(tmp_path):
    assert program(tmp_path, *TINY).returncode == 0
    assert not (tmp_path / "data").exists()


def test_token_is_sent_to_the_server(tmp_path):
    token = {"API_TOKEN": "s" * 40}
    with served(tmp_path, "--no-start", environment=token) as process:
        port = str(process.port)
        refused = program(tmp_path, *TINY, "--store", HYBRID_SERVER__PORT=port)
        assert refused.returncode == 1
        assert "a token is needed" in refused.stderr
        assert "best measured choice" in refused.stdout  # nothing is lost
        done = program(tmp_path, *TINY, "--store", HYBRID_SERVER__PORT=port, **token)
        assert done.returncode == 0, done.stderr
        assert f"see http://localhost:{port}/run/" in done.stdout


def _while_in_use(folder, port):
    journal = SqlJournal(DatabaseAddress.sqlite(folder / "data" / "hybrid_scheduler.db"))
    journal.open()
    try:
        return program(folder, *TINY, "--store", "--json", HYBRID_SERVER__PORT=str(port))
    finally:
        journal.close()


def test_database_in_use_without_a_server_is_an_error(tmp_path):
    with socket.socket() as taken:  # bound and not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        done = _while_in_use(tmp_path, port)
    assert done.returncode == 1
    assert "another process writes to data/hybrid_scheduler.db" in done.stderr
    assert f"http://127.0.0.1:{port}/api/runs" in done.stderr
    assert "--out keeps results" in done.stderr
    assert json.loads(done.stdout)["schedulers"]["greedy"]["total_seconds"] > 0
