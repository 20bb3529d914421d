"""F1: a function of request, processors and submit time that was fitted to simulations. Assumes their job mix."""

import math

from .queue_policy import queue_policy


@queue_policy(
    "f1",
    "F1",
    reference="D. Carastan-Santos, R. de Camargo: Obtaining dynamic scheduling policies with simulation. SC 2017",
)
def f1_score(submit, requested, processors, wait):  # type: ignore[no-untyped-def]
    """Return log10(request) times processors plus 870 log10(submit); a zero counts as 0.1."""
    late = submit if submit > 0.0 else 0.1
    length = requested if requested > 0.0 else 0.1
    return math.log10(length) * processors + 870.0 * math.log10(late)
