"""Contract check for queue and placement policies, of this package or of others."""

from __future__ import annotations

import numpy as np
from numba.core.errors import NumbaError

from ..core import InvalidInputError
from .cluster_nodes import Nodes
from .job_demand import JobDemand
from .job_log import JobLog
from .node_simulation import simulate_nodes
from .placement_policies import PlacementPolicy
from .queue_policies import QueuePolicy

_JOBS = 60


def check_policy(policy: QueuePolicy | PlacementPolicy) -> None:
    """Check that a policy keeps the contract: it compiles, starts every job once, and repeats itself.

    Raises
    ------
    InvalidInputError
        If the policy breaks the contract; the message gives the reason.

    Examples
    --------
    >>> from hybrid_scheduler.jobs import check_policy, queue_policy_named
    >>> check_policy(queue_policy_named("saf"))
    """
    random = np.random.Generator(np.random.PCG64(7))
    gpus = random.choice([0, 1, 1, 2], _JOBS)
    milli = np.where(gpus == 1, random.choice([250, 1000], _JOBS), 1000 * (gpus > 1))
    demand = JobDemand(random.integers(1, 8, _JOBS) * 1000, np.zeros(_JOBS, np.int64), gpus, milli)
    run = random.integers(1, 30, _JOBS).astype(float)
    submit = np.cumsum(random.integers(0, 6, _JOBS)).astype(float)
    log = JobLog(
        np.arange(_JOBS), submit, run, 2 * run, np.ones(_JOBS, np.int64), ["a", "b"] * (_JOBS // 2), demand=demand
    )
    cpu, memory, accelerators = np.array([[16_000, 8_000], [0, 0], [4, 2]])
    nodes = Nodes(["a", "b"], cpu, memory, accelerators, ["A100", "T4"])
    queue, placement = (policy, "best_fit") if isinstance(policy, QueuePolicy) else ("fcfs", policy)
    starts = []
    for _ in range(2):
        try:
            result = simulate_nodes(log, nodes, placement, queue, backfilling="easy")
        except (NumbaError, TypeError) as error:
            raise InvalidInputError(
                policy.name, "a function of numbers that numba compiles", str(error).splitlines()[0][:200]
            ) from None
        if not result.placed.all():
            raise InvalidInputError(
                policy.name, "a policy that starts every job", f"{int((~result.placed).sum())} wait"
            )
        starts.append(result.start)
    if (starts[0] != starts[1]).any():
        raise InvalidInputError(policy.name, "a policy that gives the same starts again", "other starts")
