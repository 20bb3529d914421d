"""Files of pods and nodes, the published procedure of FGD, and its command."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hybrid_scheduler.cli.app import app
from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.jobs import BACKFILLING, read_nodes, read_pods
from hybrid_scheduler.jobs.published_allocation import DEMANDS, PLACEMENTS, _arrivals, allocation_table

PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time"
NODES = "sn,cpu_milli,memory_mib,gpu,model"


@pytest.fixture
def run() -> Callable[..., Any]:
    """The program in this process."""
    return lambda *arguments: CliRunner().invoke(app, arguments, prog_name="hybrid-scheduler")


def written(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def made_files(folder: Path) -> tuple[Path, Path]:
    random = np.random.Generator(np.random.PCG64(3))
    rows = []
    for pod in range(300):
        gpus = int(random.choice([0, 1, 1, 1, 1, 2, 8]))
        milli = int(random.choice([200, 460, 500, 1000])) if gpus == 1 else 1000 * (gpus > 0)
        rows.append(
            f"p{pod},{random.integers(1, 12)}000,{random.integers(1, 9)}000,{gpus},{milli},,{pod},{pod + 50},{pod}"
        )
    nodes = [f"n{node},96000,400000,8,G2" for node in range(30)] + ["cpu,64000,100000,0,"]
    return written(folder / "pods.csv", PODS, rows), written(folder / "nodes.csv", NODES, nodes)


def test_pods_become_jobs_in_order_of_creation(tmp_path: Path) -> None:
    rows = ["b,1500,100,1,460,A10|T4,9,30,12", "a,100,50,0,0,,4,9,", "c,0,1,2,1000,,10,10,10"]
    path = written(tmp_path / "pods.csv", PODS, rows)
    log, rejections = read_pods(path)
    assert rejections.count == 0
    assert log.submit.tolist() == [4, 9, 10]
    assert log.run_time.tolist() == [5, 18, 0]
    assert log.processors.tolist() == [1, 2, 1]
    assert log.demand is not None
    assert log.demand.models == ("", "A10|T4", "")
    assert log.demand.total_gpu_milli.tolist() == [0, 460, 2000]
    zipped = tmp_path / "pods.csv.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert read_pods(zipped)[0].submit.tolist() == [4, 9, 10]
    zipped.write_bytes(zipped.read_bytes()[:-20])
    with pytest.raises(InvalidInputError, match="file: must be a complete gzip file"):
        read_pods(zipped)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,-1,0,0,0,,0,1,0", "cpu_milli: must be a whole number >= 0, got '-1'"),
        ("a,1,0,2,500,,0,1,0", "gpu_milli: must be 1000 for several GPUs, got '500'"),
        ("a,1,0,0,500,,0,1,0", "num_gpu: must be at least 1 for a share of a GPU, got '0'"),
        ("a,1,0,1,0,,0,1,0", "gpu_milli: must be 1 to 1000 for a GPU, got '0'"),
        ("a,1,0,1,1000,,5,1,6", "deletion_time: must be not before the pod was scheduled, got '1'"),
        ("a,1,0,1,1000,,nan,1,6", "creation_time: must be a finite number >= 0, got 'nan'"),
        ("a,1,0", "row: must be 9 cells"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_or_left_out(tmp_path: Path, row: str, message: str) -> None:
    path = written(tmp_path / "pods.csv", PODS, [row, "b,1000,0,0,0,,0,1,0"])
    with pytest.raises(InvalidInputError, match=message) as caught:
        read_pods(path)
    assert "pods.csv, line 2" in str(caught.value)
    log, rejections = read_pods(path, skip_bad=True)
    assert (len(log), rejections.count) == (1, 1)


def test_nodes_of_one_name_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "nodes.csv", NODES, ["a,1000,0,1,T4", "a,1000,0,1,T4"])
    with pytest.raises(InvalidInputError, match=r"nodes\.csv, line 3: sn: must be different for every node"):
        read_nodes(path)
    assert len(read_nodes(path, skip_bad=True)[0]) == 1


def test_arrivals_are_the_shuffled_pods_and_then_drawn_ones_up_to_the_last_demand(tmp_path: Path) -> None:
    pods, nodes = made_files(tmp_path)
    log, _ = read_pods(pods)
    assert log.demand is not None
    capacity = 1000 * int(read_nodes(nodes)[0].gpus.sum())
    rows = _arrivals(log, capacity, 1)
    assert sorted(rows[: len(log)].tolist()) == list(range(len(log)))
    total = int(log.demand.total_gpu_milli[rows].sum())
    assert total >= int(log.demand.total_gpu_milli.sum())
    assert _arrivals(log, capacity, 2)[: len(log)].tolist() != rows[: len(log)].tolist()


def test_table_has_a_cell_for_every_policy_and_demand(tmp_path: Path) -> None:
    pods, nodes = made_files(tmp_path)
    table = list(allocation_table(pods, read_nodes(nodes)[0], seeds=2))
    assert [cells[0].policy for cells in table] == list(PLACEMENTS)
    for cells in table:
        assert [cell.demand for cell in cells] == list(DEMANDS)
        assert all(cell.published is None and cell.verdict == "not in the published table" for cell in cells)
        assert all(0 < cell.mean <= 100 for cell in cells)
        assert [cell.mean for cell in cells] == sorted(cell.mean for cell in cells)


def test_commands_print_tables_and_json(tmp_path: Path, run: Callable[..., Any]) -> None:
    pods, nodes = map(str, made_files(tmp_path))
    shown = run("jobs", pods, "--nodes", nodes, "--policies", "fcfs", "--placements", "fgd,random")
    assert shown.exit_code == 0, shown.output
    assert "300 of 300 jobs" in shown.output
    assert "31 nodes with 240 GPUs" in shown.output
    document = json.loads(run("--quiet", "jobs", pods, "--nodes", nodes, "--policies", "saf", "--json").stdout)
    assert document["larger_than_the_cluster"] == []
    assert {row["backfilling"] for row in document["policies"]} == set(BACKFILLING)
    shown = run("reproduce", "fgd", "--data", pods, "--nodes", nodes, "--seeds", "2")
    assert shown.exit_code == 0, shown.output
    assert "Fewest free GPUs" in shown.output
    document = json.loads(
        run("--quiet", "reproduce", "fgd", "--data", pods, "--nodes", nodes, "--seeds", "2", "--json").stdout
    )
    assert len(document["cells"]) == len(PLACEMENTS) * len(DEMANDS)
    refused = run("reproduce", "fgd", "--data", pods)
    assert refused.exit_code == 2
    assert "--nodes: must be a CSV file" in refused.output
