"""What a scheduler answers: which device, and how much of the task goes there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    """`fraction` of the task runs on accelerator `device`, the rest on that node's CPU.

    `device` is an index into `Platform.devices`. Fraction 0 means "all on the CPU": the cluster
    then records the CPU as the device, whichever device of the node was named.
    """

    device: int
    fraction: float
