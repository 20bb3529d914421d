"""Placement decision: the device of a task and the share that runs there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    """Placement of one task: a share on an accelerator, the rest on that node's CPU.

    Parameters
    ----------
    device
        Index into `Platform.devices`.
    fraction
        Share of the task that runs on `device`, in [0, 1]. With 0 the whole task runs on the CPU; the cluster
        then records the node's CPU as the device.

    Examples
    --------
    >>> from hybrid_scheduler import Decision
    >>> Decision(device=1, fraction=0.75)
    Decision(device=1, fraction=0.75)
    """

    device: int
    fraction: float
