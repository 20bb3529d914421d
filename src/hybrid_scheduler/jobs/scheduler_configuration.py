"""Configuration of Slurm or Kueue that does what a simulated policy does, as far as they can.

Slurm's backfilling plans every pending job, which is conservative backfilling; Kueue never reserves. Where there is
no equal, the lines say what differs, and an order that a system does not have gives no configuration at all.
"""

from __future__ import annotations

from collections.abc import Mapping

from .cluster_nodes import Nodes
from .cluster_operation import Quota
from .queue_policies import queue_policy_named
from .waiting_queue import BACKFILL_DEPTH

#: Orders that the systems have.
_ORDERS = ("fcfs", "fair_share")
SYSTEMS = ("slurm", "kueue")


def configuration(
    system: str, policy: str, backfilling: str, nodes: Nodes, *, preempt: bool = False, quotas: Mapping[str, Quota]
) -> str | None:
    """Return lines for a system's configuration, or None if it has no such order of the queue.

    Examples
    --------
    >>> from hybrid_scheduler.jobs import pool_of
    >>> configuration("slurm", "sjf", "easy", pool_of(8), quotas={}) is None
    True
    >>> configuration("slurm", "fcfs", "none", pool_of(8), quotas={}).splitlines()[1]
    'SchedulerType=sched/builtin'
    """
    if queue_policy_named(policy).name not in _ORDERS:
        return None
    lines = _slurm if system == "slurm" else _kueue
    return "\n".join(lines(policy, backfilling, nodes, preempt, quotas)) + "\n"


def _slurm(policy: str, backfilling: str, nodes: Nodes, preempt: bool, quotas: Mapping[str, Quota]) -> list[str]:
    lines = [f"# slurm.conf: {policy}, backfilling {backfilling}"]
    if backfilling == "none":
        lines.append("SchedulerType=sched/builtin")
    else:
        lines += [
            "SchedulerType=sched/backfill",
            f"SchedulerParameters=bf_continue,bf_max_job_test={BACKFILL_DEPTH}",
        ]
    if backfilling == "easy":
        lines.append("# Slurm reserves for every planned job, not for the first alone: fewer pass than simulated.")
    if policy == "fair_share":
        lines += ["PriorityType=priority/multifactor", "PriorityWeightFairshare=100000", "PriorityWeightAge=1"]
        lines += [
            "# Usage counts for ever, as simulated.",
            "PriorityDecayHalfLife=0",
            "PriorityUsageResetPeriod=NONE",
        ]
    else:
        lines.append("PriorityType=priority/basic")
    lines += ["SelectType=select/cons_tres", "SelectTypeParameters=CR_Core_Memory"]
    if nodes.gpus.any():
        lines.append("GresTypes=gpu")
    if preempt:
        lines += ["PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"]
    for user, quota in quotas.items():
        limits = [f"cpu={quota.processors:g}"] if quota.processors < float("inf") else []
        limits += [f"gres/gpu={quota.gpus:g}"] if quota.gpus < float("inf") else []
        lines.append(f"# sacctmgr modify user {user} set GrpTRES={','.join(limits)}")
    return lines


def _kueue(policy: str, backfilling: str, nodes: Nodes, preempt: bool, quotas: Mapping[str, Quota]) -> list[str]:
    amounts = [("cpu", int(nodes.cpu_milli.sum()) // 1000), ("nvidia.com/gpu", int(nodes.gpus.sum()))]
    held = [(name, amount) for name, amount in amounts if amount]
    lines = [f"# Kueue: {policy}, backfilling {backfilling}"]
    if backfilling != "none":
        lines.append(
            "# Kueue reserves nothing: all that fits passes, and wide jobs may wait longer than simulated."
        )
    if policy == "fair_share":
        lines.append("# Needs fairSharing in Kueue's configuration, and one such cluster queue for each user.")
    lines += [
        "apiVersion: kueue.x-k8s.io/v1beta1", "kind: ClusterQueue", "metadata:", "  name: simulated", "spec:",
        f"  queueingStrategy: {'StrictFIFO' if backfilling == 'none' else 'BestEffortFIFO'}",
        "  namespaceSelector: {}", "  preemption:",
        f"    withinClusterQueue: {'LowerPriority' if preempt else 'Never'}",
    ]  # fmt: skip
    if policy == "fair_share":
        lines += ["  cohort: users", "  fairSharing:", "    weight: 1"]
    covered = ", ".join(f'"{name}"' for name, _ in held)
    lines += ["  resourceGroups:", f"  - coveredResources: [{covered}]", "    flavors:", "    - name: default"]
    lines.append("      resources:")
    for name, amount in held:
        lines += [f'      - name: "{name}"', f"        nominalQuota: {amount}"]
    for user, quota in quotas.items():
        stated = [f"cpu {quota.processors:g}"] if quota.processors < float("inf") else []
        stated += [f"GPUs {quota.gpus:g}"] if quota.gpus < float("inf") else []
        lines.append(f"# {user}: a cluster queue with {', '.join(stated)}")
    return lines
