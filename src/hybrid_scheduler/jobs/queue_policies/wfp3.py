"""WFP3: long waits relative to the request go first, the more the wider the job. Assumes truthful requests."""

from .queue_policy import queue_policy


@queue_policy(
    "wfp3",
    "WFP3",
    reference="W. Tang and others: Fault-aware, utility-based job scheduling on Blue Gene/P. Cluster 2009",
    ages=True,
)
def wfp3_score(submit, requested, processors, wait):  # type: ignore[no-untyped-def]
    """Return minus the cube of wait over request, times processors."""
    return -((wait / max(requested, 1e-9)) ** 3) * processors
