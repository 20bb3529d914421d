"""What it costs when a child does not run where its parent's data lies."""

from __future__ import annotations

from ..core import Ints, Links


def shares(device: int, fraction: float, cpu_of: Ints) -> dict[int, float]:
    """Where a task runs: device -> share."""
    if fraction <= 0:
        return {int(cpu_of[device]): 1.0}
    if fraction >= 1:
        return {device: 1.0}
    return {device: fraction, int(cpu_of[device]): 1.0 - fraction}


def crossing_seconds(
    megabytes: float, parent: dict[int, float], child: dict[int, float], node: Ints, links: Links
) -> float:
    """Seconds to move a parent's output to its child.

    The output lies where the parent ran, in the same shares. What the child needs on a device beyond what is
    already there leaves over the links of the devices that have too much and enters over its own.
    """
    if megabytes == 0:
        return 0.0
    missing = {d: share - parent.get(d, 0.0) for d, share in child.items() if share > parent.get(d, 0.0)}
    if not missing:
        return 0.0
    spare = {d: share - child.get(d, 0.0) for d, share in parent.items() if share > child.get(d, 0.0)}
    seconds = sum(share * megabytes * float(links.device[d]) for d, share in (*missing.items(), *spare.items()))
    needed_at = {int(node[d]) for d in missing}
    if len(needed_at | {int(node[d]) for d in spare}) > 1:
        seconds += links.latency + sum(missing.values()) * megabytes * links.network
    return seconds
