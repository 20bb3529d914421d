"""First come, first served. Assumes nothing of jobs; fair, and the base of backfilling."""

from .queue_policy import queue_policy


@queue_policy("fcfs", "First come, first served")
def fcfs_score(submit, requested, processors, wait):  # type: ignore[no-untyped-def]
    """Return the submit time."""
    return submit
