"""Shortest job first, by requested time. Assumes that requests rank jobs as their run times do."""

from .queue_policy import queue_policy


@queue_policy("sjf", "Shortest job first")
def sjf_score(submit, requested, processors, wait):  # type: ignore[no-untyped-def]
    """Return the requested time."""
    return requested
