"""The Ray executor without a cluster, and executor and sweep on three nodes of which two are killed."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sweep_examples import plan, table

from hybrid_scheduler.core import HybridSchedulerError, InvalidInputError
from hybrid_scheduler.experiments.sweep import LocalBackend, run_sweep
from hybrid_scheduler.runtime import ray_executor
from hybrid_scheduler.runtime.ray_executor import connect, ray_devices

HERE = Path(__file__).parent


def _node(name: str, alive: bool = True, **resources: float) -> dict[str, Any]:
    return {"NodeID": name, "Alive": alive, "Resources": resources}


def test_living_nodes_give_cpu_and_gpu_devices() -> None:
    nodes = [_node("b", CPU=4, GPU=2), _node("a", CPU=2), _node("c", alive=False, CPU=9), _node("d", memory=1.0)]
    devices = ray_devices(nodes)
    assert [(s.pool.name, s.pool.node, s.node_id, s.cpus, s.gpus) for s in devices] == [
        ("n0.cpu", 0, "a", 2, 0), ("n1.cpu", 1, "b", 2, 0), ("n1.gpu_0", 1, "b", 1, 1), ("n1.gpu_1", 1, "b", 1, 1),
    ]  # fmt: skip
    with pytest.raises(HybridSchedulerError, match="no node with a CPU"):
        ray_devices([_node("x", CPU=0)])


def test_missing_ray_is_an_error_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(HybridSchedulerError, match="needs ray") as caught:
        connect(None)
    assert caught.value.hint == ray_executor.RUN_WITHOUT_RAY


def test_address_that_does_not_answer_is_an_error() -> None:
    pytest.importorskip("ray")
    with pytest.raises(InvalidInputError, match=r"nothing answers there .*, got '127\.0\.0\.1:1'") as caught:
        connect("127.0.0.1:1")
    assert caught.value.hint == ray_executor.RUN_WITHOUT_RAY
    with pytest.raises(InvalidInputError, match="HOST:PORT"):
        connect("somewhere")
    assert ray_executor.ANSWER_TIMEOUT_S <= 10


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Ray's sockets lie deep under its folder, and their paths must stay below 108 characters."""
    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _with_loopback_only(words: list[str]) -> list[str]:
    """Return the command in a network namespace of its own, where the system allows one."""
    unshare = ["unshare", "--map-root-user", "--net"]
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], capture_output=True).returncode:
        return words
    return [*unshare, "sh", "-c", f"ip link set lo up 2>/dev/null; exec {shlex.join(words)}"]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a cluster of three nodes on one machine")
def test_tasks_and_cells_of_a_killed_node_run_elsewhere(short_folder: Path, tmp_path: Path) -> None:
    """One cluster for both: an executor loses the first of three nodes, then a sweep one of the other two."""
    pytest.importorskip("ray")
    environment = {
        **os.environ, "HOME": str(short_folder), "RAY_TMPDIR": str(short_folder), "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": str(HERE.parent.parent / "src"),
    }  # fmt: skip
    words = _with_loopback_only([sys.executable, str(HERE.parent / "ray_cluster.py"), str(tmp_path / "ray")])
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stdout[-2000:] + done.stderr[-2000:]
    found = json.loads(lines[-1])
    assert found["devices"] == ["n0.cpu", "n1.cpu", "n2.cpu"]
    assert found["results_are_right"]
    assert found["records"] == found["tasks"] == found["different_tasks"]
    assert found["statuses"] == ["done"]
    assert found["counts"]["lost_devices"] == 1
    assert found["counts"]["resent"] >= 1
    assert found["last_devices_without_the_lost_one"]
    cells = plan(tasks=400, seeds=6)
    assert found["sweep"]["rows"] == len(cells) > found["sweep"]["before"]
    run_sweep(cells, tmp_path / "local", LocalBackend(1))
    assert table(tmp_path / "ray") == table(tmp_path / "local")
