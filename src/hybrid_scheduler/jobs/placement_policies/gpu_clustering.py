"""GPU clustering: nodes with jobs of the same number of accelerators first. Assumes that like jobs pack well."""

from .placement_policy import LARGEST_GPUS, LEAST_FREE, placement_policy


@placement_policy(
    "gpu_clustering",
    "GPU clustering",
    reference="W. Xiao and others: Gandiva. OSDI 2018",
)
def gpu_clustering_score(node, part, typical, notes):  # type: ignore[no-untyped-def]
    """Return 75 to 100 beside like jobs alone, 50 to 75 beside others too, 25 to 50 on a free node, else below."""
    if part.gpus == 0:
        return 0, LEAST_FREE
    used = 25 * (LARGEST_GPUS - node.gpus.sum()) // LARGEST_GPUS
    kinds = 0
    for number in range(len(node.jobs)):
        kinds += node.jobs[number] > 0
    own = 0 if part.gpu_milli < 1000 else part.gpus
    if node.jobs[own] > 0:
        return used + (75 if kinds == 1 else 50), LEAST_FREE
    return used + (25 if kinds == 0 else 0), LEAST_FREE
