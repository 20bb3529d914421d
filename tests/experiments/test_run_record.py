"""Records of runs, and their replay to the same bytes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hybrid_scheduler
from hybrid_scheduler import HybridSchedulerError, InvalidInputError
from hybrid_scheduler.core.canonical_json import canonical_json
from hybrid_scheduler.experiments import run_record
from hybrid_scheduler.experiments.exact_replay import comparison_events, replay
from hybrid_scheduler.experiments.heavy_simulation import run_heavy
from hybrid_scheduler.experiments.paired_comparison import run_seeds
from hybrid_scheduler.experiments.spec import ExperimentSpec
from hybrid_scheduler.workload.scenarios import scenario_named


def make_spec(schedulers=("greedy", "oracle"), tasks=40):
    return ExperimentSpec(scenario_named("mixed"), tasks, schedulers, utilisation=0.8)


def simulation(folder: Path, **more) -> run_record.RunFile:
    spec = make_spec(**more)
    return run_record.write_run(folder, run_record.SIMULATION, spec, [5], run_record.simulation_events(spec.run(5)))


def test_log_holds_decisions_finishes_and_summaries(tmp_path):
    record = simulation(tmp_path)
    lines = (tmp_path / run_record.EVENTS).read_text(encoding="utf-8").splitlines()
    assert len(lines) == record.events_count == 2 * (40 + 40 + 1)
    events = [json.loads(line) for line in lines]
    assert [canonical_json(event) for event in events] == lines  # canonical already
    own = [event for event in events if event.get("scheduler") == "greedy" and event["type"] != "summary"]
    assert [event["t"] for event in own] == sorted(event["t"] for event in own)
    assert {event["type"] for event in own} == {"decision", "finish"}
    decided = {event["task"]: event for event in own if event["type"] == "decision"}
    for event in own:
        if event["type"] == "finish":
            assert event["t"] >= decided[event["task"]]["t"]
            ends = [sum(part) for part in (event["cpu"], event["accelerator"]) if part]
            assert max(ends) == pytest.approx(event["t"])
    wall = ("created", "wall", "seconds")
    assert not any(word in line for line in lines for word in wall)  # virtual time only


def test_record_survives_writing_and_reading(tmp_path):
    record = simulation(tmp_path)
    assert run_record.read_run(tmp_path) == record
    assert len(record.run_id) == 26
    assert record.versions["hybrid-scheduler"] == hybrid_scheduler.__version__
    other = simulation(tmp_path / "other")
    assert other.run_id != record.run_id
    assert (other.configuration_hash, other.events_sha256) == (record.configuration_hash, record.events_sha256)
    assert simulation(tmp_path / "more", tasks=41).configuration_hash != record.configuration_hash


@pytest.mark.parametrize("kind", run_record.KINDS)
def test_replay_gives_the_same_bytes(kind, tmp_path):
    spec = make_spec()
    if kind == run_record.COMPARE:
        run_record.write_run(tmp_path, kind, spec, [1, 2], comparison_events(run_seeds(spec, [1, 2], processes=1)))
    elif kind == run_record.HEAVY:
        run_record.write_run(tmp_path, kind, spec, [1], run_heavy(spec, 1).events())
    else:
        simulation(tmp_path)
    found = replay(tmp_path, processes=1)
    assert found.same
    assert found.line is None
    assert found.changed_versions == {}


def test_replay_reports_the_first_different_line(tmp_path):
    simulation(tmp_path)
    content = json.loads((tmp_path / run_record.RECORD).read_text(encoding="utf-8"))
    content["seeds"] = [6]
    content["versions"]["numpy"] = "0.1"
    (tmp_path / run_record.RECORD).write_text(json.dumps(content), encoding="utf-8")
    found = replay(tmp_path)
    assert not found.same
    assert found.line is not None
    assert found.line[0] == 1
    assert found.changed_versions["numpy"][0] == "0.1"


def test_hint_names_a_record_in_a_folder_below(tmp_path):
    simulation(tmp_path / "heavy_simulation", tasks=5)
    with pytest.raises(InvalidInputError) as caught:
        run_record.read_run(tmp_path)
    assert caught.value.hint == f"{tmp_path / 'heavy_simulation'} is one"


def test_folder_without_a_valid_record_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="the folder of a recorded run"):
        run_record.read_run(tmp_path / "nothing")
    with pytest.raises(InvalidInputError, match=r"a folder with a run\.json"):
        run_record.read_run(tmp_path)
    (tmp_path / run_record.RECORD).write_text("{", encoding="utf-8")
    with pytest.raises(HybridSchedulerError, match="cannot be read"):
        run_record.read_run(tmp_path)
    simulation(tmp_path)
    with (tmp_path / run_record.EVENTS).open("a", encoding="utf-8") as file:
        file.write("{}\n")
    with pytest.raises(HybridSchedulerError, match="was changed after the run"):
        replay(tmp_path)
    (tmp_path / run_record.EVENTS).unlink()
    with pytest.raises(HybridSchedulerError, match="missing"):
        replay(tmp_path)


PROGRAM = """
from hybrid_scheduler.experiments import run_record
from hybrid_scheduler.experiments.spec import ExperimentSpec
from hybrid_scheduler.workload.scenarios import scenario_named
import hashlib, sys
spec = ExperimentSpec(scenario_named("mixed"), 60, ("random", "hybrid_ml", "rl_agent", "oracle"), utilisation=0.8)
digest = hashlib.sha256()
for line in run_record.lines(run_record.simulation_events(spec.run(5))):
    digest.update(line.encode())
print(digest.hexdigest())
"""


def test_hash_seed_threads_and_time_zone_do_not_change_the_log():
    source = str(Path(hybrid_scheduler.__file__).parents[1])
    digests = set()
    for hash_seed, threads, zone in (("1", "1", "UTC"), ("2", "2", "Pacific/Auckland")):
        environ = {
            **os.environ, "PYTHONPATH": source, "PYTHONHASHSEED": hash_seed, "TZ": zone,
            "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "MKL_NUM_THREADS": threads,
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout.strip())
    assert len(digests) == 1
