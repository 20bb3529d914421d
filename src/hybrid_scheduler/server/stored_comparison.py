"""Verdict on the schedulers of a stored run, from its last checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..engine.comparison import label_of
from ..live.lane_statistics import LaneStatistics
from ..live.status import SchedulerStatistics
from ..metrics.summary import DeviceLoad, Evidence
from ..metrics.verdict import Verdict, judge


def stored_verdict(
    state: dict[str, Any], rows: Sequence[SchedulerStatistics], devices: Sequence[dict[str, Any]]
) -> Verdict:
    """Return the leader of a stored run and why the others are slower; device loads are those of the whole run.

    Parameters
    ----------
    state
        The run's last checkpoint.
    rows
        Its comparison.
    devices
        Name, kind and node of each device, from the run's configuration.
    """
    lanes = state["lanes"]
    now = state.get("now")
    evidence = [_stored_evidence(lanes[row.name], row, label_of(row.name), devices, now) for row in rows]
    tasks, total = state.get("floor", (0, 0.0))[:2]
    return judge(evidence, total / tasks if tasks else None)


def _stored_evidence(
    lane: dict[str, Any],
    row: SchedulerStatistics,
    label: str,
    devices: Sequence[dict[str, Any]],
    now: float | None,
) -> Evidence:
    """Return the numbers of a stored run that the verdict reads; loads are those of the whole run.

    Parameters
    ----------
    lane
        The scheduler's part of the checkpoint.
    row, label
        Its row of the comparison, and its name for people.
    devices
        Name, kind and node of each device, from the run's configuration.
    now
        Virtual time of the checkpoint; None for a run that ended with its last task.
    """
    cpus = {device.get("node", 0): number for number, device in enumerate(devices) if device["kind"] == "cpu"}
    statistics = LaneStatistics(
        np.array([cpus.get(device.get("node", 0), number) for number, device in enumerate(devices)], dtype=np.int64)
    )
    saved = lane["statistics"]
    statistics.restore(saved)
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
    return statistics.evidence(row, label, loads, (first, max(first, end)))
