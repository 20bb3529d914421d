"""Dot product: the node whose free resources are least aligned with the demand.

The published simulation of FGD scores 1 minus the dot product of free and demanded shares, so that large free nodes
come last.
"""

from .placement_policy import LARGEST_CPU, LARGEST_GPUS, LEAST_FREE, placement_policy


@placement_policy(
    "dot_product",
    "Dot product",
    reference="R. Grandl and others: Multi-resource packing for cluster schedulers. SIGCOMM 2014",
)
def dot_product_score(node, part, typical, notes):  # type: ignore[no-untyped-def]
    """Return 0 to 100 in whole points."""
    product = (node.cpu / LARGEST_CPU) * (part.cpu / LARGEST_CPU)
    product += (node.gpus.sum() / LARGEST_GPUS) * (part.gpus * part.gpu_milli / LARGEST_GPUS)
    return int(100 * (1.0 - product / 2)), LEAST_FREE
