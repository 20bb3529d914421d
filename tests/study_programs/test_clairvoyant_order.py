"""The search that knows all arrivals: its schedules can be run, and hold tasks back for later ones."""

import numpy as np
import pytest

from hybrid_scheduler import Cluster, workstation
from hybrid_scheduler.core import Central, Decision, Knowledge
from hybrid_scheduler.schedulers import LateBinding
from hybrid_scheduler.workload.scenarios import generate, scenario_named
from studies import clairvoyant_order
from studies.clairvoyant_order import BALANCED, find_schedule, move


class InOrder(Central):
    """Places tasks in a given order with given shares, each as soon as it and those before it have arrived."""

    knows = Knowledge.TOLD

    def __init__(self, order, share, workload):
        self.order, self.share, self.workload = list(order), share, workload

    def starts(self, queue, view):
        waiting = [queue[position] for position in range(len(queue))]
        while self.order and (found := [k for k, task in enumerate(waiting) if task.task_id == self.order[0]]):
            task = self.order.pop(0)
            del waiting[found[0]]
            gpu = 1 + int(np.argmin(np.maximum(view.free_at[1:], view.now)))
            share = self.share[task]
            if share == BALANCED:
                (cpu_whole, cpu_fixed), (whole, fixed) = self.setting.times.table(self.workload)[task]
                cpu, accelerator = np.maximum(view.free_at[[0, gpu]], view.now)
                share = max(0.0, (cpu + cpu_fixed + cpu_whole - accelerator - fixed) / (cpu_whole + whole))
            fits = min(1.0, view.platform.devices[gpu].memory / self.workload.memory_required[task])
            yield found[0], Decision(gpu, min(share, fits))


@pytest.mark.parametrize("seed", [2000, 2001])
def test_found_schedule_runs_in_the_simulator_and_is_faster_than_the_rule(seed, monkeypatch):
    monkeypatch.setattr(clairvoyant_order, "anneal", clairvoyant_order.anneal.py_func)  # compiling takes longer
    workload = generate(scenario_named("mixed"), 120, seed, platform=workstation(), utilisation=0.95)
    order, share, mean = find_schedule(workload, steps=20_000)
    assert sorted(order) == list(range(120))
    latency = Cluster().run(workload, InOrder(order, share, workload)).outcomes.latency.mean()
    assert latency == pytest.approx(mean, rel=1e-9)
    assert mean < Cluster().run(workload, LateBinding(1000.0, 0.0)).outcomes.latency.mean()


def test_moving_an_entry_and_back_restores_the_order():
    order = np.arange(6)
    move(order, 1, 4)
    assert order.tolist() == [0, 2, 3, 4, 1, 5]
    move(order, 4, 1)
    assert order.tolist() == list(range(6))
