"""Guard that compares policies on simulated queues."""

import numpy as np

from hybrid_scheduler.compiled import entry
from hybrid_scheduler.learning.shadow_guard import ACTIVE, new_shadow, shadow_end, shadow_place

LEAD = 0.01

TIMES = np.array([[2.0, 0.0], [1.0, 0.5]])  # a CPU and an accelerator: whole and fixed seconds
FREE = np.zeros(2)


@entry
def place_one(shadow, policy, now, device, share, times, weight, prices):
    shadow_place(shadow, policy, now, device, share, times, weight, prices)


@entry
def end_one(shadow, lead):
    return shadow_end(shadow, lead)


class Guard:
    """The guard as Python sees it."""

    def __init__(self, policies, class_of, cpu_of):
        self.shadow = new_shadow(policies, class_of, cpu_of)

    @property
    def active(self):
        return int(self.shadow.counters[ACTIVE])

    @property
    def free_at(self):
        return self.shadow.free_at

    @property
    def means(self):
        return self.shadow.means

    def place(self, *decision):
        place_one(self.shadow, *decision)

    def end_task(self):
        return bool(end_one(self.shadow, LEAD))


def new_guard(policies=2):
    return Guard(policies, np.array([0, 1]), np.array([0, 0]))


def test_tasks_wait_on_the_queues_of_their_policy_alone():
    guard = new_guard()
    guard.place(0, 0.0, 1, 1.0, TIMES, 1.0, FREE)
    guard.place(1, 0.0, 0, 0.0, TIMES, 1.0, FREE)
    assert guard.free_at.tolist() == [[0.0, 1.5], [2.0, 0.0]]
    assert guard.means.tolist() == [1.5, 2.0]
    guard.place(0, 1.0, 1, 0.5, TIMES, 1.0, FREE)
    assert guard.free_at[0].tolist() == [2.0, 2.5]


def test_prices_of_busy_seconds_are_part_of_the_cost():
    guard = new_guard()
    guard.place(0, 0.0, 1, 0.5, TIMES, 0.0, np.array([3.0, 10.0]))
    assert guard.means[0] == 3.0 * 1.0 + 10.0 * 1.0


def test_the_policy_with_the_lowest_record_takes_over_and_hands_back():
    guard, changes = new_guard(), []
    for i in range(2000):
        now = 10.0 * i
        better = 0 if 800 <= i < 1600 else 1
        for policy in range(2):
            guard.place(
                policy, now, 1 if policy == better else 0, 1.0 if policy == better else 0.0, TIMES, 1.0, FREE
            )
        if guard.end_task():
            changes.append((i, guard.active))
    assert [active for _, active in changes] == [1, 0, 1]
    assert changes[0][0] < 200
