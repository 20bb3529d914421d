"""Queue policies, one file each: which waiting job is next."""

from . import f1, fair_share, fcfs, las, saf, sjf, uni, wfp3
from .queue_policy import QueuePolicy, queue_policies, queue_policy, queue_policy_named

__all__ = [
    "QueuePolicy",
    "f1",
    "fair_share",
    "fcfs",
    "las",
    "queue_policies",
    "queue_policy",
    "queue_policy_named",
    "saf",
    "sjf",
    "uni",
    "wfp3",
]
