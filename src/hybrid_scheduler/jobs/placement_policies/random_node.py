"""Random: any node that fits, any accelerator that fits. Assumes nothing; the baseline of published tables."""

from .placement_policy import RANDOM_GPU, placement_policy


@placement_policy("random", "Random", random_ties=True)
def random_score(node, part, typical, notes):  # type: ignore[no-untyped-def]
    """Return the same score for every node."""
    return 0, RANDOM_GPU
