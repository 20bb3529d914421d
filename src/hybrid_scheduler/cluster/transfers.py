"""Transfer times of data from a task to its children on other devices."""

from __future__ import annotations

from ..core import Floats, Ints, Links


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
    if links.pairs is not None:
        return _pair_seconds(megabytes, missing, spare, links.pairs, links.startup)
    seconds = sum(share * megabytes * float(links.device[d]) for d, share in (*missing.items(), *spare.items()))
    needed_at = {int(node[d]) for d in missing}
    if len(needed_at | {int(node[d]) for d in spare}) > 1:
        seconds += links.latency + sum(missing.values()) * megabytes * links.network
    return seconds


def _pair_seconds(
    megabytes: float, missing: dict[int, float], spare: dict[int, float], pairs: Floats, startup: Floats | None
) -> float:
    """Return the seconds with a cost per pair: each device gets from all that have too much, in proportion."""
    total = sum(spare.values())
    moves = {(d, e): out * share / total for d, out in spare.items() for e, share in missing.items()}
    seconds = sum(share * megabytes * float(pairs[move]) for move, share in moves.items())
    return seconds if startup is None else seconds + max(float(startup[move]) for move in moves)
