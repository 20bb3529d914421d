"""GPU only.

Assumes that accelerators are always worth it. Rule: the whole task on the accelerator that is free earliest;
what does not fit into its memory is left to the CPU. Collapses at about 0.8 of capacity: the CPU idles.
"""

from __future__ import annotations

from ..compiled import FastRule, earliest_free_accelerator, earliest_free_cpu, fitting_share, rule
from .registry import Look, register


@rule
def gpu_only_rule(now, task, times, free_at, devices, params, state):  # type: ignore[no-untyped-def]
    best = earliest_free_accelerator(free_at, devices)
    if best < 0:
        return earliest_free_cpu(free_at, devices), 0.0
    return best, fitting_share(task[0].memory, devices[best].memory)


@register("gpu_only", label="GPU only", look=Look("#60A5FA", "#1D4ED8", "△", "dotted"))
class GpuOnly(FastRule):
    """Everything on the GPU that is free earliest."""

    rule = gpu_only_rule
