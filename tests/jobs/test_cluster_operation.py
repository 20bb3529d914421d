"""Preemption, failures, quotas, priorities and dependencies on nodes: laws on random logs, and cases by hand."""

import math

import numpy as np
import pytest

from hybrid_scheduler.core import InvalidInputError, UnknownNameError
from hybrid_scheduler.jobs import (
    BACKFILLING,
    ClusterOperation,
    Failure,
    JobDemand,
    JobLog,
    NodeResult,
    Nodes,
    Quota,
    simulate_nodes,
    simulate_queue,
)

NODES = Nodes(["a", "b", "c"], [16_000, 8_000, 32_000], [1024] * 3, [4, 2, 8], ["A100", "T4", "A100"])


def random_log(seed: int, jobs: int = 80) -> JobLog:
    """Jobs of several users with shares, gangs, priorities and predecessors, near capacity."""
    random = np.random.Generator(np.random.PCG64(seed))
    gpus = random.choice([0, 1, 1, 2], jobs)
    milli = np.where(gpus == 1, random.choice([250, 500, 1000], jobs), np.where(gpus > 1, 1000, 0))
    demand = JobDemand(
        random.integers(1, 6, jobs) * 1000, random.integers(0, 200, jobs), gpus, milli,
        parts=random.choice([1, 1, 3], jobs),
    )  # fmt: skip
    run = random.integers(0, 40, jobs).astype(float)
    after = [[int(random.integers(0, row))] if row and random.random() < 0.2 else [] for row in range(jobs)]
    return JobLog(
        np.arange(jobs),
        np.cumsum(random.integers(0, 4, jobs)),
        run,
        np.maximum(run + random.integers(-5, 30, jobs), 0),
        demand.parts,
        [f"u{number}" for number in random.integers(0, 4, jobs)],
        demand=demand,
        priority=random.integers(0, 3, jobs),
        after=after,
    )


def random_operation(seed: int, preempt: bool, checkpoint: float) -> ClusterOperation:
    random = np.random.Generator(np.random.PCG64([seed, 1]))
    failures = []
    for _ in range(12):
        node = str(random.choice(NODES.name))
        down = float(random.integers(0, 300))
        gpu = int(random.integers(0, 2)) if random.random() < 0.5 else None
        failures.append(Failure(node, down, down + float(random.integers(1, 40)), gpu))
    return ClusterOperation(preempt, checkpoint, 2.0, failures, {"u1": Quota(processors=8), "u2": Quota(gpus=2)})


def check_laws(result: NodeResult, operation: ClusterOperation) -> None:
    """Capacities and quotas hold at every start; every job does its work once; failed places are empty."""
    log = result.log
    demand = log.demand
    assert demand is not None
    runs = result.runs
    job = runs["job"]
    last = np.append(runs["first"][1:], len(result.run_parts))
    for time in np.unique(runs["begin"]):
        held = np.zeros((len(result.nodes), 2))
        gpus = np.zeros((len(result.nodes), 8))
        users: dict[str, list[float]] = {}
        for row in np.flatnonzero((runs["begin"] <= time) & (time < runs["end"])):
            place = result.run_parts[runs["first"][row] : last[row]]
            assert len(place) == demand.parts[job[row]]  # a gang is whole
            own = users.setdefault(log.user[job[row]], [0.0, 0.0])
            own[0] += demand.cpu_milli[job[row]] * len(place)
            own[1] += demand.total_gpu_milli[job[row]]
            for node, taken in zip(place["node"], place["gpu_set"], strict=True):
                held[node] += demand.cpu_milli[job[row]], demand.memory_mib[job[row]]
                chosen = [gpu for gpu in range(8) if taken >> gpu & 1]
                assert len(chosen) == demand.gpus[job[row]]
                gpus[node, chosen] += demand.gpu_milli[job[row]]
                for failure in operation.failures:
                    if failure.node == result.nodes.name[node] and failure.down <= time < failure.up:
                        assert failure.gpu is not None
                        assert failure.gpu not in chosen
        assert (held <= np.column_stack((NODES.cpu_milli, NODES.memory_mib))).all()
        assert (gpus <= 1000).all()
        for user, quota in operation.quotas.items():
            assert users.get(user, [0, 0])[0] <= 1000 * quota.processors
            assert users.get(user, [0, 0])[1] <= 1000 * quota.gpus
    ended = np.isfinite(result.finish)
    assert sorted([*np.flatnonzero(ended).tolist(), *result.impossible.tolist()]) == list(range(len(log)))
    assert np.bincount(job, minlength=len(log))[ended].tolist() == (result.stops[ended] + 1).tolist()
    worked = np.bincount(job, runs["end"] - runs["begin"], len(log))
    assert (worked[ended] >= log.run_time[ended] - 1e-9).all()
    assert result.lost_seconds == pytest.approx(float(np.sum(((worked - log.run_time) * log.processors)[ended])))
    for done in np.flatnonzero(ended).tolist():
        own = runs[job == done]
        assert own["begin"][0] == result.start[done] >= log.submit[done]
        assert (own["begin"][1:] >= own["end"][:-1]).all()
        parents = log.after[done] if log.after else ()
        assert all(result.start[done] >= result.finish[parent] for parent in parents)


@pytest.mark.parametrize("queue", ["fcfs", "saf", "wfp3", "las", "fair_share"])
@pytest.mark.parametrize("preempt", [False, True])
def test_no_job_is_lost_or_run_twice_through_preemption_and_failures(queue: str, preempt: bool) -> None:
    for seed in range(3):
        log = random_log(seed)
        for way in BACKFILLING:
            operation = random_operation(seed, preempt, [0.0, 7.0, math.inf][seed])
            result = simulate_nodes(log, NODES, "best_fit", queue, backfilling=way, operation=operation)
            check_laws(result, operation)
            assert result.stops.any()


@pytest.mark.parametrize(
    # Reservations of a conservative backfilling are places, and several hosts leave gaps that a pool has not.
    ("hosts", "backfilling"),
    [(1, "none"), (8, "none"), (1, "easy"), (8, "easy"), (1, "conservative")],
)
@pytest.mark.parametrize("policy", ["fcfs", "saf", "uni"])
def test_processors_on_nodes_start_as_in_one_pool(policy: str, backfilling: str, hosts: int) -> None:
    """Eight hosts of one processor, or one host of eight, and both simulations, give the same starts."""
    for seed in range(10):
        random = np.random.Generator(np.random.PCG64(seed))
        jobs = 60
        run = random.integers(1, 30, jobs).astype(float)
        asked = np.maximum(run + random.integers(-8, 20, jobs), 1)
        log = JobLog(range(jobs), np.cumsum(random.integers(0, 6, jobs)), run, asked, random.integers(1, 9, jobs))
        nodes = Nodes([f"h{row}" for row in range(hosts)], [8000 // hosts] * hosts, [0] * hosts, [0] * hosts)
        on_nodes = simulate_nodes(log, nodes, "best_fit", policy, backfilling=backfilling)
        assert on_nodes.start.tolist() == simulate_queue(log, 8, policy, backfilling).start.tolist()


ONE = Nodes(["a"], [4000], [0], [0])


def test_a_failure_costs_the_work_since_the_last_checkpoint() -> None:
    log = JobLog([1], [0], [10], [10], [1])
    operation = ClusterOperation(failures=[Failure("a", 4, 5), Failure("a", 4.5, 6)], checkpoint=3, restart=1)
    result = simulate_nodes(log, ONE, operation=operation)
    # Three of four seconds are kept; from 6 on it takes one second to restart and seven to end.
    assert result.finish.tolist() == [14]
    assert result.stops.tolist() == [1]
    assert result.lost_seconds == 2


def test_an_urgent_job_takes_the_place_of_others_only_with_preemption() -> None:
    log = JobLog([1, 2], [0, 3], [10, 2], [10, 2], [4, 4], priority=[0, 5])
    assert simulate_nodes(log, ONE).start.tolist() == [0, 10]
    result = simulate_nodes(log, ONE, operation=ClusterOperation(preempt=True, checkpoint=0))
    assert result.start.tolist() == [0, 3]
    assert result.finish.tolist() == [12, 5]


def test_least_attained_service_interrupts_long_jobs() -> None:
    log = JobLog([1, 2], [0, 5], [100, 4], [100, 4], [4, 4])
    result = simulate_nodes(log, ONE, queue="las", operation=ClusterOperation(preempt=True, checkpoint=0))
    assert result.finish.tolist() == [104, 9]


def test_fair_share_serves_the_user_who_had_less() -> None:
    log = JobLog([1, 2, 3], [0, 1, 2], [10, 10, 10], [10] * 3, [4] * 3, ["a", "a", "b"])
    assert simulate_nodes(log, ONE, queue="fair_share").start.tolist() == [0, 20, 10]
    assert simulate_queue(log, 4, "fair_share").start.tolist() == [0, 20, 10]


def test_a_quota_delays_its_user_alone() -> None:
    log = JobLog([1, 2, 3], [0, 0, 0], [10] * 3, [10] * 3, [2, 2, 2], ["a", "a", "b"])
    operation = ClusterOperation(quotas={"a": Quota(processors=2)})
    assert simulate_nodes(log, ONE, operation=operation).start.tolist() == [0, 10, 0]
    none = ClusterOperation(quotas={"a": Quota(processors=1)})
    assert simulate_nodes(log, ONE, operation=none).impossible.tolist() == [0, 1]


def test_jobs_start_after_those_they_wait_for() -> None:
    log = JobLog([7, 8, 9], [0, 0, 0], [5, 5, 5], [5] * 3, [1, 1, 9], after=[[8], [], [7]])
    result = simulate_nodes(log, ONE)
    assert result.start[:2].tolist() == [5, 0]
    assert result.impossible.tolist() == [2]
    # A job that is submitted just when the one it waits for ends enters the queue once.
    both = simulate_nodes(JobLog([1, 2], [0, 5], [5, 5], [5, 5], [1, 1], after=[[], [1]]), ONE)
    assert both.runs["begin"].tolist() == [0, 5]


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ([[2], [1]], "job 1: after: must be jobs that do not wait for this one in turn"),
        ([[], [3]], "job 2: after: must be numbers of jobs of the log, got 3"),
        ([[]], "after: must be 2 values, one per job, got '1 values'"),
    ],
)
def test_dependencies_that_cannot_be_met_are_named(after: list[list[int]], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        JobLog([1, 2], [0, 0], [1, 1], [1, 1], [1, 1], after=after)


def test_bad_operation_is_named() -> None:
    with pytest.raises(InvalidInputError, match="checkpoint: must be seconds >= 0"):
        ClusterOperation(checkpoint=-1)
    with pytest.raises(InvalidInputError, match="restart"):
        ClusterOperation(restart=math.inf)
    with pytest.raises(UnknownNameError, match="node"):
        ClusterOperation(failures=[Failure("z", 0, 1)]).failure_events(NODES)
    with pytest.raises(InvalidInputError, match="up: must be after the failure at 2, got 1"):
        ClusterOperation(failures=[Failure("a", 2, 1)]).failure_events(NODES)
    with pytest.raises(InvalidInputError, match="gpu: must be 0 to 3 on a, got 4"):
        ClusterOperation(failures=[Failure("a", 0, 1, 4)]).failure_events(NODES)
    with pytest.raises(InvalidInputError, match="a: quota: must be at least 0, got -1"):
        simulate_nodes(random_log(0), NODES, operation=ClusterOperation(quotas={"a": Quota(processors=-1)}))
