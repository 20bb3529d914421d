"""Simulation of rigid jobs on a pool of processors: a cluster with one node."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core import InvalidInputError
from .cluster_nodes import Nodes
from .job_log import JobLog
from .node_simulation import NodeResult, simulate_nodes
from .queue_policies import QueuePolicy
from .waiting_queue import BACKFILL_DEPTH


def pool_of(processors: int) -> Nodes:
    """Return a pool of processors as a cluster with one node."""
    none = np.zeros(1, np.int64)
    return Nodes(["cluster"], np.array([1000 * processors]), none, none)


def simulate_queue(
    log: JobLog,
    processors: int,
    policy: str | QueuePolicy = "fcfs",
    backfilling: str = "easy",
    *,
    depth: int = BACKFILL_DEPTH,
) -> NodeResult:
    """Run the processors of a log's jobs on a pool of processors, and nothing else of them.

    Parameters
    ----------
    log
        The jobs.
    processors
        Size of the pool.
    policy
        Order of the queue: a name or an entry of the registry.
    backfilling
        ``"none"``, ``"easy"`` or ``"conservative"``.
    depth
        Largest number of waiting jobs behind the head that may pass it in one decision.

    Raises
    ------
    InvalidInputError
        If a job is larger than the pool, or an argument is out of range.

    Examples
    --------
    >>> from hybrid_scheduler.jobs import JobLog, simulate_queue
    >>> log = JobLog([1, 2, 3], [0, 1, 2], [10, 10, 5], [10, 10, 5], [3, 4, 1])
    >>> simulate_queue(log, 4, "fcfs", "none").start.tolist()
    [0.0, 10.0, 20.0]
    >>> simulate_queue(log, 4, "fcfs", "easy").start.tolist()
    [0.0, 10.0, 2.0]
    """
    large = np.flatnonzero(log.processors > processors)
    if len(large):
        raise InvalidInputError(
            "processors", f"at least {int(log.processors.max())}, the widest job's", processors,
            hint=f"{len(large)} jobs do not fit, the first is job {int(log.job_id[large[0]])}",
        )  # fmt: skip
    whole = replace(log, demand=None, after=(), priority=None)
    return simulate_nodes(whole, pool_of(processors), queue=policy, backfilling=backfilling, depth=depth)
