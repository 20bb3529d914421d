"""OnlineScheduler: the schedule of a batch run, outcomes at their finish, refusals."""

from dataclasses import replace

import pytest

from hybrid_scheduler import Cluster, Decision, InvalidInputError, Online, OnlineScheduler, create
from hybrid_scheduler.testing import small_workload


@pytest.mark.parametrize("name", ["round_robin", "greedy", "earliest_finish", "price_index", "hybrid_ml"])
def test_queue_gives_the_schedule_of_a_batch_run(name):
    workload = small_workload(80)
    front = OnlineScheduler(name, num_gpus=4)
    placed = []
    for row, task in enumerate(workload):
        front.submit_task(task)
        if row % 7 == 6:
            placed += front.process_queue()
    placed += front.process_queue()
    batch = Cluster().run(workload, create(name)).outcomes
    # As text: a part that did not run starts at NaN, which equals nothing.
    assert [repr(p.outcome) for p in placed] == [repr(batch[row]) for row in range(len(workload))]
    assert front.process_queue() == []
    assert 0 < front.get_utilization()["average_utilization"] <= 1


class Learner(Online):
    def start(self, setting):
        super().start(setting)
        self.seen = []

    def decide(self, task, view):
        # Only finished tasks have been reported.
        assert all(outcome.finish <= view.now for outcome in self.seen)
        return Decision(1, 1.0)

    @property
    def wants_labels(self):
        return True

    def observe(self, outcome):
        self.seen.append(outcome)


def test_outcomes_are_reported_at_their_finish():
    learner = Learner()
    front = OnlineScheduler(learner, num_gpus=2)
    workload = small_workload(40, rate=2.0)
    for task in workload:
        front.submit_task(task)
    placed = front.process_queue()
    last = workload.arrival_time[-1]
    assert {o.task_id for o in learner.seen} == {p.task.task_id for p in placed if p.outcome.finish <= last}
    assert all(outcome.labels.shape == (2, 2) for outcome in learner.seen)


def test_invalid_tasks_and_schedulers_are_refused():
    first, _, second = list(small_workload(3, rate=1.0))
    front = OnlineScheduler("greedy")
    front.submit_task(second)
    for bad, message in [
        (first, "arrival_time: must be not before"),
        (second, "task_id: must be one that was not submitted before"),
        (replace(second, task_id=9, size=-1), "size: must be finite and > 0, got -1"),
        (replace(second, task_id=9, dependencies=(1,)), "dependencies"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            front.submit_task(bad)
    with pytest.raises(InvalidInputError, match="model: must be a scheduler that decides online, got 'Heft'"):
        OnlineScheduler("heft")
    assert len(front.process_queue()) == 1
