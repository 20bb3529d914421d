"""UNICEF: waits relative to the request, with small jobs preferred. Assumes truthful requests."""

import math

from .queue_policy import queue_policy


@queue_policy(
    "uni",
    "UNICEF",
    reference="W. Tang and others: Fault-aware, utility-based job scheduling on Blue Gene/P. Cluster 2009",
    ages=True,
)
def uni_score(submit, requested, processors, wait):  # type: ignore[no-untyped-def]
    """Return minus wait over request and the logarithm of the processors, bounded for one processor."""
    return -(wait + 1e-15) / (math.log2(processors + 1e-15) * max(requested, 1e-9))
