"""Least attained service: the job that has had least comes first. Assumes nothing; made for preemption."""

from .queue_policy import queue_policy


@queue_policy(
    "las",
    "Least attained service",
    reference="J. Gu and others: Tiresias: A GPU cluster manager for distributed deep learning. NSDI 2019",
    service="job",
)
def las_score(submit, requested, processors, service):  # type: ignore[no-untyped-def]
    """Return the processor seconds that the job has had."""
    return service
