"""Baselines with one class of device: CPU only and GPU only.

CPU only assumes that there are no accelerators: every task runs whole on the CPU that is free earliest. Speed-ups
are measured against it. GPU only assumes that accelerators are always faster: the whole task runs on the one that
is free earliest, and the share that does not fit into its memory on the CPU. It saturates at about 0.8 of capacity,
because the CPU idles.
"""

from __future__ import annotations

from ..compiled import FastRule, earliest_free_of, fitting_share, rule
from .registry import Look, register


@rule
def _cpu_only_rule(now, task, times, free_at, devices, params, state):  # type: ignore[no-untyped-def]
    return earliest_free_of(1, free_at, devices), 0.0


@register("cpu_only", label="CPU only", look=Look("#F59E0B", "#92600A", "▽", "dotted"))
class CpuOnly(FastRule):
    """Every task whole on a CPU; the baseline of speed-ups."""

    rule = _cpu_only_rule


@rule
def _gpu_only_rule(now, task, times, free_at, devices, params, state):  # type: ignore[no-untyped-def]
    best = earliest_free_of(0, free_at, devices)
    if best < 0:
        return earliest_free_of(1, free_at, devices), 0.0
    return best, fitting_share(task[0].memory, devices[best].memory)


@register("gpu_only", label="GPU only", look=Look("#3C69B4", "#5B8BD0", "+", "dotted"))
class GpuOnly(FastRule):
    """Every task whole on the GPU that is free earliest."""

    rule = _gpu_only_rule
