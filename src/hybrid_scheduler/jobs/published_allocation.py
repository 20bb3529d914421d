"""Published table of placement on GPU clusters: accelerators in use against demand, for six placement policies.

Weng and others: Beware of fragmentation: scheduling GPU-sharing workloads with fragmentation gradient descent.
USENIX ATC 2023. Its simulation has these rules, by which the figures are reproduced:

- Pods arrive one after the other and never leave. The file's pods come first, shuffled, then pods drawn from the
  file until the next one would bring the demand above 130 % of the cluster's accelerators.
- Only nodes with accelerators take part. A pod that fits nowhere is refused.
- Nodes of equal score are taken in an order that is shuffled once per seed.
- The figure at a demand is the mean of the share in use over all arrivals at which the demand, rounded to whole
  percent, has that value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core import Floats, Ints, InvalidInputError
from .cluster_nodes import WHOLE_GPU, Nodes
from .gpu_cluster_files import read_pods
from .job_log import JobLog
from .node_simulation import simulate_nodes
from .published_cell import MeanOfValues

#: Policies of the published table, and at the end the one-line rule that it lacks.
PLACEMENTS = ("random", "dot_product", "gpu_clustering", "gpu_packing", "best_fit", "fgd", "fewest_free_gpus")
#: Demands of the table in percent of the cluster's accelerators, and the last one.
DEMANDS = (100, 115, 130)
_LAST_DEMAND = 1.3
_SEEDS = 20
#: Percentage points within which a mean counts as reproduced.
_TOLERANCE = 0.5
#: Published means at `DEMANDS` by SHA-256 of the file of pods; ten seeds each, in the order of the policies.
_PUBLISHED = {
    # openb_pod_list_default.csv
    "1ee7ed79c27a3b0861cda8ddba86a004c6aba904caafa329a76ae93ca63834a8": {
        "random": (86.303, 87.099, 87.47),
        "dot_product": (90.622, 90.734, 90.849),
        "gpu_clustering": (91.65, 91.76, 91.878),
        "gpu_packing": (91.779, 91.889, 92.002),
        "best_fit": (92.862, 92.969, 93.076),
        "fgd": (95.227, 95.324, 95.391),
    },
    # openb_pod_list_multigpu20.csv
    "d9ec6f6c74fb980cc0b81239470c6353fceea077ea9abd610003b604c7cc2b01": {
        "random": (86.919, 88.106, 88.691),
        "dot_product": (91.847, 91.957, 92.062),
        "gpu_clustering": (93.343, 93.454, 93.557),
        "gpu_packing": (93.5, 93.607, 93.71),
        "best_fit": (93.734, 93.84, 93.933),
        "fgd": (95.528, 95.598, 95.651),
    },
}


@dataclass(frozen=True)
class AllocationCell(MeanOfValues):
    """One policy at one demand: the published mean and ours, in percent of the cluster's accelerators."""

    policy: str
    demand: int
    published: float | None
    values: tuple[float, ...]

    @property
    def verdict(self) -> str:
        """Comparison with the published mean in words."""
        if self.published is None:
            return "not in the published table"
        off = self.mean - self.published
        return f"{off:+.2f} points" + ("" if abs(off) <= _TOLERANCE else f": more than {_TOLERANCE:g}")


def allocation_table(
    pods: str | Path,
    nodes: Nodes,
    *,
    policies: Sequence[str] = PLACEMENTS,
    seeds: int = _SEEDS,
) -> Iterator[list[AllocationCell]]:
    """Yield the cells of each policy for a file of pods.

    Parameters
    ----------
    pods
        CSV file of pods.
    nodes
        Nodes of the cluster; those without accelerators are left out.
    policies
        Names of placement policies.
    seeds
        Number of seeds.

    Raises
    ------
    InvalidInputError
        If the file cannot be used, or no pod asks for an accelerator.
    """
    log, _ = read_pods(pods)
    if log.demand is None or not log.demand.gpus.any():
        raise InvalidInputError("pods", "at least one that asks for a GPU", "none", where=Path(pods).name)
    cluster = nodes.with_gpus()
    capacity = WHOLE_GPU * int(cluster.gpus.sum())
    arrivals = [_arrivals(log, capacity, seed) for seed in range(seeds)]
    published = _PUBLISHED.get(hashlib.sha256(Path(pods).read_bytes()).hexdigest(), {})
    for policy in policies:
        values = np.array([_allocations(log, cluster, policy, rows, seed) for seed, rows in enumerate(arrivals)])
        stated = published.get(policy, (None,) * len(DEMANDS))
        yield [
            AllocationCell(policy, demand, stated[column], tuple(values[:, column].tolist()))
            for column, demand in enumerate(DEMANDS)
        ]


def _arrivals(log: JobLog, capacity: int, seed: int) -> Ints:
    """Return the rows of the pods in the order of their arrival."""
    assert log.demand is not None
    random = np.random.Generator(np.random.PCG64(seed))
    rows = random.permutation(len(log)).tolist()
    total = int(log.demand.total_gpu_milli.sum())
    each = log.demand.gpu_milli.tolist()
    amount = log.demand.total_gpu_milli.tolist()
    while total <= _LAST_DEMAND * capacity:
        row = int(random.integers(len(log)))
        if total + each[row] > _LAST_DEMAND * capacity:
            break
        total += amount[row]
        rows.append(row)
    return np.array(rows, np.int64)


def _allocations(log: JobLog, cluster: Nodes, policy: str, rows: Ints, seed: int) -> Floats:
    """Return the share of accelerators in use at each demand, in percent."""
    arrived = log.rows(rows, submit=0.0)
    assert arrived.demand is not None
    shuffled = cluster.rows(np.random.Generator(np.random.PCG64([seed, 1])).permutation(len(cluster)))
    result = simulate_nodes(arrived, shuffled, policy, fill=True, seed=seed)
    demand = np.cumsum(arrived.demand.total_gpu_milli[result.order]) / (WHOLE_GPU * int(cluster.gpus.sum()))
    rounded = np.round(100 * demand)
    in_use = np.round(100 * result.allocation, 2)
    at = [rounded == percent for percent in DEMANDS]
    near = [
        near if near.any() else np.abs(rounded - percent) <= 1 for near, percent in zip(at, DEMANDS, strict=True)
    ]
    return np.array([in_use[chosen].mean() if chosen.any() else np.nan for chosen in near])
