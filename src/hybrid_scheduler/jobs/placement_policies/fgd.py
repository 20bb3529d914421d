"""Fragmentation gradient descent: the node and accelerator on which fragmentation grows least.

A node is as fragmented as the accelerator time that a job of the workload, drawn at random, could not use there.
Assumes that the demands of coming jobs are those of the workload.
"""

import numpy as np

from ...compiled import inner
from .placement_policy import LEAST_FREE, placement_policy


@inner
def fragmentation(cpu, gpus, count, model, typical):  # type: ignore[no-untyped-def]
    """Return the thousandths of accelerators of a node that typical jobs cannot use, on average."""
    free = 0
    for gpu in range(count):
        free += gpus[gpu]
    lost = 0.0
    if free == 0:
        return lost
    for job in range(len(typical.weight)):
        needed = typical.gpu_milli[job]
        usable = 0
        too_small = 0
        for gpu in range(count):
            if gpus[gpu] >= needed:
                usable += 1
            else:
                too_small += gpus[gpu]
        allowed = typical.models[job] == 0 or (typical.models[job] & model) != 0
        fits = needed > 0 and usable > 0 and usable >= typical.gpus[job]
        lost += typical.weight[job] * (too_small if fits and allowed and cpu >= typical.cpu[job] else free)
    return lost


@inner
def _points(less):  # type: ignore[no-untyped-def]
    """Return 0 to 100 in whole points, as published, for less fragmentation."""
    return int(100.0 / (1.0 + np.exp(-less / 1000.0)))


@placement_policy(
    "fgd",
    "FGD",
    reference="Q. Weng and others: Beware of fragmentation. USENIX ATC 2023",
)
def fgd_score(node, part, typical, notes):  # type: ignore[no-untyped-def]
    """Return the score of the best accelerator, and the accelerator."""
    before = fragmentation(node.cpu, node.gpus, node.gpu_count, node.model, typical)
    after = notes[: node.gpu_count]
    after[:] = node.gpus[: node.gpu_count]
    cpu = node.cpu - part.cpu
    if part.gpus != 1 or part.gpu_milli == 1000:
        wanted = part.gpus
        for gpu in np.argsort(node.gpus[: node.gpu_count], kind="mergesort"):
            if wanted > 0 and after[gpu] >= part.gpu_milli:
                after[gpu] -= part.gpu_milli
                wanted -= 1
        return _points(before - fragmentation(cpu, after, node.gpu_count, node.model, typical)), LEAST_FREE
    best = -1
    chosen = LEAST_FREE
    for gpu in range(node.gpu_count):
        if node.gpus[gpu] >= part.gpu_milli:
            after[gpu] -= part.gpu_milli
            points = _points(before - fragmentation(cpu, after, node.gpu_count, node.model, typical))
            after[gpu] = node.gpus[gpu]
            if points > best:
                best = points
                chosen = gpu
    return best, chosen
