"""The comparison of a run: from the engine while it is live, from the last checkpoint afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..live.lane_statistics import WINDOW, LaneStatistics
from .app_context import AppContext


async def comparison_of(parts: AppContext, run_id: str) -> list[dict[str, Any]]:
    """One row per scheduler; none for a run whose checkpoint is not known."""
    live = await _live(parts, run_id)
    if live is not None:
        return live
    state = await parts.repository.run_state(run_id)
    lanes: dict[str, Any] = (state or {}).get("lanes", {})
    if not lanes:
        return []
    # Quantiles are not part of a checkpoint: they come from the rows themselves.
    newest = await parts.repository.comparative(WINDOW, run_id=run_id)
    recent = {row["name"]: row for row in newest["schedulers"]}
    return [_row(name, lane, recent.get(name)) for name, lane in lanes.items()]


async def _live(parts: AppContext, run_id: str) -> list[dict[str, Any]] | None:
    try:
        status = await parts.control.status()
    except Exception:  # an engine that is away has no say
        return None
    rows: list[dict[str, Any]] = status["comparison"]
    return rows if status["run_id"] == run_id else None


def _row(name: str, lane: dict[str, Any], recent: dict[str, Any] | None) -> dict[str, Any]:
    saved = lane["statistics"]
    statistics = LaneStatistics(np.zeros(len(saved["busy"]), dtype=np.int64))
    statistics.restore(saved)
    version = lane.get("version")
    state = "off" if lane.get("failure") else "ready" if version is None else "learned"
    row = statistics.row(name, state, version).as_dict()
    if recent is not None:
        row |= {quantile: recent[quantile] for quantile in ("p50_latency", "p95_latency", "p99_latency")}
        row["window"] = recent["tasks"] - recent["failed"]
    return row
