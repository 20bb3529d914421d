"""Comparison and verdict of a stored run, from its last checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..engine.comparison import label_of
from ..live.lane_statistics import LaneStatistics
from ..live.status import SchedulerState, SchedulerStatistics
from ..metrics.summary import DeviceLoad, Evidence
from ..metrics.verdict import Verdict, judge

_QUANTILES = ("p50_latency", "p95_latency", "p99_latency")
_Devices = Sequence[dict[str, Any]]


def checkpoint_comparison(
    state: dict[str, Any], newest: Mapping[str, dict[str, Any]], devices: _Devices
) -> tuple[list[SchedulerStatistics], Verdict | None]:
    """Return one row per scheduler, and the leader of a stored run with why the others are slower.

    Parameters
    ----------
    state
        The run's last checkpoint.
    newest
        Figures of the newest tasks by scheduler: a checkpoint has no quantiles.
    devices
        Name, kind and node of each device, from the run's configuration; without any there is no verdict.
    """
    tasks, total = state.get("floor", (0, 0.0))[:2]
    latency_bound = total / tasks if tasks else None
    cpus = {device.get("node", 0): number for number, device in enumerate(devices) if device["kind"] == "cpu"}
    cpu_of = [cpus.get(device.get("node", 0), number) for number, device in enumerate(devices)]
    rows = []
    evidence = []
    for name, lane in state["lanes"].items():
        saved = lane["statistics"]
        statistics = LaneStatistics(np.array(cpu_of or [0] * len(saved["busy"]), dtype=np.int64))
        statistics.restore(saved)
        version = lane.get("version")
        status: SchedulerState = "off" if lane.get("failure") else "ready" if version is None else "learned"
        row = statistics.row(name, status, version, latency_bound, len(lane.get("queue", {}).get("tasks", ())))
        if name in newest:
            figures = newest[name]
            window = figures["tasks"] - figures["failed"]
            row = replace(row, **{quantile: figures[quantile] for quantile in _QUANTILES}, window=window)
        rows.append(row)
        if devices:
            evidence.append(_evidence(lane, statistics, row, devices, state.get("now")))
    return rows, judge(evidence, latency_bound) if evidence else None


def _evidence(
    lane: dict[str, Any],
    statistics: LaneStatistics,
    row: SchedulerStatistics,
    devices: _Devices,
    now: float | None,
) -> Evidence:
    """Return the numbers that the verdict reads; loads are those of the whole run.

    The time `now` of the checkpoint is None for a run that ended with its last task.
    """
    saved = lane["statistics"]
    first, last = saved["span"] or (0.0, 0.0)
    end = last if now is None else now
    free_at = np.array(lane.get("cluster", {}).get("free_at", [0.0] * len(devices)))
    backlog = np.maximum(free_at - end, 0.0)
    # A device with a backlog works without a gap, so that all but the backlog has been done.
    busy = np.clip((np.array(saved["busy"]) - backlog) / max(end - first, 1e-9), 0.0, 1.0)
    loads = tuple(
        DeviceLoad(device["name"], device["kind"], float(share), 0.0, float(waiting))
        for device, share, waiting in zip(devices, busy, backlog, strict=True)
    )
    return statistics.evidence(row, label_of(row.name), loads, (first, max(first, end)))
