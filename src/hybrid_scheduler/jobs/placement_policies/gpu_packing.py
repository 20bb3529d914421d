"""GPU packing: shared accelerators first, then free ones of used nodes, then free nodes.

Assumes that accelerators are what is scarce; jobs without one may go anywhere.
"""

import numpy as np

from .placement_policy import LEAST_FREE, placement_policy


@placement_policy(
    "gpu_packing",
    "GPU packing",
    reference="Q. Weng and others: MLaaS in the wild. NSDI 2022",
)
def gpu_packing_score(node, part, typical, notes):  # type: ignore[no-untyped-def]
    """Return 50 to 100 on shared accelerators, 33 to 50 on free ones of a used node, below that on a free node."""
    if part.gpus == 0:
        return 0, LEAST_FREE
    free = 0
    for gpu in range(node.gpu_count):
        free += node.gpus[gpu] == 1000
    if free == node.gpu_count:
        return max(33 - free, free), LEAST_FREE
    wanted = part.gpus
    taken_free = 0
    unused = 0
    for gpu in np.argsort(node.gpus[: node.gpu_count], kind="mergesort"):
        if wanted == 0:
            break
        if node.gpus[gpu] >= part.gpu_milli:
            wanted -= 1
            taken_free += node.gpus[gpu] == 1000
            unused += node.gpus[gpu] // 10
    if taken_free > 0:
        return max(50 - taken_free, 33), LEAST_FREE
    return max(100 - unused // 10, 50), LEAST_FREE
