"""Fewest free GPUs: the node with the least free accelerators that fits. A rule of one line."""

from .placement_policy import LEAST_FREE, placement_policy


@placement_policy("fewest_free_gpus", "Fewest free GPUs")
def fewest_free_gpus_score(node, part, typical, notes):  # type: ignore[no-untyped-def]
    """Return minus the free thousandths of the node's accelerators."""
    return -node.gpus.sum(), LEAST_FREE
