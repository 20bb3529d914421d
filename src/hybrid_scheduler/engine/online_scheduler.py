"""A queue in front of a scheduler: submit tasks as they come, process them when it suits."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import replace
from typing import Any, NamedTuple

from ..cluster import Cluster
from ..core import Decision, InvalidInputError, Online, Outcome, Platform, Task, View, Workload, workstation
from ..physics import Physics
from ..schedulers import create


class Placement(NamedTuple):
    """What became of a submitted task."""

    task: Task
    decision: Decision
    outcome: Outcome


class OnlineScheduler:
    """Decides for tasks one by one on a virtual machine and learns from what has finished by then.

    `model` is a scheduler or its name, as in ``OnlineScheduler("hybrid_ml", num_gpus=4)``. Time is the tasks'
    arrival time: a task must not arrive before one that was already processed.
    """

    def __init__(
        self,
        model: str | Online = "hybrid_ml",
        num_gpus: int = 4,
        *,
        platform: Platform | None = None,
        physics: Physics | None = None,
        seed: int = 0,
    ) -> None:
        scheduler = create(model) if isinstance(model, str) else model
        if not isinstance(scheduler, Online):
            raise InvalidInputError("model", "a scheduler that decides online", type(scheduler).__name__)
        self.scheduler = scheduler
        self.cluster = Cluster(platform or workstation(num_gpus), physics)
        self._seed = seed
        self._started = False
        self._waiting: deque[Task] = deque()
        self._now = 0.0
        self._running: list[tuple[float, int, Outcome]] = []  # by virtual finish
        self._ids: set[int] = set()

    def submit_task(self, task: Task) -> None:
        """Add a task to the queue. Nothing is decided yet."""
        latest = self._waiting[-1].arrival_time if self._waiting else self._now
        Workload.from_tasks([task])  # refuses what is not a task
        if task.arrival_time < latest:
            raise InvalidInputError("arrival_time", f"not before {latest:g}", task.arrival_time)
        if task.dependencies:
            raise InvalidInputError("dependencies", "empty: tasks come one by one", task.dependencies)
        if task.task_id in self._ids:
            raise InvalidInputError("task_id", "one that was not submitted before", task.task_id)
        self._ids.add(task.task_id)
        self._waiting.append(task)

    def process_queue(self) -> list[Placement]:
        """Decide for every waiting task in turn, and put it onto the cluster."""
        if self._waiting and not self._started:
            self.cluster.start_scheduler(self.scheduler, Workload.from_tasks(self._waiting), seed=self._seed)
            self._started = True
        done = []
        while self._waiting:
            task = self._waiting.popleft()
            self._now = task.arrival_time
            self._report_finished()
            view = View(self._now, self.cluster.free_at_view, self.cluster.platform)
            decision = self.scheduler.decide(task, view)
            outcome = self.cluster.simulate(task, decision)
            heapq.heappush(self._running, (outcome.finish, task.task_id, self._labelled(task, outcome)))
            done.append(Placement(task, decision, outcome))
        return done

    def get_utilization(self) -> dict[str, Any]:
        """Busy share of every device since the first arrival, and their mean."""
        return self.cluster.get_utilization()

    def _report_finished(self) -> None:
        """Outcomes reach the scheduler at their virtual finish, never earlier."""
        while self._running and self._running[0][0] <= self._now:
            self.scheduler.observe(heapq.heappop(self._running)[2])

    def _labelled(self, task: Task, outcome: Outcome) -> Outcome:
        if not self.scheduler.wants_labels:
            return outcome
        times = self.cluster.physics.times(Workload.from_tasks([task]), self.cluster.platform)[0]
        return replace(outcome, labels=self.cluster.labels(task.task_id, times))
