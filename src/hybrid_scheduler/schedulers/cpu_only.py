"""CPU-only baseline.

Assumes that there are no accelerators. Rule: every task runs whole on the CPU that is free earliest. Speed-ups are
measured against it.
"""

from __future__ import annotations

from ..compiled import FastRule, earliest_free_cpu, rule
from .registry import Look, register


@rule
def _cpu_only_rule(now, task, times, free_at, devices, params, state):  # type: ignore[no-untyped-def]
    return earliest_free_cpu(free_at, devices), 0.0


@register("cpu_only", label="CPU only", look=Look("#F59E0B", "#92600A", "▽", "dotted"))
class CpuOnly(FastRule):
    """Every task whole on a CPU; the baseline of speed-ups."""

    rule = _cpu_only_rule
