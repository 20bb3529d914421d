"""Smallest area first: requested time times processors. Assumes the same as shortest job first."""

from .queue_policy import queue_policy


@queue_policy(
    "saf",
    "Smallest area first",
    reference="D. Carastan-Santos and others: One can only gain by replacing EASY backfilling. CCGrid 2019",
)
def saf_score(submit, requested, processors, wait):  # type: ignore[no-untyped-def]
    """Return the requested processor seconds."""
    return requested * processors
