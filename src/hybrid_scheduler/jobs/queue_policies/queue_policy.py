"""Queue policy: a score of each waiting job; the job of least score starts first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...compiled import entry
from ..policy_registry import PolicyRegistry

Score = Callable[[float, float, float, float], float]


@dataclass(frozen=True)
class QueuePolicy:
    """Entry of the registry of queue policies.

    Parameters
    ----------
    name, label
        Name in commands, and name for people.
    score
        Compiled function of submit time, requested time, processors and wait (seconds), which returns the score.
    reference
        Publication that describes the policy, or "" for common knowledge.
    ages
        Whether the score depends on the wait, so that it must be computed again at every decision.
    service
        ``"job"`` or ``"user"`` if the score is given the processor seconds that the job or its user has had, in
        place of the wait; only `simulate_nodes` knows them.
    """

    name: str
    label: str
    score: Any
    reference: str
    ages: bool
    service: str = ""


_registry: PolicyRegistry[QueuePolicy] = PolicyRegistry("queue policy")
queue_policies = _registry.all
queue_policy_named = _registry.named


def queue_policy(
    name: str, label: str, *, reference: str = "", ages: bool = False, service: str = ""
) -> Callable[[Score], Any]:
    """Return a decorator that registers a score; ties go to the job that was submitted first.

    Examples
    --------
    >>> from hybrid_scheduler.jobs import queue_policy, queue_policy_named
    >>> @queue_policy("widest_first", "Widest first")
    ... def widest_first(submit, requested, processors, wait):
    ...     return -processors
    >>> queue_policy_named("widest_first").label
    'Widest first'
    """
    return lambda score: _registry.add(QueuePolicy(name, label, entry(score), reference, ages, service))
