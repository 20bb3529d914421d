"""Best fit: the node with least left of processors and accelerators. Assumes that both matter alike."""

from .placement_policy import LARGEST_CPU, LARGEST_GPUS, LEAST_FREE, placement_policy


@placement_policy("best_fit", "Best fit")
def best_fit_score(node, part, typical, notes):  # type: ignore[no-untyped-def]
    """Return 0 to 100, less for more that is left, in whole points as published."""
    left = 0.5 * (node.cpu - part.cpu) / LARGEST_CPU
    left += 0.5 * (node.gpus.sum() - part.gpus * part.gpu_milli) / LARGEST_GPUS
    return int((1.0 - left) * 100), LEAST_FREE
