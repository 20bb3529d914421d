"""Transfer times of data from a task to its children on other devices."""

from __future__ import annotations

from ..core import Ints, Links


def device_shares(device: int, fraction: float, cpu_of: Ints) -> dict[int, float]:
    """Return the share of a task on each device that runs a part of it."""
    if fraction <= 0:
        return {int(cpu_of[device]): 1.0}
    if fraction >= 1:
        return {device: 1.0}
    return {device: fraction, int(cpu_of[device]): 1.0 - fraction}


def transfer_seconds(
    megabytes: float, parent: dict[int, float], child: dict[int, float], node: Ints, links: Links
) -> float:
    """Return the seconds to move a parent's output to its child.

    The output lies on the parent's devices, in the same shares. The share that is missing on a child's device
    leaves over the links of the devices that have too much and enters over its own.

    Parameters
    ----------
    megabytes
        Size of the output.
    parent, child
        Share per device.
    node
        Node of each device.
    links
        Transfer costs.
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
