"""Report of a cluster over time: exact means, figures that agree with the simulation, and configurations."""

from pathlib import Path

import numpy as np
import pytest

from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.jobs import Quota, configuration, pool_of, read_job_log
from hybrid_scheduler.jobs.cluster_report import (
    ClusterSettings,
    _means,
    cluster_report,
    example_log,
    forecast_report,
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.swf"
    path.write_text(example_log())
    return path


def test_means_over_time_are_exact() -> None:
    edges = np.array([0.0, 10.0, 20.0])
    span = np.array([0.0, 5.0]), np.array([5.0, 20.0])
    assert _means(np.array([0, 1]), 2, span, np.array([4.0, 2.0]), edges).tolist() == [[2.0, 0.0], [1.0, 2.0]]


def test_node_seconds_are_those_of_the_file(log: Path) -> None:
    found = cluster_report(log, ClusterSettings(gpus_per_node=8))
    rows = np.array(found["allocation"]["rows"])
    width = found["seconds"][1]
    assert found["nodes"] * 8 == found["gpus"] == 256
    assert rows.sum() * width * 8 == pytest.approx(found["processor_seconds_in_file"], rel=2e-3)
    assert np.array(found["queue"]["asked"]).shape == (6, 120)
    lost, bound = (np.array(found["fragmentation"][name]) for name in ("lost", "bound"))
    assert (bound <= lost + 1e-9).all()
    node = found["node"]
    spans = zip(node["held"], node["begin"], node["end"], strict=True)
    held = sum(len(gpus) * (end - begin) for gpus, begin, end in spans)
    assert held == pytest.approx(rows[0].sum() * width * 8, rel=5e-3)
    assert {row["policy"] for row in found["policies"]} == {"fcfs", "sjf", "saf", "wfp3", "fair_share"}


def test_forecast_of_a_log_without_waits_uses_simulated_ones(log: Path) -> None:
    found = forecast_report(log, ClusterSettings(), 16, 3600.0, "1")
    assert found["simulated_waits"]
    assert found["interval"][0] <= found["interval"][1]
    assert found["quantiles"] == sorted(found["quantiles"])
    with pytest.raises(InvalidInputError, match="processors: must be 1 to 256, the cluster's, got 257"):
        forecast_report(log, ClusterSettings(), 257, 3600.0, None)


def test_the_example_is_a_log(log: Path) -> None:
    report = read_job_log(log)
    assert report.processors == 256
    assert len(report.log) == 600


def test_configurations_say_what_differs_and_are_missing_where_an_order_has_no_equal() -> None:
    nodes = pool_of(16)
    slurm = configuration("slurm", "fair_share", "easy", nodes, quotas={"ann": Quota(processors=4)})
    assert slurm is not None
    assert "PriorityWeightFairshare" in slurm
    assert "# Slurm reserves for every planned job" in slurm
    assert "sacctmgr modify user ann set GrpTRES=cpu=4" in slurm
    kueue = configuration("kueue", "fcfs", "none", nodes, preempt=True, quotas={})
    assert kueue is not None
    assert "queueingStrategy: StrictFIFO" in kueue
    assert "withinClusterQueue: LowerPriority" in kueue
    assert "nominalQuota: 16" in kueue
    assert configuration("kueue", "saf", "easy", nodes, quotas={}) is None
