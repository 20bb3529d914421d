"""Placement policy: a score of each node that a job fits on, and the choice of its accelerator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from numba import int64, types

from ...compiled import entry
from ...core import Floats, Ints
from ..policy_registry import PolicyRegistry

#: Choices of an accelerator for a share: the one with least free that fits, or one of those that fit at random.
LEAST_FREE = -1
RANDOM_GPU = -2
#: Largest node of the published simulations, in milli-units; scores are relative to it.
LARGEST_CPU = 128_000
LARGEST_GPUS = 8_000


class NodeState(NamedTuple):
    """A node as it is now."""

    #: Free thousandths of processors, and free MiB.
    cpu: int
    memory: int
    #: Free thousandths of each accelerator; only the first `gpu_count` exist.
    gpus: Ints
    gpu_count: int
    #: Jobs by number of whole accelerators; those with a share of one are counted at 0.
    jobs: Ints
    #: Bit of the model.
    model: int


class PartDemand(NamedTuple):
    """What one part of a job needs."""

    cpu: int
    memory: int
    gpus: int
    gpu_milli: int
    #: Bits of the models that it can use; 0 for any.
    models: int


class TypicalJobs(NamedTuple):
    """Most frequent demands of a workload, and their shares of it."""

    cpu: Ints
    gpus: Ints
    gpu_milli: Ints
    models: Ints
    weight: Floats


_I = int64[::1]
_NODE_TYPE = types.NamedTuple((int64, int64, _I, int64, _I, int64), NodeState)
_PART_TYPE = types.NamedUniTuple(int64, 5, PartDemand)
TYPICAL_TYPE = types.NamedTuple((_I, _I, _I, _I, types.float64[::1]), TypicalJobs)
PLACEMENT_SIGNATURE = types.UniTuple(int64, 2)(_NODE_TYPE, _PART_TYPE, TYPICAL_TYPE, _I)
Placement = Callable[[NodeState, PartDemand, TypicalJobs, Ints], tuple[int, int]]


@dataclass(frozen=True)
class PlacementPolicy:
    """Entry of the registry of placement policies.

    Parameters
    ----------
    name, label
        Name in commands, and name for people.
    score
        Compiled function of node, part, typical jobs and an array for notes. It returns the score, and the
        accelerator of a share: its index, `LEAST_FREE` or `RANDOM_GPU`.
    reference
        Publication that describes the policy, or "" for common knowledge.
    random_ties
        Whether nodes of equal score are drawn from; else the first of them is taken.
    """

    name: str
    label: str
    score: Any
    reference: str
    random_ties: bool


_registry: PolicyRegistry[PlacementPolicy] = PolicyRegistry("placement policy")
placement_policies = _registry.all
placement_policy_named = _registry.named


def placement_policy(
    name: str, label: str, *, reference: str = "", random_ties: bool = False
) -> Callable[[Placement], Any]:
    """Return a decorator that registers a score; the node of largest score is taken.

    Examples
    --------
    >>> from hybrid_scheduler.jobs import placement_policy, placement_policy_named
    >>> @placement_policy("most_memory", "Most free memory")
    ... def most_memory(node, part, typical, notes):
    ...     return node.memory, -1
    >>> placement_policy_named("most_memory").label
    'Most free memory'
    """
    return lambda score: _registry.add(PlacementPolicy(name, label, entry(score), reference, random_ties))
