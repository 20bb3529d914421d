"""Memory policy `page`: what does not fit into an accelerator moves over its link, in and out, and takes time."""

import numpy as np
import pytest

from hybrid_scheduler import Cluster, Decision, Task, UnknownNameError, compare, create, workstation
from hybrid_scheduler.cluster import MEMORY_POLICIES
from hybrid_scheduler.core.outcome import PAGED, RAN
from hybrid_scheduler.workload.scenarios import generate, scenario_named


def seconds(policy, decision, *, memory, divisible=True):
    cluster = Cluster(workstation(1, 8000.0), memory_policy=policy)
    return cluster.simulate(Task(0, 2500, 0.5, memory, divisible=divisible), decision)


def test_excess_moves_in_and_out_over_the_link():
    bandwidth = workstation(1).devices[1].bandwidth
    whole = Decision(1, 1.0)
    fits, paged = seconds("page", whole, memory=8000.0), seconds("page", whole, memory=12_000.0)
    assert (fits.status, paged.status) == (RAN, PAGED)
    # The physics copies the task's data in any case; pages come on top.
    base = seconds("clip", whole, memory=0.0).accelerator_time
    copied = {8000.0: fits.accelerator_time - base}
    assert copied[8000.0] >= 0.0
    more = paged.accelerator_time - base - 1.5 * copied[8000.0]
    assert more == pytest.approx(2.0 * 4000.0 / bandwidth)
    assert paged.fraction == 1.0


def test_share_that_fits_does_not_page():
    split = seconds("page", Decision(1, 0.5), memory=12_000.0)
    assert split.status == RAN
    assert split == seconds("clip", Decision(1, 0.5), memory=12_000.0)


def test_indivisible_task_pages_as_a_whole():
    outcome = seconds("page", Decision(1, 0.7), memory=12_000.0, divisible=False)
    assert (outcome.status, outcome.fraction) == (PAGED, 1.0)


@pytest.mark.parametrize("scheduler", ["greedy", "oracle", "price_index", "late_binding", "hybrid_ml"])
def test_runs_stay_above_their_bounds_and_count_pages(scheduler):
    workload = generate(scenario_named("oom"), 150, 3, utilisation=0.9)
    comparison = compare(workload, [scheduler], memory_policy="page")
    summary = comparison.summaries[scheduler]
    assert summary.failed == summary.clipped == summary.moved_to_cpu == 0
    assert summary.makespan >= comparison.lower_bound
    assert summary.latency.mean >= comparison.latency_bound
    assert scheduler != "greedy" or summary.as_dict()["paged"] == summary.paged > 0


def test_compiled_loop_and_event_loop_page_alike():
    workload = generate(scenario_named("oom"), 100, 4, utilisation=0.5)
    fast = Cluster(memory_policy="page").run(workload, create("greedy")).outcomes
    cluster = Cluster(memory_policy="page")
    slow = [
        cluster.simulate(task, Decision(int(fast.device[row]), float(fast.fraction[row])))
        for row, task in enumerate(workload)
    ]
    assert np.array_equal(fast.finish, [outcome.finish for outcome in slow])
    assert fast.count(PAGED) > 0


def test_unknown_policy_is_refused_with_the_known_ones():
    assert set(MEMORY_POLICIES) == {"clip", "to_cpu", "fail", "page"}
    with pytest.raises(UnknownNameError, match="memory_policy: must be one of clip, fail, page, to_cpu"):
        Cluster(memory_policy="swap")
