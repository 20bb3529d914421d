"""Placement policies, one file each: which node, and which of its accelerators, a job gets."""

from . import best_fit, dot_product, fewest_free_gpus, fgd, gpu_clustering, gpu_packing, random_node
from .placement_policy import PlacementPolicy, placement_policies, placement_policy, placement_policy_named

__all__ = [
    "PlacementPolicy",
    "best_fit",
    "dot_product",
    "fewest_free_gpus",
    "fgd",
    "gpu_clustering",
    "gpu_packing",
    "placement_policies",
    "placement_policy",
    "placement_policy_named",
    "random_node",
]
