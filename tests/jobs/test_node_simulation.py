"""Jobs on nodes: laws on random logs, placement policies by hand, and cases of queues and gangs."""

import numpy as np
import pytest

from hybrid_scheduler.core import InvalidInputError, UnknownNameError
from hybrid_scheduler.jobs import (
    BACKFILLING,
    JobDemand,
    JobLog,
    NodeResult,
    Nodes,
    placement_policies,
    queue_policies,
    simulate_nodes,
)

NODES = Nodes(
    ["big", "small", "other", "cpu"],
    [64_000, 16_000, 32_000, 64_000],
    [4096, 1024, 2048, 4096],
    [8, 2, 4, 0],
    ["A100", "A100", "T4", ""],
)


def random_log(seed: int, jobs: int = 120) -> JobLog:
    """Jobs of all kinds near capacity: shares, whole and several GPUs, models, parts, wrong requests."""
    random = np.random.Generator(np.random.PCG64(seed))
    gpus = random.choice([0, 1, 1, 1, 2, 4], jobs)
    milli = np.where(gpus == 1, random.choice([250, 500, 1000], jobs), np.where(gpus > 1, 1000, 0))
    models = random.choice(["", "", "A100", "T4", "A100|T4"], jobs).tolist()
    demand = JobDemand(
        random.integers(0, 12, jobs) * 1000, random.integers(0, 400, jobs), gpus, milli, models,
        random.choice([1, 1, 1, 2], jobs),
    )  # fmt: skip
    run = np.round(random.lognormal(2.5, 1.0, jobs), 1)
    asked = np.where(random.random(jobs) < 0.2, run / 2, run * random.uniform(1, 3, jobs))
    submit = np.cumsum(random.exponential(6.0, jobs))
    return JobLog(np.arange(jobs), submit, run, asked, np.ones(jobs), demand=demand)


def held_at(result: NodeResult, time: float) -> np.ndarray:
    """Return processors, memory and thousandths of GPUs that jobs hold on each node at a time."""
    demand = result.log.demand
    assert demand is not None
    held = np.zeros((len(result.nodes), 3))
    owner = np.repeat(np.arange(len(result.log)), demand.parts)
    end = result.start + result.log.run_time
    for part, job in enumerate(owner.tolist()):
        if result.start[job] <= time < end[job]:
            amounts = (demand.cpu_milli[job], demand.memory_mib[job], demand.gpus[job] * demand.gpu_milli[job])
            held[result.node[part]] += amounts
    return held


@pytest.mark.parametrize("placement", placement_policies())
@pytest.mark.parametrize("backfilling", BACKFILLING)
def test_nodes_hold_no_more_than_they_have_and_every_job_runs_once(placement: str, backfilling: str) -> None:
    capacity = np.column_stack((NODES.cpu_milli, NODES.memory_mib, NODES.gpus * 1000))
    for seed in range(3):
        log = random_log(seed)
        result = simulate_nodes(log, NODES, placement, "fcfs", backfilling=backfilling, seed=seed)
        possible = np.ones(len(log), bool)
        possible[result.impossible] = False
        assert (result.placed == possible).all()
        assert sorted(result.order.tolist()) == np.flatnonzero(possible).tolist()
        assert (result.wait >= 0).all()
        for time in result.start[possible]:
            assert (held_at(result, time) <= capacity).all()


def test_jobs_get_models_that_they_can_use() -> None:
    log = random_log(5)
    assert log.demand is not None
    result = simulate_nodes(log, NODES, "fgd")
    owner = np.repeat(np.arange(len(log)), log.demand.parts)
    for part, job in enumerate(owner.tolist()):
        allowed = log.demand.models[job].split("|")
        if result.placed[job] and log.demand.gpus[job] and log.demand.models[job]:
            assert NODES.model[result.node[part]] in allowed


def test_a_job_that_would_end_after_the_head_could_start_does_not_pass() -> None:
    nodes = Nodes(["a"], [4000], [100], [0])
    log = JobLog([1, 2, 3, 4], [0, 1, 2, 3], [10, 10, 9, 8], [10, 10, 9, 7], [3, 4, 1, 1])
    assert simulate_nodes(log, nodes).start.tolist() == [0, 10, 20, 20]
    # Job 3 would end at 11, after the head's 10; job 4 asks for 7 seconds from 3 on and passes.
    assert simulate_nodes(log, nodes, backfilling="easy").start.tolist() == [0, 11, 21, 3]


def test_parts_of_a_gang_start_together_on_several_nodes() -> None:
    nodes = Nodes(["a", "b"], [2000, 2000], [0, 0], [1, 1])
    demand = JobDemand([2000, 2000], [0, 0], [1, 1], [1000, 1000], parts=[1, 2])
    log = JobLog([1, 2], [0, 1], [5, 5], [5, 5], [1, 1], demand=demand)
    result = simulate_nodes(log, nodes)
    assert result.start.tolist() == [0, 5]
    assert sorted(result.node[1:].tolist()) == [0, 1]


def test_larger_jobs_than_the_cluster_are_listed_and_do_not_block() -> None:
    demand = JobDemand([1000, 1000], [0, 0], [8, 1], [1000, 1000], ["T4", "T4"])
    log = JobLog([1, 2], [0, 1], [5, 5], [5, 5], [1, 1], demand=demand)
    result = simulate_nodes(log, NODES)
    assert result.impossible.tolist() == [0]
    assert np.isnan(result.start[0])
    assert result.start[1] == 1
    with pytest.raises(InvalidInputError, match="jobs: must be at least one that fits"):
        simulate_nodes(log.rows(slice(0, 1)), NODES)


def test_filling_refuses_what_fits_nowhere_and_never_ends_a_job() -> None:
    nodes = Nodes(["a"], [8000], [0], [1])
    demand = JobDemand([0] * 4, [0] * 4, [1] * 4, [600, 600, 300, 200])
    log = JobLog(range(4), [0] * 4, [1] * 4, [1] * 4, [1] * 4, demand=demand)
    result = simulate_nodes(log, nodes, fill=True)
    assert result.placed.tolist() == [True, False, True, False]
    assert result.allocation.tolist() == [0.6, 0.6, 0.9, 0.9]


def placed_on(policy: str, nodes: Nodes, demand: JobDemand) -> list[int]:
    count = len(demand)
    log = JobLog(range(count), [0] * count, [1] * count, [1] * count, [1] * count, demand=demand)
    return simulate_nodes(log, nodes, policy, fill=True).node.tolist()


def test_best_fit_weighs_processors_and_gpus_and_fewest_free_gpus_only_these() -> None:
    nodes = Nodes(["many processors", "many gpus"], [128_000, 8_000], [0, 0], [1, 8])
    demand = JobDemand([1000], [0], [1], [500])
    assert placed_on("best_fit", nodes, demand) == [1]  # left: 0.5 + 0.03 beside 0.03 + 0.47
    assert placed_on("fewest_free_gpus", nodes, demand) == [0]


def test_packing_prefers_shared_gpus_then_used_nodes() -> None:
    nodes = Nodes(["a", "b"], [64_000] * 2, [0] * 2, [2, 2])
    demand = JobDemand([0] * 4, [0] * 4, [1] * 4, [500, 500, 1000, 300])
    # The share joins the first one's GPU, the whole GPU goes beside it, and the last share starts node b.
    assert placed_on("gpu_packing", nodes, demand) == [0, 0, 0, 1]


def test_clustering_keeps_jobs_of_one_size_together() -> None:
    nodes = Nodes(["a", "b"], [64_000] * 2, [0] * 2, [4, 4])
    demand = JobDemand([0] * 4, [0] * 4, [1, 2, 1, 2], [500, 1000, 500, 1000])
    assert placed_on("gpu_clustering", nodes, demand) == [0, 1, 0, 1]


def test_fgd_leaves_whole_gpus_for_the_jobs_that_need_them() -> None:
    """Half of the jobs need two whole GPUs: shares fill one broken GPU where random placement breaks more."""
    nodes = Nodes([f"n{row}" for row in range(6)], [64_000] * 6, [0] * 6, [2] * 6)
    shares, pairs = 8, 4
    demand = JobDemand(
        [0] * (shares + pairs), [0] * (shares + pairs), [1] * shares + [2] * pairs, [500] * shares + [1000] * pairs
    )
    log = JobLog(range(12), [0] * 12, [1] * 12, [1] * 12, [1] * 12, demand=demand)
    assert simulate_nodes(log, nodes, "fgd", fill=True).placed.all()
    assert not simulate_nodes(log, nodes, "random", fill=True, seed=1).placed.all()


def test_random_placement_depends_on_the_seed_alone() -> None:
    log = random_log(1)
    first, again, other = (simulate_nodes(log, NODES, "random", seed=seed).node for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_bad_arguments_name_the_field() -> None:
    log = random_log(0)
    with pytest.raises(UnknownNameError, match="placement policy"):
        simulate_nodes(log, NODES, "bestfit")
    with pytest.raises(UnknownNameError, match="backfilling"):
        simulate_nodes(log, NODES, backfilling="eazy")
    with pytest.raises(InvalidInputError, match="name: must be different for every node, got 'a'"):
        Nodes(["a", "a"], [1, 1], [1, 1], [0, 0])
    with pytest.raises(InvalidInputError, match="gpu_milli: must be 1000 for several accelerators"):
        JobDemand([0], [0], [2], [500])
    with pytest.raises(InvalidInputError, match="gpu_milli: must be 0 where a job has no accelerator"):
        JobDemand([0], [0], [0], [500])
    with pytest.raises(InvalidInputError, match="row 2: cpu_milli: must be at least 0, got -1"):
        JobDemand([0, -1], [0, 0], [0, 0], [0, 0])


@pytest.mark.parametrize("backfilling", ["easy", "conservative"])
def test_the_first_job_that_waits_never_starts_after_its_reservation(backfilling: str) -> None:
    """With exact requests, it starts when it would if no job behind it existed."""
    for seed in range(8):
        log = random_log(seed)
        exact = JobLog(log.job_id, log.submit, log.run_time, log.run_time, log.processors, demand=log.demand)
        plain = simulate_nodes(exact, NODES, "best_fit", "fcfs")
        waits = np.flatnonzero(plain.start > exact.submit)
        first = int(waits[0])
        passed = simulate_nodes(exact, NODES, "best_fit", "fcfs", backfilling=backfilling)
        assert passed.start[:first].tolist() == plain.start[:first].tolist()
        assert passed.start[first] <= plain.start[first]


@pytest.mark.parametrize("placement", placement_policies())
@pytest.mark.parametrize("queue", queue_policies())
def test_every_order_works_with_every_placement(queue: str, placement: str) -> None:
    log = random_log(4, 40)
    result = simulate_nodes(log, NODES, placement, queue, backfilling="conservative")
    assert result.placed.sum() == len(log) - len(result.impossible)
