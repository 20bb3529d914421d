"""Warnings about schedulers whose queues grow without end at the load of a live run."""

from __future__ import annotations

from ..engine.stability import QUEUE_BLIND, stability_limit
from ..schedulers.registry import parse_spec
from ..workload import Scenario
from .live_config import LiveConfig


def stability_notes(course: LiveConfig, scenario: Scenario, load: float) -> list[str]:
    """Return one sentence for each scheduler that is unstable at this load; none if all keep up."""
    notes = []
    if load >= 1.0:
        notes.append(f"the load is {load:.2f} of the machine's capacity: every queue grows without end")
    for spec in course.schedulers:
        if parse_spec(spec)[0] in QUEUE_BLIND:
            limit = stability_limit(spec, scenario, course.platform, course.physics, course.memory_policy)
            if load > limit:
                notes.append(f"{spec} is unstable above about {limit:.2f} of capacity")
    return notes
