"""Two-level scheduler for clusters: first the node, then the device.

Assumes that durations are known, that backlogs are exact and that nodes are equal.
Rule: the node that is first ready for a split task (its CPU and its earliest accelerator both free), then earliest
finish among that node's devices. The nodes are in a tournament tree. Between two decisions only the last chosen
node has changed, so a decision costs O(log nodes). If data of parents must be moved, a node is ready when its
devices could start the task. That depends on the task, so all nodes are compared.
"""

from __future__ import annotations

import numpy as np

from ..cluster.arrival_loop import run_rule
from ..compiled import FastRule, best_placement, column_prices, helper, loop_entry, rule
from ..core import Floats, Knowledge
from .registry import Look, register

# params: [nodes, leaves, first device of node 0, of node 1, ..., end, latency weight, prices...]
# state:  [node chosen last or -1, tree[0..2 * leaves)]; tree[i] is the winning node below i, leaves hold themselves


@helper
def _node_ready(node, bounds, starts, devices):  # type: ignore[no-untyped-def]
    """Return the time at which a CPU of a node and one of its accelerators, if it has any, can both start."""
    cpu_start = np.inf
    accelerator_start = np.inf
    for d in range(int(bounds[node]), int(bounds[node + 1])):
        if devices[d].is_cpu == 1:
            cpu_start = min(cpu_start, starts[d])
        else:
            accelerator_start = min(accelerator_start, starts[d])
    return cpu_start if accelerator_start == np.inf else max(cpu_start, accelerator_start)


@helper
def _first_node(free_at, devices, params, state):  # type: ignore[no-untyped-def]
    """Bring the tree up to date and return the node that is first free."""
    nodes = int(params[0])
    leaves = int(params[1])
    bounds = params[2 : 3 + nodes]
    ready = state[1 + 2 * leaves :]
    tree = state[1 : 1 + 2 * leaves]
    last = int(state[0])
    if last >= 0:
        ready[last] = _node_ready(last, bounds, free_at, devices)
        i = (leaves + last) // 2
        while i >= 1:
            left = int(tree[2 * i])
            right = int(tree[2 * i + 1])
            tree[i] = left if right >= nodes or ready[left] <= ready[right] else right
            i //= 2
    return int(tree[1])


@helper
def _place_in_node(node, now, task, times, starts, devices, params, state):  # type: ignore[no-untyped-def]
    """Return the earliest finish in a node, which the tree then looks at again."""
    nodes = int(params[0])
    bounds = params[2 : 3 + nodes]
    objective = params[3 + nodes :]
    state[0] = node
    split_price = np.inf if task[0].indivisible == 1 else 0.0
    return best_placement(
        now, task[0].memory, times, starts, devices, int(bounds[node]), int(bounds[node + 1]),
        objective[0], objective[1:], split_price,
    )  # fmt: skip


@rule
def _two_level_rule(now, task, times, free_at, devices, params, state):  # type: ignore[no-untyped-def]
    node = _first_node(free_at, devices, params, state)
    return _place_in_node(node, now, task, times, free_at, devices, params, state)


@rule
def _data_rule(now, task, times, free_at, starts, devices, params, state):  # type: ignore[no-untyped-def]
    _first_node(free_at, devices, params, state)
    nodes = int(params[0])
    bounds = params[2 : 3 + nodes]
    best = 0
    best_ready = np.inf
    for node in range(nodes):
        ready = _node_ready(node, bounds, starts, devices)
        if ready < best_ready:
            best = node
            best_ready = ready
    return _place_in_node(best, now, task, times, starts, devices, params, state)


_inlined = helper(_two_level_rule.py_func)


@loop_entry
def _two_level_loop(arrays):  # type: ignore[no-untyped-def]
    return run_rule(_inlined, arrays)


@register("two_level", label="Two-level (knows durations)", look=Look("#2DD4BF", "#0F766E", "◈", "long dash"))
class TwoLevel(FastRule):
    """Node that is ready first, then earliest finish among its devices."""

    rule = _two_level_rule
    data_rule = _data_rule
    loop = _two_level_loop
    knows = Knowledge.TOLD

    def make_params(self) -> Floats:
        """Return the tree's size, the nodes' devices and the objective."""
        node = self.setting.platform.node
        starts = np.flatnonzero(np.concatenate([[True], node[1:] != node[:-1]]))
        self._nodes = len(starts)
        self._leaves = 1 << (self._nodes - 1).bit_length()
        return np.concatenate([[self._nodes, self._leaves], starts, [len(node)], column_prices(self.setting)])

    def make_state(self) -> Floats:
        """Return the tree with every node free."""
        tree = np.zeros(2 * self._leaves)
        tree[self._leaves :] = np.arange(self._leaves)
        for i in range(self._leaves - 1, 0, -1):
            tree[i] = tree[2 * i]  # all nodes are free at the start; ties go to the first
        return np.concatenate([[-1.0], tree, np.zeros(self._nodes)])
