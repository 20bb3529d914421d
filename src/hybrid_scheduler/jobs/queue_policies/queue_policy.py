"""Queue policy: a score of each waiting job; the job of least score starts first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...compiled import entry
from ...core import InvalidInputError, UnknownNameError

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


_policies: dict[str, QueuePolicy] = {}


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

    def add(score: Score) -> Any:
        known = _policies.get(name)
        if known is not None and known.score.py_func.__qualname__ != score.__qualname__:
            raise InvalidInputError("queue policy", "a name that is not taken", name)
        _policies[name] = QueuePolicy(name, label, entry(score), reference, ages, service)
        return _policies[name].score

    return add


def queue_policies() -> dict[str, QueuePolicy]:
    """Return all registered queue policies by name."""
    return dict(_policies)


def queue_policy_named(name: str) -> QueuePolicy:
    """Return a queue policy; raises `UnknownNameError` with the nearest name if there is none."""
    if name not in _policies:
        raise UnknownNameError("queue policy", name, _policies)
    return _policies[name]
