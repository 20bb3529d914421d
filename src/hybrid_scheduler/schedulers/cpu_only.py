"""CPU only.

Assumes there are no accelerators. Rule: everything on the CPU that is free earliest. The yardstick of speed-ups.
"""

from __future__ import annotations

from ..compiled import FastRule, earliest_free_cpu, rule
from .registry import Look, register


@rule
def cpu_only_rule(now, task, times, free_at, devices, params, state):  # type: ignore[no-untyped-def]
    return earliest_free_cpu(free_at, devices), 0.0


@register("cpu_only", label="CPU only", look=Look("#F59E0B", "#92600A", "▽", "dotted"))
class CpuOnly(FastRule):
    """Everything on the CPU: the yardstick of speed-ups."""

    rule = cpu_only_rule
