"""Every registered scheduler passes the same contract, and the contract catches those that break it."""

import numpy as np
import pytest

from hybrid_scheduler import Decision, Online, create
from hybrid_scheduler.schedulers import schedulers
from hybrid_scheduler.testing import check_scheduler


@pytest.mark.parametrize("name", sorted(schedulers()))
def test_every_scheduler_passes_the_contract(name):
    check_scheduler(lambda: create(name))


@pytest.mark.parametrize(
    "spec",
    [
        "round_robin(variant=half)",
        "round_robin(variant=gpu-cpu)",
        "oracle(grid=11)",
        "oracle(grid=21)",
    ],
)
def test_every_variant_passes_the_contract(spec):
    check_scheduler(lambda: create(spec))


class Forgetful(Online):
    """Keeps its counter between runs: the same seed gives another schedule."""

    def __init__(self):
        self.count = 0

    def decide(self, task, view):
        self.count += 1
        return Decision(self.count % len(view.platform), 1.0)


class Unseeded(Online):
    """Draws from a generator without a seed."""

    def decide(self, task, view):
        return Decision(int(np.random.default_rng().integers(len(view.platform))), 1.0)


class OutOfRange(Online):
    def decide(self, task, view):
        return Decision(0, 1.5)


class Vandal(Online):
    """Writes into the cluster's queues."""

    def decide(self, task, view):
        view.free_at[0] = 0.0
        return Decision(0, 0.0)


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (Forgetful, "second time"),
        (Unseeded, "another schedule"),
        (OutOfRange, r"decision of OutOfRange: fraction: must be a number in \[0, 1\], got 1.5"),
        (Vandal, "read-only"),
    ],
)
def test_broken_scheduler_fails_the_contract_with_a_reason(broken, complaint):
    with pytest.raises((AssertionError, ValueError), match=complaint):
        check_scheduler(broken)
